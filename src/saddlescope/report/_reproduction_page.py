"""The page of a reproduction: each figure with its claims, and one folded table of them all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from saddlescope.drawing import draw_sheet, inline_svg, to_svg
from saddlescope.figures.kit.claim import Claim, Verdict
from saddlescope.figures.kit.claims import OURS, PUBLISHED, Claims
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.reproduction import Result
from saddlescope.report._assets import asset, embedded
from saddlescope.report._colours import lighten_on_dark
from saddlescope.report._page import Section, table, write_page
from saddlescope.report._panels import page_panels
from saddlescope.setting.nested import flat_plain
from saddlescope.tables import Cell, counted, paragraphs

_TITLE = "Saddlescope: the papers' figures, reproduced and judged"
_LEAD = (
    "Every figure is computed, every claim about it is judged by numbers, and the verdict stands "
    "beside the expected one. Solid lines and markers are measured, dashed lines predicted."
)
_QUICK = (
    "Figures marked quick were made in a reduced setting, for a first look: their claims are judged"
    " too, but the papers' settings are those of the full versions."
)
_LOST = "Not made"
# Characters; a larger picture would make the page slow to open.
_LARGEST_INLINE = 300_000
_DOWNLOADS = {"pdf": "PDF", "svg": "SVG", "png": "PNG", "data": "data (NetCDF)", "film": "film"}
_SCRIPTS = ("uPlot.iife.min.js", "scales.js", "layers.js", "reading.js", "panels.js")
# A line may not break within a number such as 1e-12.
_SMALL = re.compile(r"\S+e-\S+")
# Text between backticks is code.
_CODE = re.compile(r"`([^`]+)`")


def write_reproduction_page(
    results: Sequence[Result], path: str | Path, command: str = "", title: str = _TITLE
) -> Path:
    """Write the page of figures that were made, with links to their files relative to it.

    `command` is shown as the one that makes them all.
    """
    sections = [
        Section(
            f"{result.name}: {result.figure.title}", _body(result, Path(path).parent), result.name
        )
        for result in results
    ]
    if command:
        sections.append(Section("How to make it", f"<pre>{escape(command)}</pre>"))
    top = _summary(results) + _all_claims(results) + _navigation(results)
    return write_page(
        path,
        title,
        _LEAD,
        sections,
        top=top,
        style=asset("uPlot.min.css") + asset("reproduction.css"),
        script="\n".join(map(asset, _SCRIPTS)),
    )


def _summary(results: Sequence[Result]) -> str:
    claims = [claim for result in results for claim in result.claims]
    good = sum(claim.as_expected for claim in claims)
    known = sum(claim.as_expected and claim.expected is not Verdict.HOLDS for claim in claims)
    lost = sum(bool(result.problem) for result in results)
    parts = [
        f"{counted(len(claims), 'claim')} about {counted(len(results) - lost, 'figure')} judged",
        f'<span class="good">{good} as expected</span>'
        + (f" ({known} of them known to fail)" if known else ""),
        f'<span class="{"bad" if good < len(claims) else "good"}">{len(claims) - good} not</span>',
    ]
    if lost:
        parts.append(f'<span class="bad">{counted(lost, "figure")} could not be made</span>')
    quick = f'<p class="faint">{_QUICK}</p>' if any(result.quick for result in results) else ""
    return f'<p class="summary" id="summary">{"; ".join(parts)}.</p>{quick}'


def _navigation(results: Sequence[Result]) -> str:
    items = "".join(
        f'<li><a href="#{escape(result.name)}" title="{escape(result.figure.title)}">'
        f"{escape(result.name)}</a> {_mark(result)}</li>"
        for result in results
    )
    return f'<nav aria-label="Figures"><ol>{items}</ol></nav>'


def _mark(result: Result) -> str:
    if result.as_expected:
        return '<span class="good" title="as expected">✓</span>'
    return '<span class="bad" title="not as expected">!</span>'


def _all_claims(results: Sequence[Result]) -> str:
    rows: dict[str, list[list[str | Cell]]] = {_LOST: [], PUBLISHED: [], OURS: []}
    marks: dict[str, list[dict[str, str]]] = {heading: [] for heading in rows}
    for result in results:
        name = result.name
        link = Cell(f'<a href="#{escape(name)}">{escape(name)}</a>')
        if result.problem:
            problem = Cell(f'<span class="bad">{escape(result.problem)}</span>', "wide")
            verdict = Cell('<span class="verdict bad">! not made</span>')
            rows[_LOST].append([link, problem, verdict, "", ""])
            marks[_LOST].append({"class": "unexpected", "data-figure": name, "data-problem": "yes"})
        for heading, claims in result.claims.tables.items():
            rows[heading] += [[link, *_cells(claim)] for claim in claims]
            marks[heading] += [
                {"data-figure": name, "data-claim": claim.name, **_marks(claim)} for claim in claims
            ]
    chosen = (
        '<label class="filter"><input type="checkbox" id="unexpected-only">'
        "only unexpected verdicts</label>"
    )
    some = any(not result.as_expected for result in results)
    columns = ["figure", "claim", "verdict", "expected", "numbers"]
    whole = "".join(
        f"<h2>{heading}</h2>" + table(columns, rows[heading], kind="claims", attributes=own)
        for heading, own in marks.items()
        if own
    )
    count = sum(len(own) for own in marks.values())
    return (
        f'<details id="claims"><summary>All {counted(count, "row")} in one table</summary>'
        f"{chosen if some else ''}{whole}</details>"
    )


def _cells(claim: Claim, details: str = "") -> list[str | Cell]:
    reason = f'<div class="faint">{escape(claim.reason)}</div>' if claim.reason else ""
    return [
        Cell(escape(claim.statement) + reason, "wide"),
        Cell(_verdict(claim)),
        Cell(escape(claim.expected), "expected"),
        Cell(
            _SMALL.sub(r'<span class="whole">\g<0></span>', escape(claim.summary)) + details, "wide"
        ),
    ]


def _verdict(claim: Claim) -> str:
    holds = claim.verdict is Verdict.HOLDS
    if not claim.as_expected:
        kind, words = "bad", f"{claim.verdict}, unexpectedly"
    else:
        kind, words = ("good" if holds else "known"), claim.verdict.value
    return f'<span class="verdict {kind}">{"✓" if holds else "✗"} {words}</span>'


def _marks(claim: Claim) -> dict[str, str]:
    return {
        "class": "as-expected" if claim.as_expected else "unexpected",
        "data-verdict": claim.verdict,
        "data-expected": claim.expected,
    }


def _body(result: Result, folder: Path) -> str:
    figure = result.figure
    kind = " · quick" if result.quick else ""
    if figure not in figure.presets().values():
        kind = " · in another setting: tolerances and text are those of the standard one"
    source = f'<p class="source">{escape(figure.source)}{kind}</p>'
    departures = "".join(f"<li>{escape(one)}</li>" for one in figure.departures)
    if departures:
        departures = f"<h3>Departures from the published setting</h3><ul>{departures}</ul>"
    text = _CODE.sub(r"<code>\1</code>", paragraphs(figure.text.splitlines()))
    text = f'<div class="text">{_changes(figure)}{text}</div>'
    if result.problem:
        text = f'<p class="problem">Could not be made: {escape(result.problem)}</p>{text}'
    return (
        f"{source}{_picture(result, folder)}{_interactive(result)}{text}{_film(result)}"
        f"{_claims(result.claims)}{departures}{_setting(flat_plain(figure))}{_making(result)}"
    )


def _changes(figure: AbstractFigure) -> str:
    """A note on the fields whose values are not those that the text describes."""
    own, whole = flat_plain(figure), flat_plain(type(figure)())
    changed = [
        f"{name.replace('_', ' ')} {_written(value)} instead of {_written(whole.get(name))}"
        for name, value in own.items()
        if value != whole.get(name)
    ]
    if not changed:
        return ""
    return (
        f'<p class="changes">Made with {escape("; ".join(changed))}: the numbers in the text below '
        "are those of the full figure.</p>"
    )


def _picture(result: Result, folder: Path) -> str:
    """The drawing as part of the page, in the page's colours; a large one as a linked file."""
    title, svg = escape(result.figure.title), _svg(result, folder)
    if 0 < len(svg) <= _LARGEST_INLINE:
        own = f'role="img" aria-label="{title}"'
        drawn = lighten_on_dark(_own_names(svg, result.name)).replace("<svg ", f"<svg {own} ", 1)
        return f'<figure class="picture">{drawn}</figure>'
    kinds = ("png", "svg") if svg else ("svg", "png")
    file = next((result.files[kind] for kind in kinds if kind in result.files), "")
    if not file:
        return ""
    return f'<figure class="picture"><img src="{quote(file)}" alt="{title}"></figure>'


