"""`saddlescope train`: one model, measured beside predicted; writes a run folder."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from saddlescope.cli import options
from saddlescope.cli.folder import make_folder
from saddlescope.cli.progress import progress_bar
from saddlescope.errors import CannotRead, Interrupted, InvalidInput

EXAMPLE = """Train linear attention exactly and set the run beside its prediction.

Example:

  saddlescope train --spectrum .4,.3,.2,.1 --context-length 31 --heads 5 --seeds 6 --out out

Writes OUT/index.html, OUT/figure.png (.svg, .pdf), OUT/comparison.json and OUT/run, which
saddlescope.load reads. An interrupted run goes on when the same command is given again.
"""


def train(
    spectrum: options.Spectrum = ".4,.3,.2,.1",
    context_length: options.ContextLength = "31",
    task_covariance: options.TaskCovariance = None,
    query_covariance: options.QueryCovariance = None,
    label_noise: options.LabelNoise = 0.0,
    model: options.ModelOption = options.Model.separate,
    heads: options.Heads = 5,
    rank: options.Rank = 1,
    normalisation: options.NormalisationOption = options.Normalisation.context,
    init_scale: options.InitScale = 0.01,
    seeds: options.Seeds = 1,
    until: Annotated[
        float | None, typer.Option(help="Gradient flow to this time (20000 by default).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Gradient descent for so many steps, instead of flow.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of gradient descent.")
    ] = None,
    converged: Annotated[
        float | None, typer.Option(help="Rest when this close to the least loss, e.g. 1e-6.")
    ] = None,
    points: Annotated[int, typer.Option(help="How many points are recorded.")] = 1000,
    spacing: Annotated[str, typer.Option(help="Spacing of the points: linear or log.")] = "linear",
    out: Annotated[
        Path | None, typer.Option(help="The run folder; runs/DIGEST by default.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another run in that folder.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    from saddlescope.attention import PaperStart
    from saddlescope.drawing import plot
    from saddlescope.dynamics import Record
    from saddlescope.report import write_run_page
    from saddlescope.setting import Setting

    task = options.make_task(
        spectrum, context_length, task_covariance, query_covariance, label_noise
    )
    setting = Setting(
        task=task,
        model=options.make_model(model, heads, rank, normalisation),
        method=_method(until, steps, learning_rate, converged),
        init=PaperStart(init_scale),
        record=Record(points=points, spacing=spacing),
        seeds=_seeds(seeds),
    )
    folder = Path("runs") / setting.digest if out is None else out
    trajectory = _carry_out(setting, folder, overwrite)
    comparison = trajectory.compare()
    command = shlex.join(["saddlescope", *sys.argv[1:]])
    page = write_run_page(trajectory, comparison, folder / "index.html", command)
    for ending in ("png", "svg", "pdf"):
        plot(trajectory, comparison=comparison).savefig(folder / f"figure.{ending}", dpi=160)
    values = json.dumps(comparison.to_dict(), indent=2, allow_nan=False)
    (folder / "comparison.json").write_text(values + "\n", encoding="utf-8")
    typer.echo(values if as_json else f"{comparison}\n\nwrote {page}")
    if any(outcome.result == "diverged" for outcome in trajectory.outcomes):
        raise typer.Exit(1)


def _method(
    until: float | None, steps: int | None, learning_rate: float | None, converged: float | None
) -> Any:
    from saddlescope.dynamics import GradientDescent, GradientFlow

    if steps is None and learning_rate is None:
        return GradientFlow(until=20_000 if until is None else until, converged=converged)
    if until is not None:
        raise InvalidInput(
            "until", until, "is for gradient flow; leave out steps and learning-rate"
        )
    if steps is None or learning_rate is None:
        missing = "steps" if steps is None else "learning-rate"
        raise InvalidInput(missing, None, "gradient descent needs both steps and learning-rate")
    return GradientDescent(learning_rate, steps, converged)


def _seeds(count: int) -> tuple[int, ...]:
    from saddlescope.checks import whole_number

    return tuple(range(whole_number("seeds", count)))


def _carry_out(setting: Any, folder: Path, overwrite: bool) -> Any:
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
            trajectory = dynamics.run(setting, progress=report, checkpoint=checkpoint)
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
