"""A decoder on disk, in safetensors, with a checksum over all that is read back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from saddlescope.errors import CannotRead
from saddlescope.running.files import as_path, write_bytes
from saddlescope.running.packed import pack, unpack
from saddlescope.transformer._decoder import Decoder, DecoderShape

_LABEL = "shape"


def save_decoder(path: str | Path, decoder: Decoder) -> None:
    """Save a decoder's weights by name, and its shape.

    >>> import jax, tempfile
    >>> from saddlescope.transformer import Decoder, DecoderShape, load_decoder, save_decoder
    >>> shape = DecoderShape(vocabulary=5, context=8, layers=1, heads=2, d_model=4)
    >>> path = f"{tempfile.mkdtemp()}/decoder.safetensors"
    >>> save_decoder(path, Decoder.start(shape, jax.random.key(0)))
    >>> load_decoder(path).shape.heads
    2
    """
    arrays = {name: np.asarray(array) for name, array in decoder.weights.items()}
    shape = json.dumps(dataclasses.asdict(decoder.shape))
    write_bytes(as_path("path", path), pack(arrays, _LABEL, shape))


def load_decoder(path: str | Path) -> Decoder:
    """The decoder that was saved.

    >>> import jax, tempfile
    >>> from saddlescope.transformer import Decoder, DecoderShape, load_decoder, save_decoder
    >>> shape = DecoderShape(vocabulary=5, context=8, layers=1, heads=2, d_model=4)
    >>> path = f"{tempfile.mkdtemp()}/decoder.safetensors"
    >>> save_decoder(path, Decoder.start(shape, jax.random.key(0)))
    >>> load_decoder(path).shape == shape
    True
    """
    shown = f"path = {str(path)!r}"
    try:
        content = as_path("path", path).read_bytes()
    except OSError as wrong:
        raise CannotRead(f"{shown}: {wrong.strerror}") from None
    arrays, shape = unpack(content, _LABEL, shown, "decoder")
    try:
        return Decoder.of(DecoderShape(**json.loads(shape)), arrays)
    except (ValueError, TypeError) as wrong:
        raise CannotRead(f"{shown}: cannot be read here ({wrong})") from None
