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
from saddlescope.dynamics.methods._ensemble import is_on_processor, map_groups, over_rows, pick
from saddlescope.dynamics.methods._jacobian import products, solve_shifted
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Notes
from saddlescope.dynamics.methods._problem import AbstractState, Problem, Records
from saddlescope.dynamics.methods._rosenbrock import Rodas5P
from saddlescope.dynamics.methods._solver import AbstractFlowSolver, Dense, UnrolledTsit5
from saddlescope.running.programs import compiled, compiled_in_haste

# The explicit method is stable to h|λ| = 3.5. The controller, which aims at an error of .28, takes
# (h|λ|/4.2)⁵ for one, so that its steps stay within 3.25: longer ones would amplify roundings until
# they are as large as the tolerances. Where stability bounds the steps, they are near there.
STABLE, NEAR = 4.2, 2.0
# Errors below this share of the tolerances are near to rounding: a step that hung on one would not
# be the same on another machine.
LEAST_ERROR = 1e-3
# A seed is given up where, after this many steps, its pace says that the whole way takes more than
# those: days of computing. Where weights are so large, or cancel so closely, that float64 cannot
# tell the force apart from rounding, steps stay short for ever.
PATIENT_STEPS, HOPELESS_STEPS = 50_000, 1e11
# How far along a direction, as a share of the weights, the slope is looked at for its rate.
_ASIDE = 1e-5
# So many steps in a row near there are no accident.
BOUND_STEPS = 20
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
    steepest: Float[Array, "*S n"]
    """The direction in which the slope changes most, by the power method as it goes."""
    steps: Int[Array, " *S"]
    """How many steps it has tried."""
    bound: Int[Array, " *S"]
    """How many steps in a row stability has bounded."""
    is_stiff: Bool[Array, " *S"]
    """Whether the method for stiff equations carries it on."""


class FlowState(AbstractState):
    """A run of gradient flow between two segments."""

    solver: Solver
    records: Records

    def vectors(self) -> tuple[PyTree, ...]:
        solver, records = self.solver, self.records
        return solver.weights, solver.slope, solver.steepest, records.last, records.path


Carry: TypeAlias = tuple[FlowState, Int[Array, ""]]
"""A state, and the steps taken since the segment began."""


class Control(eqx.Module):
    """What a step may be off by, and which method takes it."""

    rtol: Float[Array, " *S"]
    atol: Float[Array, " *S"]
    most_steps: Float[Array, " *S"]
    """Explicit steps that may lie ahead where stability bounds them; with more, stiff ones do."""

    @staticmethod
    def of(stiff_cost: float, rtol: float, atol: float, solver: str) -> Control:
        """As arrays: nothing is compiled anew for other ones.

        `stiff_cost` is that of a stiff step of a whole group, in explicit ones.
        """
        enough = _STIFF_STEPS * stiff_cost
        most = {"auto": enough, "explicit": math.inf, "stiff": 0.0}[solver]
        return Control(*jax.device_put((rtol, atol, most)))


def cost_of_stiff_step(model: AbstractAttention, layout: Layout, group: int) -> float:
    """What a stiff step of one seed costs, in explicit steps of a group; roughly.

    Measured on one core for 15 to 528 weights and groups of 1 to 45, in microseconds.
    """
    return (15 + 0.013 * products(model, layout) ** 0.7) / (3 + 0.025 * layout.size * group)


def is_hopeless(steps: Array, done: Array, whole: Array) -> Array:
    """Whether so many steps for what is done of the whole say that it never ends."""
    return (steps > PATIENT_STEPS) & (done * HOPELESS_STEPS < whole * steps.astype(done.dtype))


def prolong(problem: Problem[Control], state: FlowState) -> FlowState:
    """The state of a finished run, made ready for a grid that begins where its own ended."""
    # The step that crossed the end of the old grid was not taken: it is taken now, and the path is
    # that of a run that never stopped, but that a rest may turn stiff later: where it turns hangs
    # on how far its end is.
    return FlowState(solver=state.solver, records=Records.begin(problem, state.records.last))


