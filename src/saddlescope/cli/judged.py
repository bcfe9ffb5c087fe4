"""Figures at the command line: their fields as flags, and their verdicts as text and JSON."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from saddlescope.cli.folder import working_in
from saddlescope.errors import InvalidInput
from saddlescope.running import ProgressBar
from saddlescope.running.files import write_text
from saddlescope.setting.nested import flat_fields, replace_texts
from saddlescope.tables import counted

if TYPE_CHECKING:
    from saddlescope.figures import AbstractFigure
    from saddlescope.figures.kit.reproduction import Result


def make_and_show(
    figures: Sequence[AbstractFigure],
    known: Sequence[type[AbstractFigure]],
    folder: Path,
    *,
    films: bool,
    as_json: bool,
    jobs: int | None = None,
    **heading: str,
) -> None:
    """Make figures in a folder, write their page and print the verdicts.

    Exits with 1 if a verdict is not the expected one. `jobs` figures are made at once, by default
    as many as cores and memory allow. The page also shows those of the other `known` figures that
    the folder holds; `heading` may hold its `title`.
    """
    from saddlescope.figures.kit import reproduction
    from saddlescope.report import write_reproduction_page

    with working_in(folder):
        with ProgressBar("figures") as bar:
            results = reproduction.reproduce(figures, folder, show=bar.show, films=films, jobs=jobs)
        order = [kind.id for kind in known]
        shown = sorted(
            [*results, *reproduction.others(known, results, folder)],
            key=lambda result: order.index(result.figure.id),
        )
        typer.echo(_results_json(results) if as_json else _verdicts(results))
        command = shlex.join(["saddlescope", *sys.argv[1:]])
        page = write_reproduction_page(shown, folder / "index.html", command, **heading)
        write_text(folder / "reproduction.json", _results_json(shown) + "\n")
    if not as_json:
        typer.echo(f"\nwrote {page}")
    if not all(result.as_expected for result in results):
        raise typer.Exit(1)


def with_fields(figures: Sequence[AbstractFigure], texts: dict[str, str]) -> list[AbstractFigure]:
    """The figures with new values of some fields; each field must belong to at least one."""
    for field, text in texts.items():
        if not any(field in flat_fields(figure) for figure in figures):
            allowed = sorted({name for figure in figures for name in flat_fields(figure)})
            flags = ", ".join(name.replace("_", "-") for name in allowed)
            raise InvalidInput(field.replace("_", "-"), text, f"no such option; there are {flags}")
    return [
        replace_texts(figure, {k: v for k, v in texts.items() if k in flat_fields(figure)})
        for figure in figures
    ]


def _verdicts(results: Sequence[Result]) -> str:
    """A line for each claim, and one for all of them."""
    lines = []
    for result in results:
        lines.append(f"{result.name}: {result.figure.title}  ({result.seconds:.1f} s)")
        if result.problem:
            lines.append(f"  could not be made: {result.problem}")
        for heading, claims in result.claims.tables.items():
            lines.append(f"  {heading}")
            lines += [f"    {line}" for claim in claims for line in str(claim).splitlines()]
    count = sum(len(result.claims) for result in results)
    wrong = sum(len(result.claims.unexpected) for result in results)
    broken = sum(bool(result.problem) for result in results)
    odd = [result.figure for result in results if not result.as_expected]
    if any(figure not in figure.presets().values() for figure in odd):
        lines.append("not the standard setting: the tolerances are those of the standard one")
    lines.append(
        f"{counted(count, 'claim')} about {counted(len(results), 'figure')}, "
        + (f"{count - wrong} as expected" + (f", {wrong} not" if wrong else ""))
        + (f"; {counted(broken, 'figure')} could not be made" if broken else "")
    )
    return "\n".join(lines)


def _results_json(results: Sequence[Result]) -> str:
    value = {
        "figures": [result.to_dict() for result in results],
        "as_expected": all(result.as_expected for result in results),
    }
    return json.dumps(value, indent=2, allow_nan=False)
