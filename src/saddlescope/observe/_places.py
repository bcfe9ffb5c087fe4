"""Where the checkpoints are, and at which step of the run each was written."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from saddlescope.checks import listed
from saddlescope.errors import InvalidInput
from saddlescope.observe.weights import natural
from saddlescope.running.files import MANIFEST, as_path

SAFETENSORS = ".safetensors"
SUFFIXES = (SAFETENSORS, ".pt", ".pth", ".bin", ".ckpt")
# Hugging Face's names for a whole model, in the order of preference.
_WHOLE = ("model.safetensors", "pytorch_model.bin")
_INDEX = ".index.json"
_SHARD = re.compile(r"-\d+-of-\d+\.")
# The words before a step's number, the most specific first.
_WORDS = (r"(?:global[-_]?)?step", r"iter(?:ation)?", r"checkpoint|ckpt", r"epoch")
_THOUSANDS = {"": 1, "k": 1_000, "m": 1_000_000}
# How deep folders are searched.
_DEEPEST = 3
# A step of more digits does not fit in 64 bits.
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Checkpoint:
    """A file, or a folder in Hugging Face's layout, with the step in its name."""

    path: Path
    named_step: int | None

    @property
    def folder(self) -> Path:
        """The folder of its config, if there is one."""
        return self.path if self.path.is_dir() else self.path.parent

    def weight_files(self) -> dict[Path, tuple[str, ...] | None]:
        """Its files and the names of the weights to read from each, None for all.

        Raises `OSError` if a file is missing, `ValueError` if the index is not one.
        """
        if not self.path.is_dir():
            return {self.path: None}
        for name in _WHOLE:
            whole, index = self.path / name, self.path / (name + _INDEX)
            if whole.is_file():
                return {whole: None}
            if index.is_file():
                return _shards(index)
        raise FileNotFoundError(2, "its shards have no index", str(self.path))

    @property
    def stamp(self) -> dict[str, object]:
        """Its path, size and time, which change when it is written again."""
        try:
            stats = [file.stat() for file in self.weight_files()]
        except (OSError, ValueError):
            stats = []
        return {
            "path": str(self.path),
            "bytes": sum(one.st_size for one in stats),
            "written": max((one.st_mtime_ns for one in stats), default=0),
        }

    def trainer_state(self) -> dict[str, object]:
        """The state that Hugging Face's Trainer wrote beside it; empty if it cannot be read."""
        try:
            state = json.loads((self.folder / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return state if isinstance(state, dict) and self.path.is_dir() else {}

    @property
    def trainer_step(self) -> int | None:
        """The step in that state."""
        return as_step(self.trainer_state().get("global_step"))


def as_step(value: object) -> int | None:
    """A step that a file holds as a whole number; None if it is not one.

    >>> as_step("300"), as_step(300), as_step(-1), as_step("3.5")
    (300, 300, None, None)
    """
    if isinstance(value, str) and value.isdecimal() and len(value) <= _MOST_DIGITS:
        return int(value)
    is_step = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_step else None  # type: ignore[return-value]


def find_checkpoints(places: object) -> list[Checkpoint]:
    """The checkpoints in files, folders and patterns, in natural order, each once."""
    paths: dict[Path, None] = {}
    for place in listed("checkpoints", places, "must be files, folders and patterns"):
        path = as_path("checkpoints", place)
        found = [path] if path.exists() else [Path(one) for one in glob.glob(str(path))]
        if not found:
            raise InvalidInput("checkpoints", str(place), "there is no such file or folder")
        for one in found:
            inside = list(_inside(one, _DEEPEST)) if one.is_dir() else [one]
            if not inside and len(found) == 1:
                allowed = f"must hold checkpoints ({', '.join(SUFFIXES)}) of their own"
                raise InvalidInput("checkpoints", str(place), allowed)
            paths |= dict.fromkeys(inside)
    if not paths:
        raise InvalidInput("checkpoints", places, "must be files, folders or patterns")
    ordered = sorted(paths, key=lambda path: natural(str(path)))
    return [Checkpoint(path, step_in(path)) for path in ordered]


def step_in(path: Path) -> int | None:
    """The step in a name: the number after `step` and the like, else its last number.

    If it has none, the step in the name of its folder.

    >>> step_in(Path("run/checkpoint-500")), step_in(Path("epoch=3-step=1200.ckpt"))
    (500, 1200)
    >>> step_in(Path("step10k.pt")), step_in(Path("7/model.pt")), step_in(Path("final.pt"))
    (10000, 7, None)
    """
    own = path.name.removesuffix(path.suffix) if path.suffix in SUFFIXES else path.name
    if (found := _after_a_word(own)) is not None:
        return found
    if numbers := re.findall(r"\d+", own):
        return int(numbers[-1])
    # A folder's name may hold any number, such as a date.
    folder = path.parent.name
    return int(folder) if folder.isdecimal() else _after_a_word(folder)


def _after_a_word(name: str) -> int | None:
    for word in _WORDS:
        if found := re.search(rf"(?:{word})[-_=. ]*(\d+)([kKmM]?)(?![a-zA-Z])", name, re.I):
            return int(found[1]) * _THOUSANDS[found[2].lower()]
    return None


def _inside(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / MANIFEST).is_file():
        # An observation, written by this very instrument.
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as problem:
        raise InvalidInput("checkpoints", str(folder), f"{problem.strerror}") from None
    names = {entry.name for entry in entries if entry.is_file()}
    is_model = any(name in names or name + _INDEX in names for name in _WHOLE)
    has_shards = any(_SHARD.search(name) and name.endswith(SUFFIXES) for name in names)
    if is_model or has_shards:
        yield folder
    for entry in entries:
        if entry.is_dir() and depth and not entry.name.startswith("."):
            yield from _inside(Path(entry.path), depth - 1)
        elif not (is_model or has_shards) and entry.name.endswith(SUFFIXES):
            yield Path(entry.path)


def _shards(index: Path) -> dict[Path, tuple[str, ...] | None]:
    content = json.loads(index.read_text(encoding="utf-8"))
    try:
        by_name = {str(name): str(file) for name, file in content["weight_map"].items()}
    except (AttributeError, KeyError, TypeError):
        raise ValueError("its index names no weights") from None
    files: dict[Path, tuple[str, ...] | None] = {}
    for file in sorted(set(by_name.values())):
        path = index.parent / Path(file).name
        if not path.is_file():
            raise FileNotFoundError(2, f"its shard {path.name} is missing", str(path))
        files[path] = tuple(name for name, home in by_name.items() if home == file)
    return files
