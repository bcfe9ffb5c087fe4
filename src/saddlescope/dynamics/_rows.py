"""Rows that advance in one program: the seeds of one setting, or of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import jax
import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics._shards import Shards
from saddlescope.dynamics.methods._problem import AbstractState, Problem
from saddlescope.dynamics.methods.base import AbstractMethod
from saddlescope.errors import CannotRead
from saddlescope.precision import in_own_precision, within

States: TypeAlias = tuple[AbstractState, ...]
"""The state of all rows, shard by shard."""


class Rows:
    """A problem and the seed of each row.

    `method` says how all rows move, and in which precision; what differs from row to row is in the
    problem.
    """

    def __init__(self, method: AbstractMethod, problem: Problem, seeds: AnyArray) -> None:
        self._method = method
        self._problem = problem
        self._shards = Shards(len(seeds), problem.group)
        self._problems: Sequence[Problem] = [problem] * self._shards.count
        with within(self.precision):
            self._seeds = self._shards.split(seeds)
            if problem.has_rows:
                self._problems = self._shards.split(problem)
        self._grids = [_Grid.of(shard) for shard in self._problems]

    @property
    def precision(self) -> str:
        """The precision of all arrays."""
        return self._method.precision

    @in_own_precision
    def begin(self, starts: FloatArray) -> States:
        """The state at the first point of the grid, from the initial weights, [S, n]."""
        split = self._shards.split(starts)
        return self._shards.map(self._method.begin, self._problems, self._seeds, split)

    @in_own_precision
    def prolong(self, ended: States) -> States:
        """Extend the final state of a run to a grid that begins there."""
        return self._shards.map(self._method.prolong, self._problems, self._seeds, ended)

    @in_own_precision
    def advance(self, states: States, budget: int) -> tuple[States, int]:
        """Advance by about `budget` steps or fewer; the new state and the steps of a group."""
        budgets = [budget] * self._shards.count
        moved = self._shards.map(self._method.advance, self._problems, states, budgets)
        rows = sum(len(seeds) for seeds in self._seeds)
        taken = sum(steps for _, steps in moved)
        return tuple(state for state, _ in moved), -(-taken * self._problem.group // rows)

    def is_finished(self, states: States) -> bool:
        """Whether all rows have ended."""
        return not any(
            grid.active(state).any() for grid, state in zip(self._grids, states, strict=True)
        )

    def share(self, states: States) -> float:
        """The share that is done, from 0 to 1."""
        shares = []
        for grid, state in zip(self._grids, states, strict=True):
            reached = (self._method.clock(state) - grid.first) / (grid.last - grid.first)
            shares.append(np.where(grid.active(state), np.clip(reached, 0.0, 1.0), 1.0))
        return float(np.mean(shares))

    def join(self, states: States) -> AbstractState:
        """The state of all rows as one, in NumPy arrays."""
        return self._shards.join(states)

    @cached_property
    @in_own_precision
    def shape(self) -> AbstractState:
        """A state of all rows as one, with shapes and types in place of arrays."""
        problem, seeds = self._problems[0], self._seeds[0]
        starts = jax.ShapeDtypeStruct(
            (len(seeds), self._problem.layout.size), jax.dtypes.canonicalize_dtype(float)
        )
        # A shard has whole groups of rows.
        shard = jax.eval_shape(lambda *rows: self._method.begin(problem, *rows), seeds, starts)
        rows = self._shards.rows
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype), shard
        )

    @in_own_precision
    def restore(self, leaves: Sequence[AnyArray]) -> States:
        """The states that were joined into these leaves; `CannotRead` if they do not fit."""
        expected, structure = jax.tree.flatten(self.shape)
        if len(leaves) == len(expected):
            state = jax.tree.unflatten(structure, leaves)
            if _form(state) == _form(self.shape):
                return self._shards.split(state)
        raise CannotRead("its state is not one of this setting's")


@dataclass(frozen=True)
class _Grid:
    """The first and last times and the lengths of a shard's grids, on the host."""

    first: AnyArray
    last: AnyArray
    points: AnyArray

    @classmethod
    def of(cls, problem: Problem) -> _Grid:
        grid = np.asarray(problem.grid)
        return cls(grid[..., 0], grid[..., -1], np.asarray(problem.points))

    def active(self, state: AbstractState) -> AnyArray:
        """The rows that have further to go, [S]."""
        records = state.records
        index, *ended = map(np.asarray, (records.index, records.converged, records.failed))
        return (index < self.points) & ~ended[0] & ~ended[1]


def _form(state: AbstractState) -> list[tuple[object, ...]]:
    """The dtype and shape of every leaf, without the number of recorded points.

    That may be another, because a run can continue one with another grid.
    """
    recorded = (id(state.records.loss), id(state.records.path))
    return [
        (leaf.dtype, *leaf.shape[:1], *leaf.shape[2 if id(leaf) in recorded else 1 :])
        for leaf in jax.tree.leaves(state)
    ]
