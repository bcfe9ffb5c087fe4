"""What is to be computed, of one setting or of a row each, and what every method records of it."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Real

from saddlescope.attention import AbstractAttention
from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.dynamics.methods._ensemble import over_rows
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks, Notes
from saddlescope.risk import AbstractRisk
from saddlescope.running.programs import compiled_in_haste
from saddlescope.task.samplers import AbstractSampler

Rule = TypeVar("Rule", bound=eqx.Module)
State = TypeVar("State", bound="AbstractState")


class Problem(eqx.Module, Generic[Rule]):
    """What is to be computed. What may change without compiling anew is an array in it.

    It is the same for all rows of an ensemble, or, where it `has_rows`, every array in it has the
    rows along its first axis, and a row is a seed of a setting of its own.
    """

    model: AbstractAttention = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    group: int = eqx.field(static=True)
    """How many rows advance together."""
    keep_weights: bool = eqx.field(static=True)
    has_rows: bool = eqx.field(static=True)
    kernel: Kernel | None = eqx.field(static=True)
    """The GPU kernel that carries it out, None where XLA does."""
    rule: Rule
    """How the weights move: what a method makes of its fields."""
    sampler: AbstractSampler | None
    """What draws fresh prompts, None where no step needs them."""
    risk: AbstractRisk
    grid: Real[Array, "*S T"]
    """When to record, on the method's own clock; the first entry is where the run begins."""
    points: Int[Array, " *S"]
    """How many points the grid has; what comes after them repeats its end."""
    size: Float[Array, " *S"]
    """The number of weights, without those that only pad it; means divide by it."""
    pace: Float[Array, " *S"]
    """Units of the model's own time in one unit of flow time."""
    threshold: Float[Array, " *S"]
    """A row whose recorded loss is at or below this has converged (minus infinity: never)."""
    marks: Marks | None
    """What to look out for on the way, None where nothing is noted."""

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

    def losses(self, vectors: Float[Array, "S n"]) -> Float[Array, " S"]:
        """The loss of every row."""
        losses: Float[Array, " S"] = over_rows(lambda own, at: own.loss(at), self, vectors)
        return losses

    def times(self, index: Int[Array, " S"]) -> Real[Array, " S"]:
        """A point of every row's grid, the last one where there is none."""
        times: Real[Array, " S"] = over_rows(
            lambda own, at: own.grid[jnp.minimum(at, own.points - 1)], self, index
        )
        return times

    @property
    def dimension(self) -> int:
        """D."""
        return self.layout.dimension


class Records(eqx.Module):
    """What every method's state keeps: the records so far and where each seed stands in them."""

    index: Int[Array, " S"]
    """The next point of the grid to be recorded, [S]."""
    due: Real[Array, " S"]
    """When that is, [S]; the end where all are recorded."""
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
    notes: Notes | None
    """What was seen between records, None where nothing is looked out for."""

    @classmethod
    def begin(cls, problem: Problem, weights: Float[Array, "S n"]) -> Records:
        """The first point of the grid recorded, the others empty."""
        # The weights themselves: a compiled function would return a copy of them.
        return cls(last=weights, **_begun(problem, weights))

    def write(
        self, problem: Problem, due: Bool[Array, " S"], weights: Float[Array, "S n"]
    ) -> Records:
        """Record the weights of the seeds in `due` at the next point of their grid."""
        seeds = jnp.arange(due.shape[0])
        loss = problem.losses(weights)
        # A seed that is not due writes beyond the end, which is dropped.
        place = jnp.where(due, self.index, problem.grid.shape[-1])
        path = self.path
        if problem.keep_weights:
            path = path.at[seeds, place].set(weights, mode="drop", unique_indices=True)
        index = self.index + due.astype(self.index.dtype)
        return Records(
            index=index,
            due=problem.times(index),
            last=jnp.where(due[:, None], weights, self.last),
            converged=self.converged | (due & (loss <= problem.threshold)),
            failed=self.failed | (due & ~jnp.isfinite(loss)),
            loss=self.loss.at[seeds, place].set(loss, mode="drop", unique_indices=True),
            path=path,
            notes=self.notes,
        )

    def active(self, problem: Problem) -> Bool[Array, " S"]:
        """The seeds that have further to go, [S]."""
        return (self.index < problem.points) & ~self.converged & ~self.failed


@compiled_in_haste
def _begun(problem: Problem, weights: Float[Array, "S n"]) -> dict[str, PyTree]:
    """All of the first records but the weights."""
    seeds, points = weights.shape[0], problem.grid.shape[-1]
    path = jnp.full((seeds, points if problem.keep_weights else 0, weights.shape[1]), jnp.nan)
    loss = problem.losses(weights)
    index = jnp.ones(seeds, dtype=int)
    return {
        "index": index,
        "due": problem.times(index),
        "converged": loss <= problem.threshold,
        "failed": ~jnp.isfinite(loss),
        "loss": jnp.full((seeds, points), jnp.nan).at[:, 0].set(loss),
        "path": path.at[:, 0].set(weights) if problem.keep_weights else path,
        "notes": None if problem.marks is None else Notes.begin(problem, weights),
    }


class AbstractState(eqx.Module):
    """A run between two segments: a tree of arrays, the seeds along the first axis of each."""

    records: eqx.AbstractVar[Records]

    @abc.abstractmethod
    def vectors(self) -> tuple[PyTree, ...]:
        """Whatever has the weights along its last axis."""

    def map_vectors(self: State, function: Callable[[PyTree], PyTree]) -> State:
        """The state with a function applied to whatever has the weights along its last axis."""
        moved = tuple(map(function, self.vectors()))
        return eqx.tree_at(lambda at: at.vectors(), self, moved)

    def with_points(self: State, points: int) -> State:
        """The state with the first points of its records alone."""
        kept = (self.records.loss[:, :points], self.records.path[:, :points])
        return eqx.tree_at(lambda at: (at.records.loss, at.records.path), self, kept)

    def narrowed(self: State, layout: Layout) -> State:
        """The state without what else is padded, of weights that have a layout of their own."""
        return self

    def with_marks(self: State, marks: Marks | None) -> State:
        """The state with its notes on the first marks alone, as many as there are of these."""
        notes = self.records.notes
        if marks is None or notes is None:
            return self
        return eqx.tree_at(lambda at: at.records.notes, self, notes.first(marks))
