"""Whether something fits in memory, asked before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from saddlescope.errors import InvalidInput

_ROOT = Path("/")
# Less than this is not looked for: JAX alone takes ten times as much, and each look time, .3 ms.
_SMALL = 2**25
# The limit on a control group's memory, what it uses, and what of that could be given up; in its
# version 2, and in version 1, where memory has groups of its own.
_GROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available_bytes() -> int:
    """Memory that can be had without swapping, within what a container or a job may take."""
    return min([_free_on_the_machine(), *_free_in_groups()])


def _free_on_the_machine() -> int:
    try:
        for line in (_ROOT / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _free_in_groups() -> Iterator[int]:
    """What is left of each limit on the control groups of this process (versions 1 and 2)."""
    try:
        lines = (_ROOT / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version = "memory" if controllers else ""
        if version not in controllers.split(","):
            continue
        limit, used, cached = _GROUP_FILES[version]
        group = _ROOT / "sys/fs/cgroup" / version / path.strip("/")
        # A limit on a group holds for all inside it. A container may see only the outermost.
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError, KeyError):
                known = (folder / "memory.stat").read_text().split()
                reclaimable = int(dict(zip(known[::2], known[1::2], strict=True))[cached])
                free = int((folder / limit).read_text()) - int((folder / used).read_text())
                yield max(free + reclaimable, 0)


def check_memory(numbers: int, sizes: Mapping[str, int], cure: str) -> None:
    """Refuse what would need more than is free, `numbers` of eight bytes; blame the largest size.

    >>> check_memory(1000, {"seeds": 10, "heads": 100}, "take fewer")
    """
    needed = 8 * numbers
    if needed < _SMALL:
        return
    free = available_bytes()
    if needed > free:
        field = max(sizes, key=lambda name: sizes[name])
        raise InvalidInput(
            field,
            sizes[field],
            f"this would take {_gigabytes(needed)} and {_gigabytes(free)} are free: {cure}",
        )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size < 10**300 else "more GB than can be written"
