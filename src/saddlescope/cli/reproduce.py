"""`saddlescope reproduce`: the papers' figures, each claim judged; writes a page."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from saddlescope.cli import options
from saddlescope.cli.progress import progress_bar
from saddlescope.errors import Interrupted, InvalidInput

EXAMPLE = """Make the papers' figures and judge each claim about them.

Examples:

  saddlescope reproduce                              every figure
  saddlescope reproduce fig3 fig4                    these two
  saddlescope reproduce --quick                      a reduced version of each
  saddlescope reproduce fig3 --heads 8 --seeds 12    in another setting
  saddlescope reproduce --list                       what there is, and its settings

Writes OUT/index.html, and for each figure PDF, SVG, PNG and its data. What is there already is
not computed again; an interrupted run goes on when the same command is given again. The exit code
is 1 if a verdict is not the expected one.
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIGURE]... [--FIELD VALUE]...", help="All figures by default."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A reduced version of each figure.")
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the figures and leave.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder; out/reproduction (or out/reproduction-quick) by default."),
    ] = None,
    film: Annotated[bool, typer.Option(help="Make the films that belong to figures.")] = True,
    as_json: options.Json = False,
) -> None:
    from saddlescope.figures import FIGURES
    from saddlescope.figures.reproduction import others, reproduce
    from saddlescope.report import write_reproduction_page

    if show:
        typer.echo(_as_json(FIGURES) if as_json else _as_table(FIGURES))
        return
    figures = _chosen(names or [], quick, FIGURES)
    folder = out or Path("out") / ("reproduction-quick" if quick else "reproduction")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput("out", str(folder), f"cannot be used: {problem.strerror}") from None
    try:
        results = _with_progress(
            lambda report: reproduce(figures, folder, report=report, films=film)
        )
    except (Interrupted, KeyboardInterrupt):
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(1) from None
    rest = others(FIGURES, results, folder)
    order = [kind.id for kind in FIGURES]
    shown = sorted([*results, *rest], key=lambda result: order.index(result.figure.id))
    page = write_reproduction_page(shown, folder / "index.html")
    _write_json(folder / "reproduction.json", shown)
    if as_json:
        typer.echo(_results_json(results))
    else:
        typer.echo(f"{_verdicts(results)}\n\nwrote {page}")
    if not all(result.as_expected for result in results):
        raise typer.Exit(1)


def _chosen(words: list[str], quick: bool, known: Any) -> list[Any]:
    """The figures that the words name, in the setting that the flags among them give."""
    names, texts = _split(words)
    by_id = {kind.id: kind for kind in known}
    for name in names:
        if name not in by_id:
            raise InvalidInput("figure", name, f"must be one of {', '.join(by_id)}")
    kinds = [kind for kind in known if not names or kind.id in names]
    figures = [kind.quick() if quick else kind() for kind in kinds]
    if not texts:
        return figures
    for field, text in texts.items():
        if not any(field in figure.setting() for figure in figures):
            allowed = sorted({name for figure in figures for name in figure.setting()})
            flags = ", ".join(name.replace("_", "-") for name in allowed)
            raise InvalidInput(field.replace("_", "-"), text, f"no such option; there are {flags}")
    return [
        figure.with_texts({k: v for k, v in texts.items() if k in figure.setting()})
        for figure in figures
    ]


def _split(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Names of figures, and the fields of their settings given as --field value."""
    names: list[str] = []
    texts: dict[str, str] = {}
    waiting = iter(words)
    for word in waiting:
        if not word.startswith("--"):
            names.append(word)
            continue
        flag, equals, value = word[2:].partition("=")
        given = value if equals else next(waiting, None)
        if given is None:
            raise InvalidInput(flag, "", "needs a value")
        texts[flag.replace("-", "_")] = given
    return names, texts


def _with_progress(work: Any) -> Any:
    from saddlescope.dynamics import Progress

    began = time.monotonic()
    with progress_bar("figures") as show:
        if show is None:
            return work(None)
        return work(lambda name, share: show(Progress(share, time.monotonic() - began), title=name))


def _verdicts(results: Any) -> str:
    """A line for each claim, and one for all of them."""
    lines = []
    for result in results:
        lines.append(f"{result.figure.id}: {result.figure.title}  ({result.seconds:.1f} s)")
        if result.problem:
            lines.append(f"  could not be made: {result.problem}")
        for claim in result.claims:
            mark = claim.verdict if claim.as_expected else f"{claim.verdict.upper()}, UNEXPECTED"
            lines.append(f"  {mark}: {claim.name} [{claim.summary}]")
            if claim.reason:
                lines.append(f"    expected to fail: {claim.reason}")
    claims = [claim for result in results for claim in result.claims]
    wrong = sum(not claim.as_expected for claim in claims)
    broken = sum(bool(result.problem) for result in results)
    lines.append(
        f"{len(claims)} claims about {len(results)} figures, {len(claims) - wrong} as expected"
        + (f", {wrong} not" if wrong else "")
        + (f", {broken} figures could not be made" if broken else "")
    )
    return "\n".join(lines)


def _results_json(results: Any) -> str:
    value = {
        "figures": [result.to_dict() for result in results],
        "as_expected": all(result.as_expected for result in results),
    }
    return json.dumps(value, indent=2, allow_nan=False)


def _write_json(path: Path, results: Any) -> None:
    path.write_text(_results_json(results) + "\n", encoding="utf-8")


def _as_table(known: Any) -> str:
    width = max(len(kind.id) for kind in known)
    lines = []
    for kind in known:
        flags = " ".join(
            f"--{name.replace('_', '-')} {_text(value)}" for name, value in kind().setting().items()
        )
        lines += [
            f"{kind.id:<{width}}  {kind.title} ({kind.source}; about {kind.seconds:.0f} s)",
            f"{'':<{width}}  {flags}",
        ]
    return "\n".join(lines)


def _as_json(known: Any) -> str:
    listed = [
        {
            "id": kind.id,
            "title": kind.title,
            "source": kind.source,
            "seconds": kind.seconds,
            "setting": kind().setting(),
        }
        for kind in known
    ]
    return json.dumps({"figures": listed}, indent=2)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
