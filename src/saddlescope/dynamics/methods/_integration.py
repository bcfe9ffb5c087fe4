"""Gradient flow, integrated by diffrax in segments that carry the whole state."""

from __future__ import annotations

import math
from typing import TypeAlias

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from saddlescope.dynamics.methods._ensemble import map_groups, over_seeds, pick
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.dynamics.methods._rosenbrock import Rodas5P
from saddlescope.dynamics.methods._solver import Dense, UnrolledTsit5, contraction
from saddlescope.running.programs import compiled

AbstractSolver: TypeAlias = UnrolledTsit5 | Rodas5P

# The explicit method is stable to h|λ| = 3.5 or so, and where stability bounds it, it stays near.
_STABLE = 2.0
# So many steps in a row near there are no accident.
_BOUND_STEPS = 20
# A long rest, drops included, takes the stiff method about so many steps.
_STIFF_STEPS = 1500


class Solver(eqx.Module):
    """Where each seed's integrator stands: before the step from `time` to `step_end`."""

    time: Float[Array, " *S"]
    step_end: Float[Array, " *S"]
    weights: Float[Array, "*S n"]
    slope: Float[Array, "*S n"]
    controller: PyTree
    """What the step-size controller carries from step to step."""
    bound: Int[Array, " *S"]
    """How many steps in a row stability has bounded."""
    is_stiff: Bool[Array, " *S"]
    """Whether the method for stiff equations carries it on."""


class FlowState(AbstractState):
    """A run of gradient flow between two segments."""

    solver: Solver
    records: Records


Carry: TypeAlias = tuple[FlowState, Int[Array, ""]]
"""A state, and the steps taken since the segment began."""


class Control(eqx.Module):
    """What a step may be off by, and which method takes it."""

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    one: Float[Array, ""]
    """The solver's opaque 1."""
    most_steps: Float[Array, ""]
    """Explicit steps that may lie ahead where stability bounds them; with more, stiff ones do."""

    @staticmethod
    def of(problem: Problem, rtol: float, atol: float, solver: str) -> Control:
        """As arrays: nothing is compiled anew for other ones."""
        enough = _STIFF_STEPS * problem.group * cost_of_stiff_step(problem)
        most = {"auto": enough, "explicit": math.inf, "stiff": 0.0}[solver]
        return Control(*(jnp.asarray(value) for value in (rtol, atol, 1.0, most)))


def cost_of_stiff_step(problem: Problem) -> float:
    """What a stiff step of one seed costs, in explicit steps of a group; roughly.

    Measured on one core for 15 to 528 weights and groups of 1 to 45, in microseconds.
    """
    weights = problem.layout.size
    return (20 + 0.0055 * weights**2.4) / (3 + 0.025 * weights * problem.group)


def begin(problem: Problem, control: Control, weights: Float[Array, "S n"]) -> FlowState:
    """The state at the first point of the grid."""
    return _begin(problem, control, weights)


def prolong(problem: Problem, state: FlowState) -> FlowState:
    """The state of a finished run, made ready for a grid that begins where its own ended."""
    # The step that crossed the end of the old grid was not taken: it is taken now, and the path is
    # that of a run that never stopped.
    return FlowState(solver=state.solver, records=Records.begin(problem, state.records.last))


def advance(
    problem: Problem, control: Control, state: FlowState, budget: int
) -> tuple[FlowState, int]:
    """Take at most about `budget` explicit steps, or what costs as much; steps taken, as such."""
    stiff_cost, taken = cost_of_stiff_step(problem), 0.0
    for solver, is_stiff, cost in ((UnrolledTsit5(), False, 1.0), (Rodas5P(), True, stiff_cost)):
        # The other method's program is compiled when it is needed.
        if (np.asarray(state.solver.is_stiff) == is_stiff).any():
            steps = jnp.asarray(max(1, round(budget / cost)))
            state, more = _advance(problem, solver, control, state, steps)
            taken += int(more) * cost
    return state, round(taken)


def _equation(problem: Problem) -> diffrax.ODETerm:
    return diffrax.ODETerm(lambda t, y, args: problem.velocity(y, problem.pace))


def _controller(control: Control, solver: AbstractSolver) -> diffrax.PIDController:
    if isinstance(solver, Rodas5P):
        return diffrax.PIDController(
            rtol=control.rtol, atol=control.atol, factormax=6.0, safety=0.9
        )
    # These coefficients keep the step steady where stability, not accuracy, bounds it: in the
    # long rest at a fixed point.
    return diffrax.PIDController(
        rtol=control.rtol, atol=control.atol, pcoeff=0.4, icoeff=0.2, safety=0.95
    )


@compiled
def _begin(problem: Problem, control: Control, weights: Float[Array, "S n"]) -> FlowState:
    solver, term = UnrolledTsit5(), _equation(problem)
    controller = _controller(control, solver)
    start, end = problem.grid[0], problem.grid[-1]

    def one(vector: Float[Array, " n"]) -> Solver:
        step_end, memory = controller.init(
            term, start, end, vector, None, None, solver.func, solver.error_order(term)
        )
        slope = solver.init(term, start, step_end, vector, None)
        return Solver(
            time=start,
            step_end=jnp.asarray(step_end),
            weights=vector,
            slope=slope,
            controller=memory,
            bound=jnp.asarray(0),
            is_stiff=control.most_steps == 0,
        )

    return FlowState(solver=jax.vmap(one)(weights), records=Records.begin(problem, weights))


