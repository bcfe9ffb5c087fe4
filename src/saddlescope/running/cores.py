"""The cores of this machine, and work spread over all of them."""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_thread = threading.local()

Item = TypeVar("Item")
Result = TypeVar("Result")

# Limits may overlap in threads that enter and leave in any order: the least one counts.
_core_limits: list[int] = []
_thread_limits: list[int] = []


def count_cores() -> int:
    """The number of cores that this process may use; all of them where the system does not say."""
    try:
        present = len(os.sched_getaffinity(0))
    except AttributeError:
        present = os.cpu_count() or 1
    return min([present, *_core_limits])


@contextmanager
def at_most_cores(count: int) -> Iterator[None]:
    """Limit this process to a number of cores: other processes use the rest."""
    with _limited(_core_limits, count):
        yield


@contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Let this process work with no more threads than these, at what it would cut for all cores.

    Unlike `at_most_cores`, it changes nothing in how rows are cut, and so no bit.
    """
    with _limited(_thread_limits, count):
        yield


def count_threads(wanted: int) -> int:
    """How many of the wanted threads may work at once."""
    return min([wanted, *_thread_limits])


def default_workers() -> int:
    """One process for each core; with a GPU that JAX may use, one for it."""
    cpu_only = os.environ.get("JAX_PLATFORMS", "") == "cpu"
    return 1 if glob.glob("/dev/nvidia[0-9]*") and not cpu_only else count_cores()


def on_all_cores(
    function: Callable[[Item], Result], items: Sequence[Item], most: int | None = None
) -> list[Result]:
    """What a function returns for each item, with a thread for every core; of one item, in this.

    `most` bounds the threads: those that call NumPy on small arrays keep one another waiting. Where
    every core has work already, since this is called by such a thread, all is done in it.
    """
    if len(items) <= 1 or getattr(_thread, "is_worker", False):
        return [function(item) for item in items]
    threads = count_threads(min(count_cores(), most or len(items)))
    with ThreadPoolExecutor(threads, initializer=_begin) as pool:
        return list(pool.map(function, items))


@contextmanager
def _limited(limits: list[int], count: int) -> Iterator[None]:
    limits.append(count)
    try:
        yield
    finally:
        limits.remove(count)


def _begin() -> None:
    _thread.is_worker = True