def _svg(result: Result, folder: Path) -> str:
    """The picture from its file, or drawn here if it has none."""
    if "svg" in result.files:
        return inline_svg((folder / result.files["svg"]).read_text(encoding="utf-8"))
    return "" if result.sheet is None else to_svg(draw_sheet(result.sheet))


def _own_names(svg: str, name: str) -> str:
    """The SVG with ids that are unique on the page."""
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)


def _interactive(result: Result) -> str:
    if result.sheet is None:
        return ""
    name = escape(result.name)
    return (
        f'<button type="button" class="interactive" hidden aria-expanded="false" '
        f'aria-controls="{name}-charts">Zoom and read values</button>'
        f'<div id="{name}-charts" class="charts" data-panels="{name}-panels" hidden></div>'
        + embedded(f"{name}-panels", page_panels(result.sheet))
    )


def _film(result: Result) -> str:
    file = result.files.get("film", "")
    if not file:
        return ""
    inside = f'<video src="{quote(file)}" controls preload="metadata"></video>'
    if file.lower().endswith(".gif"):
        title = escape(f"Film: {result.figure.title}")
        inside = f'<img src="{quote(file)}" alt="{title}">'
    return f'<details class="film"><summary>Film</summary>{inside}</details>'


def _claims(claims: Claims) -> str:
    columns = ["claim", "verdict", "expected", "numbers"]
    return "".join(
        f"<h3>{heading}</h3>"
        + table(
            columns,
            [_cells(claim, _numbers(claim)) for claim in part],
            kind="claims",
            attributes=[_marks(claim) for claim in part],
        )
        for heading, part in claims.tables.items()
    )


