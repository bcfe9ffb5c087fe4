"""How many cores there are to work on."""

from __future__ import annotations

import os


def count_cores() -> int:
    """The cores that this process may use, where the system tells, else all that there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
