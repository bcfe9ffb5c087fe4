"""A sheet in two files: its description in JSON, and the arrays that it names in NPZ."""

from __future__ import annotations

import io
import json
import types
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from saddlescope.charts.layers import LAYERS, AbstractLayer
from saddlescope.charts.sheet import Sheet
from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead

FORMAT = 1
_KINDS = {kind.kind: kind for kind in LAYERS}
_Made = TypeVar("_Made")


def write_sheet(sheet: Sheet) -> tuple[bytes, bytes]:
    """The JSON and the NPZ from which `read_sheet` rebuilds the sheet.

    An array that several layers share, such as the times of all curves, is stored once.
    """
    arrays: dict[tuple[tuple[int, ...], bytes], int] = {}
    described = {"format": FORMAT, "sheet": _described(sheet, arrays)}
    text = json.dumps(described, ensure_ascii=False, indent=1, allow_nan=False)
    numbered = {
        str(index): np.frombuffer(content).reshape(shape)
        for (shape, content), index in arrays.items()
    }
    packed = io.BytesIO()
    np.savez_compressed(packed, **cast(dict[str, AnyArray], numbered))  # type: ignore[arg-type]
    return text.encode("utf-8") + b"\n", packed.getvalue()


def read_sheet(text: bytes, packed: bytes) -> Sheet:
    """The sheet that was written; refused if it holds anything that this version does not know."""
    try:
        described = json.loads(text)
        if described["format"] != FORMAT:
            raise CannotRead(
                f"a chart of format {described['format']}: this version reads format {FORMAT}"
            )
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
        return _made(Sheet, described["sheet"], held)
    except (KeyError, TypeError, ValueError, OSError) as problem:
        raise CannotRead(f"a chart cannot be read: {type(problem).__name__}: {problem}") from None


def _described(value: object, arrays: dict[tuple[tuple[int, ...], bytes], int]) -> object:
    if isinstance(value, np.ndarray):
        whole = np.ascontiguousarray(value, dtype=np.float64)
        key = whole.shape, whole.tobytes()
        return {"array": arrays.setdefault(key, len(arrays))}
    if is_dataclass(value):
        own = {
            field.name: _described(getattr(value, field.name), arrays) for field in fields(value)
        }
        return {"kind": value.kind, **own} if isinstance(value, AbstractLayer) else own
    return [_described(part, arrays) for part in value] if isinstance(value, tuple) else value


def _made(kind: type[_Made], values: Mapping[str, object], arrays: dict[str, AnyArray]) -> _Made:
    hints = _hints(cast(Hashable, kind))
    names = [field.name for field in fields(cast(type[Sheet], kind))]
    unknown = sorted({*values} - {*names, "kind"})
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {', '.join(unknown)}")
    return kind(**{name: _read(hints[name], values[name], arrays) for name in names})


@cache
def _hints(kind: Hashable) -> dict[str, object]:
    return get_type_hints(cast(type, kind))


def _read(hint: object, value: object, arrays: dict[str, AnyArray]) -> object:
    """A value of the type that a field has."""
    if isinstance(value, dict) and "array" in value:
        return arrays[str(value["array"])]
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        chosen = next(one for one in inside if one is not types.NoneType)
        return None if value is None else _read(chosen, value, arrays)
    if origin is tuple and isinstance(value, list):
        parts = inside[:1] * len(value) if inside[1:] == (...,) else inside
        return tuple(_read(one, part, arrays) for one, part in zip(parts, value, strict=True))
    if isinstance(value, dict) and isinstance(hint, type):
        if hint is AbstractLayer:
            hint = _KINDS[str(value["kind"])]
        return _made(hint, value, arrays)
    return _checked(hint, value)


def _checked(hint: object, value: object) -> object:
    if get_origin(hint) is Literal:
        allowed: tuple[object, ...] = get_args(hint)
    elif hint is float:
        return float(cast(float, value))
    else:
        allowed = (value,) if isinstance(value, cast(type, hint)) else ()
    if value not in allowed:
        raise ValueError(f"{value!r} is not allowed here")
    return value
