"""Gradient flow, integrated by diffrax in segments that carry the whole state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.checks import AnyArray, FloatArray, check_share, number
from saddlescope.dynamics.ensemble import map_groups, over_seeds, pick
from saddlescope.dynamics.methods.base import AbstractMethod, Problem, Records
from saddlescope.dynamics.methods.solver import UnrolledTsit5, interpolate


class _Solver(eqx.Module):
    """Where each seed's integrator stands: before the step from `time` to `step_end`."""

    time: Any
    step_end: Any
    weights: Any
    slope: Any
    controller: Any


class FlowState(eqx.Module):
    """A run of gradient flow between two segments."""

    solver: _Solver
    records: Records


@dataclass(frozen=True)
class GradientFlow(AbstractMethod):
    r"""Gradient flow $\tau\dot w = -\frac12\partial L/\partial w$ with τ = 1, to time `until`.

    An adaptive fifth-order method keeps the local error within `rtol` and `atol`. With
    `converged=1e-9` a seed rests as soon as a recorded loss has come that close to the least
    possible one, as a share of what there was to gain; its later records repeat that state.

    >>> GradientFlow(until=20_000).rtol
    1e-08
    """

    until: float
    rtol: float = 1e-8
    atol: float = 1e-11
    converged: float | None = None

    def __post_init__(self) -> None:
        for field in ("until", "rtol", "atol", "converged"):
            value = getattr(self, field)
            if value is not None or field != "converged":
                object.__setattr__(self, field, number(field, value, above=0.0))
        check_share("converged", self.converged)

    def tightened(self, factor: float) -> GradientFlow:
        """The same flow at tolerances divided by `factor`."""
        return replace(self, rtol=self.rtol / factor, atol=self.atol / factor)

    def shortened(self, end: float) -> GradientFlow:
        return replace(self, until=end, converged=None)

    @property
    def end(self) -> float:
        return self.until

    @property
    def counts_steps(self) -> bool:
        return False

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return np.asarray(clock, dtype=np.float64)

    def begin(self, problem: Problem, weights: Float[Array, "S n"]) -> FlowState:
        return _begin(problem, self._tolerances, weights)

    def go_on(self, problem: Problem, state: FlowState) -> FlowState:
        # The step that crossed the end of the old grid was not taken: it is taken now, and the
        # path is that of a run that never stopped.
        return FlowState(state.solver, Records.begin(problem, state.records.last))

    def advance(self, problem: Problem, state: FlowState, budget: int) -> tuple[FlowState, int]:
        moved, taken = _advance(problem, self._tolerances, state, jnp.asarray(budget))
        return moved, int(taken)

    def clock(self, state: FlowState) -> AnyArray:
        return np.asarray(state.solver.time)

    def failure(self, problem: Problem, state: FlowState, seed: int) -> str:
        return (
            f"no step was small enough at time {float(state.solver.time[seed]):.6g}: the weights "
            "are too large for float64; try a smaller init_scale"
        )

    @property
    def _tolerances(self) -> tuple[Any, Any, Any]:
        # The last one is the solver's opaque 1.
        return jnp.asarray(self.rtol), jnp.asarray(self.atol), jnp.asarray(1.0)


def _equation(problem: Problem) -> diffrax.ODETerm[Any]:
    return diffrax.ODETerm(lambda t, y, args: problem.velocity(y, problem.pace))


def _controller(tolerances: tuple[Any, Any, Any]) -> Any:
    # These coefficients keep the step steady where stability, not accuracy, bounds it: in the
    # long rest at a fixed point.
    rtol, atol, _ = tolerances
    return diffrax.PIDController(rtol=rtol, atol=atol, pcoeff=0.4, icoeff=0.2, safety=0.95)


@eqx.filter_jit
def _begin(problem: Problem, tolerances: Any, weights: Float[Array, "S n"]) -> FlowState:
    solver, term, controller = UnrolledTsit5(), _equation(problem), _controller(tolerances)
    start, end = problem.grid[0], problem.grid[-1]

    def one(vector: Float[Array, " n"]) -> _Solver:
        step_end, memory = controller.init(
            term, start, end, vector, None, None, solver.func, solver.error_order(term)
        )
        slope = solver.init(term, start, step_end, vector, None)
        return _Solver(start, step_end, vector, slope, memory)

    return FlowState(jax.vmap(one)(weights), Records.begin(problem, weights))


@eqx.filter_jit
def _advance(problem: Problem, tolerances: Any, state: FlowState, budget: Any) -> tuple[Any, Any]:
    attempt = over_seeds(lambda at: _attempt(problem, tolerances, at), problem.group)

    def unfinished(carry: Any) -> Any:
        state, taken = carry
        return (taken < budget) & state.records.active(problem).any()

    def step(carry: Any) -> Any:
        state, taken = carry
        active = state.records.active(problem)
        moved, kept, dense = attempt(state.solver)
        reached = jnp.where(active & kept, moved.time, -jnp.inf)
        records = _record_crossed(problem, state, reached, dense)
        stuck = active & ~(moved.step_end > moved.time)
        records = eqx.tree_at(lambda r: r.failed, records, records.failed | stuck)
        solver = pick(active & records.active(problem), moved, state.solver)
        return FlowState(solver, records), taken + 1

    def group(at: FlowState) -> Any:
        return jax.lax.while_loop(unfinished, step, (at, jnp.asarray(0)))

    return map_groups(group, state, problem.group)


def _attempt(problem: Problem, tolerances: Any, at: _Solver) -> tuple[_Solver, Any, Any]:
    """One step of one seed: where it leads (back, if refused), whether kept, its interpolant."""
    solver, term, controller = UnrolledTsit5(), _equation(problem), _controller(tolerances)
    y1, error, dense, slope, _ = solver.step(
        term, at.time, at.step_end, at.weights, tolerances[2], at.slope, False
    )
    kept, time, step_end, _, memory, _ = controller.adapt_step_size(
        at.time, at.step_end, at.weights, y1, None, error, solver.error_order(term), at.controller
    )
    moved = _Solver(
        time=time,
        step_end=step_end,
        weights=jnp.where(kept, y1, at.weights),
        slope=jnp.where(kept, slope, at.slope),
        controller=memory,
    )
    return moved, kept, dense


def _record_crossed(problem: Problem, state: FlowState, reached: Any, dense: Any) -> Records:
    """Record all grid points up to where each seed's step has reached, by interpolation."""

    def target(records: Records) -> Any:
        return problem.grid[jnp.minimum(records.index, problem.grid.shape[0] - 1)]

    def due(records: Records) -> Any:
        return records.active(problem) & (target(records) <= reached)

    def write(records: Records) -> Records:
        points = target(records)
        weights = jax.vmap(interpolate)(state.solver.time, reached, points, dense)
        return records.write(problem, due(records), weights)

    def write_all(records: Records) -> Records:
        return jax.lax.while_loop(lambda at: due(at).any(), write, records)

    # Few steps cross a point of the grid; the others skip the loop altogether.
    return jax.lax.cond(due(state.records).any(), write_all, lambda at: at, state.records)
