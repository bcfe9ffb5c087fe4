"""Steps of gradient descent on a block whose weights are in registers, or in memory."""

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
"""The weights, if registers hold them, and the effective map."""


@dataclass(frozen=True)
class AbstractStepper(abc.ABC):
    """Takes steps of gradient descent."""

    block: Block
    landscape: Landscape

    @abc.abstractmethod
    def begin(self) -> Carried:
        """The carry before the first step."""

    @abc.abstractmethod
    def step(self, carried: Carried) -> Carried:
        """The carry after one more step."""

    @abc.abstractmethod
    def nonfinite(self, carried: Carried) -> Lane:
        """0 where all weights of a lane are finite, else NaN."""

    @abc.abstractmethod
    def write(self, carried: Carried, ref: Ref, mask: Lane, *at: Lane) -> None:
        """Write the weights of the trajectories in `mask`, at record `at` if there are several."""


@dataclass(frozen=True)
class RegisterStepper(AbstractStepper):
    """Every entry of a lane's heads is in a register."""

    weights: Ref
    """[S, n]"""

    def begin(self) -> Carried:
        vector = self.block.read_vector(self.weights)
        return vector, self.landscape.effective_map(vector)

    def step(self, carried: Carried) -> Carried:
        vector, effective_map = carried
        moved = self.landscape.velocity(vector, effective_map)
        vector = [weight + change for weight, change in zip(vector, moved, strict=True)]
        return vector, self.landscape.effective_map(vector)

    def nonfinite(self, carried: Carried) -> Lane:
        return _nonfinite(carried[0])

    def write(self, carried: Carried, ref: Ref, mask: Lane, *at: Lane) -> None:
        self.block.write_vector(carried[0], ref, mask, *at)


@dataclass(frozen=True)
class MemoryStepper(AbstractStepper):
    """One head at a time is loaded from the workspace, moved and stored; the map is in registers.

    For trajectories with more heads than registers hold: the heads stay in the nearest cache, and
    a program of one head compiles in seconds. Records are written head by head, too.
    """

    head: AbstractHeads
    workspace: Ref
    """[B, n, block], so that adjacent lanes read adjacent entries at fixed distances."""

    def begin(self) -> Carried:
        def add(_: Array, vector: list[Lane], effective_map: Matrix) -> Matrix:
            return _plus(effective_map, self.head.effective_map(vector))

        return (), self._over_heads(add, self._zero_map())

    def step(self, carried: Carried) -> Carried:
        force = self.landscape.force(carried[1])

        def move(number: Array, vector: list[Lane], effective_map: Matrix) -> Matrix:
            moved = self.head.pull_back(vector, force)
            vector = [weight + change for weight, change in zip(vector, moved, strict=True)]
            self.block.store_head(self.workspace, number, vector)
            return _plus(effective_map, self.head.effective_map(vector))

        return (), self._over_heads(move, self._zero_map())

    def nonfinite(self, carried: Carried) -> Lane:
        def add(_: Array, vector: list[Lane], nonfinite: Lane) -> Lane:
            return nonfinite + _nonfinite(vector)

        return self._over_heads(add, self._zeros())

    def write(self, carried: Carried, ref: Ref, mask: Lane, *at: Lane) -> None:
        def put(number: Array, vector: list[Lane], nothing: Array) -> Array:
            self.block.write_head(number, vector, ref, mask, *at)
            return nothing

        self._over_heads(put, jnp.zeros((), jnp.int32))

    def _over_heads(
        self,
        visit: Callable[[Array, list[Lane], PyTree[Array]], PyTree[Array]],
        initial: PyTree[Array],
    ) -> PyTree[Array]:
        """Fold `visit` over the heads, each with its weights."""

        def visit_head(number: Array, carry: PyTree[Array]) -> PyTree[Array]:
            return visit(number, self.block.load_head(self.workspace, number), carry)

        return jax.lax.fori_loop(0, self.block.kernel.heads(self.block.layout), visit_head, initial)

    def _zeros(self) -> Lane:
        return jnp.zeros(self.block.rows.shape, self.workspace.dtype)

    def _zero_map(self) -> Matrix:
        axes = range(self.block.layout.dimension)
        return [[self._zeros() for _ in axes] for _ in axes]


def _nonfinite(vector: Sequence[Lane]) -> Lane:
    # 0 times inf or NaN is NaN.
    zeros = [0 * weight for weight in vector]
    return sum(zeros[1:], zeros[0])


def _plus(left: Matrix, right: Matrix) -> Matrix:
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(left, right, strict=True)]
