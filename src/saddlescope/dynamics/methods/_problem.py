"""One run to be computed, and what every method records of it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Real

from saddlescope.attention import AbstractAttention
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.risk import AbstractRisk
from saddlescope.running.programs import compiled
from saddlescope.task.samplers import AbstractSampler


class Problem(eqx.Module):
    """One run to be computed. What may change without compiling anew is an array in it."""

    model: AbstractAttention = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    group: int = eqx.field(static=True)
    """How many seeds advance together."""
    keep_weights: bool = eqx.field(static=True)
    seeds: Int[Array, " S"]
    """The number of each seed, [S]."""
    sampler: AbstractSampler | None
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

    def velocity(
        self, vector: Float[Array, " n"], rate: Float[Array, ""] | float = 1.0
    ) -> Float[Array, " n"]:
        r"""$-\frac12\partial L/\partial w$ of flat weights, times `rate`."""
        moved = self.risk.velocity(self.model, self.layout.unpack(vector), rate)
        packed: Float[Array, " n"] = self.layout.pack(moved)
        return packed

    @property
    def dimension(self) -> int:
        """D."""
        return self.layout.dimension


class Records(eqx.Module):
    """What every method's state keeps: the records so far and where each seed stands in them."""

    index: Int[Array, " S"]
    """The next point of the grid to be recorded, [S]."""
    last: Float[Array, "S n"]
    """The weights at the latest record, [S, n]."""
    converged: Bool[Array, " S"]
    """Whether a seed rests, [S]."""
    failed: Bool[Array, " S"]
    """Whether a seed can go no further, [S]."""
    loss: Float[Array, "S T"]
    """[S, T], NaN where not yet recorded."""
    path: Float[Array, "S K n"]
    """The weights at every record, [S, T, n]; [S, 0, n] where they are not kept."""

    @classmethod
    @compiled
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

    def write(
        self, problem: Problem, due: Bool[Array, " S"], weights: Float[Array, "S n"]
    ) -> Records:
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

    def active(self, problem: Problem) -> Bool[Array, " S"]:
        """The seeds that have further to go, [S]."""
        return (self.index < problem.grid.shape[0]) & ~self.converged & ~self.failed


class AbstractState(eqx.Module):
    """A run between two segments: a tree of arrays, the seeds along the first axis of each."""

    records: eqx.AbstractVar[Records]
