"""What a figure's numbers depend on besides its setting: the code that computes them."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

from saddlescope.running.code import digest_code

_COMPUTING = (
    "attention",
    "charts",
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


@cache
def code_version(figure: type) -> str:
    """A digest of the modules that compute and draw a figure, and of the libraries under them."""
    return digest_code(_COMPUTING, _modules_of(figure))


@cache
def transformer_version() -> str:
    """A digest of the modules that train and measure transformers, and of the libraries."""
    return digest_code(("measure", "running", "setting", "transformer"))


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
