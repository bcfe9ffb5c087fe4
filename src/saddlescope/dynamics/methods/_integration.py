"""Gradient flow, integrated by diffrax in segments that carry the whole state."""

from __future__ import annotations

import math
from functools import partial
from typing import TypeAlias

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from saddlescope.attention import AbstractAttention
from saddlescope.dynamics.methods._ensemble import (
    is_on_cpu,
    map_groups,
    over_grouped_rows,
    over_rows,
    pick,
)
from saddlescope.dynamics.methods._jacobian import products, solve_shifted
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Notes
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.dynamics.methods._rosenbrock import Rodas5P
from saddlescope.dynamics.methods._solver import AbstractFlowSolver, Dense, UnrolledTsit5
from saddlescope.running.programs import compiled, compiled_in_haste

# The explicit method is stable up to h|λ| = 3.5. Its controller, which aims at an error of .28, is
# given (h|λ|/4.2)⁵ as a lower bound on the error, which keeps h|λ| within 3.25: longer steps would
# amplify rounding errors up to the tolerances. Above 2 a step counts as limited by stability.
STABILITY_SCALE, NEAR_STABILITY = 4.2, 2.0
# Errors below this share of the tolerances are mostly rounding: a step size that depended on them
# would differ between machines.
LEAST_ERROR = 1e-3
# A seed is given up if, after STALL_STEPS, its pace implies more than MOST_STEPS in all: days of
# computing. It happens where weights are so large, or cancel so closely, that float64 cannot tell
# the force from rounding errors, and steps stay short for ever.
STALL_STEPS, MOST_STEPS = 50_000, 1e11
# Displacement of the power method's finite difference, as a share of the norm of the weights.
_DISPLACEMENT = 1e-5
# Consecutive steps limited by stability after which the equation is taken to be stiff.
LIMITED_STEPS = 20
# Roughly how many steps the stiff method takes for a long rest, drops included.
_STIFF_STEPS = 1500


class SolverState(eqx.Module):
    """Each seed's integrator, about to step from `time` to `step_end`."""

    time: Float[Array, " *S"]
    step_end: Float[Array, " *S"]
    weights: Float[Array, "*S n"]
    slope: Float[Array, "*S n"]
    controller: PyTree
    """The state of the step-size controller."""
    dominant: Float[Array, "*S n"]
    """The Jacobian's dominant eigenvector, estimated by one power iteration a step."""
    steps: Int[Array, " *S"]
    """How many steps have been tried."""
    limited: Int[Array, " *S"]
    """How many steps in a row were limited by stability."""
    is_stiff: Bool[Array, " *S"]
    """Whether the stiff method has taken over."""


class FlowState(AbstractState):
    """A gradient-flow run between two segments."""

    solver: SolverState
    records: Records

    def vectors(self) -> tuple[PyTree, ...]:
        solver, records = self.solver, self.records
        return solver.weights, solver.slope, solver.dominant, records.last, records.path


Carry: TypeAlias = tuple[FlowState, Int[Array, ""]]
"""A state, and the steps taken in this segment."""


class Control(eqx.Module):
    """Error tolerances, and when the stiff method takes over."""

    rtol: Float[Array, " *S"]
    atol: Float[Array, " *S"]
    most_steps: Float[Array, " *S"]
    """The most stability-limited explicit steps that may lie ahead; beyond, the stiff method."""

    @staticmethod
    def of(stiff_cost: float, rtol: float, atol: float, solver: str) -> Control:
        """From plain numbers, as arrays, so that other values need no new compilation.

        `stiff_cost` is the cost of a stiff step of a whole group, in explicit steps.
        """
        break_even = _STIFF_STEPS * stiff_cost
        most = {"auto": break_even, "explicit": math.inf, "stiff": 0.0}[solver]
        return Control(*jax.device_put((rtol, atol, most)))


def cost_of_stiff_step(model: AbstractAttention, layout: Layout, group: int) -> float:
    """Roughly what a stiff step of one seed costs, in explicit steps of a group.

    Measured on one core for 15 to 528 weights and groups of 1 to 45, in microseconds.
    """
    return (15 + 0.013 * products(model, layout) ** 0.7) / (3 + 0.025 * layout.size * group)


def has_stalled(steps: Array, done: Array, span: Array) -> Array:
    """Whether the time covered in these steps implies that the whole span takes too many."""
    return (steps > STALL_STEPS) & (done * MOST_STEPS < span * steps.astype(done.dtype))


def prolong(problem: Problem[Control], state: FlowState) -> FlowState:
    """Extend a finished run to a grid that begins where its own ended."""
    # The step across the end of the old grid was not taken and is taken now, so the path is that
    # of an uninterrupted run, except that the switch to the stiff method, which depends on how far
    # the end is, may come later.
    return FlowState(solver=state.solver, records=Records.begin(problem, state.records.last))


