"""A batch of settings: one shape for all, a row for each of their seeds, one program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.attention import AbstractAttention
from saddlescope.checks import AnyArray
from saddlescope.dynamics._expected import expected_steps
from saddlescope.dynamics._frame import Frame
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics._rows import Rows, States
from saddlescope.dynamics._summary import RunSummary
from saddlescope.dynamics.kernels.choice import choose_kernel
from saddlescope.dynamics.methods._ensemble import group_size
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks
from saddlescope.dynamics.methods._problem import AbstractState, Problem
from saddlescope.precision import within
from saddlescope.running.memory import check_memory
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory

# Of problems and records: together, in shards, and as results.
_COPIES = 3

Shape: TypeAlias = tuple[AbstractAttention, int]
"""A model and its input dimension: all that the shapes of weights hang on."""


class Batch:
    """Settings of one shape, padded where they are smaller; `places` are theirs among all."""

    def __init__(
        self, places: Sequence[int], prepared: Sequence[Prepared], frame: Frame | None = None
    ) -> None:
        expected = np.array([expected_steps(one) for one in prepared])
        # Rows that take about as long stand side by side: a group waits for its slowest.
        order = np.argsort(expected, kind="stable")
        self._places = [places[one] for one in order]
        self._prepared = [prepared[one] for one in order]
        counts = [len(one.setting.seeds) for one in self._prepared]
        ends = np.cumsum(counts).tolist()
        self._rows = [np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)]
        if frame is None:
            frame = _frame([shape_of(one) for one in prepared], prepared, ends[-1])
        shape = resized(prepared[0].setting.model, dict(frame.sizes)), frame.dimension
        self._layout = Layout.of(*shape)
        self._count = frame.rows
        _check_memory(self._prepared, self._layout)
        self._own = [one.problem.layout.indices_in(self._layout) for one in self._prepared]
        methods = [one.setting.method for one in prepared]
        risk = prepared[0].problem.risk
        kernel = choose_kernel(methods, shape[0], risk, self._layout, frame.rows)
        # Settings that differ in their start alone share a problem.
        distinct = {id(one.problem): one for one in self._prepared}
        problems = [replace(padded(one, shape, frame), kernel=kernel) for one in distinct.values()]
        numbers = {own: number for number, own in enumerate(distinct)}
        owners = np.repeat([numbers[id(one.problem)] for one in self._prepared], counts)
        lacking = frame.rows - ends[-1]
        owners = np.concatenate([owners, np.repeat(owners[:1], lacking)])
        # They are put where they are worked on when they are divided among shards.
        problem = jax.tree.map(lambda *rows: np.stack(rows)[owners], *problems)
        for one in self._prepared:
            one.kernel = kernel
        seeds = np.concatenate([one.seeds for one in self._prepared])
        seeds = np.concatenate([seeds, np.repeat(seeds[:1], lacking)])
        self.rows = Rows(prepared[0].setting.method, problem, seeds)
        self.work = ends[-1] * self._layout.size * float(expected.mean())
        """Roughly what it takes, next to other batches."""

    def restarted(self, settings: Sequence[Setting]) -> Batch:
        """The same for settings, by their place, that differ from its own in their starts alone."""
        other = copy(self)
        other._prepared = [
            one.restarted(settings[place])
            for one, place in zip(self._prepared, self._places, strict=True)
        ]
        return other

    def begin(self) -> States:
        """The state of all rows at the first point of their grids."""
        starts = np.zeros((self._count, self._layout.size))
        for one, rows, own in zip(self._prepared, self._rows, self._own, strict=True):
            starts[rows[:, None], own] = one.starts(one.seeds)
        starts[self._rows[-1][-1] + 1 :] = starts[0]
        return self.rows.begin(starts)

    def results(self, states: States) -> dict[int, Trajectory]:
        """What has come of each setting so far, by its place."""
        whole = self.rows.join(states)

        def result(one: Prepared, rows: AnyArray, own: AnyArray) -> Trajectory:
            return one.result(_own_state(whole, one, rows, own))

        runs = map(result, self._prepared, self._rows, self._own)
        return dict(zip(self._places, runs, strict=True))

    def summaries(self, states: States) -> dict[int, RunSummary]:
        """The few numbers of each setting so far, by its place; no trajectory is made for them."""
        whole = self.rows.join(states)

        def summary(one: Prepared, rows: AnyArray, own: AnyArray) -> RunSummary:
            state: AbstractState = jax.tree.map(lambda leaf: leaf[rows], whole)
            if np.asarray(state.records.failed).any():
                # What happened to a seed is told from its own weights.
                state = _own_state(whole, one, rows, own)
            return one.brief(state)

        briefs = map(summary, self._prepared, self._rows, self._own)
        return dict(zip(self._places, briefs, strict=True))


def _own_state(whole: AbstractState, one: Prepared, rows: AnyArray, own: AnyArray) -> AbstractState:
    """The state of a setting's rows, without what they were padded with."""
    state = whole
    # What is all of it need not be copied.
    if rows.size < len(whole.records.index):
        state = jax.tree.map(lambda leaf: leaf[rows], state)
    if not np.array_equal(own, np.arange(whole.records.path.shape[-1])):
        state = state.map_vectors(lambda leaf: leaf[..., own])
    state = state.with_points(len(one.grid)).with_marks(one.problem.marks)
    return state.narrowed(one.problem.layout)


