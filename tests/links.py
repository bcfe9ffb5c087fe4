"""Whether what a page names is there: functions, tests, tags, figures."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def resolve(name: str) -> object:
    """What a dotted name below `saddlescope` stands for; `AttributeError` where nothing does.

    >>> resolve("theory.plateau_losses").__name__
    'plateau_losses'
    """
    found: object = importlib.import_module("saddlescope")
    for part in name.split("."):
        found = getattr(found, part)
    return found


def has_test(node: str) -> bool:
    """Whether `tests/file.py::test_name` is defined.

    >>> has_test("tests/literature/test_papers.py::test_levels_of_figure_3")
    True
    >>> has_test("tests/literature/test_papers.py::test_of_nothing")
    False
    """
    file, _, name = node.partition("::")
    return name in _functions(ROOT / file)


@cache
def _functions(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
