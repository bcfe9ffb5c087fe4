"""Decoders and unfinished trainings on disk, in safetensors: written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike

from saddlescope.errors import CannotRead, InvalidInput, SaddlescopeError
from saddlescope.transformer._decoder import Arrays, Decoder, DecoderShape

STATE = "state.safetensors"
_RECORD = "record_{:06d}.safetensors"


def save_decoder(path: str | Path, decoder: Decoder) -> None:
    """Save a decoder's weights by name, and its shape."""
    shape = json.dumps(dataclasses.asdict(decoder.shape))
    write_arrays(path, decoder.weights, {"shape": shape})


def load_decoder(path: str | Path) -> Decoder:
    """The decoder that was saved."""
    arrays, about = read_arrays(path)
    try:
        shape = DecoderShape(**json.loads(about["shape"]))
    except (KeyError, TypeError, ValueError):
        raise CannotRead(f"{str(path)!r}: holds no decoder of Saddlescope's") from None
    return Decoder.of(shape, arrays)


def write_arrays(
    path: str | Path, arrays: Mapping[str, ArrayLike], about: Mapping[str, str]
) -> None:
    """Save named arrays; a kill while writing leaves the previous file as it was."""
    # A view that is not contiguous would be written in the order of its memory.
    plain = {name: np.array(array, order="C") for name, array in arrays.items()}
    content = _safetensors().save(plain, metadata=dict(about))
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, target)


def read_arrays(path: str | Path) -> tuple[Arrays, dict[str, str]]:
    """The arrays of a file, and what is said about them."""
    library = _safetensors()
    try:
        content = Path(path).read_bytes()
    except OSError as wrong:
        raise CannotRead(f"{str(path)!r}: {wrong.strerror}") from None
    try:
        # A header of JSON, its length before it in eight bytes.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return library.load(content), header.get("__metadata__", {})
    except Exception:
        # A damaged file raises whatever its damage makes the readers run into.
        raise CannotRead(f"{str(path)!r}: is damaged; remove it to start anew") from None


class Folder:
    """An unfinished training: its state, and the weights at every recorded step so far.

    The state is written last, and says how many records belong to it.
    """

    def __init__(self, path: str | Path, digest: str) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InvalidInput("checkpoint", str(path), "must be a folder, or not exist yet")
        self.digest = digest
        self._written = 0
        _safetensors()

    def read(self) -> tuple[Arrays, list[Arrays]] | None:
        """The state and the recorded weights, None where there is none."""
        if not (self.path / STATE).exists():
            return None
        arrays, about = read_arrays(self.path / STATE)
        if about.get("digest") != self.digest:
            raise CannotRead(
                f"checkpoint = {str(self.path)!r}: belongs to another training; remove it or name "
                "another"
            )
        self._written = int(about["records"])
        records = [read_arrays(self._record(place))[0] for place in range(self._written)]
        return arrays, records

    def write(self, state: Mapping[str, ArrayLike], records: list[Arrays]) -> None:
        """Save the records that are new, then the state."""
        for place in range(self._written, len(records)):
            write_arrays(self._record(place), records[place], {})
        self._written = len(records)
        about = {"digest": self.digest, "records": str(len(records))}
        write_arrays(self.path / STATE, state, about)

    def _record(self, place: int) -> Path:
        return self.path / _RECORD.format(place)


def remove_checkpoint(path: str | Path) -> None:
    """Remove what a `Folder` wrote, the state first; other files stay."""
    folder = Path(path)
    (folder / STATE).unlink(missing_ok=True)
    for pattern in ("record_*.safetensors", "*.safetensors.part"):
        for file in folder.glob(pattern):
            file.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _safetensors() -> ModuleType:
    """The library, needed only where something is written or read."""
    try:
        import safetensors.numpy
    except ModuleNotFoundError:
        raise SaddlescopeError(
            "checkpoints need the package safetensors: install it, or train without a checkpoint"
        ) from None
    return safetensors.numpy
