"""Gradient descent, whole segments of steps in one compiled loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlescope.attention.base import Weights
from saddlescope.checks import AnyArray, FloatArray, check_share, number, whole_number
from saddlescope.dynamics.ensemble import map_groups, over_seeds
from saddlescope.dynamics.method import AbstractMethod, Problem, Records

# Iterations of the power method behind the suggested learning rate.
_POWER_ITERATIONS = 200


class DescentState(eqx.Module):
    """A run of gradient descent between two segments."""

    step: Any
    weights: Any
    finite: Any
    """The weights when they were last seen finite, [S, n], and ..."""
    finite_step: Any
    """... the step at which that was, [S]."""
    start: Any
    """The weights with which the run began, [S, n]."""
    records: Records


@dataclass(frozen=True)
class GradientDescent(AbstractMethod):
    r"""Gradient descent $w \leftarrow w - \eta\,\partial L/\partial w$ for a number of `steps`.

    One step is $2\eta$ of flow time (section 0). `converged` as in `GradientFlow`.

    >>> GradientDescent(learning_rate=.02, steps=10_000).flow_time(np.array([10_000]), 1.0)
    array([400.])
    """

    learning_rate: float
    steps: int
    converged: float | None = None

    def __post_init__(self) -> None:
        rate = number("learning_rate", self.learning_rate, above=0.0)
        object.__setattr__(self, "learning_rate", rate)
        object.__setattr__(self, "steps", whole_number("steps", self.steps))
        if self.converged is not None:
            object.__setattr__(self, "converged", number("converged", self.converged, above=0.0))
        check_share("converged", self.converged)

    def shortened(self, end: float) -> GradientDescent:
        return replace(self, steps=int(end), converged=None)

    @property
    def end(self) -> float:
        return float(self.steps)

    @property
    def counts_steps(self) -> bool:
        return True

    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        return 2 * self.learning_rate * unit * np.asarray(clock, dtype=np.float64)

    def begin(self, problem: Problem, weights: Float[Array, "S n"]) -> DescentState:
        steps = jnp.full(weights.shape[0], problem.grid[0], dtype=int)
        records = Records.begin(problem, weights)
        return DescentState(steps, weights, weights, steps, weights, records)

    def go_on(self, problem: Problem, state: DescentState) -> DescentState:
        return self.begin(problem, state.records.last)

    def advance(
        self, problem: Problem, state: DescentState, budget: int
    ) -> tuple[DescentState, int]:
        moved, taken = _advance(
            problem, jnp.asarray(self.learning_rate), state, jnp.asarray(budget)
        )
        return moved, int(taken)

    def clock(self, state: DescentState) -> AnyArray:
        return np.asarray(state.step)

    def failure(self, problem: Problem, state: DescentState, seed: int) -> str:
        lost = _steps_to_overflow(problem, jnp.asarray(self.learning_rate), state.finite[seed])
        step = int(state.finite_step[seed]) + int(lost)
        return f"diverged at step {step}; try learning_rate {self._cure(problem, state, seed):.2g}"

    def _cure(self, problem: Problem, state: DescentState, seed: int) -> float:
        """Half the largest rate that is stable at the start and at the least-norm minimum."""
        model, places = problem.model, [state.start[seed]]
        best = problem.risk.best_map(model.capacity(problem.dimension))
        if best is not None:
            weights = model.realise(best / float(problem.risk.gain))
            places.append(problem.layout.pack(weights, jnp))
        steepest = max(float(_steepest_curvature(problem, place)) for place in places)
        return min(1 / steepest, self.learning_rate / 2) if steepest > 0 else self.learning_rate / 2


@eqx.filter_jit
def _advance(problem: Problem, rate: Any, state: DescentState, budget: Any) -> tuple[Any, Any]:
    layout, model = problem.layout, problem.model

    def move_one(weights: Weights) -> Weights:
        moved = problem.risk.velocity(model, weights, 2 * rate)
        return {name: weights[name] + moved[name] for name in weights}

    move = over_seeds(move_one, problem.group)
    points = problem.grid.shape[0]

    def group(at: DescentState) -> Any:
        def unfinished(carry: Any) -> Any:
            state, taken = carry
            return (taken < budget) & state.records.active(problem).any()

        def leg(carry: Any) -> Any:
            state, taken = carry
            active = state.records.active(problem)
            # The seeds that go on are in step with one another.
            step = jnp.where(active, state.step, 0).max()
            index = jnp.where(active, state.records.index, 0).max()
            target = problem.grid[jnp.minimum(index, points - 1)]
            count = jnp.minimum(target - step, budget - taken)
            moved = jax.lax.fori_loop(
                0, count, lambda _, weights: move(weights), layout.unpack(state.weights)
            )
            weights = jnp.where(active[:, None], layout.pack(moved, jnp), state.weights)
            sound = active & jnp.isfinite(weights).all(-1)
            steps = state.step + jnp.where(active, count, 0)
            records = state.records.write(problem, active & (step + count == target), weights)
            return DescentState(
                step=steps,
                weights=weights,
                finite=jnp.where(sound[:, None], weights, state.finite),
                finite_step=jnp.where(sound, steps, state.finite_step),
                start=state.start,
                records=records,
            ), taken + count

        return jax.lax.while_loop(unfinished, leg, (at, jnp.asarray(0)))

    return map_groups(group, state, problem.group)


@eqx.filter_jit
def _steps_to_overflow(problem: Problem, rate: Any, vector: Float[Array, " n"]) -> Any:
    """The number of steps after which finite weights overflow."""

    def step(carry: Any) -> Any:
        vector, count = carry
        return vector + problem.velocity(vector, 2 * rate), count + 1

    return jax.lax.while_loop(
        lambda carry: jnp.isfinite(carry[0]).all(), step, (vector, jnp.asarray(0))
    )[1]


@eqx.filter_jit
def _steepest_curvature(problem: Problem, vector: Float[Array, " n"]) -> Any:
    """The largest eigenvalue of the loss's Hessian, by the power method."""

    def iterate(_: Any, direction: Any) -> Any:
        image = jax.jvp(problem.velocity, (vector,), (direction,))[1]
        return image / jnp.linalg.norm(image)

    # Every direction has a share in it, and none is an eigenvector by accident.
    start = jnp.cos(jnp.arange(vector.shape[0], dtype=vector.dtype))
    direction = jax.lax.fori_loop(0, _POWER_ITERATIONS, iterate, start / jnp.linalg.norm(start))
    image = jax.jvp(problem.velocity, (vector,), (direction,))[1]
    return 2 * jnp.abs((direction * image).sum())
