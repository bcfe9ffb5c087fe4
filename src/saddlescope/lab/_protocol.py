"""What page and server send to each other: JSON requests, and binary frames in answer.

A frame is the length of its header in four bytes (little-endian), the header as JSON, padded with
spaces to a multiple of eight, and the arrays that the header names, one after another: the page
reads them in place. Numbers that may not be finite are in arrays only.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.setting.plain import Plain

LONGEST_MESSAGE = 32_768
"""The most bytes of a request: a setting takes less than one thousand."""

_LENGTH = struct.Struct("<I")
_ALIGNMENT = 8
_TYPES = {"f4": "<f4", "f8": "<f8"}


class Asked(StrEnum):
    """What a page can ask for."""

    RUN = "run"
    PROMPTS = "prompts"


class Kind(StrEnum):
    """What a frame answers."""

    HELLO = "hello"
    PREDICTION = "prediction"
    LAW = "law"
    RUN = "run"
    PROMPTS = "prompts"
    WAITING = "waiting"
    REFUSED = "refused"


class Malformed(Exception):
    """A message that the page never sends."""


@dataclass(frozen=True)
class Request:
    """What a page asks for; `number` counts its requests, and every frame in answer repeats it."""

    asked: Asked
    number: int
    setting: Plain
    """Plain values, not checked yet."""
    seed: int
    """The seed with which prompts are drawn."""
    shown: int | None = None
    """The index of the seed whose run is sent before the others; None to have all at once."""


def read_request(message: str | bytes | None) -> Request:
    """The request in a message.

    >>> read_request('{"ask": "run", "number": 3, "setting": {}}').number
    3
    """
    if not isinstance(message, str) or len(message.encode()) > LONGEST_MESSAGE:
        raise Malformed
    try:
        values = json.loads(message)
        asked = Asked(values["ask"])
        number, seed = values["number"], values.get("seed", 0)
        shown = values.get("shown")
        setting = values["setting"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Malformed from None
    given = (number, seed) if shown is None else (number, seed, shown)
    if not all(type(one) is int and 0 <= one < 2**53 for one in given):
        raise Malformed
    return Request(asked, number, setting, seed, shown)


def write_frame(
    kind: Kind, number: int, values: Mapping[str, object], arrays: Mapping[str, AnyArray]
) -> bytes:
    """A frame with plain values and arrays: float32 as it is, anything else as float64.

    >>> frame = write_frame(Kind.RUN, 3, {"share": .5}, {"loss": np.zeros((2, 4))})
    >>> header, held = read_frame(frame)
    >>> header["share"], held["loss"].shape
    (0.5, (2, 4))
    """
    described: dict[str, object] = {}
    pieces: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        code = "f4" if array.dtype == np.float32 else "f8"
        piece = np.ascontiguousarray(array, dtype=_TYPES[code]).tobytes()
        described[name] = {"type": code, "shape": list(array.shape), "offset": offset}
        pieces += [piece, b"\0" * (-len(piece) % _ALIGNMENT)]
        offset += len(piece) + len(pieces[-1])
    header = {"kind": kind, "number": number, **values, "arrays": described}
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNMENT)
    return b"".join([_LENGTH.pack(len(text)), text, *pieces])


def read_frame(frame: bytes) -> tuple[dict[str, Plain], dict[str, AnyArray]]:
    """The header and the arrays of a frame (the inverse of `write_frame`)."""
    (length,) = _LENGTH.unpack_from(frame)
    begin = _LENGTH.size + length
    header = json.loads(frame[_LENGTH.size : begin])
    arrays: dict[str, AnyArray] = {}
    for name, one in header.pop("arrays").items():
        data = np.frombuffer(
            frame, _TYPES[one["type"]], int(np.prod(one["shape"])), begin + one["offset"]
        )
        arrays[name] = data.reshape(one["shape"])
    return header, arrays
