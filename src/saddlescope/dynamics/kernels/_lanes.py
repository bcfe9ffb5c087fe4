"""What a block of lanes holds: of which trajectories and heads, and how it reads and writes them.

The heads of a trajectory are shared out among lanes. A number of the trajectory itself is the same
in all of them, so that everything has one shape and nothing moves between lanes but sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array

from saddlescope.dynamics.kernels.choice import Kernel
from saddlescope.dynamics.methods._layout import Layout

Lane: TypeAlias = Array
"""A number of every lane, [block × lanes], a trajectory's side by side; of all, []."""
Ref: TypeAlias = Any
"""An array in the GPU's memory, which a kernel reads and writes."""


@dataclass(frozen=True)
class Block:
    """The lanes of one program."""

    kernel: Kernel
    layout: Layout
    rows: Lane
    """The number of each lane's trajectory."""
    inside: Lane
    """Whether there is one of that number."""
    lane: Lane
    """The number of each lane among those of its trajectory."""

    @classmethod
    def here(cls, kernel: Kernel, layout: Layout, rows: int) -> Block:
        """The block of the program that runs."""
        # The interpreter computes in whatever integers are JAX's own.
        first = pl.program_id(0).astype(jnp.int32) * kernel.block
        every = jnp.arange(kernel.block * kernel.lanes, dtype=jnp.int32)
        own = first + every // kernel.lanes
        return cls(kernel, layout, own, own < rows, every % kernel.lanes)

    def total(self, lane: Lane) -> Lane:
        """The sum over a trajectory's lanes, in each of them."""
        if self.kernel.lanes == 1:
            return lane
        shape = (self.kernel.block, self.kernel.lanes)
        total = lane.reshape(shape).sum(axis=1)
        return jnp.broadcast_to(total[:, None], shape).reshape(lane.shape)

    def any(self, lane: Lane) -> Array:
        """Whether it is so of any trajectory, []."""
        return self.least(jnp.where(lane & self.inside, 0, 1)) < 1

    def least(self, lane: Lane) -> Array:
        """The least of all, []."""
        return lane.min()

    def read(self, ref: Ref, *at: int | Lane) -> Lane:
        """An entry of every trajectory's part of the state."""
        return self._load(ref, self.rows, at)

    def given(self, ref: Ref, *at: int | Lane) -> Lane:
        """An entry of every trajectory's part of the problem, or of the one that all share."""
        is_shared = ref.shape[0] == 1
        if is_shared and all(isinstance(i, int) for i in at):
            return ref[(0, *at)]
        return self._load(ref, jnp.zeros_like(self.rows) if is_shared else self.rows, at)

    def write(self, ref: Ref, value: Lane, mask: Lane, *at: int | Lane) -> None:
        """Set an entry of the trajectories in `mask`."""
        value = jnp.broadcast_to(value, self.rows.shape).astype(ref.dtype)
        # In the interpreter each place is written once only where it is one lane's.
        rows = (
            self.rows
            if self.kernel.lanes == 1
            else jnp.where(self.lane == 0, self.rows, ref.shape[0])
        )
        mask = mask & self.inside & (self.lane == 0)
        triton.store(ref.at[self._index(rows, at)], value, mask=mask)

    def read_vector(self, ref: Ref) -> list[Lane]:
        """Flat vectors of weights, [S, n], entry by entry of the heads that a lane holds."""
        other = np.zeros((), ref.dtype)
        return [
            triton.load(ref.at[self._index(self.rows, (place,))], mask=there, other=other)
            for place, there in self._places(self.inside)
        ]

    def write_vector(self, vector: Sequence[Lane], ref: Ref, mask: Lane, *at: Lane) -> None:
        """Write the vectors of the trajectories in `mask`, at `at` where there are several."""
        for lane, (place, there) in zip(vector, self._places(mask & self.inside), strict=True):
            triton.store(ref.at[self._index(self.rows, (*at, place))], lane, mask=there)

    def take_head(self, desk: Ref, head: Lane) -> list[Lane]:
        """The weights of one head, of a desk [n, S] with one lane a trajectory."""
        return [self._take(desk, place) for place in self._head(head)]

    def put_head(self, desk: Ref, head: Lane, vector: Sequence[Lane]) -> None:
        """Put the weights of one head back."""
        for place, lane in zip(self._head(head), vector, strict=True):
            triton.store(desk.at[self._beside(place)], lane, mask=self.inside)

    def write_head(
        self, head: Lane, vector: Sequence[Lane], ref: Ref, mask: Lane, *at: Lane
    ) -> None:
        """Write one head of flat vectors, [S, n], as `write_vector` does all of them."""
        there = mask & self.inside
        for place, lane in zip(self._head(head), vector, strict=True):
            triton.store(ref.at[self._index(self.rows, (*at, place))], lane, mask=there)

    def _take(self, desk: Ref, place: Lane) -> Lane:
        other = np.zeros((), desk.dtype)
        return triton.load(desk.at[self._beside(place)], mask=self.inside, other=other)

    def _beside(self, place: Lane) -> tuple[Lane, Lane]:
        return jnp.broadcast_to(jnp.asarray(place, jnp.int32), self.rows.shape), self.rows

    def _load(self, ref: Ref, rows: Lane, at: Sequence[int | Lane]) -> Lane:
        other = np.zeros((), ref.dtype)
        return triton.load(ref.at[self._index(rows, at)], mask=self.inside, other=other)

    def _index(self, rows: Lane, at: Sequence[int | Lane]) -> tuple[Lane, ...]:
        return (rows, *(jnp.broadcast_to(jnp.asarray(i, jnp.int32), rows.shape) for i in at))

    def _places(self, mask: Lane) -> list[tuple[Lane | int, Lane]]:
        """Where each entry of a lane lies in a flat vector, and whether there is one."""
        own = self.kernel.heads(self.layout)
        places: list[tuple[Lane | int, Lane]] = []
        for heads, start, stride in self._parts():
            for number in range(own):
                head = self.lane * own + number
                there = mask & (head < heads)
                places += [(head * stride + (start + entry), there) for entry in range(stride)]
        return places

    def _head(self, head: Lane) -> list[Lane]:
        """Where the entries of one head lie in a flat vector."""
        return [
            head * stride + (start + entry)
            for _, start, stride in self._parts()
            for entry in range(stride)
        ]

    def _parts(self) -> list[tuple[int, int, int]]:
        """The heads of every weight, where its entries begin, and how many each head has."""
        shapes = [shape for _, shape in self.layout.shapes]
        starts = accumulate(map(prod, shapes), initial=0)
        return [
            (shape[0], start, prod(shape[1:])) for shape, start in zip(shapes, starts, strict=False)
        ]
