"""Values as plain data (numbers, strings, lists, mappings) and back; large arrays apart."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.setting.fields import REQUIRED, fields_of
from saddlescope.setting.kinds import find_kind, is_part_name, kind_name

Plain: TypeAlias = object
"""None, a number, a text, or a list or mapping of these."""

FORMAT = 2
"""The version of the schema, which is written beside everything that it describes."""

# Arrays up to this size are written out; larger ones are named by their digest.
_WRITTEN_OUT = 64
# A setting is a handful of values deep; what is deeper was not written by anybody.
_DEEPEST = 30


@runtime_checkable
class Written(Protocol):
    """A value with a plain form of its own."""

    def written(self) -> object:
        """Its plain form: a shorter value that its holder accepts, some fields, or itself."""


def to_plain(value: object, arrays: dict[str, AnyArray]) -> Plain:
    """A value as plain data; large arrays go into `arrays` under their digest."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, np.ndarray):
        return _array_to_plain(value, arrays)
    if isinstance(value, tuple | list):
        return [to_plain(item, arrays) for item in value]
    if isinstance(value, Mapping):
        return {str(name): to_plain(item, arrays) for name, item in value.items()}
    chosen = value.written() if isinstance(value, Written) else value
    if isinstance(chosen, Mapping):
        fields = {name: to_plain(item, arrays) for name, item in chosen.items()}
        return {"kind": kind_name(type(value)), **fields}
    if chosen is not value:
        return to_plain(chosen, arrays)
    return {"kind": kind_name(type(value)), **fields_to_plain(value, arrays)}


def fields_to_plain(value: object, arrays: dict[str, AnyArray]) -> dict[str, Plain]:
    """The fields of a dataclass as plain data, by name."""
    if not dataclasses.is_dataclass(value):
        raise InvalidInput("setting", value, "holds what cannot be written down: no dataclass")
    return {
        field.name: to_plain(getattr(value, field.name), arrays)
        for field in dataclasses.fields(value)
    }


def describe(value: object) -> dict[str, Plain]:
    """A value of the schema as plain data with the schema's format; without large arrays."""
    plain = to_plain(value, {})
    assert isinstance(plain, dict)
    return {"format": FORMAT, **plain}


def read(part: str, values: object) -> object:
    """The kind of a part that plain values describe (the inverse of `describe`)."""
    if not isinstance(values, Mapping) or "kind" not in values:
        raise InvalidInput(part, values, "must be a mapping of fields to values, with its kind")
    return from_plain(part, check_format(values), {}, part)


def check_format(values: Mapping[str, Plain]) -> dict[str, Plain]:
    """Plain data without its format, which must be this version's."""
    version = values.get("format", FORMAT)
    if version != FORMAT:
        raise InvalidInput("format", version, f"this version reads format {FORMAT}")
    return {name: value for name, value in values.items() if name != "format"}


def digest(plain: Plain) -> str:
    """Sixteen hexadecimal digits that identify plain data, the same in every process."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def from_plain(
    field: str, value: Plain, arrays: Mapping[str, FloatArray], part: str = "value", depth: int = 0
) -> object:
    """The inverse of `to_plain`; `field` names the value in messages."""
    if depth > _DEEPEST:
        raise InvalidInput(field, "…", "holds too many values within one another")
    if isinstance(value, list):
        return tuple(from_plain(field, item, arrays, depth=depth + 1) for item in value)
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        name = value["array"]
        if not isinstance(name, str) or name not in arrays:
            raise InvalidInput(field, name, "is the digest of data that is not at hand")
        return arrays[name]
    if "kind" not in value:
        return {
            name: from_plain(f"{field}.{name}", item, arrays, depth=depth + 1)
            for name, item in value.items()
        }
    given = {name: item for name, item in value.items() if name != "kind"}
    cls = find_kind(part, value["kind"], f"{field}.kind")
    return build(field, cls, given, arrays, depth + 1)


def build(
    field: str,
    cls: type,
    given: Mapping[str, Plain],
    arrays: Mapping[str, FloatArray],
    depth: int = 0,
) -> object:
    """An object of a class, from plain data of its fields."""
    known = fields_of(cls)
    required = [name for name, one in known.items() if one.default is REQUIRED]
    check_fields(field, given, known, required)
    # A part that a kind holds stands under the part's own name.
    parts = {name: name if is_part_name(name) else "value" for name in given}
    return cls(
        **{
            name: from_plain(f"{field}.{name}", given[name], arrays, parts[name], depth)
            for name in given
        }
    )


def check_fields(
    owner: str, given: Mapping[str, Plain], allowed: Mapping[str, object], required: list[str]
) -> None:
    """Raise where a field is unknown, or a required one missing."""
    for name in given:
        if name not in allowed:
            raise InvalidInput(
                f"{owner}.{name}", given[name], f"unknown field; allowed: {', '.join(allowed)}"
            )
    for name in required:
        if name not in given:
            raise InvalidInput(f"{owner}.{name}", None, "is missing")


def _array_to_plain(value: AnyArray, arrays: dict[str, AnyArray]) -> Plain:
    if value.size <= _WRITTEN_OUT:
        return value.tolist()
    data = np.ascontiguousarray(value, dtype="<f8")
    name = hashlib.sha256(str(data.shape).encode() + data.tobytes()).hexdigest()[:16]
    arrays[name] = value
    return {"array": name, "shape": list(value.shape)}
