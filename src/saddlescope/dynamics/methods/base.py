"""What a training method offers to `train`: a state that advances in segments."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Real

from saddlescope.attention.base import AbstractAttention
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics.layout import Layout
from saddlescope.dynamics.risk import AbstractRisk


class Problem(eqx.Module):
    """One run to be computed. What may change without compiling anew is an array in it."""

    model: AbstractAttention = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    group: int = eqx.field(static=True)
    """How many seeds advance together."""
    keep_weights: bool = eqx.field(static=True)
    seeds: Any
    """The number of each seed, [S]."""
    sampler: Any
    """What draws fresh prompts, None where no step needs them."""
    risk: AbstractRisk
    grid: Real[Array, " T"]
    """When to record, on the method's own clock; the first entry is where the run begins."""
    pace: Float[Array, ""]
    """Units of the model's own time in one unit of flow time."""
    threshold: Float[Array, ""]
    """A seed whose recorded loss is at or below this has converged (minus infinity: never)."""

    def loss(self, vector: Float[Array, " n"]) -> Float[Array, ""]:
        """The loss of flat weights."""
        return self.risk.loss(self.model, self.layout.unpack(vector))

    def velocity(self, vector: Float[Array, " n"], rate: Any = 1.0) -> Float[Array, " n"]:
        r"""$-\frac12\partial L/\partial w$ of flat weights, times `rate`."""
        moved = self.risk.velocity(self.model, self.layout.unpack(vector), rate)
        packed: Float[Array, " n"] = self.layout.pack(moved, jnp)
        return packed

    @property
    def dimension(self) -> int:
        """D."""
        return self.layout.dimension


class Records(eqx.Module):
    """What every method's state keeps: the records so far and where each seed stands in them."""

    index: Any
    """The next point of the grid to be recorded, [S]."""
    last: Any
    """The weights at the latest record, [S, n]."""
    converged: Any
    """Whether a seed rests, [S]."""
    failed: Any
    """Whether a seed can go no further, [S]."""
    loss: Any
    """[S, T], NaN where not yet recorded."""
    path: Any
    """The weights at every record, [S, T, n]; [S, 0, n] where they are not kept."""

    @classmethod
    @eqx.filter_jit
    def begin(cls, problem: Problem, weights: Float[Array, "S n"]) -> Records:
        """The first point of the grid recorded, the others empty."""
        seeds, points = weights.shape[0], problem.grid.shape[0]
        path = jnp.full((seeds, points if problem.keep_weights else 0, weights.shape[1]), jnp.nan)
        loss = jax.vmap(problem.loss)(weights)
        return cls(
            index=jnp.ones(seeds, dtype=int),
            last=weights,
            converged=loss <= problem.threshold,
            failed=~jnp.isfinite(loss),
            loss=jnp.full((seeds, points), jnp.nan).at[:, 0].set(loss),
            path=path.at[:, 0].set(weights) if problem.keep_weights else path,
        )

    def write(self, problem: Problem, due: Any, weights: Float[Array, "S n"]) -> Records:
        """Record the weights of the seeds in `due` at the next point of their grid."""
        seeds = jnp.arange(due.shape[0])
        loss = jax.vmap(problem.loss)(weights)
        # A seed that is not due writes beyond the end, which is dropped.
        place = jnp.where(due, self.index, problem.grid.shape[0])
        path = self.path
        if problem.keep_weights:
            path = path.at[seeds, place].set(weights, mode="drop", unique_indices=True)
        return Records(
            index=self.index + due.astype(self.index.dtype),
            last=jnp.where(due[:, None], weights, self.last),
            converged=self.converged | (due & (loss <= problem.threshold)),
            failed=self.failed | (due & ~jnp.isfinite(loss)),
            loss=self.loss.at[seeds, place].set(loss, mode="drop", unique_indices=True),
            path=path,
        )

    def active(self, problem: Problem) -> Any:
        """The seeds that have further to go, [S]."""
        return (self.index < problem.grid.shape[0]) & ~self.converged & ~self.failed


class AbstractMethod(abc.ABC):
    """Gradient flow, gradient descent, …: how weights move.

    A state is a tree of arrays, the seeds along the first axis of each, with the field `records`.
    """

    converged: float | None

    @property
    @abc.abstractmethod
    def end(self) -> float:
        """The last time or step."""

    @property
    @abc.abstractmethod
    def counts_steps(self) -> bool:
        """Whether the method's own clock is the step, rather than the flow time."""

    @property
    def is_stochastic(self) -> bool:
        """Whether steps are taken on freshly drawn prompts."""
        return False

    @property
    def is_autonomous(self) -> bool:
        """Whether the weights alone say how they move on, so that a path can be followed again."""
        return self.has_flow_time and not self.is_stochastic

    @property
    def has_flow_time(self) -> bool:
        """Whether the clock can be told in flow time, so that theory can predict times."""
        return True

    @abc.abstractmethod
    def flow_time(self, clock: AnyArray, unit: float) -> FloatArray:
        """Flow time (τ = 1) since the start; `unit` as in `AbstractAttention.time_unit`."""

    @abc.abstractmethod
    def shortened(self, end: float) -> AbstractMethod:
        """The same method, to another last time or step, without resting at convergence."""

    @abc.abstractmethod
    def begin(self, problem: Problem, weights: Float[Array, "S n"]) -> Any:
        """The state at the first point of the grid."""

    @abc.abstractmethod
    def go_on(self, problem: Problem, state: Any) -> Any:
        """The state of a finished run, made ready for a grid that begins where its own ended."""

    @abc.abstractmethod
    def advance(self, problem: Problem, state: Any, budget: int) -> tuple[Any, int]:
        """Advance by at most about `budget` steps; the new state and the steps taken."""

    @abc.abstractmethod
    def clock(self, state: Any) -> AnyArray:
        """How far each seed has come on the method's own clock, [S]."""

    @abc.abstractmethod
    def failure(self, problem: Problem, state: Any, seed: int) -> str:
        """What happened to a failed seed, and the cure, in one line."""
