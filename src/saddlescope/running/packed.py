"""Arrays with a text beside them as one safetensors file, with a checksum over both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead


def pack(arrays: Mapping[str, AnyArray], label: str, text: str) -> bytes:
    """The bytes of a file that holds arrays, and under a label a text."""
    import safetensors.numpy

    # A view that is not contiguous would be written in the order of its memory.
    whole = {name: np.array(array, order="C") for name, array in arrays.items()}
    about = {label: text, "checksum": _checksum(text, whole)}
    return safetensors.numpy.save(whole, metadata=about)


def unpack(content: bytes, label: str, shown: str, kind: str) -> tuple[dict[str, AnyArray], str]:
    """The arrays and the text; `shown` and `kind` tell what is being read where it cannot be."""
    import safetensors.numpy

    try:
        # A header of JSON, its length before it in eight bytes.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        arrays, about = safetensors.numpy.load(content), header.get("__metadata__", {})
    except Exception:
        # A damaged file raises whatever its damage makes the readers run into.
        raise CannotRead(f"{shown}: is damaged, or no {kind}") from None
    if not {label, "checksum"} <= set(about):
        raise CannotRead(f"{shown}: holds no {kind} of Saddlescope's")
    if _checksum(about[label], arrays) != about["checksum"]:
        raise CannotRead(f"{shown}: is damaged (it is not what was written)")
    return arrays, about[label]


def _checksum(text: str, arrays: Mapping[str, AnyArray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
