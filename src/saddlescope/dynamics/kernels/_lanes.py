"""A block of lanes: which trajectories and heads it holds, and how it reads and writes them.

The heads of a trajectory are divided among lanes. Values of the trajectory itself are the same in
all its lanes, so that everything has one shape and only sums move between lanes.
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
"""A value per lane, [block × lanes], the lanes of a trajectory adjacent; or one for all, []."""
Ref: TypeAlias = Any
"""An array in GPU memory that a kernel reads and writes."""


@dataclass(frozen=True)
class Block:
    """The lanes of one program."""

    kernel: Kernel
    layout: Layout
    rows: Lane
    """The index of each lane's trajectory."""
    inside: Lane
    """Whether that trajectory exists."""
    lane: Lane
    """The index of each lane among those of its trajectory."""

    @classmethod
    def current(cls, kernel: Kernel, layout: Layout, rows: int) -> Block:
        """The block of the running program."""
        # In the interpreter, program ids have JAX's default integer type.
        first = pl.program_id(0).astype(jnp.int32) * kernel.block
        lanes = jnp.arange(kernel.block * kernel.lanes, dtype=jnp.int32)
        trajectories = first + lanes // kernel.lanes
        return cls(kernel, layout, trajectories, trajectories < rows, lanes % kernel.lanes)

    def total(self, lane: Lane) -> Lane:
        """The sum over each trajectory's lanes, in all of them."""
        if self.kernel.lanes == 1:
            return lane
        shape = (self.kernel.block, self.kernel.lanes)
        total = lane.reshape(shape).sum(axis=1)
        return jnp.broadcast_to(total[:, None], shape).reshape(lane.shape)

    def any(self, lane: Lane) -> Array:
        """Whether it is true of any trajectory, []."""
        return self.least(jnp.where(lane & self.inside, 0, 1)) < 1

    def least(self, lane: Lane) -> Array:
        """The least over all lanes, []."""
        return lane.min()

    def read(self, ref: Ref, *at: int | Lane) -> Lane:
        """An entry of each trajectory's state."""
        return self._load(ref, self.rows, at)

    def parameter(self, ref: Ref, *at: int | Lane) -> Lane:
        """An entry of each trajectory's problem, or of the one that all share."""
        is_shared = ref.shape[0] == 1
        if is_shared and all(isinstance(i, int) for i in at):
            return ref[(0, *at)]
        return self._load(ref, jnp.zeros_like(self.rows) if is_shared else self.rows, at)

    def write(self, ref: Ref, value: Lane, mask: Lane, *at: int | Lane) -> None:
        """Write an entry of the trajectories in `mask`."""
        value = jnp.broadcast_to(value, self.rows.shape).astype(ref.dtype)
        # In the interpreter a masked lane must not have the index of one that writes.
        rows = self.rows
        if self.kernel.lanes > 1:
            rows = jnp.where(self.lane == 0, rows, ref.shape[0])
        mask = mask & self.inside & (self.lane == 0)
        triton.store(ref.at[self._index(rows, at)], value, mask=mask)

    def read_vector(self, ref: Ref) -> list[Lane]:
        """The entries of the heads that each lane holds, from flat vectors of weights, [S, n]."""
        other = np.zeros((), ref.dtype)
        return [
            triton.load(ref.at[self._index(self.rows, (index,))], mask=exists, other=other)
            for index, exists in self._entries(self.inside)
        ]

    def write_vector(self, vector: Sequence[Lane], ref: Ref, mask: Lane, *at: Lane) -> None:
        """Write the vectors of the trajectories in `mask`, at record `at` if there are several."""
        for lane, (index, exists) in zip(vector, self._entries(mask & self.inside), strict=True):
            triton.store(ref.at[self._index(self.rows, (*at, index))], lane, mask=exists)

    def load_head(self, workspace: Ref, head: Lane) -> list[Lane]:
        """Load one head from a workspace, [B, n, block]; there is one lane per trajectory."""
        return [
            triton.load(workspace.at[self._in_workspace(index)])
            for index in self._head_indices(head)
        ]

    def store_head(self, workspace: Ref, head: Lane, vector: Sequence[Lane]) -> None:
        """Store the weights of one head in a workspace."""
        for index, lane in zip(self._head_indices(head), vector, strict=True):
            triton.store(workspace.at[self._in_workspace(index)], lane)

    def write_head(
        self, head: Lane, vector: Sequence[Lane], ref: Ref, mask: Lane, *at: Lane
    ) -> None:
        """Write one head into flat vectors, [S, n]; see `write_vector`."""
        mask = mask & self.inside
        for index, lane in zip(self._head_indices(head), vector, strict=True):
            triton.store(ref.at[self._index(self.rows, (*at, index))], lane, mask=mask)

    def _in_workspace(self, index: Lane) -> tuple[Lane, ...]:
        """Where the lanes of this block keep one of their entries, side by side."""
        block, lane = self.rows // self.kernel.block, self.rows % self.kernel.block
        return block, jnp.broadcast_to(jnp.asarray(index, jnp.int32), self.rows.shape), lane

    def _load(self, ref: Ref, rows: Lane, at: Sequence[int | Lane]) -> Lane:
        other = np.zeros((), ref.dtype)
        return triton.load(ref.at[self._index(rows, at)], mask=self.inside, other=other)

    def _index(self, rows: Lane, at: Sequence[int | Lane]) -> tuple[Lane, ...]:
        return (rows, *(jnp.broadcast_to(jnp.asarray(i, jnp.int32), rows.shape) for i in at))

    def _entries(self, mask: Lane) -> list[tuple[Lane | int, Lane]]:
        """The index of each of a lane's entries in a flat vector, and whether it exists."""
        per_lane = self.kernel.heads(self.layout)
        entries: list[tuple[Lane | int, Lane]] = []
        for heads, start, stride in self._parts():
            for number in range(per_lane):
                head = self.lane * per_lane + number
                exists = mask & (head < heads)
                entries += [(head * stride + (start + entry), exists) for entry in range(stride)]
        return entries

    def _head_indices(self, head: Lane) -> list[Lane]:
        """The indices of one head's entries in a flat vector."""
        return [
            head * stride + (start + entry)
            for _, start, stride in self._parts()
            for entry in range(stride)
        ]

    def _parts(self) -> list[tuple[int, int, int]]:
        """For every named weight its heads, its offset, and the entries of each head."""
        shapes = [shape for _, shape in self.layout.shapes]
        starts = accumulate(map(prod, shapes), initial=0)
        return [
            (shape[0], start, prod(shape[1:])) for shape, start in zip(shapes, starts, strict=False)
        ]