def advance(problem: Problem[Control], state: FlowState, budget: int) -> tuple[FlowState, int]:
    """Take at most about `budget` explicit steps, or what costs as much; steps taken, as such."""
    stiff_cost = cost_of_stiff_step(problem.model, problem.layout, problem.group)
    taken = 0.0
    solvers: tuple[tuple[AbstractFlowSolver, float], ...]
    solvers = ((UnrolledTsit5(), 1.0), (Rodas5P(), stiff_cost))
    for solver, cost in solvers:
        # The other method's program is compiled when it is needed.
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
    """What chooses steps, by errors of `least` or more."""

    def norm(vector: Float[Array, " n"]) -> Float[Array, ""]:
        """The root mean square, over the weights that do not only pad."""
        size = jnp.sqrt((vector**2).sum() / problem.size)
        # A step that leads to no number is refused and shortened, as any that errs too much.
        return jnp.where(jnp.isnan(size), jnp.inf, jnp.maximum(size, least))

    return solver.controller(problem.rule.rtol, problem.rule.atol, norm)


@compiled_in_haste
def begin(problem: Problem[Control], weights: Float[Array, "S n"]) -> FlowState:
    """The state at the first point of the grid."""
    solver = UnrolledTsit5()

    def one(problem: Problem[Control], vector: Float[Array, " n"]) -> Solver:
        term, controller = _equation(problem), _controller(problem, solver, jnp.asarray(0.0))
        start, end = problem.grid[0], problem.grid[-1]
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
            steepest=_unit(vector),
            steps=jnp.asarray(0),
            bound=jnp.asarray(0),
            is_stiff=jnp.asarray(problem.rule.most_steps == 0, dtype=bool),
        )

    records = Records.begin(problem, weights)
    return FlowState(solver=over_rows(one, problem, weights), records=records)


@compiled
def _advance(
    problem: Problem[Control],
    solver: AbstractFlowSolver,
    state: FlowState,
    budget: Int[Array, ""],
) -> tuple[FlowState, Int[Array, ""]]:
    """Carry on the seeds whose method is `solver`."""
    # The explicit method's 1 that XLA cannot see through.
    one = jnp.where(budget > 0, 1.0, 2.0)

    def group(problem: Problem[Control], at: FlowState) -> Carry:
        def moving(state: FlowState) -> Bool[Array, " S"]:
            return state.records.active(problem) & (state.solver.is_stiff == solver.is_stiff)

        def unfinished(carry: Carry) -> Bool[Array, ""]:
            state, taken = carry
            return (taken < budget) & moving(state).any()

        def step(carry: Carry) -> Carry:
            state, taken = carry
            active = moving(state)
            moved, kept, dense = over_rows(
                lambda own, at: _attempt(own, solver, one, at), problem, state.solver
            )
            reached = jnp.where(active & kept, moved.time, -jnp.inf)
            records = _record_crossed(problem, solver, state, reached, dense)
            records = _record_converged(problem, records, active & kept, moved.weights)
            if records.notes is not None:
                notes = _note(problem, records.notes, state.solver, moved, active & kept)
                records = eqx.tree_at(lambda r: r.notes, records, notes)
            # A step that is refused must be shortened, which times far on are too coarse for.
            shortened = kept | (moved.step_end < state.solver.step_end)
            begin, end = problem.grid[..., 0], problem.grid[..., -1]
            hopeless = is_hopeless(moved.steps, moved.time - begin, end - begin)
            stuck = active & ~((moved.step_end > moved.time) & shortened & ~hopeless)
            records = eqx.tree_at(lambda r: r.failed, records, records.failed | stuck)
            active = active & records.active(problem)
            return FlowState(solver=pick(active, moved, state.solver), records=records), taken + 1

        return jax.lax.while_loop(unfinished, step, (at, jnp.asarray(0)))

    # On a CPU, matrices of several seeds are not factored faster together.
    alone = solver.is_stiff and is_on_processor()
    return map_groups(group, problem, state, 1 if alone else problem.group)


