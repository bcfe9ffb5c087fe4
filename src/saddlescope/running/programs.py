"""Compiled programs: a process lets go of them before they fill its memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# A program and what JAX keeps beside it take five megabytes or so.
_MOST = 128

_count = 0

# XLA's library of CPU kernels is for products alone: exponentials and sums that it takes over with
# them are slower there (measured: 270 against 200 µs a step of softmax attention).
_TUNING = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}
# What other versions of XLA say to it.
_UNKNOWN_OPTION = "No such compile option"
_is_tuned = True


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function with `eqx.filter_jit`, and count the programs that this makes."""
    import equinox as eqx
    import jax

    @wraps(function)
    def traced(*arguments: P.args, **options: P.kwargs) -> T:
        # Runs while it is traced: once a program, never with one.
        global _count
        _count += 1
        return function(*arguments, **options)

    plain: Callable[P, T] = eqx.filter_jit(traced)
    tuned: Callable[P, T] = eqx.filter_jit(traced, compiler_options=_TUNING)  # type: ignore[call-overload]

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        global _is_tuned
        # What is part of another program is compiled as that is.
        is_part = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))
        if _is_tuned and not is_part:
            try:
                return tuned(*arguments, **options)
            except jax.errors.JaxRuntimeError as problem:
                if _UNKNOWN_OPTION not in str(problem):
                    raise
                _is_tuned = False
        return plain(*arguments, **options)

    return call


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
