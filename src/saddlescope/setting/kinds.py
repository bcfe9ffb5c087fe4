"""The registry of kinds: which classes can be which part of a setting, under which name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import MappingProxyType
from typing import TypeVar

from saddlescope.errors import InvalidInput

Class = TypeVar("Class", bound=type)

# The rooms whose import registers the kinds of a part. What is only part of another value, such as
# a spectrum, has no room of its own: it is registered before anything can hold it.
_ROOMS = {
    "task": "saddlescope.task",
    "model": "saddlescope.attention",
    "init": "saddlescope.attention",
    "method": "saddlescope.dynamics",
    "record": "saddlescope.dynamics",
    "experiment": "saddlescope.transformer",
    "figure": "saddlescope.figures",
}
_BASES: dict[str, type] = {}
_KINDS: dict[str, dict[str, type]] = {"value": {}}
_NAMES: dict[type, str] = {}


def part(name: str) -> Callable[[Class], Class]:
    """Register the interface of all kinds of a part."""

    def register(cls: Class) -> Class:
        _BASES[name] = cls
        _KINDS.setdefault(name, {})
        return cls

    return register


def kind(part: str, name: str) -> Callable[[Class], Class]:
    """Register a class as a kind of a part, `"value"` where it is only part of another value."""

    def register(cls: Class) -> Class:
        _KINDS.setdefault(part, {})[name] = cls
        _NAMES[cls] = name
        return cls

    return register


def kinds_of(part: str) -> Mapping[str, type]:
    """The kinds of a part by name, in the order in which they registered."""
    if part in _ROOMS:
        importlib.import_module(_ROOMS[part])
    return MappingProxyType(_KINDS[part])


def kind_name(cls: type) -> str:
    """The name that a class registered, or `module:Class` for a class of the user's own."""
    return _NAMES.get(cls, f"{cls.__module__}:{cls.__qualname__}")


def find_kind(part: str, name: object, field: str) -> type:
    """The class with a registered name, or a user's class as `module:Class`.

    The user's class must have been imported: reading a setting never imports code.
    """
    known = kinds_of(part)
    if isinstance(name, str):
        if name in known:
            return known[name]
        module, _, attribute = name.partition(":")
        cls = getattr(sys.modules.get(module), attribute, None)
        if isinstance(cls, type) and is_dataclass(cls) and is_kind(cls, part):
            return cls
    allowed = ", ".join(known)
    own = f"module:Class of {_with_article(part)} imported here"
    raise InvalidInput(field, name, f"must be {allowed}, or {own}")


def is_kind(cls: type, part: str) -> bool:
    """Whether a class can be that part of a setting."""
    return part not in _BASES or issubclass(cls, _BASES[part])


def is_part_name(name: str) -> bool:
    """Whether a part of a setting has this name."""
    return name in _BASES


def is_part(value: object) -> bool:
    """Whether a value is a part of a setting, or a setting: what holds it shows its fields."""
    return isinstance(value, tuple(_BASES.values()))


def check_part(part: str, value: object) -> None:
    """Raise where a value cannot be that part of a setting."""
    kinds = kinds_of(part)
    if value is None:
        names = ", ".join(cls.__name__ for cls in kinds.values())
        raise InvalidInput(part, value, f"must be given: {names}")
    if not is_kind(type(value), part):
        raise InvalidInput(part, value, f"must be {_with_article(_BASES[part].__name__)}")


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "AEIOUaeiou" else f"a {noun}"
