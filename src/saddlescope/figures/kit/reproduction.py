"""Make figures: compute what is missing, judge every claim, draw, and keep it all."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import matplotlib
import xarray as xr

from saddlescope.charts import Sheet, read_sheet, write_sheet
from saddlescope.checks import whole_number
from saddlescope.drawing import STYLE, draw_sheet
from saddlescope.errors import (
    CannotRead,
    CannotWrite,
    Interrupted,
    InvalidInput,
    SaddlescopeError,
)
from saddlescope.figures.kit.claim import Claim
from saddlescope.figures.kit.claims import Claims
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.version import code_version
from saddlescope.figures.kit.watch import Watch
from saddlescope.running.cores import default_workers
from saddlescope.running.files import Sealed, make_folder, replacing, write_bytes, write_text
from saddlescope.running.memory import available_bytes
from saddlescope.running.parts import Parts
from saddlescope.running.workers import Lost, on_workers
from saddlescope.setting.fields import as_text
from saddlescope.setting.nested import flat_plain
from saddlescope.setting.plain import describe, digest, read

_PICTURES = ("pdf", "png", "svg")
_DATA, _CLAIMS = "data.nc", "claims.json"
_CHARTS = ("charts.json", "charts.npz")
_KIND = "figure"
# What a process that makes figures takes, programs included.
_MOST_BYTES = 2 * 1024**3


@dataclass(frozen=True, eq=False)
class Result:
    """A figure that was made, or could not be."""

    figure: AbstractFigure
    claims: Claims = field(default_factory=Claims)
    seconds: float = 0.0
    """How long the computation took when it was done."""
    sheet: Sheet | None = None
    """The picture, as data."""
    files: dict[str, str] = field(default_factory=dict)
    """What was written, by kind, relative to the folder of the whole reproduction."""
    command: str = ""
    problem: str = ""
    """Why there is nothing, in one line."""
    quick: bool = False

    @property
    def name(self) -> str:
        """The name of its folder, unique to the setting."""
        return folder_name(self.figure)

    @property
    def as_expected(self) -> bool:
        """Whether the figure was made and every claim has its expected verdict."""
        return not self.problem and self.claims.as_expected

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "id": self.figure.id,
            "folder": self.name,
            "title": self.figure.title,
            "departures": list(self.figure.departures),
            "setting": flat_plain(self.figure),
            "seconds": round(self.seconds, 3),
            "problem": self.problem,
            "claims": [claim.to_dict() for claim in self.claims],
            "files": self.files,
            "command": self.command,
        }


def reproduce(
    figures: Sequence[AbstractFigure],
    out: Path,
    *,
    show: Callable[[float, str], object] | None = None,
    films: bool = True,
    jobs: int | None = 1,
) -> tuple[Result, ...]:
    """Make figures in a folder; those that are there already and still current are reused.

    `show` is called with the share of the work that is done and the ids of the figures being made.
    A figure that fails does not stop the others. An interruption keeps the finished figures and the
    unfinished runs of the current ones; the same call resumes from there.

    `jobs` figures are made at once, each in a process of its own, by default as many as cores and
    memory allow; in a script, call this under `if __name__ == "__main__":`. The numbers are the
    same to the last bit.
    """
    most = None if jobs is None else whole_number("jobs", jobs)
    complete = [_is_complete(figure, out, films) for figure in figures]
    weights = [
        0.01 if known else _weight(figure) for figure, known in zip(figures, complete, strict=True)
    ]
    show = show or _show_nothing
    missing = complete.count(False)
    most = min(missing, _default_jobs() if most is None else most)
    if most <= 1:
        return _one_by_one(figures, out, weights, show, films)
    return _at_once(figures, out, weights, show, films, most)


def _show_nothing(share: float, name: str) -> None:
    pass


def _default_jobs() -> int:
    return max(1, min(default_workers(), available_bytes() // _MOST_BYTES))


def _one_by_one(
    figures: Sequence[AbstractFigure],
    out: Path,
    weights: Sequence[float],
    show: Callable[[float, str], object],
    films: bool,
) -> tuple[Result, ...]:
    results: list[Result] = []

    def show_share(share: float) -> None:
        show(share, figures[min(len(results), len(figures) - 1)].id)

    parts = Parts(show_share)
    for figure in parts.each(figures, weights):
        results.append(_make(figure, parts, out, films))
    return tuple(results)


def _at_once(
    figures: Sequence[AbstractFigure],
    out: Path,
    weights: Sequence[float],
    show: Callable[[float, str], object],
    films: bool,
    jobs: int,
) -> tuple[Result, ...]:
    """The longest first, so that no process is left alone with one at the end."""
    order = sorted(range(len(figures)), key=lambda place: -weights[place])
    ordered = [figures[place] for place in order]

    def show_shares(shares: Sequence[float], in_hand: Sequence[int]) -> None:
        done = sum(weights[place] * share for place, share in zip(order, shares, strict=True))
        show(done / sum(weights), ", ".join(ordered[place].id for place in in_hand))

    made = on_workers(partial(_make, out=out, films=films), ordered, jobs, show_shares)
    results = dict(zip(order, made, strict=True))
    return tuple(
        _failed(figure, result.reason) if isinstance(result, Lost) else result
        for figure, (_, result) in zip(figures, sorted(results.items()), strict=True)
    )


def is_current(figure: AbstractFigure, out: Path) -> bool:
    """Whether the folder holds this figure, in this setting, made by this code, undamaged."""
    return _current(out / folder_name(figure), _key(figure)) is not None


def others(
    known: Sequence[type[AbstractFigure]], made: Sequence[Result], out: Path
) -> list[Result]:
    """The figures that the folder holds besides those just made, if they are still current."""
    names = {result.name for result in made}
    results = []
    for kind in known:
        for folder in sorted(out.glob(f"{kind.id}*")):
            try:
                figure = read("figure", Sealed.read(folder, _KIND).about["setting"])
            except (CannotRead, InvalidInput, TypeError):
                # Not a figure, or one with fields that no longer exist.
                continue
            if not isinstance(figure, kind) or folder.name in names:
                continue
            if folder.name == folder_name(figure) and is_current(figure, out):
                results.append(_make(figure, Parts(), out, films=False))
    return results


def folder_name(figure: AbstractFigure) -> str:
    """The folder of a figure: its id if the setting has a name, else a name of its own.

    So a figure in another setting does not replace the standard one. An experiment always has a
    setting of its own.
    """
    if figure.verb != "reproduce" or figure in figure.presets().values():
        return figure.id
    return f"{figure.id}-{digest(describe(figure))[:8]}"


def command_of(figure: AbstractFigure) -> str:
    """The command that makes a figure in its setting, starting from the nearest preset."""
    commands: list[list[str]] = []
    for words, preset in figure.presets().items():
        known, changes = flat_plain(preset), []
        for name, value in flat_plain(figure).items():
            if value != known.get(name):
                changes += [f"--{name.replace('_', '-')}", as_text(value)]
        commands.append(["saddlescope", figure.verb, figure.id, *words, *changes])
    return shlex.join(sorted(commands, key=len)[0])


def _weight(figure: AbstractFigure) -> float:
    return 1.0 if figure == type(figure).quick() else figure.seconds


def _is_complete(figure: AbstractFigure, out: Path, films: bool) -> bool:
    """Whether there is nothing to make, including its film if that is wanted."""
    kept = _current(out / folder_name(figure), _key(figure))
    return kept is not None and (not films or not figure.film or figure.film in kept.files)


def _make(figure: AbstractFigure, parts: Parts, out: Path, films: bool) -> Result:
    folder = out / folder_name(figure)
    quick, command, problem = figure == type(figure).quick(), command_of(figure), ""
    try:
        key = _key(figure)
        kept = _current(folder, key)
        watch = Watch(parts, folder / "unfinished" / key, out / "runs")
        if kept is None:
            began = time.monotonic()
            data = figure.compute(watch)
            seconds = time.monotonic() - began
            claims, sheet = Claims(figure.claims(data)), figure.draw(data)
        else:
            seconds = float(str(kept.about["seconds"]))
            claims, sheet = _read_claims(kept), read_sheet(*map(kept.content, _CHARTS))
        try:
            if kept is None:
                about = {"setting": describe(figure), "seconds": seconds}
                kept = _keep(Sealed(folder, _KIND, key, about), data, claims, sheet)
            if films and figure.film and figure.film not in kept.files:
                data = xr.load_dataset(io.BytesIO(kept.content(_DATA)), engine="scipy")
                with replacing(folder / figure.film) as path:
                    figure.make_film(data, path, watch)
                kept = kept.write(figure.film)
            shutil.rmtree(folder / "unfinished", ignore_errors=True)
        except CannotWrite as reason:
            # The verdicts are there nevertheless.
            problem = str(reason)
    except (InvalidInput, Interrupted):
        raise
    except Exception as error:
        # One broken figure must not stop the others.
        name = "" if isinstance(error, SaddlescopeError) else f"{type(error).__name__}: "
        return _failed(figure, f"{name}{error}")
    files = {} if kept is None else _files(kept, figure.film)
    return Result(figure, claims, seconds, sheet, files, command, problem, quick)


def _failed(figure: AbstractFigure, reason: str) -> Result:
    problem, quick = " ".join(reason.split()), figure == type(figure).quick()
    return Result(figure, command=command_of(figure), problem=problem, quick=quick)


def _key(figure: AbstractFigure) -> str:
    return digest([describe(figure), code_version(type(figure)), figure.inputs()])


def _current(folder: Path, key: str) -> Sealed | None:
    """The folder of a figure, if it is the one that `key` names, and undamaged."""
    try:
        sealed = Sealed.read(folder, _KIND)
    except CannotRead:
        return None
    return sealed if sealed.digest == key and sealed.is_whole else None


def _keep(sealed: Sealed, data: xr.Dataset, claims: Claims, sheet: Sheet) -> Sealed:
    """Write data, claims and pictures, and in the end the manifest that vouches for them."""
    folder = sealed.path
    make_folder(folder)
    with replacing(folder / _DATA) as path:
        data.to_netcdf(path, engine="scipy")
    judged = [claim.to_dict() for claim in claims]
    write_text(folder / _CLAIMS, json.dumps(judged, indent=2, allow_nan=False) + "\n")
    for name, content in zip(_CHARTS, write_sheet(sheet), strict=True):
        write_bytes(folder / name, content)
    drawing, pictures = draw_sheet(sheet), [f"figure.{ending}" for ending in _PICTURES]
    for name in pictures:
        with replacing(folder / name) as path, matplotlib.rc_context(STYLE):
            drawing.savefig(path, dpi=160)
    return sealed.write(_DATA, _CLAIMS, *_CHARTS, *pictures)


def _read_claims(kept: Sealed) -> Claims:
    return Claims(tuple(Claim.from_dict(one) for one in json.loads(kept.content(_CLAIMS))))


def _files(sealed: Sealed, film: str) -> dict[str, str]:
    names = {ending: f"figure.{ending}" for ending in _PICTURES} | {"data": _DATA}
    if film in sealed.files:
        names["film"] = film
    return {kind: f"{sealed.path.name}/{name}" for kind, name in names.items()}
