"""Gradient flow in lanes: Tsitouras' method with a step of its own for every trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from saddlescope.dynamics.kernels._heads import Matrix
from saddlescope.dynamics.kernels._landscape import Landscape
from saddlescope.dynamics.kernels._lanes import Block, Lane
from saddlescope.dynamics.kernels._launch import launch
from saddlescope.dynamics.kernels._records import Place, Recorder, Seen, Watch
from saddlescope.dynamics.methods._integration import (
    BOUND_STEPS,
    LEAST_ERROR,
    NEAR,
    STABLE,
    VAIN_SHARE,
    VAIN_STEPS,
    Control,
    FlowState,
    Solver,
)
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._solver import (
    ERROR,
    INTEGRAL,
    PROPORTIONAL,
    SAFETY,
    STAGES,
    combine,
)
from saddlescope.running.programs import compiled

# Errors and step sizes need few digits, and roots and logarithms of many are long programs.
_COARSE = jnp.float32
_LEAST_FACTOR, _MOST_FACTOR = 0.2, 10.0
_ORDER = 5.0
# Stages that a turn of the loop takes. On an H200, with D = 4, H = 5 and drops found on the way, 2,
# 3 and 6 of them gave 88, 115 and 144 thousand starts a second, compiled in 14, 21 and 75 seconds.
_TOGETHER = 3

Vector: TypeAlias = Sequence[Lane]


class Stand(eqx.Module):
    """Where each trajectory stands: before the step from `time` to `step_end`."""

    time: Lane
    step_end: Lane
    weights: list[Lane]
    slope: list[Lane]
    previous: Lane
    """The inverse of the last kept step's error."""
    steps: Lane
    bound: Lane
    is_stiff: Lane


Carry: TypeAlias = tuple[Stand, Place, Seen | None, Array]
"""Where they stand, also in their records and notes, and the steps since the segment began."""


