"""`saddlescope observe`: the heads of other people's models, over checkpoints or a live run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saddlescope.cli import options
from saddlescope.errors import CannotRead, InvalidInput
from saddlescope.tables import counted

if TYPE_CHECKING:
    import xarray as xr

    from saddlescope.observe import AbstractAdapter, Observation

EXAMPLE = """Measure every attention head of a series of checkpoints.

\b
Examples:
  saddlescope observe runs/gpt2                      a folder of checkpoints
  saddlescope observe 'ckpt/step*.safetensors' --out out/pythia
  saddlescope observe a.pt b.pt --heads 12 --log train.csv
  saddlescope observe out/observed                   what a Recorder has written
  saddlescope observe runs/a --compare out/b         two runs side by side

Takes files, folders and patterns, or one observation. Reads safetensors, Hugging Face's checkpoint
folders and state dicts (.pt, never arbitrary pickle).
Writes OUT/index.html and prints what happened: the stages, and the heads that changed most.
Checkpoints observed before are not read again; to resume after an interruption, give the same
command again. The exit code is 1 if a checkpoint could not be read. Measuring needs the extra
`observe`: pip install 'saddlescope[observe]'.
"""


def observe(
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHECKPOINTS", hidden=True),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder; out/observed by default.")
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The model's family, or FILE.py:NAME of your own adapter."
        ),
    ] = None,
    heads: Annotated[
        str | None,
        typer.Option(metavar="N", help="The number of heads, where the files do not say."),
    ] = None,
    fold_norms: Annotated[
        bool, typer.Option("--fold-norms", help="Fold the gains of the norms into the circuits.")
    ] = False,
    directions: Annotated[
        str | None,
        typer.Option(metavar="N", help="How many leading directions drift and turn follow; 4."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The log that holds the loss of the run.")
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Another observation, to show side by side."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write OUT/csv as well.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write OUT/tensorboard as well.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    from saddlescope.observe import load, observe_checkpoints
    from saddlescope.observe.exports import write_csv, write_tensorboard
    from saddlescope.observe.summary import summarise
    from saddlescope.report import write_observation_page
    from saddlescope.running.files import MANIFEST

    if not checkpoints:
        allowed = "must be files, folders or patterns; --help shows examples"
        raise InvalidInput("checkpoints", "", allowed)
    other = None if compare is None else _loaded(compare, "compare")
    done: Observation | None = None
    if len(checkpoints) == 1 and (Path(checkpoints[0]) / MANIFEST).is_file():
        folder = Path(checkpoints[0])
        given: dict[str, object] = {"out": out, "adapter": adapter, "heads": heads, "log": log}
        given |= {"fold_norms": fold_norms or None, "directions": directions}
        for name, value in given.items():
            if value is not None:
                allowed = f"is for checkpoints; {folder} is an observation, shown as it was made"
                raise InvalidInput(name, str(value), allowed)
    else:
        folder = out or Path("out") / "observed"
        done = observe_checkpoints(
            checkpoints,
            folder,
            adapter=_adapter(adapter),
            heads=None if heads is None else _whole("heads", heads),
            fold_norms=fold_norms,
            directions=4 if directions is None else _whole("directions", directions),
            log=log,
        )
        if done.problems and not (done.observed or done.known):
            _complain(done.problems)
            raise typer.Exit(1)
    dataset = _loaded(folder, "checkpoints") if done is None else load(folder)
    summary = summarise(dataset)
    problems = [*(done.problems if done else ()), *dataset.attrs["problems"]]
    remarks = list(done.remarks) if done else []
    if not summary.steps:
        raise CannotRead(f"path = {str(folder)!r}: holds no record yet")
    written = write_csv(dataset, folder / "csv") if csv else []
    if tensorboard:
        written.append(write_tensorboard(dataset, folder / "tensorboard"))
    runs = {folder.name: dataset}
    if other is not None and compare is not None:
        runs[compare.name if compare.name != folder.name else str(compare)] = other
    written.append(write_observation_page(runs, folder / "index.html"))
    if as_json:
        values = {"problems": problems, "remarks": remarks, **summary.to_dict()}
        typer.echo(json.dumps(values, indent=2, allow_nan=False))
    else:
        typer.echo(summary)
        if other is not None and compare is not None:
            typer.echo(f"\n{compare}:\n{summarise(other)}")
        if done is not None:
            known = f", {len(done.known)} known before" if done.known else ""
            typer.echo(f"\n{counted(len(done.observed), 'checkpoint')} observed{known}")
        for remark in remarks:
            typer.echo(remark)
        typer.echo("wrote " + ", ".join(map(str, written)))
    _complain(problems)
    if done is not None and done.problems:
        raise typer.Exit(1)


def _complain(problems: Iterable[str]) -> None:
    for problem in problems:
        typer.echo(f"saddlescope: {problem}", err=True)


def _loaded(folder: Path, field: str) -> xr.Dataset:
    from saddlescope.observe import load

    try:
        return load(folder)
    except CannotRead as problem:
        reason = str(problem).partition(": ")[2]
        raise InvalidInput(field, str(folder), f"must be an observation: {reason}") from None


def _whole(field: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise InvalidInput(field, text, "must be a whole number, at least 1")
    return int(text)


def _adapter(name: str | None) -> AbstractAdapter | str | None:
    """The name of a known adapter, or the user's own adapter named as FILE.py:NAME."""
    from saddlescope.observe import AbstractAdapter
    from saddlescope.setting.own import load_module

    path, colon, attribute = (name or "").rpartition(":")
    if not (colon and path.endswith(".py")):
        return name
    named = getattr(load_module("adapter", Path(path)), attribute, None)
    if isinstance(named, type) and issubclass(named, AbstractAdapter):
        named = named()
    if not isinstance(named, AbstractAdapter):
        raise InvalidInput("adapter", name, "must follow saddlescope.observe.AbstractAdapter")
    return named
