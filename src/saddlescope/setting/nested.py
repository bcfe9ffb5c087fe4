"""The fields of a value and of the settings that it holds, as one flat list of names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from saddlescope.checks import AnyArray
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import Field, fields_of
from saddlescope.setting.kinds import is_part
from saddlescope.setting.plain import Plain, Written, to_plain

Value = TypeVar("Value")


def flat_fields(value: object) -> dict[str, Field]:
    """The fields of a dataclass by name, a part that it holds replaced by the part's own fields.

    What a class names in `varied` it gives values of its own, so that nobody else can.

    >>> from saddlescope.attention import RandomStart
    >>> list(flat_fields(RandomStart(.1)))
    ['init_scale']
    """
    fields: dict[str, Field] = {}
    for name, field in fields_of(type(value)).items():
        held = getattr(value, name, None)
        fields |= flat_fields(held) if is_part(held) else {name: field}
    return {name: fields[name] for name in fields if name not in _varied(value)}


def flat_plain(value: object, arrays: dict[str, AnyArray] | None = None) -> dict[str, Plain]:
    """The same fields with their values, as plain data."""
    kept: dict[str, AnyArray] = {} if arrays is None else arrays
    chosen = value.written() if isinstance(value, Written) else value
    if not isinstance(chosen, Mapping):
        chosen = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}  # type: ignore[arg-type]
    values: dict[str, Plain] = {}
    for name, held in chosen.items():
        values |= flat_plain(held, kept) if is_part(held) else {name: to_plain(held, kept)}
    return {name: values[name] for name in values if name not in _varied(value)}


def replace_fields(value: Value, changes: Mapping[str, object]) -> Value:
    """A copy with other values of some fields, its own or those of its parts.

    Where a class says in `in_place_of` that a field replaces another, that one is dropped.
    """
    known_fields = fields_of(type(value))
    own = {name: changes[name] for name in changes if name in known_fields}
    for name, other in getattr(type(value), "in_place_of", {}).items():
        if own.get(name) is not None and other in known_fields:
            own.setdefault(other, None)
    rest = {name: changes[name] for name in changes if name not in own}
    for name in known_fields:
        part = own.get(name, getattr(value, name, None))
        inner = {one: rest.pop(one) for one in list(rest) if is_part(part) and _has(part, one)}
        if inner:
            own[name] = replace_fields(part, inner)
    if rest:
        name = next(iter(rest))
        known = ", ".join(flat_fields(value))
        raise InvalidInput(name, rest[name], f"is no field here; there are {known}")
    # What is written in short, such as a number of records, goes with what else is changed.
    chosen = value.written() if isinstance(value, Written) else None
    kept = chosen if isinstance(chosen, Mapping) else {}
    short = {name: kept[name] for name in kept if kept[name] is not None}
    return dataclasses.replace(value, **{**short, **own})  # type: ignore[type-var]


def replace_texts(value: Value, texts: Mapping[str, str]) -> Value:
    """A copy with other values of some fields, given as text."""
    known = flat_fields(value)
    for name, text in texts.items():
        if name not in known:
            raise InvalidInput(
                name.replace("_", "-"), text, f"is no field here; there are {', '.join(known)}"
            )
    return replace_fields(value, {name: known[name].parse(text) for name, text in texts.items()})


def _varied(value: object) -> tuple[str, ...]:
    return getattr(type(value), "varied", ())


def _has(part: object, name: str) -> bool:
    return name in fields_of(type(part)) or name in flat_fields(part)
