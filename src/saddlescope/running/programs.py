"""Compiled programs: a process lets go of them before they fill its memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# A program and what JAX keeps beside it take five megabytes or so.
_most = 128

_Option = tuple[str, str | int | bool]
# XLA's library of kernels is for products alone: the exponentials that it takes over with them are
# slower there (measured: 270 µs a step of softmax attention, and 200 so; nothing else is slower).
_FOR_LOOPS: tuple[_Option, ...] = (
    ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_DOT"),
)
# Of every level, the emitters and the cut, these compile a flow's beginning fastest: .09 s for .9.
_IN_HASTE: tuple[_Option, ...] = (
    ("xla_backend_optimization_level", 0),
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", 1),
)

_count = 0


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a function with `eqx.filter_jit`, and count the programs that this makes."""
    return _compiled(function, _FOR_LOOPS)


def compiled_in_haste(function: Callable[P, T]) -> Callable[P, T]:
    """As `compiled`, in a tenth of the time, for what runs once and for a moment."""
    return _compiled(function, _IN_HASTE)


def _compiled(function: Callable[P, T], wanted: tuple[_Option, ...]) -> Callable[P, T]:
    import equinox as eqx
    import jax

    @wraps(function)
    def traced(*arguments: P.args, **options: P.kwargs) -> T:
        # Runs while it is traced: once a program, never with one.
        global _count
        _count += 1
        return function(*arguments, **options)

    plain, tuned = eqx.filter_jit(traced), None

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        nonlocal tuned
        if any(isinstance(one, jax.core.Tracer) for one in jax.tree.leaves((arguments, options))):
            # It becomes a part of another program, whose options are those that count.
            return plain(*arguments, **options)
        if tuned is None:
            # equinox hands them on to JAX, and does not say so in its types.
            taken = {"compiler_options": dict(_options_taken(wanted))}
            tuned = eqx.filter_jit(traced, **taken)  # type: ignore[call-overload]
        return tuned(*arguments, **options)

    return call


@cache
def _options_taken(options: tuple[_Option, ...]) -> tuple[_Option, ...]:
    """Those options for a processor that this XLA knows and that its user has not set."""
    import jax

    if jax.default_backend() != "cpu" or jax.config.read("jax_disable_most_optimizations"):
        return ()
    flags = os.environ.get("XLA_FLAGS", "")
    free = tuple(option for option in options if option[0] not in flags)
    if not free or _is_known(free):
        return free
    return tuple(option for option in free if _is_known((option,)))


def _is_known(options: tuple[_Option, ...]) -> bool:
    """Whether this XLA compiles with options: other than in XLA_FLAGS, it refuses unknown ones."""
    import jax

    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except Exception:
        # Which one it raises depends on the version of JAX.
        return False
    return True


def programs_made() -> int:
    """How many programs the process has compiled since it last let go of them."""
    return _count


def hold(count: int) -> None:
    """Let the process hold at least so many programs, where nothing may wait for one."""
    global _most
    _most = max(_most, count)


def let_go() -> None:
    """Empty JAX's caches where we have filled them with more programs than a process should hold.

    JAX keeps a program, and all that was traced for it, for each shape and for as long as the
    process lives, and can only let go of everything at once. What is used again is compiled anew.
    """
    global _count
    if _count > _most:
        import jax

        _count = 0
        jax.clear_caches()


def ignore_torn_programs() -> None:
    """Say nothing of a kept program that cannot be read or written: it is compiled again.

    JAX does not write it whole or not at all, and processes that share a folder read one another's.
    """
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
