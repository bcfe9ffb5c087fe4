"""Computation in float64, or float32 on request, whatever the user's JAX setting."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


@runtime_checkable
class HasPrecision(Protocol):
    """An object that computes in a precision of its own."""

    @property
    def precision(self) -> str:
        """`float64` or `float32`."""


Owner = TypeVar("Owner", bound=HasPrecision)


def to_numpy(tree: Any) -> Any:
    """Copy every JAX array in a tree to NumPy, leaving all else as it is."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, tree
    )


def within(precision: str) -> AbstractContextManager[object]:
    """JAX in `float64` or in `float32`, in this thread."""
    return jax.enable_x64(precision == "float64")


def in_own_precision(
    method: Callable[Concatenate[Owner, P], T],
) -> Callable[Concatenate[Owner, P], T]:
    """Run a method in the precision of its object."""

    @wraps(method)
    def inside(self: Owner, *args: P.args, **kwargs: P.kwargs) -> T:
        with within(self.precision):
            return method(self, *args, **kwargs)

    return inside


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
