"""`Prompts` as JAX takes them: a tree of three arrays, whose leaves are not checked again."""

from __future__ import annotations

import jax

from saddlescope.task.prompts import Prompts

__all__ = ["Prompts"]

jax.tree_util.register_pytree_node(
    Prompts,
    lambda prompts: ((prompts.x, prompts.y, prompts.lengths), None),
    lambda _, leaves: Prompts.of_arrays(*leaves),
)
