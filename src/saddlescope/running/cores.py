"""The cores that there are to work on, and work for all of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_thread = threading.local()

Item = TypeVar("Item")
Result = TypeVar("Result")


_most: int | None = None


def count_cores() -> int:
    """The cores that this process may use, where the system tells, else all that there are."""
    try:
        present = len(os.sched_getaffinity(0))
    except AttributeError:
        present = os.cpu_count() or 1
    return present if _most is None else min(present, _most)


@contextmanager
def at_most_cores(count: int) -> Iterator[None]:
    """Let this process use no more cores than these: others have their own work for the rest."""
    global _most
    before, _most = _most, count
    try:
        yield
    finally:
        _most = before


def on_all_cores(
    function: Callable[[Item], Result], items: Sequence[Item], most: int | None = None
) -> list[Result]:
    """What a function returns for each item, with a thread for every core; of one item, in this.

    `most` bounds the threads: those that call NumPy on small arrays keep one another waiting. Where
    every core has work already, since this is called by such a thread, all is done in it.
    """
    if len(items) <= 1 or getattr(_thread, "is_worker", False):
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(count_cores(), most or len(items)), initializer=_begin) as pool:
        return list(pool.map(function, items))


def _begin() -> None:
    _thread.is_worker = True
