"""Rows that advance together in one program: the seeds of one setting, or of many."""

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
    """A problem and the number of each row's seed.

    `method` is how they all move, and in which precision; what differs from row to row is in the
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
        self._grids = [_Grid.of(one) for one in self._problems]

    @property
    def precision(self) -> str:
        """What is computed in."""
        return self._method.precision

    @in_own_precision
    def begin(self, starts: FloatArray) -> States:
        """The state at the first point of the grid, from the initial weights, [S, n]."""
        split = self._shards.split(starts)
        return self._shards.map(self._method.begin, self._problems, self._seeds, split)

    @in_own_precision
    def prolong(self, ended: States) -> States:
        """The state in which a run ended, made ready for a grid that begins there."""
        return self._shards.map(self._method.prolong, self._problems, self._seeds, ended)

    @in_own_precision
    def advance(self, states: States, budget: int) -> tuple[States, int]:
        """Advance by at most about `budget` steps; the new state and the steps taken by a group."""
        budgets = [budget] * self._shards.count
        moved = self._shards.map(self._method.advance, self._problems, states, budgets)
        rows = sum(len(seeds) for seeds in self._seeds)
        taken = sum(steps for _, steps in moved)
        return tuple(state for state, _ in moved), -(-taken * self._problem.group // rows)

    def is_finished(self, states: States) -> bool:
        """Whether no row has further to go."""
        return not any(
            grid.active(state).any() for grid, state in zip(self._grids, states, strict=True)
        )

    def share(self, states: States) -> float:
        """How much is done, from 0 to 1."""
        shares = []
        for grid, state in zip(self._grids, states, strict=True):
            reached = (self._method.clock(state) - grid.first) / (grid.last - grid.first)
            shares.append(np.where(grid.active(state), np.clip(reached, 0.0, 1.0), 1.0))
        return float(np.mean(shares))

    def join(self, states: States) -> AbstractState:
        """The state of all rows as one, of NumPy's arrays."""
        return self._shards.join(states)

    @cached_property
    @in_own_precision
    def shape(self) -> AbstractState:
        """A state of all rows as one, with shapes and types in place of arrays."""
        rows = self._shards.rows
        given = (
            jax.ShapeDtypeStruct((rows,), jax.dtypes.canonicalize_dtype(int)),
            jax.ShapeDtypeStruct(
                (rows, self._problem.layout.size), jax.dtypes.canonicalize_dtype(float)
            ),
        )
        return jax.eval_shape(lambda *rows: self._method.begin(self._problem, *rows), *given)

    @in_own_precision
    def restore(self, leaves: Sequence[AnyArray]) -> States:
        """The states whose joined leaves these are; `CannotRead` where they cannot be."""
        expected, structure = jax.tree.flatten(self.shape)
        if len(leaves) == len(expected):
            state = jax.tree.unflatten(structure, leaves)
            if _form(state) == _form(self.shape):
                return self._shards.split(state)
        raise CannotRead("its state is not one of this setting's")


@dataclass(frozen=True)
class _Grid:
    """Where the rows of a shard begin and end, of one number or a row each, off the device."""

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
    """The type and the shape of all that a state holds, but for how many points are recorded.

    Records may be those of another grid, or none.
    """
    recorded = (state.records.loss, state.records.path)
    return [
        (leaf.dtype, *leaf.shape[:1], *leaf.shape[2 if any(leaf is r for r in recorded) else 1 :])
        for leaf in jax.tree.leaves(state)
    ]
