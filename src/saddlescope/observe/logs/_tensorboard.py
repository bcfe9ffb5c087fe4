"""TensorBoard's event files, through TensorBoard's own reader."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from saddlescope.errors import InvalidInput
from saddlescope.observe._extras import require
from saddlescope.observe.logs._columns import Columns, Row

_PATTERN = "*tfevents*"


def event_files(path: Path) -> list[Path]:
    """The event files at a path: it may be one, or a folder that holds some."""
    if path.is_dir():
        return sorted(file for file in path.rglob(_PATTERN) if file.is_file())
    return [path] if "tfevents" in path.name else []


def read_events(
    path: Path, files: list[Path], choose: Callable[[list[str]], Columns]
) -> tuple[list[Row], list[str]]:
    """The rows of event files, a run a folder; their numbers count the events of a run, from 1."""
    scalars: list[tuple[int, str, str, int, float]] = []
    notes: list[str] = []
    counts: dict[str, int] = {}
    for file in files:
        run = "" if file == path else file.parent.relative_to(path).as_posix()
        found, problem = _scalars(file)
        if problem:
            notes.append(f"{file.name}: {problem}; what stands before that is read")
        for tag, step, value in found:
            counts[run] = counts.get(run, 0) + 1
            scalars.append((counts[run], run, tag, step, value))
    tags = dict.fromkeys(tag for _, _, tag, _, _ in scalars)
    if not tags:
        raise InvalidInput("log", str(path), "holds no scalars")
    columns = choose(list(tags))
    wanted = set(columns.losses.values())
    rows = [
        Row(number, "" if run == "." else run, float(step), value)
        for number, run, tag, step, value in scalars
        if tag in wanted
    ]
    return rows, [*notes, f"loss is {', '.join(map(repr, wanted))}"]


def _scalars(file: Path) -> tuple[list[tuple[str, int, float]], str]:
    """Tags, steps and values of the scalars in a file, and where it breaks off."""
    loader = require("tensorboard.backend.event_processing.event_file_loader")
    arrays = require("tensorboard.util.tensor_util")
    # It would print what the notes say already.
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    found: list[tuple[str, int, float]] = []
    try:
        for event in loader.EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    number = float(arrays.make_ndarray(value.tensor).reshape(-1)[0])
                    found.append((value.tag, event.step, number))
    except Exception as problem:
        # Which exception a damaged file raises depends on where the damage is.
        return found, f"is damaged ({type(problem).__name__})"
    return found, ""
