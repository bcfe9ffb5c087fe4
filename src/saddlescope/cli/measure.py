"""`saddlescope measure`: the stages of a loss curve in a log, whatever wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saddlescope.cli import options
from saddlescope.errors import CannotWrite, InvalidInput
from saddlescope.tables import counted

if TYPE_CHECKING:
    from saddlescope.measure import Stages
    from saddlescope.observe import Log

_PICTURES = (".png", ".pdf", ".svg")

EXAMPLE = """Find the plateaus and drops of a loss curve in a log.

\b
Examples:
  saddlescope measure train.csv
  saddlescope measure runs/gpt2/checkpoint-500/trainer_state.json --plot stages.png
  saddlescope measure runs/tensorboard --column train/loss
  saddlescope measure metrics.jsonl --json

Reads CSV, JSON lines, TensorBoard event files and trainer_state.json. Rows without a finite loss,
steps repeated after a restart, steps out of order and several runs in one file are handled; a note
with the row numbers says what was done.
"""


def measure(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A file, or a folder of event files.")],
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column, key or tag of the loss.")
    ] = None,
    step_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column of the step.")
    ] = None,
    run_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column that names the run.")
    ] = None,
    smoothing: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE", help="The smallest drop that counts, as a share of the whole fall."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the stages to this file: PNG, PDF or SVG."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from saddlescope.measure import stages
    from saddlescope.observe import read_log

    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise InvalidInput("plot", str(plot), f"must end in {', '.join(_PICTURES)}")
    share = None if smoothing is None else _share(smoothing)
    read = read_log(log, column=column, step_column=step_column, run_column=run_column)
    by_run: dict[str, Stages | None] = {}
    notes = list(read.notes)
    for curve in read.curves:
        try:
            by_run[curve.name] = stages(curve.losses, curve.steps, smoothing=share)
        except InvalidInput as problem:
            if problem.field == "smoothing":
                raise
            by_run[curve.name] = None
            notes.append(f"{curve.name or 'the run'}: no stages: {problem}")
    if as_json:
        typer.echo(json.dumps(_plain(read, by_run, notes), indent=2, allow_nan=False))
    else:
        _print(read, by_run, notes)
    # What cannot be drawn has been printed.
    written = [] if plot is None else _draw(by_run, plot)
    if written and not as_json:
        typer.echo("wrote " + ", ".join(map(str, written)))


def _print(read: Log, by_run: dict[str, Stages | None], notes: list[str]) -> None:
    for curve in read.curves:
        count = counted(len(curve.steps), "step")
        steps = f"{count}, {curve.steps[0]:g} to {curve.steps[-1]:g}"
        typer.echo(f"{curve.name}: {steps}" if curve.name else steps)
        for note in curve.notes:
            typer.echo(f"  {note}")
        if by_run[curve.name] is not None:
            typer.echo(f"{by_run[curve.name]!r}\n")
    for note in notes:
        typer.echo(note)


def _draw(by_run: dict[str, Stages | None], target: Path) -> list[Path]:
    """Draw every run that has stages; of several, each file is named after its run."""
    paths: list[Path] = []
    for name, one in by_run.items():
        if one is None:
            continue
        path = target
        if len(by_run) > 1:
            safe = "".join(sign if sign.isalnum() else "-" for sign in name)
            path = target.with_stem(f"{target.stem}-{safe}")
        if path in paths:
            path = path.with_stem(f"{path.stem}-{len(paths) + 1}")
        try:
            one.plot(unit="step").savefig(path, dpi=150)
        except OSError as problem:
            raise CannotWrite(path, problem) from None
        paths.append(path)
    return paths


def _plain(read: Log, by_run: dict[str, Stages | None], notes: list[str]) -> dict[str, object]:
    runs = [
        {
            "name": curve.name,
            "steps": len(curve.steps),
            "first_step": float(curve.steps[0]),
            "last_step": float(curve.steps[-1]),
            "notes": list(curve.notes),
            "stages": None if (one := by_run[curve.name]) is None else one.to_dict(),
        }
        for curve in read.curves
    ]
    return {"log": str(read.path), "notes": notes, "runs": runs}


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        allowed = "must be a share of the fall, 0.0001 to 0.5"
        raise InvalidInput("smoothing", text, allowed) from None