def advance(
    problem: Problem[Control], state: FlowState, budget: Int[Array, ""]
) -> tuple[FlowState, Int[Array, ""]]:
    """Carry on the trajectories that are not stiff by at most `budget` steps; the groups' steps."""
    moved = _advance(problem, state, budget)
    steps = moved.solver.steps - state.solver.steps
    return moved, steps.max() * (len(steps) // problem.group)


@compiled
def _advance(problem: Problem[Control], state: FlowState, budget: Int[Array, ""]) -> FlowState:
    return launch(_segment, problem, state, budget)


def _segment(
    problem: Problem[Control], state: FlowState, block: Block, budget: Int[Array, ""]
) -> None:
    """What a block does."""
    walk, solver = Walk.of(problem, state, block), state.solver

    def unfinished(carry: Carry) -> Array:
        stand, place, _, taken = carry
        return (taken < budget) & block.any(walk.moving(stand, place))

    seen = None if walk.watch is None else walk.watch.begin()
    carry = (_begin(block, solver), walk.recorder.begin(), seen, jnp.zeros((), jnp.int32))
    stand, place, seen, _ = jax.lax.while_loop(unfinished, walk.attempt, carry)
    _leave(block, solver, stand)
    walk.recorder.end(place)
    if walk.watch is not None and seen is not None:
        walk.watch.end(seen)


def _begin(block: Block, solver: Solver) -> Stand:
    """Where the trajectories stood when the segment began."""
    read = block.read
    return Stand(
        time=read(solver.time),
        step_end=read(solver.step_end),
        weights=block.read_vector(solver.weights),
        slope=block.read_vector(solver.slope),
        previous=read(solver.controller[0]),
        steps=read(solver.steps),
        bound=read(solver.bound),
        is_stiff=read(solver.is_stiff),
    )


def _leave(block: Block, solver: Solver, stand: Stand) -> None:
    """Leave where they stand."""
    for ref, value in (
        (solver.time, stand.time),
        (solver.step_end, stand.step_end),
        (solver.controller[0], stand.previous),
        (solver.steps, stand.steps),
        (solver.bound, stand.bound),
        (solver.is_stiff, stand.is_stiff),
    ):
        block.write(ref, value, block.inside)
    block.write_vector(solver.weights, stand.weights, block.inside)
    block.write_vector(solver.slope, stand.slope, block.inside)


@dataclass(frozen=True)
class Walk:
    """Takes the trajectories of a block along, a step of each at a time."""

    block: Block
    landscape: Landscape
    recorder: Recorder
    watch: Watch | None
    begin: Lane
    """Where the grid begins."""
    end: Lane
    control: tuple[Lane, Lane, Lane]
    """Both tolerances and the numbers of a trajectory."""
    most_steps: Lane

    @classmethod
    def of(cls, problem: Problem[Control], state: FlowState, block: Block) -> Walk:
        """Of a problem and a state that are in the GPU's memory."""
        rule = problem.rule
        return cls(
            block,
            Landscape.of(block, problem, block.given(problem.pace)),
            Recorder.of(block, problem, state.records),
            Watch.of(block, problem, state.records.notes),
            block.given(problem.grid, 0),
            block.given(problem.grid, problem.grid.shape[-1] - 1),
            (block.given(rule.rtol), block.given(rule.atol), block.given(problem.size)),
            block.given(rule.most_steps),
        )

    def moving(self, stand: Stand, place: Place) -> Lane:
        """Which trajectories have further to go, and go there in steps like these."""
        return self.recorder.active(place) & ~stand.is_stiff

    def attempt(self, carry: Carry) -> Carry:
        """A step of every trajectory that is moving, kept where its error is small enough."""
        stand, place, seen, taken = carry
        block, landscape, recorder = self.block, self.landscape, self.recorder
        active = self.moving(stand, place)
        width = stand.step_end - stand.time
        slopes, last, after, effective_map = _stages(landscape, stand.weights, stand.slope, width)
        stretch = _stretch(block, width, (last, after), slopes)
        error = _error(block, stand.weights, after, width, slopes, self.control)
        # No number is smaller than another: a step that leads to none is refused.
        error = jnp.where(error < jnp.inf, error, jnp.inf)
        error = jnp.maximum(error, jnp.maximum(LEAST_ERROR, (stretch / STABLE) ** 5))
        kept = active & (error < 1)
        step_end, previous = _next_step(stand, width, error)
        loss = landscape.loss(effective_map)
        resting = kept & (loss <= recorder.threshold)
        place = _record_crossed(block, recorder, landscape, place, stand, slopes, (kept, resting))
        if self.watch is not None and seen is not None:
            pace = -2 * landscape.inverse_rate
            falls = pace * _squares(block, stand.slope), pace * _squares(block, slopes[-1])
            at = loss, landscape.diagonal(effective_map)
            seen = self.watch.after_step(seen, kept, (stand.time, stand.step_end), at, falls)
        time = jnp.where(kept, stand.step_end, stand.time)
        steps = stand.steps + 1
        # A step that is refused must be shortened, which times far on are too coarse for.
        shortened = kept | (step_end < stand.step_end)
        vain = (steps > VAIN_STEPS) & (time - self.begin < VAIN_SHARE * (self.end - self.begin))
        place = recorder.failing(place, active & ~((step_end > time) & shortened & ~vain))
        bound = jnp.where(stretch > NEAR, stand.bound + 1, 0)
        turns = (bound >= BOUND_STEPS) & (self.end - time > self.most_steps * (step_end - time))
        # The step that crosses the end of the grid is not taken.
        active = active & recorder.active(place)
        moved = active & kept
        stand = Stand(
            time=jnp.where(active, time, stand.time),
            step_end=jnp.where(active, step_end, stand.step_end),
            weights=[jnp.where(moved, a, b) for a, b in zip(after, stand.weights, strict=True)],
            slope=[jnp.where(moved, a, b) for a, b in zip(slopes[-1], stand.slope, strict=True)],
            previous=jnp.where(active, previous, stand.previous),
            steps=jnp.where(active, steps, stand.steps),
            bound=jnp.where(active, bound, stand.bound),
            is_stiff=stand.is_stiff | (active & turns),
        )
        return stand, place, seen, taken + 1


def _stretch(
    block: Block, width: Lane, places: tuple[Vector, Vector], slopes: list[list[Lane]]
) -> Lane:
    """The width of a step times the steepness λ that it met.

    Both last stages are at the step's end: their slopes differ by λ times what they do.
    """
    last, after = places
    apart = _squares(block, _coarse(after, last))
    turned = _squares(block, _coarse(slopes[-1], slopes[-2]))
    stretch = width.astype(_COARSE) * jnp.sqrt(turned / jnp.where(apart > 0, apart, 1.0))
    return jnp.where(stretch < jnp.inf, stretch, 0.0)


def _stages(
    landscape: Landscape, start: list[Lane], slope: list[Lane], width: Lane
) -> tuple[list[list[Lane]], list[Lane], list[Lane], Matrix]:
    """The slopes at all stages of a step, where the last two stages stand, and W at its end.

    A loop takes some in a turn, with coefficients of zero for the slopes to come.
    """
    turns = len(STAGES) // _TOGETHER

    def coefficient(turn: Array, first: int, number: int) -> Array:
        chosen = jnp.zeros((), width.dtype)
        for own, row in enumerate(STAGES[first::_TOGETHER]):
            if number < len(row):
                chosen = jnp.where(turn == own, jnp.asarray(row[number], width.dtype), chosen)
        return chosen

    def some(turn: Array, carry: PyTree[Array]) -> PyTree[Array]:
        slopes, _, place, effective_map = carry
        slopes = list(slopes)
        for stage in range(_TOGETHER):
            known = slopes[: 1 + stage + _TOGETHER * (turns - 1)]
            row = [coefficient(turn, stage, number) for number in range(len(known))]
            last, place = place, _combined(start, width, row, known)
            effective_map = landscape.effective_map(place)
            new = landscape.velocity(place, effective_map)
            for own in range(turns):
                number = 1 + stage + _TOGETHER * own
                pairs = zip(new, slopes[number], strict=True)
                slopes[number] = [jnp.where(turn == own, a, b) for a, b in pairs]
        return slopes, last, place, effective_map

    unknown = [[width] * landscape.heads.dimension] * landscape.heads.dimension
    begun = [slope] * (1 + len(STAGES)), start, start, unknown
    slopes, last, end, effective_map = jax.lax.fori_loop(0, turns, some, begun)
    return slopes, last, end, effective_map


def _combined(
    start: Vector, width: Lane, coefficients: Sequence[Lane], slopes: Sequence[Vector]
) -> list[Lane]:
    """The start, moved by so much of every slope."""
    return [
        one + width * sum(c * slope for c, slope in zip(coefficients, own, strict=True))
        for one, *own in zip(start, *slopes, strict=True)
    ]


def _coarse(one: Vector, other: Vector) -> list[Lane]:
    """The difference of two vectors, in few digits."""
    return [(a - b).astype(_COARSE) for a, b in zip(one, other, strict=True)]


def _squares(block: Block, vector: Vector) -> Lane:
    """The sum of squares over a trajectory's lanes."""
    squares = [one * one for one in vector]
    return block.total(sum(squares[1:], squares[0]))


def _error(
    block: Block,
    before: Vector,
    after: Vector,
    width: Lane,
    slopes: list[list[Lane]],
    control: tuple[Lane, Lane, Lane],
) -> Lane:
    """The root mean square of a step's error, in units of what it may be off by."""
    rtol, atol, size = (one.astype(_COARSE) for one in control)
    scaled = []
    for one, other, *own in zip(before, after, *slopes, strict=True):
        largest = jnp.maximum(jnp.abs(one), jnp.abs(other)).astype(_COARSE)
        allowed = atol + rtol * largest
        scaled.append((width * combine(ERROR, list(own))).astype(_COARSE) / allowed)
    return jnp.sqrt(_squares(block, scaled) / size)


def _next_step(stand: Stand, width: Lane, error: Lane) -> tuple[Lane, Lane]:
    """Where the next step ends, by diffrax' controller; and the inverse error that it remembers."""
    kept = error < 1
    inverse = 1 / error
    grown = jnp.exp(
        (PROPORTIONAL + INTEGRAL) / _ORDER * jnp.log(inverse)
        - PROPORTIONAL / _ORDER * jnp.log(stand.previous.astype(_COARSE))
    )
    least = jnp.where(kept, 1.0, _LEAST_FACTOR)
    most = jnp.where(kept, _MOST_FACTOR, SAFETY)
    factor = jnp.minimum(jnp.maximum(SAFETY * grown, least), most).astype(width.dtype)
    start = jnp.where(kept, stand.step_end, stand.time)
    return start + width * factor, jnp.where(kept, inverse.astype(width.dtype), stand.previous)


def _record_crossed(
    block: Block,
    recorder: Recorder,
    landscape: Landscape,
    place: Place,
    stand: Stand,
    slopes: list[list[Lane]],
    ended: tuple[Lane, Lane],
) -> Place:
    """Record all grid points that a kept step has reached, by interpolation inside it.

    One that has come to rest at its end rests from the next point on.
    """
    width = stand.step_end - stand.time
    kept, resting = ended

    def crossed(place: Place) -> Lane:
        return place.due <= stand.step_end

    def due(place: Place) -> Lane:
        return kept & recorder.active(place) & (crossed(place) | resting)

    def write(place: Place) -> Place:
        at = jnp.minimum(place.due, stand.step_end)
        shares = _interpolation((at - stand.time) / width)
        inside = [
            one + width * sum(b * k for b, k in zip(shares, own, strict=True))
            for one, *own in zip(stand.weights, *slopes, strict=True)
        ]
        loss = landscape.loss(landscape.effective_map(inside))
        return recorder.write(place, due(place), inside, loss, resting & ~crossed(place))

    return jax.lax.while_loop(lambda at: block.any(due(at)), write, place)


def _interpolation(at: Lane) -> tuple[Lane, ...]:
    """How much of each slope there is at a share of the step (Tsitouras 2011)."""
    square = at * at
    return (
        -1.0530884977290216
        * at
        * (at - 1.3299890189751412)
        * (square - 1.4364028541716351 * at + 0.7139816917074209),
        0.1017 * square * (square - 2.1966568338249754 * at + 1.2949852507374631),
        2.490627285651252793 * square * (square - 2.38535645472061657 * at + 1.57803468208092486),
        -16.54810288924490272 * (at - 1.21712927295533244) * (at - 0.61620406037800089) * square,
        47.37952196281928122 * (at - 1.203071208372362603) * (at - 0.658047292653547382) * square,
        -34.87065786149660974 * (at - 1.2) * (at - 0.666666666666666667) * square,
        2.5 * (at - 1) * (at - 0.6) * square,
    )
