"""Compiled programs: a process lets go of them before they fill its memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# A program and what JAX keeps beside it take five megabytes or so.
_MOST = 128

_count = 0


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function with `eqx.filter_jit`, and count the programs that this makes."""
    import equinox as eqx

    @wraps(function)
    def traced(*arguments: P.args, **options: P.kwargs) -> T:
        # Runs while it is traced: once a program, never with one.
        global _count
        _count += 1
        return function(*arguments, **options)

    return eqx.filter_jit(traced)


def let_go() -> None:
    """Empty JAX's caches where we have filled them with more programs than a process should hold.

    JAX keeps a program, and all that was traced for it, for each shape and for as long as the
    process lives, and can only let go of everything at once. What is used again is compiled anew.
    """
    global _count
    if _count > _MOST:
        import jax

        _count = 0
        jax.clear_caches()


def ignore_torn_programs() -> None:
    """Say nothing of a kept program that cannot be read or written: it is compiled again.

    JAX does not write it whole or not at all, and processes that share a folder read one another's.
    """
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
