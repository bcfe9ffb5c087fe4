"""Running anything long: the one loop, observers, interruption, files, memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saddlescope.running._checkpoint import Checkpoint
    from saddlescope.running.observers import AbstractObserver, Snapshot, StopButton, StopWhen
    from saddlescope.running.progress_bar import ProgressBar

# Loaded when first used: the guard of a process must stand before anything heavy is imported.
_HOMES = {
    "AbstractObserver": "observers",
    "Checkpoint": "_checkpoint",
    "ProgressBar": "progress_bar",
    "Snapshot": "observers",
    "StopButton": "observers",
    "StopWhen": "observers",
}

__all__ = [
    "AbstractObserver",
    "Checkpoint",
    "ProgressBar",
    "Snapshot",
    "StopButton",
    "StopWhen",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
