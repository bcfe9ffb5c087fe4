"""Gradient flow, integrated by diffrax in segments that carry the whole state."""

from __future__ import annotations

from typing import TypeAlias

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from saddlescope.dynamics.methods._ensemble import map_groups, over_seeds, pick
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.dynamics.methods._solver import Dense, UnrolledTsit5, interpolate
from saddlescope.running.programs import compiled


class Solver(eqx.Module):
    """Where each seed's integrator stands: before the step from `time` to `step_end`."""

    time: Float[Array, " *S"]
    step_end: Float[Array, " *S"]
    weights: Float[Array, "*S n"]
    slope: Float[Array, "*S n"]
    controller: PyTree
    """What the step-size controller carries from step to step."""


class FlowState(AbstractState):
    """A run of gradient flow between two segments."""

    solver: Solver
    records: Records


Carry: TypeAlias = tuple[FlowState, Int[Array, ""]]
"""A state, and the steps taken since the segment began."""


class Tolerances(eqx.Module):
    """What a step may be off by."""

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    one: Float[Array, ""]
    """The solver's opaque 1."""

    @staticmethod
    def of(rtol: float, atol: float) -> Tolerances:
        """As arrays: nothing is compiled anew for other ones."""
        return Tolerances(jnp.asarray(rtol), jnp.asarray(atol), jnp.asarray(1.0))


def begin(
    problem: Problem, tolerances: tuple[float, float], weights: Float[Array, "S n"]
) -> FlowState:
    """The state at the first point of the grid."""
    return _begin(problem, Tolerances.of(*tolerances), weights)


def prolong(problem: Problem, state: FlowState) -> FlowState:
    """The state of a finished run, made ready for a grid that begins where its own ended."""
    # The step that crossed the end of the old grid was not taken: it is taken now, and the path is
    # that of a run that never stopped.
    return FlowState(solver=state.solver, records=Records.begin(problem, state.records.last))


def advance(
    problem: Problem, tolerances: tuple[float, float], state: FlowState, budget: int
) -> tuple[FlowState, int]:
    """Take at most about `budget` steps; the new state and the steps taken."""
    moved, taken = _advance(problem, Tolerances.of(*tolerances), state, jnp.asarray(budget))
    return moved, int(taken)


def _equation(problem: Problem) -> diffrax.ODETerm:
    return diffrax.ODETerm(lambda t, y, args: problem.velocity(y, problem.pace))


def _controller(tolerances: Tolerances) -> diffrax.PIDController:
    # These coefficients keep the step steady where stability, not accuracy, bounds it: in the
    # long rest at a fixed point.
    return diffrax.PIDController(
        rtol=tolerances.rtol, atol=tolerances.atol, pcoeff=0.4, icoeff=0.2, safety=0.95
    )


@compiled
def _begin(problem: Problem, tolerances: Tolerances, weights: Float[Array, "S n"]) -> FlowState:
    solver, term, controller = UnrolledTsit5(), _equation(problem), _controller(tolerances)
    start, end = problem.grid[0], problem.grid[-1]

    def one(vector: Float[Array, " n"]) -> Solver:
        step_end, memory = controller.init(
            term, start, end, vector, None, None, solver.func, solver.error_order(term)
        )
        slope = solver.init(term, start, step_end, vector, None)
        return Solver(start, jnp.asarray(step_end), vector, slope, memory)

    return FlowState(solver=jax.vmap(one)(weights), records=Records.begin(problem, weights))


@compiled
def _advance(
    problem: Problem, tolerances: Tolerances, state: FlowState, budget: Int[Array, ""]
) -> tuple[FlowState, Int[Array, ""]]:
    attempt = over_seeds(lambda at: _attempt(problem, tolerances, at), problem.group)

    def unfinished(carry: Carry) -> Bool[Array, ""]:
        state, taken = carry
        return (taken < budget) & state.records.active(problem).any()

    def step(carry: Carry) -> Carry:
        state, taken = carry
        active = state.records.active(problem)
        moved, kept, dense = attempt(state.solver)
        reached = jnp.where(active & kept, moved.time, -jnp.inf)
        records = _record_crossed(problem, state, reached, dense)
        stuck = active & ~(moved.step_end > moved.time)
        records = eqx.tree_at(lambda r: r.failed, records, records.failed | stuck)
        solver = pick(active & records.active(problem), moved, state.solver)
        return FlowState(solver=solver, records=records), taken + 1

    def group(at: FlowState) -> Carry:
        return jax.lax.while_loop(unfinished, step, (at, jnp.asarray(0)))

    return map_groups(group, state, problem.group)


def _attempt(
    problem: Problem, tolerances: Tolerances, at: Solver
) -> tuple[Solver, Bool[Array, ""], Dense]:
    """One step of one seed: where it leads (back, if refused), whether kept, its interpolant."""
    solver, term, controller = UnrolledTsit5(), _equation(problem), _controller(tolerances)
    y1, error, dense, slope, _ = solver.step(
        term, at.time, at.step_end, at.weights, tolerances.one, at.slope, False
    )
    kept, time, step_end, _, memory, _ = controller.adapt_step_size(
        at.time, at.step_end, at.weights, y1, None, error, solver.error_order(term), at.controller
    )
    moved = Solver(
        time=jnp.asarray(time),
        step_end=jnp.asarray(step_end),
        weights=jnp.where(kept, y1, at.weights),
        slope=jnp.where(kept, slope, at.slope),
        controller=memory,
    )
    return moved, jnp.asarray(kept), dense


def _record_crossed(
    problem: Problem, state: FlowState, reached: Float[Array, " S"], dense: Dense
) -> Records:
    """Record all grid points up to where each seed's step has reached, by interpolation."""

    def target(records: Records) -> Float[Array, " S"]:
        return problem.grid[jnp.minimum(records.index, problem.grid.shape[0] - 1)]

    def due(records: Records) -> Bool[Array, " S"]:
        return records.active(problem) & (target(records) <= reached)

    def write(records: Records) -> Records:
        points = target(records)
        weights = jax.vmap(interpolate)(state.solver.time, reached, points, dense)
        return records.write(problem, due(records), weights)

    def write_all(records: Records) -> Records:
        return jax.lax.while_loop(lambda at: due(at).any(), write, records)

    # Few steps cross a point of the grid; the others skip the loop altogether.
    return jax.lax.cond(due(state.records).any(), write_all, lambda at: at, state.records)
