"""Make figures: compute what is not known yet, judge every claim, draw, and keep it all."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import xarray as xr
from matplotlib.figure import Figure

from saddlescope.drawing import STYLE
from saddlescope.errors import Interrupted, InvalidInput, SaddlescopeError
from saddlescope.figures.kit.claims import Claims
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import tidy
from saddlescope.figures.kit.version import code_version
from saddlescope.figures.kit.watch import Watch
from saddlescope.setting.fields import as_text
from saddlescope.setting.nested import flat_plain
from saddlescope.setting.plain import Plain, describe, digest, read

_PICTURES = ("pdf", "png", "svg")
_DATA = "data.nc"
_RECORD = "record.json"


@dataclass(frozen=True, eq=False)
class Result:
    """A figure that was made, or could not be."""

    figure: AbstractFigure
    claims: Claims = field(default_factory=Claims)
    seconds: float = 0.0
    """How long the computation took when it was done."""
    drawing: Figure | None = None
    files: dict[str, str] = field(default_factory=dict)
    """What was written, by kind, relative to the folder of the whole reproduction."""
    command: str = ""
    problem: str = ""
    """Why there is nothing, in one line."""
    quick: bool = False

    @property
    def as_expected(self) -> bool:
        """Whether the figure was made and every claim has its expected verdict."""
        return not self.problem and self.claims.as_expected

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "id": self.figure.id,
            "title": self.figure.title,
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
    report: Callable[[str, float], object] | None = None,
    films: bool = True,
) -> tuple[Result, ...]:
    """Make figures in a folder; what is there already and still current is taken as it is.

    `report` is called with the id of the figure in hand and the share of all work that is done.
    A figure that fails does not stop the others. An interruption leaves finished figures and the
    unfinished runs of the present one; the same call resumes from there.
    """
    weights = [0.01 if is_current(figure, out) else _weight(figure) for figure in figures]
    results = []
    for index, figure in enumerate(figures):

        def report_share(done: float, name: str = figure.id, index: int = index) -> None:
            if report is not None:
                report(name, (sum(weights[:index]) + weights[index] * done) / sum(weights))

        report_share(0.0)
        results.append(_make(figure, out, report_share, films))
    return tuple(results)


def is_current(figure: AbstractFigure, out: Path) -> bool:
    """Whether the folder holds this figure, in this setting, made by this code, undamaged."""
    return _current_record(out / figure.id, _key(figure)) is not None


def others(
    known: Sequence[type[AbstractFigure]], made: Sequence[Result], out: Path
) -> list[Result]:
    """The figures that the folder holds besides those just made, if they are still current."""
    names = {result.figure.id for result in made}
    results = []
    for kind in known:
        record = _read_record(out / kind.id)
        if kind.id in names or record is None:
            continue
        try:
            figure = read("figure", record["setting"])
        except (InvalidInput, TypeError):
            # Of another format, or of fields that the figure no longer has.
            continue
        if isinstance(figure, kind) and is_current(figure, out):
            results.append(_make(figure, out, lambda share: None, films=False))
    return results


def command_of(figure: AbstractFigure) -> str:
    """The command that makes a figure in its setting, from the preset that is nearest to it."""
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


def _make(
    figure: AbstractFigure, out: Path, report_share: Callable[[float], None], films: bool
) -> Result:
    folder = out / figure.id
    quick, command = figure == type(figure).quick(), command_of(figure)
    try:
        key = _key(figure)
        record = _current_record(folder, key)
        if record is None:
            watch = Watch(report_share, folder / "unfinished" / key, out / "runs")
            began = time.monotonic()
            data = figure.compute(watch)
            seconds = time.monotonic() - began
            _keep_data(data, folder, figure.film)
        else:
            data = xr.load_dataset(folder / _DATA, engine="scipy")
            seconds, watch = float(str(record["seconds"])), Watch(report_share)
        with matplotlib.rc_context(STYLE):
            drawing = figure.draw(data)
            tidy(drawing)
            # Laid out once for all formats and the page: for a sheet of panels that takes seconds.
            drawing.draw_without_rendering()
            drawing.set_layout_engine("none")
            if record is None:
                for ending in _PICTURES:
                    drawing.savefig(folder / f"figure.{ending}", dpi=160)
        claims = Claims(figure.claims(data))
        if record is None:
            _keep_record(figure, key, folder, seconds)
        if films and figure.film and not (folder / figure.film).exists():
            unfinished = folder / f"unfinished-{figure.film}"
            figure.make_film(data, unfinished, watch)
            os.replace(unfinished, folder / figure.film)
        shutil.rmtree(folder / "unfinished", ignore_errors=True)
    except (InvalidInput, Interrupted):
        raise
    except Exception as error:
        # One broken figure must not cost the others.
        kind = "" if isinstance(error, SaddlescopeError) else f"{type(error).__name__}: "
        problem = " ".join(f"{kind}{error}".split())
        return Result(figure, command=command, problem=problem, quick=quick)
    return Result(
        figure, claims, seconds, drawing, _files(folder, figure.film), command, quick=quick
    )


def _key(figure: AbstractFigure) -> str:
    return digest([describe(figure), code_version(type(figure)), figure.inputs()])


def _current_record(folder: Path, key: str) -> dict[str, Plain] | None:
    """The record of a figure that is there, is the one that `key` names, and is undamaged."""
    record = _read_record(folder)
    if record is None or record["key"] != key:
        return None
    files = [folder / _DATA, *(folder / f"figure.{ending}" for ending in _PICTURES)]
    if not all(path.is_file() for path in files):
        return None
    return record if _checksum(folder / _DATA) == record["checksum"] else None


def _keep_data(data: xr.Dataset, folder: Path, film: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _RECORD).unlink(missing_ok=True)
    if film:
        (folder / film).unlink(missing_ok=True)
    unfinished = folder / f".{_DATA}.part"
    data.to_netcdf(unfinished, engine="scipy")
    os.replace(unfinished, folder / _DATA)


def _keep_record(figure: AbstractFigure, key: str, folder: Path, seconds: float) -> None:
    """Written last: a folder without it is unfinished."""
    record = {
        "key": key,
        "setting": describe(figure),
        "seconds": seconds,
        "checksum": _checksum(folder / _DATA),
    }
    unfinished = folder / f".{_RECORD}.part"
    unfinished.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / _RECORD)


def _read_record(folder: Path) -> dict[str, Plain] | None:
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return record if {"key", "setting", "seconds", "checksum"} <= set(record) else None
    except (OSError, ValueError, TypeError):
        return None


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _files(folder: Path, film: str) -> dict[str, str]:
    files = {ending: f"{folder.name}/figure.{ending}" for ending in _PICTURES}
    files["data"] = f"{folder.name}/{_DATA}"
    if film and (folder / film).exists():
        files["film"] = f"{folder.name}/{film}"
    return files
