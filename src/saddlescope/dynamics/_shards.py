"""An ensemble on all cores or devices: groups of rows in equal shards, a thread for each."""

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
First = TypeVar("First")
Second = TypeVar("Second")
Result = TypeVar("Result")


class Shards:
    """How rows are divided into groups that advance together, and groups into shards.

    The groups, and with them every number, are the same on any machine. There is a shard for each
    device, or for each core of a single CPU, all of one shape; missing rows repeat the first ones.
    """

    def __init__(self, rows: int, group: int) -> None:
        groups = -(-rows // group)
        self.rows = rows
        self._devices = _devices()[:groups]
        self.count = len(self._devices)
        size = -(-groups // self.count) * group
        indices = np.arange(self.count * size).reshape(self.count, size)
        # A single shard of all rows needs no indexing.
        self._is_whole = indices.size == rows and self.count == 1
        # Slices avoid a copy.
        self._parts = [
            slice(part[0], part[-1] + 1) if part[-1] < rows else part % rows for part in indices
        ]

    def split(self, tree: Tree) -> tuple[Tree, ...]:
        """Split a tree whose first axis is the rows into shards."""
        if self._is_whole:
            return (jax.device_put(tree, self._devices[0]),)
        return tuple(
            jax.tree.map(lambda leaf, part=part, to=device: jax.device_put(leaf[part], to), tree)
            for part, device in zip(self._parts, self._devices, strict=True)
        )

    def join(self, shards: Sequence[Tree]) -> Tree:
        """The tree of all rows, in NumPy arrays, from its shards."""
        if self.count == 1:
            return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.rows], shards[0])
        trees = [jax.tree.leaves(shard) for shard in shards]
        joined = [np.empty((self.rows, *leaf.shape[1:]), leaf.dtype) for leaf in trees[0]]

        def copy(number: int) -> None:
            for whole, part in zip(joined, trees[number], strict=True):
                begin = number * len(part)
                target = whole[begin : begin + len(part)]
                target[:] = part[: len(target)]

        on_all_cores(copy, range(self.count))
        return jax.tree.unflatten(jax.tree.structure(shards[0]), joined)

    def map(
        self,
        function: Callable[[Problem, First, Second], Result],
        problems: Sequence[Problem],
        firsts: Sequence[First],
        seconds: Sequence[Second],
    ) -> tuple[Result, ...]:
        """Call a function for every shard, each in its own thread, in this thread's precision."""
        if self.count == 1:
            return (function(problems[0], firsts[0], seconds[0]),)
        is_double = jax.config.read("jax_enable_x64")

        def call(problem: Problem, first: First, second: Second) -> Result:
            with jax.enable_x64(is_double):
                return jax.block_until_ready(function(problem, first, second))

        with ThreadPoolExecutor(count_threads(self.count)) as pool:
            return tuple(pool.map(call, problems, firsts, seconds))


def _devices() -> list[jax.Device | None]:
    """Where shards can run at the same time: on every device, or on every core of a single CPU."""
    devices = jax.local_devices()
    if len(devices) > 1:
        return list(devices)
    # None is JAX's default device.
    return [None] * (count_cores() if is_on_cpu() else 1)