def _attempt(
    problem: Problem[Control], solver: AbstractFlowSolver, one: Array, at: Solver
) -> tuple[Solver, Bool[Array, ""], Dense]:
    """One step of one seed: where it leads (back, if refused), whether kept, its interpolant."""
    term, width = _equation(problem), at.step_end - at.time
    args = partial(solve_shifted, problem) if solver.is_stiff else one
    y1, error, dense, slope, _ = solver.step(
        term, at.time, at.step_end, at.weights, args, at.slope, False
    )
    steepest, stretch = at.steepest, jnp.zeros_like(width)
    if not solver.is_stiff:
        steepest, rate = _steepest(term, y1, slope, at.steepest)
        # A step into what float64 does not hold is refused for its error.
        stretch = width * jnp.where(jnp.isfinite(rate), rate, 0.0)
    least = jnp.maximum(LEAST_ERROR, (stretch / STABLE) ** 5)
    controller = _controller(problem, solver, least)
    kept, time, step_end, _, memory, _ = controller.adapt_step_size(
        at.time, at.step_end, at.weights, y1, None, error, solver.error_order(term), at.controller
    )
    bound = jnp.where(stretch > NEAR, at.bound + 1, 0)
    ahead = (problem.grid[-1] - time) / (step_end - time)
    turns = (bound >= BOUND_STEPS) & (ahead > problem.rule.most_steps)
    moved = Solver(
        time=jnp.asarray(time),
        step_end=jnp.asarray(step_end),
        weights=jnp.where(kept, y1, at.weights),
        slope=jnp.where(kept, slope, at.slope),
        controller=memory,
        steepest=jnp.where(kept, steepest, at.steepest),
        steps=at.steps + 1,
        bound=bound,
        is_stiff=at.is_stiff | turns,
    )
    return moved, jnp.asarray(kept), dense


def _note(
    problem: Problem[Control], notes: Notes, at: Solver, moved: Solver, kept: Bool[Array, " S"]
) -> Notes:
    """Note what a step has passed; the loss falls by twice the square of the slope."""

    def fall(slope: Float[Array, "S n"]) -> Float[Array, " S"]:
        return -2 * (slope**2).sum(-1) / problem.pace

    falls = fall(at.slope), fall(moved.slope)
    return notes.after_step(problem, kept, (at.time, moved.time), moved.weights, falls)


def _steepest(
    term: diffrax.ODETerm,
    at: Float[Array, " n"],
    slope: Float[Array, " n"],
    direction: Float[Array, " n"],
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """A step of the power method: how the slope changes along a direction, and its rate |λ|."""
    aside = _ASIDE * jnp.sqrt((at**2).sum())
    change = (term.vf(0.0, at + aside * direction, None) - slope) / jnp.where(aside > 0, aside, 1.0)
    return _unit(change), jnp.sqrt((change**2).sum())


def _unit(vector: Float[Array, " n"]) -> Float[Array, " n"]:
    """A vector of length one along another, of any size; zero along zero."""
    largest = jnp.abs(vector).max()
    scaled = vector / jnp.where(largest > 0, largest, 1.0)
    return scaled / jnp.sqrt(jnp.maximum((scaled**2).sum(), 1.0))


def _record_converged(
    problem: Problem, records: Records, moved: Bool[Array, " S"], weights: Float[Array, "S n"]
) -> Records:
    """A seed that has come to rest between two records rests from the next one on."""
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
    """Record all grid points up to where each seed's step has reached, by interpolation."""

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

    # Few steps cross a point of the grid; the others skip the loop altogether.
    return jax.lax.cond(due(state.records).any(), write_all, lambda at: at, state.records)
