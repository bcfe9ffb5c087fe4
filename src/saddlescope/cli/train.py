"""`saddlescope train`: one model, measured beside predicted; writes a run folder."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saddlescope.cli import options
from saddlescope.cli.folder import working_in
from saddlescope.errors import CannotRead, InvalidInput, SaddlescopeError
from saddlescope.running import Checkpoint, ProgressBar
from saddlescope.running.files import check_replaceable, find_folder, replacing, write_text

if TYPE_CHECKING:
    from saddlescope.setting import Setting
    from saddlescope.trajectory import Trajectory

EXAMPLE = """Train linear attention exactly, and compare with theory.

\b
Examples:
  saddlescope train --spectrum .4,.3,.2,.1 --context-length 31 --heads 5 --seeds 6 --out out
  saddlescope train --model merged --heads 8 --until 300
  saddlescope train --steps 20000 --learning-rate .02
  saddlescope train --setting out/setting.toml --seeds 3,7
  saddlescope train --task own_task.py:MyTask --model own_model.py:MyModel

Writes OUT/index.html, OUT/figure.png (.svg, .pdf), OUT/comparison.json, OUT/setting.toml and
OUT/run, which saddlescope.load reads. To resume an interrupted run, give the same command again.
"""


def train(
    words: options.Fields = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The run folder; runs/DIGEST by default."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that is in that folder.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    from saddlescope.cli.flags import only_fields, read_setting
    from saddlescope.trajectory import Result

    setting = read_setting(only_fields(words), until=20_000.0)
    folder = Path("runs") / setting.digest if out is None else out
    with working_in(folder):
        trajectory, problem = _run(setting, folder, overwrite)
        comparison = trajectory.compare()
        values = json.dumps(comparison.to_dict(), indent=2, allow_nan=False)
        typer.echo(values if as_json else comparison)
        if problem is not None:
            raise problem
        page = _write_pages(trajectory, values, folder)
    if not as_json:
        typer.echo(f"\nwrote {page}")
    if trajectory.outcomes.are(Result.DIVERGED).any():
        raise typer.Exit(1)


def _run(
    setting: Setting, folder: Path, overwrite: bool
) -> tuple[Trajectory, SaddlescopeError | None]:
    """The finished run in the folder, if it is this one; else train, resuming where it stopped.

    The second value is the error that kept the run from being saved, if any.
    """
    from saddlescope import dynamics, storage

    saved, checkpoint = folder / "run", Checkpoint(folder / "checkpoint", replace=overwrite)
    try:
        if find_folder(saved).exists() and not overwrite:
            trajectory = storage.load(saved)
            if trajectory.setting == setting:
                return trajectory, None
            raise InvalidInput("out", str(folder), "holds another run; --overwrite replaces it")
        # Checked before anything is computed.
        check_replaceable(saved, "run", overwrite=overwrite)
        trajectory = dynamics.train(setting, observers=[ProgressBar(), checkpoint])
    except CannotRead as problem:
        raise InvalidInput("out", str(folder), f"{problem}; {_cure(saved)}") from None
    try:
        trajectory.save(saved, overwrite=overwrite)
    except SaddlescopeError as problem:
        return trajectory, problem
    checkpoint.remove()
    return trajectory, None


def _cure(saved: Path) -> str:
    """What to do about a run that cannot be read: nothing is removed that we did not write."""
    try:
        check_replaceable(saved, "run", overwrite=True)
    except InvalidInput:
        return "remove it, or name another folder"
    return "--overwrite starts anew"


def _write_pages(trajectory: Trajectory, comparison: str, folder: Path) -> Path:
    from saddlescope.report import write_run_page
    from saddlescope.setting.toml import save_toml

    command = shlex.join(["saddlescope", *sys.argv[1:]])
    save_toml(trajectory.setting, folder / "setting.toml")
    write_text(folder / "comparison.json", comparison + "\n")
    with ProgressBar("drawing") as bar:
        page = write_run_page(trajectory, folder / "index.html", command)
        for done, ending in enumerate(("png", "svg", "pdf"), start=1):
            bar.show(done / 4)
            with replacing(folder / f"figure.{ending}") as path:
                trajectory.plot().savefig(path, dpi=160)
    return page
