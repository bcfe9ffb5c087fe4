"""Lets every function and dataclass of a package be checked, from when it is imported."""

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from tests.checking import checked

# No name of ours, and with two underscores it would be mangled within classes.
_NAME = "_check_calls_of"


def check_calls(packages: Sequence[str]) -> None:
    """Check what is imported of the packages from here on; nothing of them may be there yet."""
    assert not set(packages) & set(sys.modules)
    sys.meta_path.insert(0, _Finder(frozenset(packages)))


class _Finder(MetaPathFinder):
    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        parts = fullname.split(".")
        if not any(".".join(parts[:count]) in self._packages for count in range(len(parts) + 1)):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Of the source always: what is compiled of it otherwise is not checked."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree = ast.fix_missing_locations(_Decorator().visit(ast.parse(data)))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)
        return code

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, _NAME, checked)
        super().exec_module(module)


class _Decorator(ast.NodeTransformer):
    """Makes each function checked before, and each class after all that decorates it."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.decorator_list.append(ast.copy_location(ast.Name(_NAME, ast.Load()), node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.decorator_list.insert(0, ast.copy_location(ast.Name(_NAME, ast.Load()), node))
        return node
