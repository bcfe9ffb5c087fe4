"""What a compiled loop works on: the problem, and the records that every method keeps."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Real

from saddlescope.attention import AbstractAttention
from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.dynamics.methods._ensemble import map_groups, over_rows
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._notes import Marks, Notes
from saddlescope.risk import AbstractRisk
from saddlescope.running.programs import compiled_in_haste
from saddlescope.task.samplers import AbstractSampler

Rule = TypeVar("Rule", bound=eqx.Module)
State = TypeVar("State", bound="AbstractState")


class Problem(eqx.Module, Generic[Rule]):
    """What is to be computed; whatever may change without recompilation is an array.

    All rows of an ensemble share it; or, if it `has_rows`, the first axis of every array is the
    row, and each row has a setting of its own.
    """

    model: AbstractAttention = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    group: int = eqx.field(static=True)
    """How many rows advance together."""
    keep_weights: bool = eqx.field(static=True)
    has_rows: bool = eqx.field(static=True)
    kernel: Kernel | None = eqx.field(static=True)
    """The GPU kernel that runs it, None for XLA."""
    rule: Rule
    """How the weights move: the method's fields as arrays."""
    sampler: AbstractSampler | None
    """Draws fresh prompts; None where no step needs them."""
    risk: AbstractRisk
    grid: Real[Array, "*S T"]
    """When to record, on the method's clock; the run begins at the first entry."""
    points: Int[Array, " *S"]
    """How many points the grid has; padding repeats the last."""
    size: Float[Array, " *S"]
    """The number of weights that means divide by, padding excluded."""
    pace: Float[Array, " *S"]
    """Units of the model's own time in one unit of flow time."""
    threshold: Float[Array, " *S"]
    """A row has converged when its recorded loss is at or below this (minus infinity: never)."""
    marks: Marks | None
    """The events to note, None where none are."""

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
        losses: Float[Array, " S"] = over_rows(
            lambda problem, row: problem.loss(row), self, vectors
        )
        return losses

    def times(self, index: Int[Array, " S"]) -> Real[Array, " S"]:
        """The grid time at each row's index, or the last one beyond the end."""
        times: Real[Array, " S"] = over_rows(
            lambda problem, at: problem.grid[jnp.minimum(at, problem.points - 1)], self, index
        )
        return times

    @property
    def dimension(self) -> int:
        """The input dimension D."""
        return self.layout.dimension


class Records(eqx.Module):
    """The records so far, and each seed's position in them."""

    index: Int[Array, " S"]
    """The next point of the grid to be recorded, [S]."""
    due: Real[Array, " S"]
    """The time of that point, [S]; the end of the grid once all are recorded."""
    last: Float[Array, "S n"]
    """The weights at the latest record, [S, n]."""
    converged: Bool[Array, " S"]
    """Whether a seed has converged, [S]."""
    failed: Bool[Array, " S"]
    """Whether a seed can go no further, [S]."""
    loss: Float[Array, "S T"]
    """[S, T], NaN where not yet recorded."""
    path: Float[Array, "S K n"]
    """The weights at every record, [S, T, n]; [S, 0, n] where they are not kept."""
    notes: Notes | None
    """Events noted between records, None where none are."""

    @classmethod
    def begin(cls, problem: Problem, weights: Float[Array, "S n"]) -> Records:
        """Records with the first point of the grid written."""
        # `last` is set here because a compiled function would return a copy.
        return cls(last=weights, **_first_records(problem, weights))

    def write(
        self, problem: Problem, due: Bool[Array, " S"], weights: Float[Array, "S n"]
    ) -> Records:
        """Record the weights of the seeds in `due` at the next point of their grid."""
        seeds = jnp.arange(due.shape[0])
        loss = problem.losses(weights)
        # Seeds that are not due write out of bounds, which is dropped.
        column = jnp.where(due, self.index, problem.grid.shape[-1])
        path = self.path
        if problem.keep_weights:
            path = path.at[seeds, column].set(weights, mode="drop", unique_indices=True)
        index = self.index + due.astype(self.index.dtype)
        return Records(
            index=index,
            due=problem.times(index),
            last=jnp.where(due[:, None], weights, self.last),
            converged=self.converged | (due & (loss <= problem.threshold)),
            failed=self.failed | (due & ~jnp.isfinite(loss)),
            loss=self.loss.at[seeds, column].set(loss, mode="drop", unique_indices=True),
            path=path,
            notes=self.notes,
        )

    def active(self, problem: Problem) -> Bool[Array, " S"]:
        """The seeds that have further to go, [S]."""
        return (self.index < problem.points) & ~self.converged & ~self.failed


@compiled_in_haste
def _first_records(problem: Problem, weights: Float[Array, "S n"]) -> dict[str, PyTree]:
    """The fields of the first records, without `last`."""

    def group(
        problem: Problem, weights: Float[Array, "S n"]
    ) -> tuple[dict[str, PyTree], Int[Array, ""]]:
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
        }, jnp.asarray(0)

    # The last digits of a loss depend on how many are computed together.
    return map_groups(group, problem, weights, problem.group)[0]


class AbstractState(eqx.Module):
    """A run between two segments: arrays with the seed as their first axis."""

    records: eqx.AbstractVar[Records]

    @abc.abstractmethod
    def vectors(self) -> tuple[PyTree, ...]:
        """The leaves whose last axis is the flat weights."""

    def map_vectors(self: State, function: Callable[[PyTree], PyTree]) -> State:
        """Apply a function to every leaf whose last axis is the flat weights."""
        moved = tuple(map(function, self.vectors()))
        return eqx.tree_at(lambda at: at.vectors(), self, moved)

    def with_points(self: State, points: int) -> State:
        """The state with only the first points of its records."""
        kept = (self.records.loss[:, :points], self.records.path[:, :points])
        return eqx.tree_at(lambda at: (at.records.loss, at.records.path), self, kept)

    def narrowed(self: State, layout: Layout) -> State:
        """The state with any other padding removed, down to weights of this layout."""
        return self

    def with_marks(self: State, marks: Marks | None) -> State:
        """The state with notes on only the first marks, as many as `marks` has."""
        notes = self.records.notes
        if marks is None or notes is None:
            return self
        return eqx.tree_at(lambda at: at.records.notes, self, notes.first(marks))