def advance(problem: Problem[Control], state: FlowState, budget: int) -> tuple[FlowState, int]:
    """Take about `budget` explicit steps or fewer, or stiff ones of the same cost.

    Returns the new state and the steps taken, in explicit ones.
    """
    stiff_cost = cost_of_stiff_step(problem.model, problem.layout, problem.group)
    taken = 0.0
    solvers: tuple[tuple[AbstractFlowSolver, float], ...]
    solvers = ((UnrolledTsit5(), 1.0), (Rodas5P(), stiff_cost))
    for solver, cost in solvers:
        # Each method's program is compiled only once it is needed.
        if (np.asarray(state.solver.is_stiff) == solver.is_stiff).any():
            steps = jax.device_put(max(1, round(budget / cost)))
            if problem.kernel is not None and not solver.is_stiff:
                from saddlescope.dynamics.kernels import _flow

                state, more = _flow.advance(problem, state, steps)
            else:
                state, more = _advance(problem, solver, state, steps)
            taken += int(more) * cost
    return state, round(taken)


def _equation(problem: Problem[Control]) -> diffrax.ODETerm:
    return diffrax.ODETerm(lambda t, y, args: problem.velocity(y, problem.pace))


def _controller(
    problem: Problem[Control], solver: AbstractFlowSolver, least: Array
) -> diffrax.PIDController:
    """The step-size controller; errors below `least` count as `least`."""

    def norm(vector: Float[Array, " n"]) -> Float[Array, ""]:
        """The root mean square over the weights, padding excluded."""
        size = jnp.sqrt((vector**2).sum() / problem.size)
        # A step to NaN is rejected and shortened, like any other with too large an error.
        return jnp.where(jnp.isnan(size), jnp.inf, jnp.maximum(size, least))

    return solver.controller(problem.rule.rtol, problem.rule.atol, norm)


@compiled_in_haste
def begin(problem: Problem[Control], weights: Float[Array, "S n"]) -> FlowState:
    """The state at the first point of the grid."""
    solver = UnrolledTsit5()

    def begin_row(problem: Problem[Control], vector: Float[Array, " n"]) -> SolverState:
        term, controller = _equation(problem), _controller(problem, solver, jnp.asarray(0.0))
        start, end = problem.grid[0], problem.grid[-1]
        step_end, controller_state = controller.init(
            term, start, end, vector, None, None, solver.func, solver.error_order(term)
        )
        slope = solver.init(term, start, step_end, vector, None)
        return SolverState(
            time=start,
            step_end=jnp.asarray(step_end),
            weights=vector,
            slope=slope,
            controller=controller_state,
            dominant=_unit(vector),
            steps=jnp.asarray(0),
            limited=jnp.asarray(0),
            is_stiff=jnp.asarray(problem.rule.most_steps == 0, dtype=bool),
        )

    records = Records.begin(problem, weights)
    return FlowState(solver=over_grouped_rows(begin_row, problem, weights), records=records)


@compiled
def _advance(
    problem: Problem[Control],
    solver: AbstractFlowSolver,
    state: FlowState,
    budget: Int[Array, ""],
) -> tuple[FlowState, Int[Array, ""]]:
    """Advance the seeds whose current method is `solver`."""
    # See `UnrolledTsit5`: a 1 that XLA cannot fold.
    opaque_one = jnp.where(budget > 0, 1.0, 2.0)

    def group(problem: Problem[Control], begun: FlowState) -> Carry:
        def moving(state: FlowState) -> Bool[Array, " S"]:
            return state.records.active(problem) & (state.solver.is_stiff == solver.is_stiff)

        def unfinished(carry: Carry) -> Bool[Array, ""]:
            state, taken = carry
            return (taken < budget) & moving(state).any()

        def step(carry: Carry) -> Carry:
            state, taken = carry
            active = moving(state)
            moved, kept, dense = over_rows(
                lambda row_problem, row: _attempt(row_problem, solver, opaque_one, row),
                problem,
                state.solver,
            )
            reached = jnp.where(active & kept, moved.time, -jnp.inf)
            records = _record_crossed(problem, solver, state, reached, dense)
            records = _record_converged(problem, records, active & kept, moved.weights)
            if records.notes is not None:
                notes = _note(problem, records.notes, state.solver, moved, active & kept)
                records = eqx.tree_at(lambda r: r.notes, records, notes)
            stuck = active & _is_stuck(problem, state.solver, moved, kept)
            records = eqx.tree_at(lambda r: r.failed, records, records.failed | stuck)
            active = active & records.active(problem)
            return FlowState(solver=pick(active, moved, state.solver), records=records), taken + 1

        return jax.lax.while_loop(unfinished, step, (begun, jnp.asarray(0)))

    # Factorising several seeds' matrices together is no faster on a CPU.
    alone = solver.is_stiff and is_on_cpu()
    return map_groups(group, problem, state, 1 if alone else problem.group)


def _is_stuck(
    problem: Problem[Control], before: SolverState, after: SolverState, kept: Bool[Array, " S"]
) -> Bool[Array, " S"]:
    """Whether a step shows that a seed can go no further."""
    # A rejected step must get shorter, which at large times float spacing can prevent.
    shortened = kept | (after.step_end < before.step_end)
    begin, end = problem.grid[..., 0], problem.grid[..., -1]
    stalled = has_stalled(after.steps, after.time - begin, end - begin)
    return ~((after.step_end > after.time) & shortened & ~stalled)