def _check_memory(prepared: Sequence[Prepared], layout: Layout) -> None:
    """Refuse rows that would not fit together, each with its own problem and its records."""
    seeds = sum(len(one.setting.seeds) for one in prepared)
    points = max(len(one.grid) for one in prepared)
    own = max(sum(leaf.size for leaf in jax.tree.leaves(one.problem)) for one in prepared)
    kept = points * (1 + layout.size if prepared[0].setting.record.weights else 1)
    numbers = _COPIES * seeds * (own + kept + layout.size)
    check_memory(numbers, {"settings": len(prepared), "seeds": seeds}, "take fewer at once")


def shape_of(prepared: Prepared) -> Shape:
    return prepared.setting.model, prepared.problem.dimension


def can_be_padded(prepared: Prepared, dimension: int | None = None) -> bool:
    """Whether zero heads and dimensions without power, up to `dimension`, change nothing.

    Not where steps are taken on prompts, nor where the loss is another in more dimensions.
    """
    problem = prepared.problem
    return bool(
        prepared.setting.method.keeps_zeros
        and problem.model.inert_sizes
        and problem.risk.padded(dimension or rung(problem.dimension)) is not None
    )


def rung(size: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: what lies between two is padded together."""
    power = 2 ** math.floor(math.log2(size))
    return next(rung for rung in (power, power * 3 // 2, power * 2) if rung >= size)


def _frame(shapes: Sequence[Shape], prepared: Sequence[Prepared], rows: int) -> Frame:
    """The least that all of these fit in; they differ in inert sizes only."""
    model = shapes[0][0]
    sizes = [(name, max(getattr(one, name) for one, _ in shapes)) for name in model.inert_sizes]
    points = max(len(one.grid) for one in prepared)
    return Frame(tuple(sizes), max(dimension for _, dimension in shapes), points, rows)


def resized(model: AbstractAttention, sizes: dict[str, int]) -> AbstractAttention:
    return replace(model, **sizes)  # type: ignore[type-var]


def padded(prepared: Prepared, shape: Shape, frame: Frame) -> Problem:
    """The problem of a setting in a shape that it fits in, that of a frame's rows."""
    problem, (model, dimension) = prepared.problem, shape
    risk = problem.risk
    lacking = max(frame.points - len(prepared.grid), 0)
    grid = np.concatenate([prepared.grid, np.repeat(prepared.grid[-1:], lacking)])
    layout, most = Layout.of(model, dimension), -(-frame.rows // frame.groups)
    with within(prepared.precision):
        if dimension != problem.dimension:
            enlarged = risk.padded(dimension)
            assert enlarged is not None
            risk = jax.device_put(enlarged)
        return replace(
            problem,
            model=model,
            layout=layout,
            group=min(group_size(frame.rows, layout.size, dimension), most),
            has_rows=True,
            kernel=None,
            risk=risk,
            grid=jax.device_put(grid[-frame.points :]),
            marks=_padded_marks(problem.marks, dimension),
        )


def _padded_marks(marks: Marks | None, most: int) -> Marks | None:
    """As many marks as there can be in so many dimensions, the others never passed."""
    if marks is None:
        return None

    def pad(values: Float[Array, " M"], size: int) -> Float[Array, " size"]:
        return jnp.pad(values, (0, size - len(values)), constant_values=jnp.nan)

    halves = len(marks.halves) and most
    return Marks(middles=pad(marks.middles, most), halves=pad(marks.halves, halves))
