"""A decoder on disk, in safetensors, with a checksum over all that is read back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead
from saddlescope.running.files import as_path, write_bytes
from saddlescope.transformer._decoder import Decoder, DecoderShape


def save_decoder(path: str | Path, decoder: Decoder) -> None:
    """Save a decoder's weights by name, and its shape."""
    import safetensors.numpy

    # A view that is not contiguous would be written in the order of its memory.
    arrays = {name: np.array(array, order="C") for name, array in decoder.weights.items()}
    shape = json.dumps(dataclasses.asdict(decoder.shape))
    about = {"shape": shape, "checksum": _checksum(shape, arrays)}
    write_bytes(as_path("path", path), safetensors.numpy.save(arrays, metadata=about))


def load_decoder(path: str | Path) -> Decoder:
    """The decoder that was saved."""
    import safetensors.numpy

    try:
        content = as_path("path", path).read_bytes()
    except OSError as wrong:
        raise CannotRead(f"path = {str(path)!r}: {wrong.strerror}") from None
    try:
        # A header of JSON, its length before it in eight bytes.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        arrays, about = safetensors.numpy.load(content), header.get("__metadata__", {})
    except Exception:
        # A damaged file raises whatever its damage makes the readers run into.
        raise CannotRead(f"path = {str(path)!r}: is damaged, or no decoder") from None
    if not {"shape", "checksum"} <= set(about):
        raise CannotRead(f"path = {str(path)!r}: holds no decoder of Saddlescope's")
    if _checksum(about["shape"], arrays) != about["checksum"]:
        raise CannotRead(f"path = {str(path)!r}: is damaged (it is not what was written)")
    try:
        return Decoder.of(DecoderShape(**json.loads(about["shape"])), arrays)
    except (ValueError, TypeError) as wrong:
        raise CannotRead(f"path = {str(path)!r}: cannot be read here ({wrong})") from None


def _checksum(shape: str, arrays: Mapping[str, AnyArray]) -> str:
    digest = hashlib.sha256(shape.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
