"""Gradient flow in lanes: Tsitouras' method with a separate step size for every trajectory."""

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
from saddlescope.dynamics.kernels._records import Cursor, LiveNotes, NoteTaker, Recorder
from saddlescope.dynamics.methods._integration import (
    LEAST_ERROR,
    LIMITED_STEPS,
    NEAR_STABILITY,
    STABILITY_SCALE,
    Control,
    FlowState,
    SolverState,
    has_stalled,
)
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.dynamics.methods._solver import INTEGRAL, PROPORTIONAL, SAFETY
from saddlescope.running.programs import compiled

_LEAST_FACTOR, _MOST_FACTOR = 0.2, 10.0
_ORDER = 5.0


class LaneState(eqx.Module):
    """Each trajectory's integrator, about to step from `time` to `step_end`."""

    time: Lane
    step_end: Lane
    weights: list[Lane]
    slope: list[Lane]
    previous: Lane
    """The inverse error of the last step that was kept."""
    steps: Lane
    limited: Lane
    is_stiff: Lane


Carry: TypeAlias = tuple[LaneState, Cursor, LiveNotes | None, Array]
"""Integrators, record cursors, notes, and the steps taken in this segment."""


def advance(
    problem: Problem[Control], state: FlowState, budget: Int[Array, ""]
) -> tuple[FlowState, Int[Array, ""]]:
    """Advance the trajectories that are not stiff by at most `budget` steps each.

    Returns the new state and the steps of all groups together.
    """
    moved = _advance(problem, state, budget)
    steps = moved.solver.steps - state.solver.steps
    return moved, steps.max() * (len(steps) // problem.group)


@compiled
def _advance(problem: Problem[Control], state: FlowState, budget: Int[Array, ""]) -> FlowState:
    return launch(_segment, problem, state, budget)


def _segment(
    problem: Problem[Control], state: FlowState, block: Block, budget: Int[Array, ""]
) -> None:
    """Advance one block by a segment."""
    loop, solver = FlowLoop.of(problem, state, block), state.solver

    def unfinished(carry: Carry) -> Array:
        lanes, cursor, _, taken = carry
        return (taken < budget) & block.any(loop.moving(lanes, cursor))

    live = None if loop.note_taker is None else loop.note_taker.load()
    carry = (_load(block, solver), loop.recorder.load(), live, jnp.zeros((), jnp.int32))
    lanes, cursor, live, _ = jax.lax.while_loop(unfinished, loop.attempt, carry)
    _store(block, solver, lanes)
    loop.recorder.store(cursor)
    if loop.note_taker is not None and live is not None:
        loop.note_taker.store(live)


def _load(block: Block, solver: SolverState) -> LaneState:
    """Load the integrators at the start of a segment."""
    read = block.read
    return LaneState(
        time=read(solver.time),
        step_end=read(solver.step_end),
        weights=block.read_vector(solver.weights),
        slope=block.read_vector(solver.slope),
        previous=read(solver.controller[0]),
        steps=read(solver.steps),
        limited=read(solver.limited),
        is_stiff=read(solver.is_stiff),
    )


def _store(block: Block, solver: SolverState, lanes: LaneState) -> None:
    """Store the integrators at the end of a segment."""
    for ref, value in (
        (solver.time, lanes.time),
        (solver.step_end, lanes.step_end),
        (solver.controller[0], lanes.previous),
        (solver.steps, lanes.steps),
        (solver.limited, lanes.limited),
        (solver.is_stiff, lanes.is_stiff),
    ):
        block.write(ref, value, block.inside)
    block.write_vector(lanes.weights, solver.weights, block.inside)
    block.write_vector(lanes.slope, solver.slope, block.inside)


@dataclass(frozen=True)
class FlowLoop:
    """Advances the trajectories of a block, one step of each at a time."""

    block: Block
    landscape: Landscape
    recorder: Recorder
    note_taker: NoteTaker | None
    begin: Lane
    """The first time of the grid."""
    end: Lane
    control: tuple[Lane, Lane, Lane]
    """`rtol`, `atol` and the number of weights of a trajectory."""
    most_steps: Lane

    @classmethod
    def of(cls, problem: Problem[Control], state: FlowState, block: Block) -> FlowLoop:
        """From a problem and a state in GPU memory."""
        rule = problem.rule
        return cls(
            block,
            Landscape.of(block, problem, block.parameter(problem.pace)),
            Recorder.of(block, problem, state.records),
            NoteTaker.of(block, problem, state.records.notes),
            block.parameter(problem.grid, 0),
            block.parameter(problem.grid, problem.grid.shape[-1] - 1),
            (block.parameter(rule.rtol), block.parameter(rule.atol), block.parameter(problem.size)),
            block.parameter(rule.most_steps),
        )

    def moving(self, lanes: LaneState, cursor: Cursor) -> Lane:
        """Which trajectories have further to go and take explicit steps."""
        return self.recorder.active(cursor) & ~lanes.is_stiff

    def attempt(self, carry: Carry) -> Carry:
        """Try a step of every moving trajectory and keep it where its error is small enough."""
        lanes, cursor, live, taken = carry
        block, landscape, recorder = self.block, self.landscape, self.recorder
        active = self.moving(lanes, cursor)
        width = lanes.step_end - lanes.time
        slopes, last, after, effective_map = step.stages(
            landscape, lanes.weights, lanes.slope, width
        )
        stiffness = step.stiffness(block, width, (last, after), slopes)
        error = step.error(block, lanes.weights, after, width, slopes, self.control)
        # A step to NaN is rejected: NaN compares as false.
        error = jnp.where(error < jnp.inf, error, jnp.inf)
        error = jnp.maximum(error, jnp.maximum(LEAST_ERROR, (stiffness / STABILITY_SCALE) ** 5))
        kept = active & (error < 1)
        step_end, previous = _next_step(lanes, width, error)
        loss = landscape.loss(effective_map)
        resting = kept & (loss <= recorder.threshold)
        cursor = _record_crossed(block, recorder, landscape, cursor, lanes, slopes, (kept, resting))
        if self.note_taker is not None and live is not None:
            pace = -2 * landscape.inverse_rate
            falls = pace * step.squares(block, lanes.slope), pace * step.squares(block, slopes[-1])
            at = loss, landscape.diagonal(effective_map)
            live = self.note_taker.after_step(live, kept, (lanes.time, lanes.step_end), at, falls)
        time = jnp.where(kept, lanes.step_end, lanes.time)
        steps = lanes.steps + 1
        # A rejected step must get shorter, which at large times float spacing can prevent.
        shortened = kept | (step_end < lanes.step_end)
        stalled = has_stalled(steps, time - self.begin, self.end - self.begin)
        cursor = recorder.fail(cursor, active & ~((step_end > time) & shortened & ~stalled))
        limited = jnp.where(stiffness > NEAR_STABILITY, lanes.limited + 1, 0)
        switches = (limited >= LIMITED_STEPS) & (
            self.end - time > self.most_steps * (step_end - time)
        )
        # The step across the end of the grid is not taken.
        active = active & recorder.active(cursor)
        moved = active & kept
        lanes = LaneState(
            time=jnp.where(active, time, lanes.time),
            step_end=jnp.where(active, step_end, lanes.step_end),
            weights=[jnp.where(moved, a, b) for a, b in zip(after, lanes.weights, strict=True)],
            slope=[jnp.where(moved, a, b) for a, b in zip(slopes[-1], lanes.slope, strict=True)],
            previous=jnp.where(active, previous, lanes.previous),
            steps=jnp.where(active, steps, lanes.steps),
            limited=jnp.where(active, limited, lanes.limited),
            is_stiff=lanes.is_stiff | (active & switches),
        )
        return lanes, cursor, live, taken + 1


def _next_step(lanes: LaneState, width: Lane, error: Lane) -> tuple[Lane, Lane]:
    """The end of the next step, by diffrax's controller, and the inverse error that it keeps."""
    kept = error < 1
    inverse = 1 / error
    grown = jnp.exp(
        (PROPORTIONAL + INTEGRAL) / _ORDER * jnp.log(inverse)
        - PROPORTIONAL / _ORDER * jnp.log(lanes.previous.astype(step.COARSE))
    )
    least = jnp.where(kept, 1.0, _LEAST_FACTOR)
    most = jnp.where(kept, _MOST_FACTOR, SAFETY)
    factor = jnp.minimum(jnp.maximum(SAFETY * grown, least), most).astype(width.dtype)
    start = jnp.where(kept, lanes.step_end, lanes.time)
    return start + width * factor, jnp.where(kept, inverse.astype(width.dtype), lanes.previous)


def _record_crossed(
    block: Block,
    recorder: Recorder,
    landscape: Landscape,
    cursor: Cursor,
    lanes: LaneState,
    slopes: list[list[Lane]],
    ended: tuple[Lane, Lane],
) -> Cursor:
    """Record all grid points that a kept step has passed, by interpolation.

    A trajectory that has converged by its end rests from the next grid point on.
    """
    width = lanes.step_end - lanes.time
    kept, resting = ended

    def crossed(cursor: Cursor) -> Lane:
        return cursor.due <= lanes.step_end

    def due(cursor: Cursor) -> Lane:
        return kept & recorder.active(cursor) & (crossed(cursor) | resting)

    def write(cursor: Cursor) -> Cursor:
        at = jnp.minimum(cursor.due, lanes.step_end)
        coefficients = step.interpolation((at - lanes.time) / width)
        inside = [
            start + width * sum(b * k for b, k in zip(coefficients, stages, strict=True))
            for start, *stages in zip(lanes.weights, *slopes, strict=True)
        ]
        loss = landscape.loss(landscape.effective_map(inside))
        write_weights = partial(block.write_vector, inside)
        return recorder.write(cursor, due(cursor), write_weights, loss, resting & ~crossed(cursor))

    return jax.lax.while_loop(lambda at: block.any(due(at)), write, cursor)
