"""Kinds register themselves: a class, the part of a setting that it can be, and its name there."""

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
    """Register the interface that every kind of a part follows."""

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
    """The class of that name.

    A class of the user's own is found where the user has imported it; nothing is imported for it,
    so that reading a setting never runs code that its reader has not chosen.
    """
    known = kinds_of(part)
    if isinstance(name, str):
        if name in known:
            return known[name]
        module, _, attribute = name.partition(":")
        found = getattr(sys.modules.get(module), attribute, None)
        if isinstance(found, type) and is_dataclass(found) and is_kind(found, part):
            return found
    allowed = ", ".join(known)
    raise InvalidInput(field, name, f"must be {allowed}, or module:Class of a {part} imported here")


def is_kind(cls: type, part: str) -> bool:
    """Whether a class can be that part of a setting."""
    return part not in _BASES or issubclass(cls, _BASES[part])


def is_part_name(name: str) -> bool:
    """Whether a part of a setting is called so."""
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
        base = _BASES[part].__name__
        article = "an" if base[0] in "AEIOU" else "a"
        raise InvalidInput(part, value, f"must be {article} {base}")
