"""Atomic files and folders: written aside, flushed, renamed; a manifest seals a folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from saddlescope.errors import CannotRead, CannotWrite, InvalidInput

MANIFEST = "manifest.json"
FORMAT = 3
_UNFINISHED = ".unfinished-"
_PREVIOUS = ".previous-"


def as_path(field: str, value: object) -> Path:
    """A path from a string or a path-like object."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise InvalidInput(field, value, "must be a path")
    text = os.fspath(value)
    if isinstance(text, bytes) or "\0" in text:
        raise InvalidInput(field, value, "must be a path in plain text")
    return Path(text)


def make_folder(path: Path) -> None:
    """Make a folder and its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise CannotWrite(path, problem) from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write a file to, which replaces `path` once it is complete and flushed.

    A kill during the write leaves the previous file. An error of the system, such as a full disk,
    raises `CannotWrite`.
    """
    unfinished = path.with_name(_UNFINISHED + path.name)
    try:
        # A path that cannot be written to is found before any work is done.
        unfinished.touch()
        yield unfinished
        _flush(unfinished)
        os.replace(unfinished, path)
        _flush(path.parent)
    except OSError as problem:
        raise CannotWrite(path, problem) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write a text completely or not at all."""
    write_bytes(path, text.encode("utf-8"))


@dataclass(frozen=True)
class Sealed:
    """A folder with a manifest, which names its kind and every file that is read back.

    - `kind`: what the folder holds.
    - `digest`: names what it was made from.
    - `about`: plain values that belong to it.
    - `files`: the checksum of every file, by its path inside the folder.
    """

    path: Path
    kind: str
    digest: str
    about: Mapping[str, object] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, kind: str) -> Sealed:
        """Read a folder's manifest; each file is checked when it is read."""
        shown = f"path = {str(path)!r}"
        without = " (it has no manifest)" if path.is_dir() else ""
        try:
            values = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise CannotRead(f"{shown}: there is no saved {kind}{without}") from None
        except OSError as problem:
            raise CannotRead(f"{shown}: cannot be read: {problem.strerror}") from None
        except (ValueError, RecursionError):
            raise CannotRead(f"{shown}: is damaged (its manifest)") from None
        if not isinstance(values, dict) or values.pop("checksum", None) != _checksum_of(values):
            raise CannotRead(f"{shown}: is damaged (its manifest)")
        if values["format"] != FORMAT:
            raise CannotRead(
                f"{shown}: has format {values['format']}, this version reads format {FORMAT}"
            )
        if values["kind"] != kind:
            raise CannotRead(f"{shown}: holds a {values['kind']}, not a {kind}")
        return cls(path, kind, values["digest"], values["about"], values["files"])

    def write(self, *names: str) -> Sealed:
        """Seal the folder: with the files that it had, and `names`, which are written by now."""
        added = {name: _checksum((self.path / name).read_bytes()) for name in names}
        sealed = Sealed(self.path, self.kind, self.digest, self.about, {**self.files, **added})
        values: dict[str, object] = {
            "format": FORMAT,
            "kind": self.kind,
            "digest": self.digest,
            "about": dict(self.about),
            "files": dict(sealed.files),
        }
        text = json.dumps({**values, "checksum": _checksum_of(values)}, indent=2, allow_nan=False)
        write_text(self.path / MANIFEST, text + "\n")
        return sealed

    def content(self, name: str) -> bytes:
        """The content of a file, checked against the manifest."""
        shown = f"path = {str(self.path)!r}"
        try:
            content = (self.path / name).read_bytes()
        except OSError as problem:
            raise CannotRead(f"{shown}: {name} cannot be read: {problem.strerror}") from None
        if _checksum(content) != self.files[name]:
            raise CannotRead(f"{shown}: is damaged ({name} is not what was written)")
        return content

    @property
    def is_whole(self) -> bool:
        """Whether every file exists and matches the manifest."""
        try:
            for name in self.files:
                self.content(name)
        except CannotRead:
            return False
        return True

    def remove(self) -> None:
        """Delete what was written, the manifest first; other files stay."""
        (self.path / MANIFEST).unlink(missing_ok=True)
        for name in self.files:
            (self.path / name).unlink(missing_ok=True)
        _remove_empty(self.path)


@contextmanager
def replacing_folder(path: Path, kind: str, *, overwrite: bool) -> Iterator[Path]:
    """A folder to write to, which replaces `path` once it is complete.

    Only a folder of that kind is replaced, one with nothing in it that we did not write; it is
    removed when the new one stands. A kill between the two leaves the old one for `find_folder`.
    """
    unfinished, previous = path.with_name(_UNFINISHED + path.name), _previous(path)
    try:
        check_replaceable(path, kind, overwrite=overwrite)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(unfinished, ignore_errors=True)
        yield unfinished
        for file in files_in(unfinished):
            _flush(unfinished / file)
        if path.exists():
            # What a kill after the last replacement has left.
            _remove_sealed(previous, kind)
            os.replace(path, previous)
        os.replace(unfinished, path)
        _flush(path.parent)
        _remove_sealed(previous, kind)
    except OSError as problem:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CannotWrite(path, problem) from None


def find_folder(path: Path) -> Path:
    """The folder, or its predecessor if a kill interrupted the replacement."""
    previous = _previous(path)
    return previous if previous.exists() and not path.exists() else path


def _previous(path: Path) -> Path:
    return path.with_name(_PREVIOUS + path.name)


def check_replaceable(target: Path, kind: str, *, overwrite: bool) -> None:
    """Refuse to replace what exists unless that is allowed."""
    path = find_folder(target)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise InvalidInput("path", str(path), "exists already; overwrite=True replaces it")
    try:
        known = {*Sealed.read(path, kind).files, MANIFEST}
    except CannotRead:
        raise InvalidInput(
            "path", str(path), f"is no saved {kind} of this version: remove it, or name another"
        ) from None
    foreign = [name for name in files_in(path) if name not in known]
    if foreign:
        raise InvalidInput(
            "path", str(path), f"holds what is no part of the {kind}: {', '.join(foreign[:3])}"
        )


def _remove_sealed(path: Path, kind: str) -> None:
    if path.exists() and any(path.iterdir()):
        Sealed.read(path, kind).remove()
    elif path.exists():
        path.rmdir()


def files_in(folder: Path) -> list[str]:
    """The paths of all files in a folder, relative to it."""
    inside = (file for file in folder.rglob("*") if not file.is_dir())
    return sorted(file.relative_to(folder).as_posix() for file in inside)


def _remove_empty(folder: Path) -> None:
    """Remove a folder and its subfolders where they are empty."""
    for inner in sorted((file for file in folder.rglob("*") if file.is_dir()), reverse=True):
        if not any(inner.iterdir()):
            inner.rmdir()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checksum_of(values: Mapping[str, object]) -> str:
    return _checksum(json.dumps(values, sort_keys=True).encode())