def _numbers(claim: Claim) -> str:
    """All numbers of a claim, as `reproduce --json` has them."""
    values = claim.to_dict()
    lines = "\n".join(
        f'{name}: <code data-of="{name}">{escape(json.dumps(values[name]))}</code>'
        for name in ("relation", "measured", "predicted", "tolerance")
    )
    return f"<details><summary>all numbers</summary><pre>{lines}</pre></details>"


def _setting(values: Mapping[str, object]) -> str:
    pairs = "".join(
        f"<div><dt>{escape(name.replace('_', '-'))}</dt><dd>{escape(_written(value))}</dd></div>"
        for name, value in values.items()
        if value is not None
    )
    return f'<h3>Setting</h3><dl class="setting">{pairs}</dl>'


def _written(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_written(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _making(result: Result) -> str:
    parts = "<h3>How to make it</h3>"
    if not result.problem:
        parts += f'<p class="faint">Computed in {_time(result.seconds)}.</p>'
    if result.command:
        parts += f"<pre>{escape(result.command)}</pre>"
    links = "".join(
        f'<li><a href="{quote(file)}" download>{escape(_DOWNLOADS.get(kind, kind))}</a></li>'
        for kind, file in result.files.items()
    )
    return parts + (f'<ul class="downloads">{links}</ul>' if links else "")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
