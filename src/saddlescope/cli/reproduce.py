"""`saddlescope reproduce`: the papers' figures, each claim judged; writes a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saddlescope.checks import whole_number
from saddlescope.cli import options
from saddlescope.cli.flags import split_words
from saddlescope.cli.judged import make_and_show, with_fields
from saddlescope.errors import InvalidInput

if TYPE_CHECKING:
    from saddlescope.figures import AbstractFigure

EXAMPLE = """Make the papers' figures and judge every claim about them.

\b
Examples:
  saddlescope reproduce                             every figure
  saddlescope reproduce fig3 fig4                   these two
  saddlescope reproduce --quick                     a reduced version of each
  saddlescope reproduce --jobs 1                    one after another
  saddlescope reproduce fig3 --context-length 15    in another setting
  saddlescope reproduce --list                      the figures that there are
  saddlescope reproduce --list fig3                 the fields of this one

Writes OUT/index.html, and for each figure PDF, SVG, PNG and its data. A figure that is already
there is not computed again; to resume after an interruption, give the same command again. The exit
code is 1 if a verdict is not the expected one.
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIGURE | --FIELD VALUE", hidden=True),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Make a reduced version of each figure.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the figures and exit.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder; out/reproduction (or out/reproduction-quick) by default.",
        ),
    ] = None,
    # A string, so that what is wrong with it is said in our own words.
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="How many figures to make at once; one for each core by default."
        ),
    ] = None,
    film: Annotated[bool, typer.Option(help="Make the films of the figures that have one.")] = True,
    as_json: options.Json = False,
) -> None:
    from saddlescope.figures import FIGURES

    count = None if jobs is None else _count(jobs)
    figures = _chosen(names or [], quick, FIGURES)
    if show:
        typer.echo(_as_json(figures) if as_json else _as_table(figures, fields=bool(names)))
        return
    folder = out or Path("out") / ("reproduction-quick" if quick else "reproduction")
    make_and_show(figures, FIGURES, folder, films=film, as_json=as_json, jobs=count)


def _count(text: str) -> int:
    from saddlescope.setting.fields import as_number

    value = as_number(text)
    return whole_number("jobs", text if value is None else value)


def _chosen(
    words: list[str], quick: bool, known: Sequence[type[AbstractFigure]]
) -> list[AbstractFigure]:
    """The figures that the words name, in the setting that the flags among them give."""
    names, texts = split_words(words)
    by_id = {kind.id: kind for kind in known}
    for name in names:
        if name not in by_id:
            raise InvalidInput("figure", name, f"must be one of {', '.join(by_id)}")
    kinds = [kind for kind in known if not names or kind.id in names]
    return with_fields([kind.quick() if quick else kind() for kind in kinds], texts)


def _as_table(figures: Sequence[AbstractFigure], *, fields: bool) -> str:
    """A line for each figure, with the flags of its setting below it if asked for."""
    from saddlescope.setting.fields import as_text
    from saddlescope.setting.nested import flat_plain

    width = max(len(figure.id) for figure in figures)
    lines = []
    for figure in figures:
        about = f"({figure.source}; about {figure.seconds:.0f} s)"
        lines.append(f"{figure.id:<{width}}  {figure.title} {about}")
        if fields:
            setting = flat_plain(figure)
            lines += [
                f"{'':<{width}}  --{name.replace('_', '-')} {as_text(value)}"
                for name, value in setting.items()
                if value is not None
            ]
    if not fields:
        lines.append("the fields of one: saddlescope reproduce --list FIGURE")
    return "\n".join(lines)


def _as_json(figures: Sequence[AbstractFigure]) -> str:
    from saddlescope.setting.nested import flat_plain

    listed = [
        {
            "id": figure.id,
            "title": figure.title,
            "source": figure.source,
            "seconds": figure.seconds,
            "setting": flat_plain(figure),
        }
        for figure in figures
    ]
    return json.dumps({"figures": listed}, indent=2)
