"""Where a block's weights are while steps move them: in registers, or on a desk in memory."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from saddlescope.dynamics.kernels._heads import AbstractHeads, Matrix
from saddlescope.dynamics.kernels._landscape import Landscape
from saddlescope.dynamics.kernels._lanes import Block, Lane, Ref

Carried: TypeAlias = tuple[PyTree[Array], Matrix]
"""The weights that registers hold, if they do, and the effective map."""


@dataclass(frozen=True)
class AbstractMotion(abc.ABC):
    """Steps of gradient descent."""

    block: Block
    landscape: Landscape

    @abc.abstractmethod
    def begin(self) -> Carried:
        """Before the first step."""

    @abc.abstractmethod
    def step(self, carried: Carried) -> Carried:
        """After one step more."""

    @abc.abstractmethod
    def vector(self, carried: Carried) -> list[Lane]:
        """All weights of a lane."""


@dataclass(frozen=True)
class InRegisters(AbstractMotion):
    """Every number of a lane's heads has a register of its own."""

    weights: Ref
    """[S, n]"""

    def begin(self) -> Carried:
        vector = self.block.read_vector(self.weights)
        return vector, self.landscape.effective_map(vector)

    def step(self, carried: Carried) -> Carried:
        vector, effective_map = carried
        moved = self.landscape.velocity(vector, effective_map)
        vector = [one + change for one, change in zip(vector, moved, strict=True)]
        return vector, self.landscape.effective_map(vector)

    def vector(self, carried: Carried) -> list[Lane]:
        return list(carried[0])


@dataclass(frozen=True)
class InMemory(AbstractMotion):
    """One head at a time is taken from the desk, moved, and put back; the map is in registers.

    A trajectory's heads are more than its registers hold, but they fit the cache nearest to them,
    and a program of one head compiles in seconds.
    """

    head: AbstractHeads
    desk: Ref
    """[n, S], so that lanes side by side read side by side."""

    def begin(self) -> Carried:
        def add(number: Array, effective_map: Matrix) -> Matrix:
            own = self.head.effective_map(self.block.take_head(self.desk, number))
            return _plus(effective_map, own)

        return (), self._over_heads(add)

    def step(self, carried: Carried) -> Carried:
        force = self.landscape.force(carried[1])

        def move(number: Array, effective_map: Matrix) -> Matrix:
            vector = self.block.take_head(self.desk, number)
            moved = self.head.pull_back(vector, force)
            vector = [one + change for one, change in zip(vector, moved, strict=True)]
            self.block.put_head(self.desk, number, vector)
            return _plus(effective_map, self.head.effective_map(vector))

        return (), self._over_heads(move)

    def vector(self, carried: Carried) -> list[Lane]:
        return self.block.take_all(self.desk)

    def _over_heads(self, add: Callable[[Array, Matrix], Matrix]) -> Matrix:
        axes = range(self.block.layout.dimension)
        nothing = jnp.zeros(self.block.rows.shape, self.desk.dtype)
        heads = self.block.kernel.heads(self.block.layout)
        return jax.lax.fori_loop(0, heads, add, [[nothing for _ in axes] for _ in axes])


def _plus(one: Matrix, other: Matrix) -> Matrix:
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(one, other, strict=True)]
