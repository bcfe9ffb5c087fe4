"""Loading the user's own files: classes of a kind, measures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from saddlescope.errors import InvalidInput


def load_module(field: str, path: Path) -> ModuleType:
    """Import the user's file as a module of its name, once."""
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if Path(getattr(loaded, "__file__", None) or "").resolve() == path.resolve():
            return loaded
        raise InvalidInput(field, str(path), "another module has that name; rename the file")
    if not path.is_file():
        raise InvalidInput(field, str(path), "there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(field, str(path), "must be a Python file, its name ending in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        # Whatever the user's file does when it is run.
        del sys.modules[path.stem]
        raise InvalidInput(field, str(path), f"{type(problem).__name__}: {problem}") from None
    return module
