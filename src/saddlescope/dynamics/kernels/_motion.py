"""Where a block's weights are while steps move them: in registers, or on a desk in memory."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
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
    def spoiled(self, carried: Carried) -> Lane:
        """0 where all weights of a lane are finite, else NaN."""

    @abc.abstractmethod
    def write(self, carried: Carried, ref: Ref, mask: Lane, *at: Lane) -> None:
        """Write the weights of the trajectories in `mask`, at `at` where there are several."""


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

    def spoiled(self, carried: Carried) -> Lane:
        return _spoiled(carried[0])

    def write(self, carried: Carried, ref: Ref, mask: Lane, *at: Lane) -> None:
        self.block.write_vector(carried[0], ref, mask, *at)


@dataclass(frozen=True)
class InMemory(AbstractMotion):
    """One head at a time is taken from the desk, moved, and put back; the map is in registers.

    A trajectory's heads are more than its registers hold, but they fit the cache nearest to them,
    and a program of one head compiles in seconds; so records are written head by head, too.
    """

    head: AbstractHeads
    desk: Ref
    """[n, S], so that lanes side by side read side by side."""

    def begin(self) -> Carried:
        def add(_: Array, vector: list[Lane], effective_map: Matrix) -> Matrix:
            return _plus(effective_map, self.head.effective_map(vector))

        return (), self._over_heads(add, self._no_map())

    def step(self, carried: Carried) -> Carried:
        force = self.landscape.force(carried[1])

        def move(number: Array, vector: list[Lane], effective_map: Matrix) -> Matrix:
            moved = self.head.pull_back(vector, force)
            vector = [one + change for one, change in zip(vector, moved, strict=True)]
            self.block.put_head(self.desk, number, vector)
            return _plus(effective_map, self.head.effective_map(vector))

        return (), self._over_heads(move, self._no_map())

    def spoiled(self, carried: Carried) -> Lane:
        def add(_: Array, vector: list[Lane], spoiled: Lane) -> Lane:
            return spoiled + _spoiled(vector)

        return self._over_heads(add, self._nothing())

    def write(self, carried: Carried, ref: Ref, mask: Lane, *at: Lane) -> None:
        def put(number: Array, vector: list[Lane], nothing: Array) -> Array:
            self.block.write_head(number, vector, ref, mask, *at)
            return nothing

        self._over_heads(put, jnp.zeros((), jnp.int32))

    def _over_heads(
        self,
        visit: Callable[[Array, list[Lane], PyTree[Array]], PyTree[Array]],
        begun: PyTree[Array],
    ) -> PyTree[Array]:
        """What comes of visiting one head after another, each with its weights."""

        def one(number: Array, so_far: PyTree[Array]) -> PyTree[Array]:
            return visit(number, self.block.take_head(self.desk, number), so_far)

        return jax.lax.fori_loop(0, self.block.kernel.heads(self.block.layout), one, begun)

    def _nothing(self) -> Lane:
        return jnp.zeros(self.block.rows.shape, self.desk.dtype)

    def _no_map(self) -> Matrix:
        axes = range(self.block.layout.dimension)
        return [[self._nothing() for _ in axes] for _ in axes]


def _spoiled(vector: Sequence[Lane]) -> Lane:
    # What is not finite is not 0 times itself.
    spoiled = [0 * one for one in vector]
    return sum(spoiled[1:], spoiled[0])


def _plus(one: Matrix, other: Matrix) -> Matrix:
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(one, other, strict=True)]
