"""Many settings at once: a row for each of their seeds, a program for each shape."""

from __future__ import annotations

import abc
import hashlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from saddlescope.dynamics._batch import Batch
from saddlescope.dynamics._frame import Frame, RecordShape
from saddlescope.dynamics._job import FIRST_SEGMENT
from saddlescope.dynamics._padded_shape import PaddedShape
from saddlescope.dynamics._padding import can_be_padded, padded, padded_size, resized, shape_of
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics._rows import States
from saddlescope.dynamics._summary import RunSummary
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running.observers import AbstractJob, Saved
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray as xr

# Jobs of single settings whose problems are kept on the device for other starts.
_KEPT_JOBS = 16

Outcome = TypeVar("Outcome")


@dataclass
class _Pace:
    """The latest budget of a segment, shared by jobs that share programs."""

    budget: int


class AbstractManyJob(AbstractJob[tuple[States, ...], tuple[Outcome, ...]]):
    """Settings in batches of one shape, run one batch after another.

    They are padded to a shape, if one is given.
    """

    first_budget = FIRST_SEGMENT

    def __init__(
        self, settings: Sequence[Setting], padded_to: PaddedShape | Frame | None = None
    ) -> None:
        self._settings = tuple(settings)
        prepared = _prepare(self._settings)
        shape = padded_to if isinstance(padded_to, PaddedShape) else None
        if shape is not None:
            for index, item in enumerate(prepared):
                shape.check(f"settings[{index}]", item.setting, len(item.grid))
        self._batches = []
        for indices in _by_program(prepared, shape):
            members = [prepared[index] for index in indices]
            frame = padded_to if isinstance(padded_to, Frame) else _frame_in(members, shape)
            self._batches.append(Batch(indices, members, frame))
        self._begun: set[int] = set()
        self._pace = _Pace(self.first_budget)

    @abc.abstractmethod
    def outcomes(self, batch: Batch, state: States) -> dict[int, Outcome]:
        """The result so far of each setting of a batch, by its index."""

    @property
    def digest(self) -> str:
        digests = "".join(setting.digest for setting in self._settings)
        return hashlib.sha256(digests.encode()).hexdigest()

    def begin(self) -> tuple[States, ...]:
        return tuple(batch.begin() for batch in self._batches)

    def advance(self, state: tuple[States, ...], budget: int) -> tuple[tuple[States, ...], int]:
        index = next(
            index
            for index, (batch, states) in enumerate(self._with(state))
            if not batch.rows.is_finished(states)
        )
        if index not in self._begun:
            # A batch's first segment compiles, and its steps may be slower than the last batch's.
            budget = min(budget, self.first_budget)
            self._begun.add(index)
        self._pace.budget = budget
        moved, taken = self._batches[index].rows.advance(state[index], budget)
        return (*state[:index], moved, *state[index + 1 :]), taken

    def is_finished(self, state: tuple[States, ...]) -> bool:
        return all(batch.rows.is_finished(states) for batch, states in self._with(state))

    def share(self, state: tuple[States, ...]) -> float:
        shares = [batch.rows.share(states) for batch, states in self._with(state)]
        return float(np.average(shares, weights=[batch.work for batch in self._batches]))

    def slow_advice(self, state: tuple[States, ...]) -> str:
        return "take fewer settings"

    def save(self, state: tuple[States, ...]) -> Saved:
        joined = [batch.rows.join(states) for batch, states in self._with(state)]
        return Saved(tuple(jax.tree.leaves(joined)))

    def restore(self, saved: Saved) -> tuple[States, ...]:
        leaves, states = list(saved.state), []
        for batch in self._batches:
            count = len(jax.tree.leaves(batch.rows.shape))
            states.append(batch.rows.restore(leaves[:count]))
            del leaves[:count]
        if leaves:
            raise CannotRead("its state is not one of these settings'")
        return tuple(states)

    def dataset(self, state: tuple[States, ...]) -> xr.Dataset:
        """The loss of every row at its setting's latest record, over (row, time) of one point."""
        import xarray as xr

        by_index: dict[int, Trajectory] = {}
        for batch, states in self._with(state):
            by_index |= batch.results(states)
        runs = _in_order(by_index)
        owners = np.repeat(np.arange(len(runs)), [len(run.loss) for run in runs])
        columns = {
            "setting": owners,
            "seed": np.concatenate([run.dataset["seed"].to_numpy() for run in runs]),
            "latest": np.concatenate([np.full(len(run.loss), run.time[-1]) for run in runs]),
        }
        variables = {name: ("row", column) for name, column in columns.items()}
        losses = np.concatenate([run.loss[:, -1:] for run in runs])
        return xr.Dataset({"loss": (("row", "time"), losses), **variables})

    def result(self, state: tuple[States, ...]) -> tuple[Outcome, ...]:
        by_index: dict[int, Outcome] = {}
        for batch, states in self._with(state):
            by_index |= self.outcomes(batch, states)
        return _in_order(by_index)

    def _with(self, state: tuple[States, ...]) -> list[tuple[Batch, States]]:
        return list(zip(self._batches, state, strict=True))


