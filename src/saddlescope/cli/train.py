"""`saddlescope train`: one model, measured beside predicted; writes a run folder."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saddlescope.cli import options
from saddlescope.cli.folder import make_folder
from saddlescope.cli.progress import progress_bar
from saddlescope.errors import CannotRead, Interrupted, InvalidInput

if TYPE_CHECKING:
    from saddlescope.setting import Setting
    from saddlescope.trajectory import Trajectory

EXAMPLE = """Train linear attention exactly and set the run beside its prediction.

\b
Examples:
  saddlescope train --spectrum .4,.3,.2,.1 --context-length 31 --heads 5 --seeds 6 --out out
  saddlescope train --model merged --heads 8 --until 300
  saddlescope train --steps 20000 --learning-rate .02
  saddlescope train --setting out/setting.toml --seeds 3,7
  saddlescope train --task own_task.py:MyTask --model own_model.py:MyModel

Writes OUT/index.html, OUT/figure.png (.svg, .pdf), OUT/comparison.json, OUT/setting.toml and
OUT/run, which saddlescope.load reads. An interrupted run goes on when the same command is given
again.
"""


def train(
    words: options.Fields = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; runs/DIGEST by default.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another run in that folder.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    from saddlescope.cli.flags import only_fields, read_setting
    from saddlescope.drawing import plot
    from saddlescope.report import write_run_page
    from saddlescope.setting.toml import save_toml
    from saddlescope.trajectory import Result

    setting = read_setting(only_fields(words), until=20_000.0)
    folder = Path("runs") / setting.digest if out is None else out
    trajectory = _run(setting, folder, overwrite)
    comparison = trajectory.compare()
    command = shlex.join(["saddlescope", *sys.argv[1:]])
    save_toml(setting, folder / "setting.toml")
    page = write_run_page(trajectory, comparison, folder / "index.html", command)
    for ending in ("png", "svg", "pdf"):
        plot(trajectory, comparison=comparison).savefig(folder / f"figure.{ending}", dpi=160)
    values = json.dumps(comparison.to_dict(), indent=2, allow_nan=False)
    (folder / "comparison.json").write_text(values + "\n", encoding="utf-8")
    typer.echo(values if as_json else f"{comparison}\n\nwrote {page}")
    if any(outcome.result is Result.DIVERGED for outcome in trajectory.outcomes):
        raise typer.Exit(1)


def _run(setting: Setting, folder: Path, overwrite: bool) -> Trajectory:
    """The finished run in the folder, if it is this one; else train, going on where it stopped."""
    from saddlescope import dynamics, storage

    saved, checkpoint = folder / "run", folder / "checkpoint.npz"
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    if saved.exists() and not overwrite:
        trajectory = storage.load(saved)
        if trajectory.setting == setting:
            return trajectory
        raise InvalidInput("out", str(folder), "holds another run; --overwrite replaces it")
    if overwrite:
        checkpoint.unlink(missing_ok=True)
    try:
        with progress_bar("training") as report:
            trajectory = dynamics.train(setting, progress=report, checkpoint=checkpoint)
    except InvalidInput:
        for path in made:
            path.rmdir()
        raise
    except CannotRead as problem:
        raise InvalidInput("out", str(folder), f"{problem}; --overwrite starts anew") from None
    except Interrupted:
        typer.echo(f"interrupted; the same command goes on from {checkpoint}", err=True)
        raise typer.Exit(1) from None
    trajectory.save(saved, overwrite=overwrite)
    checkpoint.unlink(missing_ok=True)
    return trajectory
