"""Float64 inside, NumPy outside, and the user's own JAX setting untouched."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


def to_numpy(tree: Any) -> Any:
    """Copy every JAX array in a tree to NumPy, leaving all else as it is."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, tree
    )


def with_float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with 64-bit JAX.

    The context is thread-local, so a thread that calls a decorated function enters it by itself,
    and `jax_enable_x64` outside stays what the user chose.
    """

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside


def in_float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with 64-bit JAX and return NumPy arrays."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        return to_numpy(with_float64(function)(*args, **kwargs))

    return inside
