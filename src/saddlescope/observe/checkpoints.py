"""`observe_checkpoints`: the measures of every head over a series of saved models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saddlescope.checks import AnyArray, whole_number
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.observe._digest import digest_of
from saddlescope.observe._extras import require
from saddlescope.observe._heads import HeadOptions
from saddlescope.observe._opened import Opened, opened
from saddlescope.observe._places import Checkpoint, find_checkpoints
from saddlescope.observe._watch import Extra, Watch
from saddlescope.observe.adapters import AbstractAdapter
from saddlescope.observe.logs import history_losses, read_log
from saddlescope.observe.store import CHECKPOINTS, Record, Store
from saddlescope.running.files import as_path
from saddlescope.running.progress_bar import ProgressBar
from saddlescope.tables import counted


@dataclass(frozen=True)
class Observation:
    """What `observe_checkpoints` did.

    - `observed`: the steps measured by this call; `known`: those measured by earlier ones.
    - `problems`: a line for each checkpoint that could not be measured.
    - `remarks`: duplicates, gaps and changes of shape.

    >>> import saddlescope as ss
    >>> import pathlib, tempfile, torch
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> torch.save(torch.nn.MultiheadAttention(8, 2).state_dict(), folder / "step10.pt")
    >>> ss.observe.observe_checkpoints([folder], folder / "observed", heads=2).observed
    (10,)
    """

    out: Path
    observed: tuple[int, ...]
    known: tuple[int, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def observe_checkpoints(
    places: Iterable[object],
    out: str | Path,
    *,
    adapter: AbstractAdapter | str | None = None,
    heads: object = None,
    fold_norms: bool = False,
    directions: int = 4,
    log: str | Path | None = None,
) -> Observation:
    """Measure every head of every checkpoint, and write the records to the folder `out`.

    `places` are files (safetensors, or state dicts in .pt, .pth, .bin or .ckpt), folders of such
    files or of Hugging Face checkpoints, sharded or not, and glob patterns. Steps are read from the
    names, from `trainer_state.json` or from the files' own metadata. One checkpoint is open at a
    time, and its attention weights are read as they are needed. Checkpoints observed before are not
    read again: the same call resumes where it was interrupted. The losses in `trainer_state.json`,
    or in the log file `log`, are kept too. The other options are those of `look`.

    >>> import saddlescope as ss
    >>> import pathlib, tempfile, torch
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> torch.save(torch.nn.MultiheadAttention(8, 2).state_dict(), folder / "step10.pt")
    >>> done = ss.observe.observe_checkpoints([folder], folder / "observed", heads=2)
    >>> done.observed, done.problems
    ((10,), ())
    """
    require("torch")
    given = {} if heads is None else {"heads": whole_number("heads", heads)}
    options = HeadOptions(directions, fold_norms, adapter)
    found = find_checkpoints([places] if isinstance(places, str | Path) else places)
    curve = None if log is None else read_log(log).only
    store = Store.open(as_path("out", out), CHECKPOINTS, options.kept, resume=True)
    try:
        series = _Series(Watch(store, options), options, given)
        series.go_through(found)
        if curve is not None:
            arrays = {"loss_step": curve.steps, "loss": curve.losses}
            store.append(Record(int(curve.steps[-1]), arrays=arrays))
    finally:
        store.close()
    return series.done()


class _Series:
    """The checkpoints of one run, measured one after another."""

    def __init__(self, watch: Watch, options: HeadOptions, given: Mapping[str, object]) -> None:
        self._watch, self._options, self._given = watch, options, given
        self._records = [record for record in watch.store.records() if record.layers]
        self._observed: list[int] = []
        self._known: list[int] = []
        self._problems: list[str] = []
        self._remarks: list[str] = []

    def go_through(self, found: Sequence[Checkpoint]) -> None:
        """Measure every checkpoint in the order of their steps."""
        stamps = {
            tuple(sorted((name, one.source[name]) for name in ("path", "bytes", "written"))): one
            for one in self._records
        }
        waiting: list[tuple[int, Checkpoint]] = []
        unnumbered: list[Checkpoint] = []
        for checkpoint in found:
            known = stamps.get(tuple(sorted(checkpoint.stamp.items())))
            if known is not None:
                self._known.append(known.step)
                continue
            step = self._step_of(checkpoint)
            if step is None:
                unnumbered.append(checkpoint)
            else:
                waiting.append((step, checkpoint))
        waiting.sort(key=lambda pair: pair[0])
        if unnumbered and not waiting and not self._records:
            self._remarks.append(
                "neither names nor metadata tell steps: the checkpoints are counted from 0"
            )
            waiting, unnumbered = list(enumerate(unnumbered)), []
        total = len(waiting) + len(unnumbered)
        with ProgressBar("observing") as bar:
            for index, (step, checkpoint) in enumerate(waiting):
                bar.show(index / total, checkpoint.path.name)
                self._try(step, checkpoint)
            for checkpoint in unnumbered:
                self._try(None, checkpoint)

    def done(self) -> Observation:
        """The outcome so far."""
        gaps = _gaps(sorted({record.step for record in self._records}))
        shapes = _shape_changes(self._records)
        return Observation(
            self._watch.store.path,
            tuple(sorted(self._observed)),
            tuple(sorted(set(self._known))),
            tuple(self._problems),
            (*self._remarks, *gaps, *shapes),
        )

    def _step_of(self, checkpoint: Checkpoint) -> int | None:
        """From the Trainer's state, the name, or else from the content."""
        for known in (checkpoint.trainer_step, checkpoint.named_step):
            if known is not None:
                return known
        try:
            with opened(checkpoint, self._given) as content:
                return content.step
        except CannotRead:
            # Reported when its turn comes.
            return None

    def _try(self, step: int | None, checkpoint: Checkpoint) -> None:
        try:
            with opened(checkpoint, self._given) as content:
                self._look(step, checkpoint, content)
        except CannotRead as problem:
            self._problems.append(str(problem))
        except InvalidInput as problem:
            self._problems.append(f"path = {str(checkpoint.path)!r}: {problem}")

    def _look(self, step: int | None, checkpoint: Checkpoint, content: Opened) -> None:
        shown = str(checkpoint.path)
        digest = digest_of(content.weights, self._options.adapter)
        twin = next((one for one in self._records if one.source.get("hash") == digest), None)
        same = next((one for one in self._records if one.step == step), None)
        if twin is not None and twin.source["path"] == shown:
            # Rewritten with the same content.
            self._known.append(twin.step)
            return
        if twin is not None and step in (None, twin.step):
            self._remarks.append(f"{shown}: the same weights as {twin.source['path']}, left out")
            return
        if step is None:
            allowed = "neither its name nor its metadata tells its step"
            raise CannotRead(f"path = {shown!r}: {allowed}")
        if same is not None and same.source.get("path") != shown:
            path = same.source["path"]
            raise CannotRead(
                f"path = {shown!r}: is of step {step}, as {path} is, with other weights"
            )
        if twin is not None:
            self._remarks.append(f"{shown}: the same weights as {twin.source['path']}")
        source = {**checkpoint.stamp, "hash": digest}
        extra = Extra(_trainer_losses(checkpoint), source=source)
        record = self._watch.look(step, content.weights, extra)
        self._watch.keep()
        if not record.arrays:
            self._problems.append(f"path = {shown!r}: {record.problems[0]}")
        self._records.append(record)
        self._observed.append(step)


