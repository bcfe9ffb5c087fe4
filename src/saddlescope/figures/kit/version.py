"""What a figure's numbers depend on besides its setting: the code that computes them."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import saddlescope

_HOME = Path(saddlescope.__file__).parent
_COMPUTING = (
    "attention",
    "comparison",
    "drawing",
    "dynamics",
    "measure",
    "running",
    "setting",
    "task",
    "theory",
    "transformer",
)
_FAMILY = "saddlescope.figures."
_LIBRARIES = (
    "diffrax",
    "equinox",
    "jax",
    "jaxlib",
    "matplotlib",
    "numpy",
    "optax",
    "scipy",
    "xarray",
)


@cache
def code_version(figure: type) -> str:
    """A digest of the modules that compute and draw a figure, and of the libraries under them."""
    return _digest(_COMPUTING, _modules_of(figure))


@cache
def transformer_version() -> str:
    """A digest of the modules that train and measure transformers, and of the libraries."""
    return _digest(("measure", "running", "setting", "transformer"))


def _digest(rooms: Iterable[str], own: Iterable[Path] = ()) -> str:
    """Of all modules of some rooms, of those above them, and of a figure's own."""
    digest = hashlib.sha256()
    files = [path for room in rooms for path in (_HOME / room).rglob("*.py")]
    for path in sorted([*files, *_HOME.glob("*.py"), *own]):
        digest.update(path.read_bytes() + b"\0")
    for name in _LIBRARIES:
        digest.update(f"{name}=={version(name)}\n".encode())
    return digest.hexdigest()[:16]


def _modules_of(figure: type) -> list[Path]:
    """The figure's own module and those of its family that it imports, directly or not."""
    paths: dict[str, Path] = {}
    waiting = [figure.__module__]
    while waiting:
        name = waiting.pop()
        if name in paths or name not in sys.modules:
            continue
        paths[name] = Path(str(sys.modules[name].__file__))
        for node in ast.walk(ast.parse(paths[name].read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(_FAMILY):
                # What is imported may be a module itself.
                waiting += [str(node.module), *(f"{node.module}.{one.name}" for one in node.names)]
    return list(paths.values())
