"""Records on disk: one file each, never changed once written, readable at any moment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from saddlescope.checks import AnyArray
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.running.files import MANIFEST, Sealed, make_folder, write_bytes
from saddlescope.running.lock import hold, remove_lock
from saddlescope.running.packed import pack, unpack

KIND = "observation"
LIVE, CHECKPOINTS = "live", "checkpoints"
_FOLDER, _LABEL = "records", "record"
_KEPT, _KEPT_LABEL = "directions.safetensors", "directions"
_FILE = re.compile(r"(\d{8})\.safetensors")


@dataclass(frozen=True, eq=False)
class Record:
    """The measurements at one step.

    - `session`: how often the run had been resumed, from 0.
    - `arrays`: measures by name, and the losses since the previous record.
    - `layers`: the names of the attention layers.
    - `source`: the checkpoint that was read: its path, size, time and hash.
    - `problems`: what could not be measured; `notes`: what a reader must know.
    """

    step: int
    session: int = 0
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    adapter: str = ""
    source: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    drift_from: int | None = None
    """The step that `drift` is measured from."""

    def to_bytes(self) -> bytes:
        """The file of a record."""
        about = {name: value for name, value in vars(self).items() if name != "arrays"}
        return pack(self.arrays, _LABEL, json.dumps(about, allow_nan=False))

    @classmethod
    def from_bytes(cls, content: bytes, shown: str) -> Record:
        """The record of a file."""
        arrays, text = unpack(content, _LABEL, shown, "record")
        about = json.loads(text)
        for name in ("layers", "problems", "notes"):
            about[name] = tuple(about[name])
        return cls(arrays=arrays, **about)


class Store:
    """A folder of records, to which one process at a time appends.

    Every record is a file of its own, written under another name, flushed and renamed: a reader
    finds only whole records, even while the run is on or after a crash.
    """

    def __init__(self, path: Path, about: Mapping[str, object]) -> None:
        self.path = path
        self.about = about
        self._open = ExitStack()
        self._next = 0

    @classmethod
    def open(cls, path: Path, kind: str, options: Mapping[str, object], *, resume: bool) -> Store:
        """Begin a store, or resume one of this kind that was measured with these options."""
        is_there = path.is_dir() and any(path.iterdir())
        if is_there and not (path / MANIFEST).is_file():
            raise InvalidInput("out", str(path), "holds something else: name another folder")
        if is_there and not resume:
            allowed = "holds an observation already: name another folder, or resume it"
            raise InvalidInput("out", str(path), allowed)
        make_folder(path / _FOLDER)
        store = cls(path, {"kind": kind, **options})
        store._open.enter_context(hold(path, "out"))
        try:
            if is_there:
                known = Sealed.read(path, KIND).about
                if known["kind"] != kind:
                    allowed = f"holds an observation of a {known['kind']} run: name another folder"
                    raise InvalidInput("out", str(path), allowed)
                for name, value in options.items():
                    if known.get(name, value) != value:
                        allowed = f"{path} was measured with {known[name]}: name another folder"
                        raise InvalidInput(name, value, allowed)
            else:
                Sealed(path, KIND, kind, store.about).write()
        except BaseException:
            store.close()
            raise
        store._next = max((number for number, _ in _files(path)), default=-1) + 1
        return store

    def append(self, record: Record) -> None:
        """Add a record."""
        write_bytes(self.path / _FOLDER / f"{self._next:08d}.safetensors", record.to_bytes())
        self._next += 1

    def records(self) -> list[Record]:
        """All records that can be read."""
        return read_records(self.path)[0]

    def keep(self, arrays: Mapping[str, AnyArray], about: Mapping[str, object]) -> None:
        """Keep what the next record is compared with, replacing what was kept before."""
        write_bytes(self.path / _KEPT, pack(arrays, _KEPT_LABEL, json.dumps(about)))

    def kept(self) -> tuple[dict[str, AnyArray], dict[str, object]]:
        """What was kept; empty if there is nothing, or it is damaged."""
        file = self.path / _KEPT
        try:
            content = file.read_bytes()
            arrays, about = unpack(content, _KEPT_LABEL, f"path = {str(file)!r}", "directions")
        except (OSError, CannotRead):
            return {}, {}
        return arrays, json.loads(about)

    def close(self) -> None:
        """Release the folder, and remove it if nothing was ever written to it."""
        self._open.close()
        if self._next == 0 and not (self.path / _KEPT).exists():
            remove_lock(self.path)
            (self.path / MANIFEST).unlink(missing_ok=True)
            for folder in (self.path / _FOLDER, self.path):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()


def read_records(path: Path) -> tuple[list[Record], list[str]]:
    """The records of a folder in the order of writing, and a line for each damaged one."""
    records, damaged = [], []
    for _, file in _files(path):
        try:
            records.append(Record.from_bytes(file.read_bytes(), f"path = {str(file)!r}"))
        except CannotRead as problem:
            damaged.append(str(problem))
        except OSError as problem:
            damaged.append(f"path = {str(file)!r}: {problem.strerror}")
    return records, damaged


def store_kind(path: Path) -> str:
    """Whether a folder holds a live run or checkpoints; `CannotRead` if neither."""
    return str(Sealed.read(path, KIND).about["kind"])


def _files(path: Path) -> list[tuple[int, Path]]:
    folder = path / _FOLDER
    if not folder.is_dir():
        return []
    named = ((_FILE.fullmatch(file.name), file) for file in folder.iterdir())
    return sorted((int(match[1]), file) for match, file in named if match)
