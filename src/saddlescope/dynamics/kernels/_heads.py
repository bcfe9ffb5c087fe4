"""The heads of a lane, entry by entry: their effective map and its pull-back.

The formulas are those of `attention`, which work on arrays; here every entry is a separate lane, so
that a kernel keeps all of them in registers.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from saddlescope.attention import AbstractAttention, MergedAttention, SeparateAttention
from saddlescope.dynamics.kernels._lanes import Lane

Matrix: TypeAlias = list[list[Lane]]
"""A matrix of lanes, row by row."""


@dataclass(frozen=True)
class AbstractHeads(abc.ABC):
    """Heads in D dimensions, as one list of entries in the order of their layout."""

    heads: int
    dimension: int

    @abc.abstractmethod
    def effective_map(self, vector: Sequence[Lane]) -> Matrix:
        """What the heads add to W, [D][D]."""

    @abc.abstractmethod
    def pull_back(self, vector: Sequence[Lane], force: Matrix) -> list[Lane]:
        """How a force on W moves the heads."""


@dataclass(frozen=True)
class SeparateHeads(AbstractHeads):
    """`v[H]`, `k, q[H, R, D]`."""

    rank: int

    def _pairs(
        self, vector: Sequence[Lane]
    ) -> list[tuple[Lane, list[tuple[list[Lane], list[Lane]]]]]:
        """The value of every head and its keys and queries."""
        each, dimension = self.rank * self.dimension, self.dimension
        values, keys = vector[: self.heads], vector[self.heads : self.heads * (1 + each)]
        queries = vector[self.heads * (1 + each) :]
        starts = range(0, self.heads * each, dimension)
        pairs = [(list(keys[s : s + dimension]), list(queries[s : s + dimension])) for s in starts]
        return [
            (value, pairs[head * self.rank : (head + 1) * self.rank])
            for head, value in enumerate(values)
        ]

    def effective_map(self, vector: Sequence[Lane]) -> Matrix:
        parts = [
            ([value * key for key in keys], queries)
            for value, pairs in self._pairs(vector)
            for keys, queries in pairs
        ]
        axes = range(self.dimension)
        return [[_sum([left[a] * right[b] for left, right in parts]) for b in axes] for a in axes]

    def pull_back(self, vector: Sequence[Lane], force: Matrix) -> list[Lane]:
        values, moved_keys, moved_queries = [], [], []
        columns = list(zip(*force, strict=True))
        for value, pairs in self._pairs(vector):
            gained = []
            for keys, queries in pairs:
                on_queries = [_dot(row, queries) for row in force]
                gained.append(_dot(keys, on_queries))
                moved_keys += [value * entry for entry in on_queries]
                moved_queries += [value * _dot(column, keys) for column in columns]
            values.append(_sum(gained))
        return values + moved_keys + moved_queries


@dataclass(frozen=True)
class MergedHeads(AbstractHeads):
    """`v[H]`, `U[H, D, D]`."""

    def _matrices(self, vector: Sequence[Lane]) -> list[tuple[Lane, Matrix]]:
        """The value of every head and its matrix."""
        size, dimension = self.dimension**2, self.dimension
        entries = vector[self.heads :]
        matrices = [
            [list(entries[at : at + dimension]) for at in range(start, start + size, dimension)]
            for start in range(0, self.heads * size, size)
        ]
        return list(zip(vector[: self.heads], matrices, strict=True))

    def effective_map(self, vector: Sequence[Lane]) -> Matrix:
        heads, axes = self._matrices(vector), range(self.dimension)
        return [
            [_sum([value * matrix[a][b] for value, matrix in heads]) for b in axes] for a in axes
        ]

    def pull_back(self, vector: Sequence[Lane], force: Matrix) -> list[Lane]:
        flat = [entry for row in force for entry in row]
        heads = self._matrices(vector)
        values = [_dot(flat, [entry for row in matrix for entry in row]) for _, matrix in heads]
        return values + [value * entry for value, _ in heads for entry in flat]


def heads_of(model: AbstractAttention, heads: int, dimension: int) -> AbstractHeads:
    """Heads of a model's kind."""
    if isinstance(model, SeparateAttention):
        return SeparateHeads(heads, dimension, model.rank)
    assert isinstance(model, MergedAttention)
    return MergedHeads(heads, dimension)


def _sum(lanes: Sequence[Lane]) -> Lane:
    return sum(lanes[1:], lanes[0])


def _dot(left: Sequence[Lane], right: Sequence[Lane]) -> Lane:
    return _sum([a * b for a, b in zip(left, right, strict=True)])
