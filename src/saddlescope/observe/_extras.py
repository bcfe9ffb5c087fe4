"""Optional packages: where one is missing, one line says what to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from saddlescope.errors import InvalidInput

_EXTRA = "observe"


def require(name: str) -> ModuleType:
    """Import a module, or raise `InvalidInput` naming the extra that provides it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        allowed = f"is not installed: pip install 'saddlescope[{_EXTRA}]'"
        raise InvalidInput("package", missing.name, allowed) from None
