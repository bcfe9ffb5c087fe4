"""Many settings at once: a row for each of their seeds, a program for each of their shapes."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.attention import AbstractAttention, AbstractLinearAttention
from saddlescope.checks import AnyArray
from saddlescope.dynamics._frame import Frame
from saddlescope.dynamics._job import FIRST_SEGMENT
from saddlescope.dynamics._padded_shape import PaddedShape
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics._rows import Rows, States
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks
from saddlescope.dynamics.methods._problem import AbstractState, Problem
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.precision import within
from saddlescope.risk import AbstractMapRisk
from saddlescope.running.memory import check_memory
from saddlescope.running.observers import AbstractJob, Saved
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray as xr

# Of problems and records: together, in shards, and as results.
_COPIES = 3

Shape: TypeAlias = tuple[AbstractAttention, int]
"""A model and its input dimension: all that the shapes of weights hang on."""


class ManyJob(AbstractJob[tuple[States, ...], tuple[Trajectory, ...]]):
    """Settings in batches of one shape, which are carried out one after another."""

    first_budget = FIRST_SEGMENT

    def __init__(self, settings: Sequence[Setting], padded_to: PaddedShape | None = None) -> None:
        self._settings = tuple(settings)
        prepared = [_prepare(place, setting) for place, setting in enumerate(settings)]
        if padded_to is not None:
            for place, one in enumerate(prepared):
                padded_to.check(f"settings[{place}]", one.setting, len(one.grid))
        self._batches = [
            Batch(places, [prepared[place] for place in places], padded_to)
            for places in _alike(prepared, padded_to)
        ]
        self._begun: set[int] = set()

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

        runs = self.result(state)
        owners = np.repeat(np.arange(len(runs)), [len(run.loss) for run in runs])
        columns = {
            "setting": owners,
            "seed": np.concatenate([run.dataset["seed"].to_numpy() for run in runs]),
            "latest": np.concatenate([np.full(len(run.loss), run.time[-1]) for run in runs]),
        }
        named = {name: ("row", column) for name, column in columns.items()}
        losses = np.concatenate([run.loss[:, -1:] for run in runs])
        return xr.Dataset({"loss": (("row", "time"), losses), **named})

    def result(self, state: tuple[States, ...]) -> tuple[Trajectory, ...]:
        runs: dict[int, Trajectory] = {}
        for batch, own in self._with(state):
            runs |= batch.results(own)
        return tuple(runs[place] for place in range(len(self._settings)))

    def _with(self, state: tuple[States, ...]) -> list[tuple[Batch, States]]:
        return list(zip(self._batches, state, strict=True))


class Batch:
    """Settings of one shape, padded where they are smaller; `places` are theirs among all."""

    def __init__(
        self,
        places: Sequence[int],
        prepared: Sequence[Prepared],
        padded_to: PaddedShape | None = None,
    ) -> None:
        expected = np.array([_expected_steps(one) for one in prepared])
        # Rows that take about as long stand side by side: a group waits for its slowest.
        order = np.argsort(expected, kind="stable")
        self._places = [places[one] for one in order]
        self._prepared = [prepared[one] for one in order]
        counts = [len(one.setting.seeds) for one in self._prepared]
        ends = np.cumsum(counts).tolist()
        self._rows = [np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)]
        shape = _common([_shape(one) for one in prepared])
        points, rows = max(len(one.grid) for one in prepared), ends[-1]
        if padded_to is not None and _can_be_padded(prepared[0], padded_to):
            shape = padded_to.enlarge(shape[0]), padded_to.dimension
            points, rows = padded_to.points, padded_to.rows(ends[-1])
            for one in self._prepared:
                one.frame = Frame(*shape, rows=padded_to.rows(len(one.seeds)), points=points)
        self._layout = Layout.of(*shape)
        _check_memory(self._prepared, self._layout)
        self._own = [one.problem.layout.places_in(self._layout) for one in self._prepared]
        group = group_size(rows, self._layout.size, self._layout.dimension)
        if padded_to is not None:
            group = min(group, -(-rows // padded_to.groups))
        problems = [_padded(one, shape, points, group) for one in self._prepared]
        # Rows that only fill the shape do what the first one does.
        self._filled = np.pad(np.arange(ends[-1]), (0, rows - ends[-1]))
        owners = np.repeat(np.arange(len(counts)), counts)[self._filled]
        with within(prepared[0].precision):
            problem = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)[owners]), *problems)
        seeds = np.concatenate([one.seeds for one in self._prepared])[self._filled]
        self.rows = Rows(prepared[0].setting.method, problem, seeds)
        self.work = ends[-1] * self._layout.size * float(expected.mean())
        """Roughly what it takes, next to other batches."""

    def begin(self) -> States:
        """The state of all rows at the first point of their grids."""
        starts = np.zeros((self._rows[-1][-1] + 1, self._layout.size))
        for one, rows, own in zip(self._prepared, self._rows, self._own, strict=True):
            starts[rows[:, None], own] = one.starts(one.seeds)
        return self.rows.begin(starts[self._filled])

    def results(self, states: States) -> dict[int, Trajectory]:
        """What has come of each setting so far, by its place."""
        whole = self.rows.join(states)

        def result(one: Prepared, rows: AnyArray, own: AnyArray) -> Trajectory:
            state: AbstractState = jax.tree.map(lambda leaf: leaf[rows], whole)
            state = state.map_vectors(lambda leaf: leaf[..., own])
            state = state.with_points(len(one.grid)).with_marks(one.problem.marks)
            state = state.narrowed(one.problem.layout)
            return one.result(state)

        runs = map(result, self._prepared, self._rows, self._own)
        return dict(zip(self._places, runs, strict=True))


def _prepare(place: int, setting: Setting) -> Prepared:
    try:
        if setting.record.keep == "quantiles":
            raise InvalidInput("record.keep", "quantiles", "is for the seeds of one setting: train")
        return Prepared(setting)
    except InvalidInput as wrong:
        raise InvalidInput(f"settings[{place}].{wrong.field}", wrong.value, wrong.allowed) from None


def _alike(prepared: Sequence[Prepared], padded_to: PaddedShape | None = None) -> list[list[int]]:
    """The places of settings that can share a program."""
    batches: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, one in enumerate(prepared):
        model, dimension = _shape(one)
        if _can_be_padded(one, padded_to):
            if padded_to is not None:
                model, dimension = padded_to.enlarge(model), padded_to.dimension
            sizes = {name: _rung(getattr(model, name)) for name in model.inert_sizes}
            model, dimension = _resized(model, sizes), _rung(dimension)
        leaves, structure = jax.tree.flatten(_padded(one, (model, dimension), 1, 1))
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        # A row's records take the room of the longest's.
        batches[type(one.setting.method), structure, shapes, _rung(len(one.grid))].append(place)
    return list(batches.values())


def _rung(size: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: what lies between two is padded together."""
    power = 2 ** math.floor(math.log2(size))
    return next(rung for rung in (power, power * 3 // 2, power * 2) if rung >= size)


def _check_memory(prepared: Sequence[Prepared], layout: Layout) -> None:
    """Refuse rows that would not fit together, each with its own problem and its records."""
    seeds = sum(len(one.setting.seeds) for one in prepared)
    points = max(len(one.grid) for one in prepared)
    own = max(sum(leaf.size for leaf in jax.tree.leaves(one.problem)) for one in prepared)
    kept = points * (1 + layout.size if prepared[0].setting.record.weights else 1)
    numbers = _COPIES * seeds * (own + kept + layout.size)
    check_memory(numbers, {"settings": len(prepared), "seeds": seeds}, "take fewer at once")


def _shape(prepared: Prepared) -> Shape:
    return prepared.setting.model, prepared.setting.task.dimension


def _can_be_padded(prepared: Prepared, padded_to: PaddedShape | None) -> bool:
    """Whether zero heads and dimensions without power change nothing.

    Not where steps are taken on prompts, nor where the loss is another in more dimensions.
    """
    problem = prepared.problem
    dimension = _rung(problem.dimension) if padded_to is None else padded_to.dimension
    return bool(
        prepared.setting.method.keeps_zeros
        and problem.model.inert_sizes
        and problem.risk.padded(dimension) is not None
    )


def _common(shapes: Sequence[Shape]) -> Shape:
    """The least shape that all of these fit in; they differ in inert sizes only."""
    model = shapes[0][0]
    sizes = {name: max(getattr(one, name) for one, _ in shapes) for name in model.inert_sizes}
    return _resized(model, sizes), max(dimension for _, dimension in shapes)


def _resized(model: AbstractAttention, sizes: dict[str, int]) -> AbstractAttention:
    return replace(model, **sizes)  # type: ignore[type-var]


def _padded(prepared: Prepared, shape: Shape, points: int, group: int) -> Problem:
    """The problem of a setting in a shape that it fits in, with `points` of its grid."""
    problem, (model, dimension) = prepared.problem, shape
    risk = problem.risk
    last = prepared.grid[-1:]
    grid = np.concatenate([prepared.grid, np.repeat(last, max(points - len(prepared.grid), 0))])
    with within(prepared.precision):
        if dimension != problem.dimension:
            enlarged = risk.padded(dimension)
            assert enlarged is not None
            risk = jax.tree.map(jnp.asarray, enlarged)
        return replace(
            problem,
            model=model,
            layout=Layout.of(model, dimension),
            group=group,
            has_rows=True,
            risk=risk,
            grid=jnp.asarray(grid[-points:]),
            marks=_padded_marks(problem.marks, dimension),
        )


def _padded_marks(marks: Marks | None, most: int) -> Marks | None:
    """As many marks as there can be in so many dimensions, the others never passed."""
    if marks is None:
        return None

    def pad(values: Float[Array, " M"], size: int) -> Float[Array, " M"]:
        return jnp.pad(values, (0, size - len(values)), constant_values=jnp.nan)

    halves = len(marks.halves) and most
    return Marks(middles=pad(marks.middles, most), halves=pad(marks.halves, halves))


def _expected_steps(prepared: Prepared) -> float:
    r"""About how many steps a seed takes, next to others of its shape.

    Steps of a flow are as long as the fastest rate at its last rest allows. One that may rest early
    does so after about its longest plateau, $1/(\lambda^2 w)$ (Z eq. 68), λ² being the drive.
    """
    method, problem, model = prepared.setting.method, prepared.problem, prepared.setting.model
    span = float(prepared.grid[-1] - prepared.grid[0])
    if method.counts_steps or not isinstance(model, AbstractLinearAttention):
        return span
    risk = jax.tree.map(np.asarray, problem.risk)
    best = risk.best_map(model.capacity(problem.dimension)) if model.is_linear else None
    if best is None or not best.any() or not isinstance(risk, AbstractMapRisk):
        return span
    force = np.asarray(risk.map_force(np.zeros_like(best)))
    drive = np.abs(np.diagonal(force))
    if method.converged is not None:
        start = prepared.starts(prepared.seeds[:1])
        width = float(np.sqrt((start**2).mean())) ** (model.degree - 2)
        plateau = 1 / max(drive[drive > 0].min(initial=np.inf) * width, np.finfo(float).tiny)
        span = min(span, plateau)
    values = np.abs(np.diagonal(best))
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.nan_to_num(drive * values ** (1 - 2 / model.degree))
    return span * model.degree * max(float(rates.max()), np.finfo(float).eps)
