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

    def write_vector(self, ref: Ref, vector: Sequence[Lane], mask: Lane, *at: Lane) -> None:
        """Write the vectors of the trajectories in `mask`, at `at` where there are several."""
        for lane, (place, there) in zip(vector, self._places(mask & self.inside), strict=True):
            triton.store(ref.at[self._index(self.rows, (*at, place))], lane, mask=there)

    def _load(self, ref: Ref, rows: Lane, at: Sequence[int | Lane]) -> Lane:
        other = np.zeros((), ref.dtype)
        return triton.load(ref.at[self._index(rows, at)], mask=self.inside, other=other)

    def _index(self, rows: Lane, at: Sequence[int | Lane]) -> tuple[Lane, ...]:
        return (rows, *(jnp.broadcast_to(jnp.asarray(i, jnp.int32), rows.shape) for i in at))

    def _places(self, mask: Lane) -> list[tuple[Lane | int, Lane]]:
        """Where each entry of a lane lies in a flat vector, and whether there is one."""
        own = self.kernel.heads(self.layout)
        places: list[tuple[Lane | int, Lane]] = []
        starts = accumulate((prod(shape) for _, shape in self.layout.shapes), initial=0)
        for (_, shape), start in zip(self.layout.shapes, starts, strict=False):
            stride = prod(shape[1:])
            for number in range(own):
                head = self.lane * own + number
                there = mask & (head < shape[0])
                places += [(head * stride + (start + entry), there) for entry in range(stride)]
        return places