def _attempt(
    problem: Problem[Control], solver: AbstractFlowSolver, opaque_one: Array, at: SolverState
) -> tuple[SolverState, Bool[Array, ""], Dense]:
    """Try one step of one seed: the new state, whether the step was kept, and its interpolant."""
    term, width = _equation(problem), at.step_end - at.time
    args = partial(solve_shifted, problem) if solver.is_stiff else opaque_one
    y1, error, dense, slope, _ = solver.step(
        term, at.time, at.step_end, at.weights, args, at.slope, False
    )
    dominant, stiffness = at.dominant, jnp.zeros_like(width)
    if not solver.is_stiff:
        dominant, rate = _power_iteration(term, y1, slope, at.dominant)
        # A step that overflows is rejected for its error.
        stiffness = width * jnp.where(jnp.isfinite(rate), rate, 0.0)
    least = jnp.maximum(LEAST_ERROR, (stiffness / STABILITY_SCALE) ** 5)
    controller = _controller(problem, solver, least)
    kept, time, step_end, _, controller_state, _ = controller.adapt_step_size(
        at.time, at.step_end, at.weights, y1, None, error, solver.error_order(term), at.controller
    )
    limited = jnp.where(stiffness > NEAR_STABILITY, at.limited + 1, 0)
    ahead = (problem.grid[-1] - time) / (step_end - time)
    switches = (limited >= LIMITED_STEPS) & (ahead > problem.rule.most_steps)
    moved = SolverState(
        time=jnp.asarray(time),
        step_end=jnp.asarray(step_end),
        weights=jnp.where(kept, y1, at.weights),
        slope=jnp.where(kept, slope, at.slope),
        controller=controller_state,
        dominant=jnp.where(kept, dominant, at.dominant),
        steps=at.steps + 1,
        limited=limited,
        is_stiff=at.is_stiff | switches,
    )
    return moved, jnp.asarray(kept), dense


def _note(
    problem: Problem[Control],
    notes: Notes,
    before: SolverState,
    after: SolverState,
    kept: Bool[Array, " S"],
) -> Notes:
    """Note what a step has crossed; the loss falls at twice the squared norm of the slope."""

    def fall(slope: Float[Array, "S n"]) -> Float[Array, " S"]:
        return -2 * (slope**2).sum(-1) / problem.pace

    falls = fall(before.slope), fall(after.slope)
    return notes.after_step(problem, kept, (before.time, after.time), after.weights, falls)


def _power_iteration(
    term: diffrax.ODETerm,
    at: Float[Array, " n"],
    slope: Float[Array, " n"],
    direction: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """One power iteration with the Jacobian, by finite difference: the direction and |λ|."""
    size = _DISPLACEMENT * jnp.sqrt((at**2).sum())
    change = (term.vf(0.0, at + size * direction, None) - slope) / jnp.where(size > 0, size, 1.0)
    return _unit(change), jnp.sqrt((change**2).sum())


def _unit(vector: Float[Array, " n"]) -> Float[Array, " n"]:
    """A vector scaled to unit length without overflow; zero stays zero."""
    largest = jnp.abs(vector).max()
    scaled = vector / jnp.where(largest > 0, largest, 1.0)
    return scaled / jnp.sqrt(jnp.maximum((scaled**2).sum(), 1.0))


def _record_converged(
    problem: Problem, records: Records, moved: Bool[Array, " S"], weights: Float[Array, "S n"]
) -> Records:
    """Mark seeds that converged between two records; they rest from the next one on."""
    resting = moved & records.active(problem)
    resting &= problem.losses(weights) <= problem.threshold
    return jax.lax.cond(
        resting.any(), lambda at: at.write(problem, resting, weights), lambda at: at, records
    )


def _record_crossed(
    problem: Problem[Control],
    solver: AbstractFlowSolver,
    state: FlowState,
    reached: Float[Array, " S"],
    dense: Dense,
) -> Records:
    """Record all grid points that each seed's step has passed, by interpolation."""

    def due(records: Records) -> Bool[Array, " S"]:
        return records.active(problem) & (records.due <= reached)

    def write(records: Records) -> Records:
        def inside(
            start: Float[Array, ""], end: Float[Array, ""], at: Float[Array, ""], dense: Dense
        ) -> Float[Array, " n"]:
            weights: Float[Array, " n"]
            weights = type(solver).interpolation_cls(t0=start, t1=end, **dense).evaluate(at)
            return weights

        weights = jax.vmap(inside)(state.solver.time, reached, records.due, dense)
        return records.write(problem, due(records), weights)

    def write_all(records: Records) -> Records:
        return jax.lax.while_loop(lambda at: due(at).any(), write, records)

    # Few steps cross a grid point; the others skip the loop.
    return jax.lax.cond(due(state.records).any(), write_all, lambda at: at, state.records)
