"""Saddlescope: how attention learns to learn in context, trained exactly and predicted by theory.

The public names are those of the modules below; each is loaded when it is first used, so that
`import saddlescope` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "1.0.0"

# In the order in which they are searched: a room may import those before it.
_ROOMS = (
    "errors",
    "setting",
    "task",
    "attention",
    "running",
    "dynamics",
    "trajectory",
    "storage",
    "comparison",
    "lab",
    "sweep",
)
_MODULES = (*_ROOMS, "measure", "observe", "theory", "transformer")

if TYPE_CHECKING:
    from saddlescope.attention import *
    from saddlescope.comparison import *
    from saddlescope.dynamics import *
    from saddlescope.errors import *
    from saddlescope.lab import *
    from saddlescope.running import *
    from saddlescope.setting import *
    from saddlescope.storage import *
    from saddlescope.sweep import *
    from saddlescope.task import *
    from saddlescope.trajectory import *


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name in _MODULES:
        return importlib.import_module(f"saddlescope.{name}")
    for room in _ROOMS:
        found = importlib.import_module(f"saddlescope.{room}")
        if name in found.__all__:
            globals()[name] = getattr(found, name)
            return globals()[name]
    raise AttributeError(f"module 'saddlescope' has no attribute {name!r}")


def __dir__() -> list[str]:
    rooms = [importlib.import_module(f"saddlescope.{room}") for room in _ROOMS]
    return sorted({*_MODULES, *(name for room in rooms for name in room.__all__)})