@compiled
def _advance(
    problem: Problem,
    solver: AbstractSolver,
    control: Control,
    state: FlowState,
    budget: Int[Array, ""],
) -> tuple[FlowState, Int[Array, ""]]:
    """Carry on the groups whose method is `solver`."""
    is_stiff = isinstance(solver, Rodas5P)
    # Matrices of several seeds are not factored faster together.
    together = 1 if is_stiff else problem.group
    attempt = over_seeds(lambda at: _attempt(problem, solver, control, at), together)

    def unfinished(carry: Carry) -> Bool[Array, ""]:
        state, taken = carry
        own = state.solver.is_stiff == is_stiff
        return (taken < budget) & (state.records.active(problem) & own).any()

    def step(carry: Carry) -> Carry:
        state, taken = carry
        active = state.records.active(problem)
        moved, kept, dense = attempt(state.solver)
        reached = jnp.where(active & kept, moved.time, -jnp.inf)
        records = _record_crossed(problem, solver, state, reached, dense)
        records = _record_converged(problem, records, active & kept, moved.weights)
        stuck = active & ~(moved.step_end > moved.time)
        records = eqx.tree_at(lambda r: r.failed, records, records.failed | stuck)
        active = active & records.active(problem)
        stepper = pick(active, moved, state.solver)
        if not is_stiff:
            stepper = _turned_stiff(problem, control, stepper, active)
        return FlowState(solver=stepper, records=records), taken + 1

    def group(at: FlowState) -> Carry:
        return jax.lax.while_loop(unfinished, step, (at, jnp.asarray(0)))

    return map_groups(group, state, together)


def _attempt(
    problem: Problem, solver: AbstractSolver, control: Control, at: Solver
) -> tuple[Solver, Bool[Array, ""], Dense]:
    """One step of one seed: where it leads (back, if refused), whether kept, its interpolant."""
    term, controller = _equation(problem), _controller(control, solver)
    y1, error, dense, slope, _ = solver.step(
        term, at.time, at.step_end, at.weights, control.one, at.slope, False
    )
    kept, time, step_end, _, memory, _ = controller.adapt_step_size(
        at.time, at.step_end, at.weights, y1, None, error, solver.error_order(term), at.controller
    )
    bound = at.bound
    if isinstance(solver, UnrolledTsit5):
        near = contraction(at.step_end - at.time, dense) > _STABLE
        bound = jnp.where(near, at.bound + 1, 0)
    moved = Solver(
        time=jnp.asarray(time),
        step_end=jnp.asarray(step_end),
        weights=jnp.where(kept, y1, at.weights),
        slope=jnp.where(kept, slope, at.slope),
        controller=memory,
        bound=bound,
        is_stiff=at.is_stiff,
    )
    return moved, jnp.asarray(kept), dense


def _turned_stiff(
    problem: Problem, control: Control, solver: Solver, active: Bool[Array, " S"]
) -> Solver:
    """A group turns to the stiff method where most of its seeds would take too many steps."""
    ahead = (problem.grid[-1] - solver.time) / (solver.step_end - solver.time)
    slow = active & (solver.bound >= _BOUND_STEPS) & (ahead > control.most_steps)
    turns = 2 * slow.sum() > active.sum()
    return eqx.tree_at(lambda at: at.is_stiff, solver, solver.is_stiff | turns)


def _record_converged(
    problem: Problem, records: Records, moved: Bool[Array, " S"], weights: Float[Array, "S n"]
) -> Records:
    """A seed that has come to rest between two records rests from the next one on."""
    resting = moved & records.active(problem)
    resting &= jax.vmap(problem.loss)(weights) <= problem.threshold
    return jax.lax.cond(
        resting.any(), lambda at: at.write(problem, resting, weights), lambda at: at, records
    )


def _record_crossed(
    problem: Problem,
    solver: AbstractSolver,
    state: FlowState,
    reached: Float[Array, " S"],
    dense: Dense,
) -> Records:
    """Record all grid points up to where each seed's step has reached, by interpolation."""

    def target(records: Records) -> Float[Array, " S"]:
        return problem.grid[jnp.minimum(records.index, problem.grid.shape[0] - 1)]

    def due(records: Records) -> Bool[Array, " S"]:
        return records.active(problem) & (target(records) <= reached)

    def write(records: Records) -> Records:
        def inside(
            start: Float[Array, ""], end: Float[Array, ""], at: Float[Array, ""], dense: Dense
        ) -> Float[Array, " n"]:
            weights: Float[Array, " n"]
            weights = type(solver).interpolation_cls(t0=start, t1=end, **dense).evaluate(at)
            return weights

        weights = jax.vmap(inside)(state.solver.time, reached, target(records), dense)
        return records.write(problem, due(records), weights)

    def write_all(records: Records) -> Records:
        return jax.lax.while_loop(lambda at: due(at).any(), write, records)

    # Few steps cross a point of the grid; the others skip the loop altogether.
    return jax.lax.cond(due(state.records).any(), write_all, lambda at: at, state.records)
