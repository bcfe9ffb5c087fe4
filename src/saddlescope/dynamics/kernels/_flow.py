"""Gradient flow in lanes: Tsitouras' method with a step of its own for every trajectory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from saddlescope.dynamics.kernels import _step as step
from saddlescope.dynamics.kernels._landscape import Landscape
from saddlescope.dynamics.kernels._lanes import Block, Lane
from saddlescope.dynamics.kernels._launch import launch
from saddlescope.dynamics.kernels._records import Place, Recorder, Seen, Watch
from saddlescope.dynamics.methods._integration import (
    BOUND_STEPS,
    LEAST_ERROR,
    NEAR,
    STABLE,
    Control,
    FlowState,
    Solver,
    is_hopeless,
)
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._solver import INTEGRAL, PROPORTIONAL, SAFETY
from saddlescope.running.programs import compiled

_LEAST_FACTOR, _MOST_FACTOR = 0.2, 10.0
_ORDER = 5.0


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
    block.write_vector(stand.weights, solver.weights, block.inside)
    block.write_vector(stand.slope, solver.slope, block.inside)


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
        slopes, last, after, effective_map = step.stages(
            landscape, stand.weights, stand.slope, width
        )
        stretch = step.stretch(block, width, (last, after), slopes)
        error = step.error(block, stand.weights, after, width, slopes, self.control)
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
            falls = pace * step.squares(block, stand.slope), pace * step.squares(block, slopes[-1])
            at = loss, landscape.diagonal(effective_map)
            seen = self.watch.after_step(seen, kept, (stand.time, stand.step_end), at, falls)
        time = jnp.where(kept, stand.step_end, stand.time)
        steps = stand.steps + 1
        # A step that is refused must be shortened, which times far on are too coarse for.
        shortened = kept | (step_end < stand.step_end)
        hopeless = is_hopeless(steps, time - self.begin, self.end - self.begin)
        place = recorder.failing(place, active & ~((step_end > time) & shortened & ~hopeless))
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


def _next_step(stand: Stand, width: Lane, error: Lane) -> tuple[Lane, Lane]:
    """Where the next step ends, by diffrax' controller; and the inverse error that it remembers."""
    kept = error < 1
    inverse = 1 / error
    grown = jnp.exp(
        (PROPORTIONAL + INTEGRAL) / _ORDER * jnp.log(inverse)
        - PROPORTIONAL / _ORDER * jnp.log(stand.previous.astype(step.COARSE))
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
        shares = step.interpolation((at - stand.time) / width)
        inside = [
            one + width * sum(b * k for b, k in zip(shares, own, strict=True))
            for one, *own in zip(stand.weights, *slopes, strict=True)
        ]
        loss = landscape.loss(landscape.effective_map(inside))
        put = partial(block.write_vector, inside)
        return recorder.write(place, due(place), put, loss, resting & ~crossed(place))

    return jax.lax.while_loop(lambda at: block.any(due(at)), write, place)
