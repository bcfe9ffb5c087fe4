"""Whether an ensemble fits in memory, asked before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from saddlescope.errors import InvalidInput

# The records are held by the compiled loop, copied at a segment border, and once more as results.
_COPIES = 3


def available_bytes() -> int:
    """Memory that can be had without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory(seeds: int, points: int, numbers: int) -> None:
    """Refuse an ensemble that would need more than is free; `numbers` are kept at every point."""
    needed = 8 * _COPIES * seeds * points * numbers
    free = available_bytes()
    if needed > free:
        raise InvalidInput(
            "seeds",
            seeds,
            f"{points} recorded points of {numbers} numbers each would take {needed / 1e9:.3g} GB "
            f"and {free / 1e9:.3g} GB are free: take fewer seeds, fewer points, or no weights",
        )
