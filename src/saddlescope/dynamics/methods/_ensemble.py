"""Rows of an ensemble, advanced in groups small enough for one fused loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

if TYPE_CHECKING:
    from saddlescope.dynamics.methods._problem import Problem

Tree = TypeVar("Tree")
Result = TypeVar("Result")

# Products in flight up to which XLA keeps a CPU step in one fused loop (measured: 0.05 µs a seed
# and step at D = 4, H = 5 below it, 0.36 µs above).
_FUSED_GROUP = 4096
# Above that, matrix products dominate; a few seeds share a call while they fit in the cache.
_MULTIPLIED_GROUP = 2**19
_MOST_MULTIPLIED = 8
# Enough rows to fill an accelerator.
_ACCELERATED_GROUP = 2**16


def is_on_cpu() -> bool:
    """Whether JAX computes on the CPU."""
    return bool(jax.default_backend() == "cpu")


def group_size(rows: int, weights: int, dimension: int) -> int:
    """How many rows advance together: enough to fill an accelerator, or a CPU's cache.

    The number of devices or cores has no say: a row's last digits depend on the size of its group.
    """
    products = weights * dimension
    most = _FUSED_GROUP * 2 // products if is_on_cpu() else _ACCELERATED_GROUP
    if most < rows and is_on_cpu():
        most = max(most, min(_MULTIPLIED_GROUP // products, _MOST_MULTIPLIED), 1)
    groups = -(-rows // most)
    return -(-rows // groups)


def map_groups(
    advance: Callable[[Problem, Tree], tuple[Result, Int[Array, ""]]],
    problem: Problem,
    state: Tree,
    size: int,
) -> tuple[Result, Int[Array, ""]]:
    """Apply `advance` to groups of `size` rows in turn, in one compiled call."""
    rows = jax.tree.leaves(state)[0].shape[0]

    def cut(tree: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf.reshape(rows // size, size, *leaf.shape[1:]), tree)

    if problem.has_rows:
        moved, counts = jax.lax.map(lambda group: advance(*group), (cut(problem), cut(state)))
    else:
        moved, counts = jax.lax.map(lambda group: advance(problem, group), cut(state))
    return jax.tree.map(lambda leaf: leaf.reshape(rows, *leaf.shape[2:]), moved), counts.sum()


def over_rows(
    function: Callable[[Problem, Tree], PyTree[Array]], problem: Problem, tree: Tree
) -> PyTree[Array]:
    """Map `function(problem, row)` over the rows of a tree, with each row's problem if it has one.

    A single row is not batched, which spares it the batched products.
    """
    if jax.tree.leaves(tree)[0].shape[0] > 1:
        return jax.vmap(function, in_axes=(0 if problem.has_rows else None, 0))(problem, tree)
    first = jax.tree.map(lambda leaf: leaf[0], tree)
    if problem.has_rows:
        problem = jax.tree.map(lambda leaf: leaf[0], problem)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(problem, first))


def over_grouped_rows(
    function: Callable[[Problem, Tree], PyTree[Array]], problem: Problem, tree: Tree
) -> PyTree[Array]:
    """As `over_rows`, a group of rows at a time.

    A row's last digits depend on how many others are computed with it, which must not be those of
    a shard: their number depends on that of the cores or devices.
    """

    def group(problem: Problem, rows: Tree) -> tuple[PyTree[Array], Int[Array, ""]]:
        return over_rows(function, problem, rows), jnp.asarray(0)

    return map_groups(group, problem, tree, problem.group)[0]


def pick(mask: Bool[Array, " S"], new: Tree, old: Tree) -> Tree:
    """Leaf by leaf, the new values of rows in `mask`, the old values of the others."""
    return jax.tree.map(
        lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b), new, old
    )
