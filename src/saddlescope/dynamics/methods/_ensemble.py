"""Rows of an ensemble: in groups small enough for one fused loop each, without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

if TYPE_CHECKING:
    from saddlescope.dynamics.methods._problem import Problem

Tree = TypeVar("Tree")

# Products in flight up to which XLA keeps a CPU step in one fused loop (measured: 0.05 µs a seed
# and step at D = 4, H = 5 below it, 0.36 µs above).
_FUSED_GROUP = 4096
# Beyond it matrix products take over, and a few seeds share a call while they fit in the cache.
_MULTIPLIED_GROUP = 2**19
_MOST_MULTIPLIED = 8
# Rows that fill an accelerator.
_ACCELERATED_GROUP = 2**16


def is_on_processor() -> bool:
    """Whether JAX computes on the CPU."""
    return bool(jax.default_backend() == "cpu")


def group_size(rows: int, weights: int, dimension: int) -> int:
    """How many rows advance together: those that fill an accelerator, or a CPU's cache.

    However many devices or cores there are: in a group of another size a row's last digits differ.
    """
    products = weights * dimension
    most = _FUSED_GROUP * 2 // products if is_on_processor() else _ACCELERATED_GROUP
    if most < rows and is_on_processor():
        most = max(most, min(_MULTIPLIED_GROUP // products, _MOST_MULTIPLIED), 1)
    groups = -(-rows // most)
    return -(-rows // groups)


def map_groups(
    advance: Callable[[Problem, Tree], tuple[Tree, Int[Array, ""]]],
    problem: Problem,
    state: Tree,
    size: int,
) -> tuple[Tree, Int[Array, ""]]:
    """Apply `advance` to groups of `size` rows, one group after another, in one compiled call."""
    rows = jax.tree.leaves(state)[0].shape[0]

    def cut(tree: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf.reshape(rows // size, size, *leaf.shape[1:]), tree)

    if problem.has_rows:
        moved, counts = jax.lax.map(lambda both: advance(*both), (cut(problem), cut(state)))
    else:
        moved, counts = jax.lax.map(lambda own: advance(problem, own), cut(state))
    return jax.tree.map(lambda leaf: leaf.reshape(rows, *leaf.shape[2:]), moved), counts.sum()


def over_rows(
    function: Callable[[Problem, Tree], PyTree[Array]], problem: Problem, tree: Tree
) -> PyTree[Array]:
    """`function(problem, own)` for every row of a tree, with the row's own problem if it has one.

    Alone, a row is spared the batched products.
    """
    if jax.tree.leaves(tree)[0].shape[0] > 1:
        return jax.vmap(function, in_axes=(0 if problem.has_rows else None, 0))(problem, tree)
    first = jax.tree.map(lambda leaf: leaf[0], tree)
    own = jax.tree.map(lambda leaf: leaf[0], problem) if problem.has_rows else problem
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(own, first))


def pick(mask: Bool[Array, " S"], new: Tree, old: Tree) -> Tree:
    """Leaf by leaf, the new values of the rows in `mask` and the old ones of the others."""
    return jax.tree.map(
        lambda a, b: jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b), new, old
    )
