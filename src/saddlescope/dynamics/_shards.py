"""One ensemble on all cores or devices: whole groups of rows in equal shards, a thread for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from saddlescope.arrays import Array
from saddlescope.dynamics.methods._ensemble import is_on_cpu
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.running.cores import count_cores, count_threads, on_all_cores

Tree = TypeVar("Tree", bound=PyTree[Array])
One = TypeVar("One")
Other = TypeVar("Other")
Result = TypeVar("Result")


class Shards:
    """How rows are cut: into groups that advance together, and the groups into shards.

    The groups are the same on any machine, and with them every number; the shards are as many as
    there are devices, or cores of a single CPU, all of one shape. What they lack is filled with the
    first rows once more.
    """

    def __init__(self, rows: int, group: int) -> None:
        groups = -(-rows // group)
        self.rows = rows
        self._devices = _devices()[:groups]
        self.count = len(self._devices)
        size = -(-groups // self.count) * group
        places = np.arange(self.count * size).reshape(self.count, size)
        # All rows in one shard need not be taken out of anything.
        self._is_whole = places.size == rows and self.count == 1
        # A slice is taken without a copy.
        self._parts = [
            slice(own[0], own[-1] + 1) if own[-1] < rows else own % rows for own in places
        ]

    def split(self, tree: Tree) -> tuple[Tree, ...]:
        """Cut a tree that has the rows along its first axis into shards."""
        if self._is_whole:
            return (jax.device_put(tree, self._devices[0]),)
        return tuple(
            jax.tree.map(lambda leaf, own=own, at=device: jax.device_put(leaf[own], at), tree)
            for own, device in zip(self._parts, self._devices, strict=True)
        )

    def join(self, shards: Sequence[Tree]) -> Tree:
        """The tree of all rows, of NumPy's arrays, from its shards."""
        if self.count == 1:
            return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.rows], shards[0])
        trees = [jax.tree.leaves(shard) for shard in shards]
        joined = [np.empty((self.rows, *leaf.shape[1:]), leaf.dtype) for leaf in trees[0]]

        def copy(number: int) -> None:
            for whole, part in zip(joined, trees[number], strict=True):
                begin = number * len(part)
                own = whole[begin : begin + len(part)]
                own[:] = part[: len(own)]

        on_all_cores(copy, range(self.count))
        return jax.tree.unflatten(jax.tree.structure(shards[0]), joined)

    def map(
        self,
        function: Callable[[Problem, One, Other], Result],
        problems: Sequence[Problem],
        ones: Sequence[One],
        others: Sequence[Other],
    ) -> tuple[Result, ...]:
        """Call a function for every shard, each in a thread of its own, in this one's precision."""
        if self.count == 1:
            return (function(problems[0], ones[0], others[0]),)
        is_double = jax.config.read("jax_enable_x64")

        def inside(problem: Problem, one: One, other: Other) -> Result:
            with jax.enable_x64(is_double):
                return jax.block_until_ready(function(problem, one, other))

        with ThreadPoolExecutor(count_threads(self.count)) as pool:
            return tuple(pool.map(inside, problems, ones, others))


def _devices() -> list[jax.Device | None]:
    """Where shards can advance at once: one on every device, or on every core of the only CPU."""
    devices = jax.local_devices()
    if len(devices) > 1:
        return list(devices)
    # Wherever JAX puts it.
    return [None] * (count_cores() if is_on_cpu() else 1)