class ManyJob(AbstractManyJob[Trajectory]):
    """Settings whose results are trajectories."""

    def outcomes(self, batch: Batch, state: States) -> dict[int, Trajectory]:
        return batch.results(state)

    def restarted(self, setting: Setting) -> ManyJob:
        """A copy for a setting that differs from its only one just in its start.

        Nothing is left to compile, so it begins at the pace of the jobs before it.
        """
        other = copy(self)
        other.first_budget = self._pace.budget
        other._settings, other._begun = (setting,), set()
        other._batches = [batch.restarted(other._settings) for batch in self._batches]
        return other


class SummariesJob(AbstractManyJob[RunSummary]):
    """Settings whose results are summaries."""

    def outcomes(self, batch: Batch, state: States) -> dict[int, RunSummary]:
        return batch.summaries(state)


def padded_job(setting: Setting, shape: PaddedShape) -> ManyJob:
    """The job of a setting in a shape; everything but its start is kept for later jobs."""
    return _kept_job(setting.without_start, shape).restarted(setting)


@lru_cache(maxsize=_KEPT_JOBS)
def _kept_job(setting: Setting, shape: PaddedShape) -> ManyJob:
    return ManyJob([setting], shape)


def _in_order(by_index: dict[int, Outcome]) -> tuple[Outcome, ...]:
    return tuple(by_index[index] for index in range(len(by_index)))


def _prepare(settings: Sequence[Setting]) -> list[Prepared]:
    """Prepare every setting; those that differ only in their start share everything else."""
    known: dict[tuple[int, ...], Prepared] = {}
    prepared = []
    for index, setting in enumerate(settings):
        key = tuple(map(id, (setting.model, setting.task, setting.method, setting.record)))
        try:
            if setting.record.keep == "quantiles":
                allowed = "is for the seeds of one setting: train"
                raise InvalidInput("record.keep", "quantiles", allowed)
            item = known[key].restarted(setting) if key in known else Prepared(setting)
        except InvalidInput as wrong:
            field = f"settings[{index}].{wrong.field}"
            raise InvalidInput(field, wrong.value, wrong.allowed) from None
        known.setdefault(key, item)
        prepared.append(item)
    return prepared


def _frame_in(prepared: Sequence[Prepared], shape: PaddedShape | None) -> Frame | None:
    """The frame of settings in a padded shape, in which their records are processed too."""
    if shape is None or not can_be_padded(prepared[0], shape.dimension):
        return None
    frame = shape.frame(prepared[0].setting.model, sum(len(item.seeds) for item in prepared))
    for item in prepared:
        model = resized(item.setting.model, dict(frame.sizes))
        rows = shape.rows(len(item.seeds))
        item.record_shape = RecordShape(model, frame.dimension, rows, frame.points)
    return frame


def _by_program(prepared: Sequence[Prepared], shape: PaddedShape | None) -> list[list[int]]:
    """The indices of settings, grouped by the program that they can share."""
    keys: dict[int, Hashable] = {}
    # Many settings have the same signature before padding: their key is computed once.
    by_signature: dict[Hashable, Hashable] = {}
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, item in enumerate(prepared):
        if id(item.problem) not in keys:
            signature = (item.setting.method.keeps_zeros, *_signature(item, item.problem))
            if signature not in by_signature:
                by_signature[signature] = program_key(item, shape)
            keys[id(item.problem)] = by_signature[signature]
        groups[keys[id(item.problem)]].append(index)
    return list(groups.values())


def program_key(prepared: Prepared, shape: PaddedShape | None = None) -> Hashable:
    """Equal for settings that can share a program."""
    model, dimension = shape_of(prepared)
    if shape is not None and can_be_padded(prepared, shape.dimension):
        frame = shape.frame(model, 1)
        model, dimension = resized(model, dict(frame.sizes)), frame.dimension
    elif can_be_padded(prepared):
        sizes = {name: padded_size(getattr(model, name)) for name in model.inert_sizes}
        model, dimension = resized(model, sizes), padded_size(dimension)
    alone = Frame((), dimension, points=1, rows=1)
    return _signature(prepared, padded(prepared, (model, dimension), alone))


def _signature(prepared: Prepared, problem: Problem) -> tuple[Hashable, ...]:
    """What the program of a problem depends on, apart from the values of its arrays."""
    leaves, structure = jax.tree.flatten(problem)
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    # Every row has room for the longest grid of its batch.
    return type(prepared.setting.method), structure, shapes, padded_size(len(prepared.grid))