def _trainer_losses(checkpoint: Checkpoint) -> dict[str, AnyArray]:
    steps, losses = history_losses(checkpoint.trainer_state().get("log_history"))
    if not steps:
        return {}
    return {"loss_step": np.array(steps), "loss": np.array(losses)}


def _gaps(steps: Sequence[int]) -> list[str]:
    """Steps at which a checkpoint seems to be missing: a longer stride between two equal ones."""
    strides = np.diff(steps)
    found = []
    for index in range(1, len(strides) - 1):
        before, stride, after = strides[index - 1 : index + 2].tolist()
        if before == after and stride > before and stride % before == 0:
            first, last = steps[index], steps[index + 1]
            missing = counted(stride // before - 1, "checkpoint")
            found.append(f"a gap from step {first} to step {last}: {missing} missing by the stride")
    return found


def _shape_changes(records: Sequence[Record]) -> list[str]:
    ordered = sorted(records, key=lambda record: record.step)
    found, before = [], None
    for record in ordered:
        shape = record.arrays["qk_spectrum"].shape if "qk_spectrum" in record.arrays else None
        if before is not None and shape is not None and shape != before:
            found.append(
                f"step {record.step}: {_in_words(shape)}, where there were {_in_words(before)}"
            )
        before = shape or before
    return found


def _in_words(shape: tuple[int, ...]) -> str:
    layers, heads, size = shape
    return f"{counted(layers, 'layer')} of {counted(heads, 'head')} of size {size}"
