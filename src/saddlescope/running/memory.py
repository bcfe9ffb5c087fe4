"""Whether something fits in memory, asked before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from saddlescope.errors import InvalidInput


def available_bytes() -> int:
    """Memory that can be had without swapping."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_memory(numbers: int, sizes: Mapping[str, int], cure: str) -> None:
    """Refuse what would need more than is free, `numbers` of eight bytes; blame the largest size.

    >>> check_memory(1000, {"seeds": 10, "heads": 100}, "take fewer")
    """
    needed, free = 8 * numbers, available_bytes()
    if needed > free:
        field = max(sizes, key=lambda name: sizes[name])
        raise InvalidInput(
            field,
            sizes[field],
            f"this would take {_gigabytes(needed)} and {_gigabytes(free)} are free: {cure}",
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size < 10**300 else "more GB than can be written"
