"""One ensemble on all cores of a CPU: whole groups of seeds in equal shards, a thread for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from saddlescope.arrays import Array
from saddlescope.dynamics.methods._problem import Problem
from saddlescope.precision import in_float64

Tree = TypeVar("Tree", bound=PyTree[Array])
Given = TypeVar("Given")
Result = TypeVar("Result")


class Shards:
    """How seeds are cut: into groups that advance together, and the groups into shards.

    The groups are the same on any machine, and with them every number; the shards are as many as
    there are cores, all of one shape. What is left over repeats the first seeds.
    """

    def __init__(self, seeds: int, group: int) -> None:
        groups = -(-seeds // group)
        self.group = group
        self.seeds = groups * group
        """The seeds of whole groups."""
        self.count = min(groups, _cores())
        self._size = -(-groups // self.count) * group

    def fill(self, seeds: Array) -> Array:
        """Rows of seeds, with the first one in the place of those that a group lacks."""
        missing = self.seeds - len(seeds)
        return np.concatenate([seeds, np.repeat(seeds[:1], missing, axis=0)]) if missing else seeds

    def split(self, tree: Tree) -> tuple[Tree, ...]:
        """Cut a tree of whole groups into shards."""
        if self.count == 1:
            return (jax.tree.map(jnp.asarray, tree),)
        rows = np.arange(self.count * self._size) % self.seeds
        parts = rows.reshape(self.count, self._size)
        return tuple(
            jax.tree.map(lambda leaf, own=own: jnp.asarray(leaf[own]), tree) for own in parts
        )

    def join(self, shards: Sequence[Tree]) -> Tree:
        """One tree of whole groups, of NumPy's arrays, from its shards."""
        if self.count == 1:
            return jax.tree.map(np.asarray, shards[0])
        return jax.tree.map(lambda *parts: np.concatenate(parts)[: self.seeds], *shards)

    def map(
        self,
        function: Callable[[Problem, Given], Result],
        problems: Sequence[Problem],
        given: Sequence[Given],
    ) -> list[Result]:
        """Call a function for every shard, each in a thread of its own, in double precision."""
        if self.count == 1:
            return [function(problems[0], given[0])]
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(in_float64(function), problems, given))


def _cores() -> int:
    """How many shards can advance at once: an accelerator takes the whole ensemble."""
    return len(os.sched_getaffinity(0)) if jax.default_backend() == "cpu" else 1
