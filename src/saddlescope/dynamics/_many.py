"""Many settings at once: a row for each of their seeds, a program for each of their shapes."""

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

from saddlescope.dynamics._batch import Batch, can_be_padded, padded, resized, rung, shape_of
from saddlescope.dynamics._frame import Frame, RecordShape
from saddlescope.dynamics._job import FIRST_SEGMENT
from saddlescope.dynamics._padded_shape import PaddedShape
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

# Jobs of single settings whose problems wait on the device for another start.
_KEPT_JOBS = 16

Outcome = TypeVar("Outcome")


@dataclass
class _Pace:
    """Steps that fitted into the latest segment of any job that shares its programs."""

    budget: int


class AbstractManyJob(AbstractJob[tuple[States, ...], tuple[Outcome, ...]]):
    """Settings in batches of one shape, which are carried out one after another.

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
            for place, one in enumerate(prepared):
                shape.check(f"settings[{place}]", one.setting, len(one.grid))
        self._batches = []
        for places in _alike(prepared, shape):
            own = [prepared[place] for place in places]
            frame = padded_to if isinstance(padded_to, Frame) else _framed(own, shape)
            self._batches.append(Batch(places, own, frame))
        self._begun: set[int] = set()
        self._pace = _Pace(self.first_budget)

    @abc.abstractmethod
    def outcomes(self, batch: Batch, state: States) -> dict[int, Outcome]:
        """What has come of each setting of a batch, by its place."""

    @property
    def digest(self) -> str:
        digests = "".join(setting.digest for setting in self._settings)
        return hashlib.sha256(digests.encode()).hexdigest()

    def begin(self) -> tuple[States, ...]:
        return tuple(batch.begin() for batch in self._batches)

    def advance(self, state: tuple[States, ...], budget: int) -> tuple[tuple[States, ...], int]:
        place = next(
            place
            for place, (batch, own) in enumerate(self._with(state))
            if not batch.rows.is_finished(own)
        )
        rows, own = self._batches[place].rows, state[place]
        if place not in self._begun:
            # The first segment of a batch compiles, and its steps may be dearer than the last's.
            budget = min(budget, self.first_budget)
            self._begun.add(place)
        self._pace.budget = budget
        moved, taken = rows.advance(own, budget)
        return (*state[:place], moved, *state[place + 1 :]), taken

    def is_finished(self, state: tuple[States, ...]) -> bool:
        return all(batch.rows.is_finished(own) for batch, own in self._with(state))

    def share(self, state: tuple[States, ...]) -> float:
        shares = [batch.rows.share(own) for batch, own in self._with(state)]
        return float(np.average(shares, weights=[batch.work for batch in self._batches]))

    def slow_advice(self, state: tuple[States, ...]) -> str:
        return "take fewer settings"

    def save(self, state: tuple[States, ...]) -> Saved:
        leaves = [jax.tree.leaves(batch.rows.join(own)) for batch, own in self._with(state)]
        return Saved(tuple(leaf for own in leaves for leaf in own))

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

        found: dict[int, Trajectory] = {}
        for batch, own in self._with(state):
            found |= batch.results(own)
        runs = _in_order(found)
        owners = np.repeat(np.arange(len(runs)), [len(run.loss) for run in runs])
        columns = {
            "setting": owners,
            "seed": np.concatenate([run.dataset["seed"].to_numpy() for run in runs]),
            "latest": np.concatenate([np.full(len(run.loss), run.time[-1]) for run in runs]),
        }
        named = {name: ("row", column) for name, column in columns.items()}
        losses = np.concatenate([run.loss[:, -1:] for run in runs])
        return xr.Dataset({"loss": (("row", "time"), losses), **named})

    def result(self, state: tuple[States, ...]) -> tuple[Outcome, ...]:
        found: dict[int, Outcome] = {}
        for batch, own in self._with(state):
            found |= self.outcomes(batch, own)
        return _in_order(found)

    def _with(self, state: tuple[States, ...]) -> list[tuple[Batch, States]]:
        return list(zip(self._batches, state, strict=True))


class ManyJob(AbstractManyJob[Trajectory]):
    """Settings of each of which a trajectory comes."""

    def outcomes(self, batch: Batch, state: States) -> dict[int, Trajectory]:
        return batch.results(state)

    def restarted(self, setting: Setting) -> ManyJob:
        """The same for a setting that differs from its only one in its start alone.

        Nothing is left to compile, so that it begins at the pace of those before it.
        """
        other = copy(self)
        other.first_budget = self._pace.budget
        other._settings, other._begun = (setting,), set()
        other._batches = [batch.restarted(other._settings) for batch in self._batches]
        return other


class SummariesJob(AbstractManyJob[RunSummary]):
    """Settings of each of which a few numbers come."""

    def outcomes(self, batch: Batch, state: States) -> dict[int, RunSummary]:
        return batch.summaries(state)


def padded_job(setting: Setting, shape: PaddedShape) -> ManyJob:
    """The job of a setting in a shape; all but its start is kept for those that come after it."""
    return _kept_job(setting.without_start, shape).restarted(setting)


@lru_cache(maxsize=_KEPT_JOBS)
def _kept_job(setting: Setting, shape: PaddedShape) -> ManyJob:
    return ManyJob([setting], shape)


def _in_order(found: dict[int, Outcome]) -> tuple[Outcome, ...]:
    return tuple(found[place] for place in range(len(found)))


def _prepare(settings: Sequence[Setting]) -> list[Prepared]:
    """Every setting made ready; those that differ in their start alone share all but that."""
    known: dict[tuple[int, ...], Prepared] = {}
    prepared = []
    for place, one in enumerate(settings):
        parts = tuple(map(id, (one.model, one.task, one.method, one.record)))
        try:
            if one.record.keep == "quantiles":
                said = "is for the seeds of one setting: train"
                raise InvalidInput("record.keep", "quantiles", said)
            ready = known[parts].restarted(one) if parts in known else Prepared(one)
        except InvalidInput as wrong:
            field = f"settings[{place}].{wrong.field}"
            raise InvalidInput(field, wrong.value, wrong.allowed) from None
        known.setdefault(parts, ready)
        prepared.append(ready)
    return prepared


def _framed(prepared: Sequence[Prepared], shape: PaddedShape | None) -> Frame | None:
    """The frame of settings in a padded shape, in which their records are worked on too."""
    if shape is None or not can_be_padded(prepared[0], shape.dimension):
        return None
    frame = shape.frame(prepared[0].setting.model, sum(len(one.seeds) for one in prepared))
    for one in prepared:
        model = resized(one.setting.model, dict(frame.sizes))
        rows = shape.rows(len(one.seeds))
        one.record_shape = RecordShape(model, frame.dimension, rows, frame.points)
    return frame


def _alike(prepared: Sequence[Prepared], shape: PaddedShape | None) -> list[list[int]]:
    """The places of settings that can share a program."""
    keys: dict[int, Hashable] = {}
    # Many are of one form already, before anything is padded.
    by_form: dict[Hashable, Hashable] = {}
    batches: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, one in enumerate(prepared):
        if id(one.problem) not in keys:
            form = (one.setting.method.keeps_zeros, *_form(one, one.problem))
            if form not in by_form:
                by_form[form] = program_key(one, shape)
            keys[id(one.problem)] = by_form[form]
        batches[keys[id(one.problem)]].append(place)
    return list(batches.values())


def program_key(one: Prepared, shape: PaddedShape | None = None) -> Hashable:
    """Equal for settings that can share a program."""
    model, dimension = shape_of(one)
    if shape is not None and can_be_padded(one, shape.dimension):
        frame = shape.frame(model, 1)
        model, dimension = resized(model, dict(frame.sizes)), frame.dimension
    elif can_be_padded(one):
        sizes = {name: rung(getattr(model, name)) for name in model.inert_sizes}
        model, dimension = resized(model, sizes), rung(dimension)
    alone = Frame((), dimension, points=1, rows=1)
    return _form(one, padded(one, (model, dimension), alone))


def _form(one: Prepared, problem: Problem) -> tuple[Hashable, ...]:
    """What its program hangs on, but for numbers."""
    leaves, structure = jax.tree.flatten(problem)
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    # A row's records take the room of the longest's.
    return type(one.setting.method), structure, shapes, rung(len(one.grid))
