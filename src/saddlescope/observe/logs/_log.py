"""`read_log`: the loss curves of a log, whatever wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from saddlescope.checks import FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.observe.logs._columns import choose
from saddlescope.observe.logs._csv import read_table
from saddlescope.observe.logs._json import read_objects
from saddlescope.observe.logs._tensorboard import event_files, read_events
from saddlescope.observe.logs._tidy import parted, tidied
from saddlescope.running.files import as_path


@dataclass(frozen=True, eq=False)
class LossCurve:
    """The loss of one run: `losses[T]` at `steps[T]`, which increase strictly.

    `notes` says what was left out, sorted or replaced, with the row numbers.

    `name` is that of the run, where a log holds several.

    >>> import saddlescope as ss
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("step,loss\\n1,3.0\\n2,2.5\\n")
    >>> ss.observe.read_log(file).only.losses.tolist()
    [3.0, 2.5]
    """

    name: str
    steps: FloatArray
    losses: FloatArray
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Log:
    """The curves of a log, and notes on which column was read as what.

    >>> import saddlescope as ss
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("step,loss\\n1,3.0\\n2,2.5\\n")
    >>> len(ss.observe.read_log(file).curves)
    1
    """

    path: Path
    curves: tuple[LossCurve, ...]
    notes: tuple[str, ...]

    @property
    def only(self) -> LossCurve:
        """Its one curve; `InvalidInput` where it has several."""
        if len(self.curves) > 1:
            names = ", ".join(curve.name for curve in self.curves[:8])
            raise InvalidInput("log", str(self.path), f"must hold one run, and holds {names}")
        return self.curves[0]


def read_log(
    path: str | Path,
    *,
    column: str | None = None,
    step_column: str | None = None,
    run_column: str | None = None,
) -> Log:
    """The loss curves in a file, or in a folder of TensorBoard's event files.

    Reads CSV and other tables, JSON lines, JSON, `trainer_state.json` and event files, recognised
    by their content.

    `column`, `step_column` and `run_column` name the columns of the loss, the step and the run;
    by default they are recognised by their names.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = file.write_text("step,loss\\n1,3.0\\n2,nan\\n3,2.5\\n")
    >>> curve = read_log(file).only
    >>> curve.steps.tolist(), curve.losses.tolist(), curve.notes
    ([1.0, 3.0], [3.0, 2.5], ('row 3: no finite loss, left out',))
    """
    source = as_path("log", path)
    if not source.exists():
        raise InvalidInput("log", str(source), "there is no such file or folder")
    chosen = partial(choose, loss=column, step=step_column, run=run_column)
    events = event_files(source)
    if events:
        rows, notes = read_events(source, events, chosen)
    elif source.is_dir():
        raise InvalidInput("log", str(source), "must be a file, or hold TensorBoard's event files")
    else:
        text = _text(source)
        rows, notes = (read_objects if _is_json(text) else read_table)(source, text, chosen)
    runs, about = parted(rows)
    curves = []
    for name, own in runs.items():
        steps, losses, done = tidied(own)
        if steps:
            curves.append(LossCurve(name, np.array(steps), np.array(losses), tuple(done)))
        else:
            about = [*about, f"{name or 'the run'} holds no finite loss"]
    if not curves:
        raise InvalidInput("log", str(source), "holds no finite loss")
    return Log(source, tuple(curves), (*notes, *about))


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise InvalidInput("log", str(path), f"cannot be read: {problem.strerror}") from None
    if b"\0" in content[:4096]:
        raise InvalidInput("log", str(path), "must be text, or an event file of TensorBoard's")
    return content.decode("utf-8-sig", errors="replace")


def _is_json(text: str) -> bool:
    first = text.lstrip()[:1]
    if first == "{":
        return True
    try:
        return first == "[" and isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False
