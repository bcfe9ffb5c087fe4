"""The weights of a checkpoint, read from its files on demand; never arbitrary pickle."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from saddlescope.errors import CannotRead
from saddlescope.observe._extras import require
from saddlescope.observe._places import SAFETENSORS, SUFFIXES, Checkpoint, as_step
from saddlescope.observe.weights import AbstractWeights, StateDict, checked, clean, configured

if TYPE_CHECKING:
    from safetensors import safe_open
    from torch import Tensor

_STEPS = ("global_step", "step", "iter_num", "iteration", "iter")
_CONFIGS = ("config", "model_args", "hyper_parameters", "args", "cfg")
_INSIDE = ("state_dict", "model", "model_state_dict", "module", "params", "net")
_HOSTILE = "holds objects that only running its code could make, and is not opened"
_STRANGE = "is no plain state dict (damaged, or a pickle of something else), and is not opened"


@dataclass(frozen=True, eq=False)
class Opened:
    """The weights of a checkpoint, and its step according to its content."""

    weights: AbstractWeights
    step: int | None


class MappedTensors(AbstractWeights):
    """Tensors in memory-mapped safetensors files."""

    def __init__(self, files: Mapping[str, safe_open], config: Mapping[str, object]) -> None:
        self._files = {clean(name): (file, name) for name, file in files.items()}
        self._config = config

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all weights."""
        return tuple(self._files)

    def read(self, name: str) -> Tensor:
        """A weight."""
        file, own = self._files[name]
        return checked(name, file.get_tensor(own))

    def setting(self, path: str, *names: str) -> object | None:
        """The config's value under one of these names."""
        return configured(self._config, names)


@contextmanager
def opened(checkpoint: Checkpoint, given: Mapping[str, object]) -> Iterator[Opened]:
    """Open a checkpoint, or raise `CannotRead`; `given` takes precedence over its config."""
    shown = f"path = {str(checkpoint.path)!r}"
    try:
        files = checkpoint.weight_files()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "its index is damaged"
        raise CannotRead(f"{shown}: {reason}") from None
    for file in files:
        if not file.exists() or file.stat().st_size == 0:
            raise CannotRead(f"{shown}: {file.name} is empty")
    config = {**_config(checkpoint.folder), **given}
    state = checkpoint.trainer_step
    with ExitStack() as stack:
        if all(file.suffix == SAFETENSORS for file in files):
            found = _mapped(stack, files, shown, config)
        else:
            found = _loaded(files, shown, config)
        yield found if state is None else Opened(found.weights, state)


def _mapped(
    stack: ExitStack,
    files: Mapping[Path, tuple[str, ...] | None],
    shown: str,
    config: Mapping[str, object],
) -> Opened:
    from safetensors import SafetensorError, safe_open

    require("torch")
    by_name: dict[str, safe_open] = {}
    about: dict[str, str] = {}
    for file, names in files.items():
        try:
            mapped = stack.enter_context(safe_open(file, framework="pt", device="cpu"))
            there = set(mapped.keys())
            about |= mapped.metadata() or {}
        except (SafetensorError, OSError, ValueError) as problem:
            raise CannotRead(
                f"{shown}: {file.name} is damaged or half written ({problem})"
            ) from None
        missing = set(names or ()) - there
        if missing:
            raise CannotRead(f"{shown}: {file.name} lacks {sorted(missing)[0]!r}")
        by_name |= dict.fromkeys(names or there, mapped)
    # Our own decoders carry their shape.
    shape = _parsed(about.get("shape", "{}"))
    text = configured(about, _STEPS)
    return Opened(MappedTensors(by_name, {**shape, **config}), as_step(text))


def _loaded(
    files: Mapping[Path, tuple[str, ...] | None], shown: str, config: Mapping[str, object]
) -> Opened:
    torch = require("torch")
    tensors: dict[str, Tensor] = {}
    known: dict[str, object] = {}
    step = None
    for file in files:
        content = _unpickled(file, shown)
        if not isinstance(content, Mapping):
            raise CannotRead(f"{shown}: {file.name} holds no state dict")
        step = as_step(configured(content, _STEPS)) if step is None else step
        settings = configured(content, _CONFIGS)
        known |= dict(settings) if isinstance(settings, Mapping) else {}
        inner = configured(content, _INSIDE)
        part = inner if isinstance(inner, Mapping) else content
        tensors |= {str(name): value for name, value in part.items() if torch.is_tensor(value)}
    if not tensors:
        raise CannotRead(f"{shown}: holds no tensors by name")
    return Opened(StateDict(tensors, {**known, **config}), step)


def _unpickled(file: Path, shown: str) -> object:
    """The content of a file, tensors and plain values only, memory-mapped if possible."""
    torch = require("torch")
    for mapped in (True, False):
        try:
            with warnings.catch_warnings():
                # It warns about what it then refuses.
                warnings.simplefilter("ignore")
                return torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
        except pickle.UnpicklingError as problem:
            reason = _HOSTILE if "GLOBAL" in str(problem) else _STRANGE
            raise CannotRead(f"{shown}: {file.name} {reason}") from None
        except Exception as problem:
            # Files in torch's older format cannot be mapped; a damaged one can raise anything.
            if not mapped or "mmap" not in str(problem):
                is_named_so = file.suffix in SUFFIXES
                what = "is damaged or half written" if is_named_so else "is not a checkpoint"
                raise CannotRead(
                    f"{shown}: {file.name} {what} ({type(problem).__name__})"
                ) from None
    raise AssertionError


def _config(folder: Path) -> dict[str, object]:
    """The Hugging Face config beside a checkpoint or in the folder above; empty without one."""
    for home in (folder, folder.parent):
        file = home / "config.json"
        if file.is_file():
            try:
                config = _parsed(file.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError):
                return {}
            text = config.get("text_config")
            return {**config, **text} if isinstance(text, dict) else config
    return {}


def _parsed(text: str) -> dict[str, object]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
