"""A static page: one file, no network requests, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from saddlescope.running.files import make_folder, write_text
from saddlescope.tables import Cell, html_table, tag_attributes

_STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #1b1d21; --faint: #6b7078;
        --line: #d9d9d2; --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15171b; --ink: #e8e8e4; --faint: #9aa0a8; --line: #33373e; --accent: #56b4e9; }
}
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
       color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.lead { color: var(--faint); margin-top: 0; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--faint); font-size: .9rem; max-width: 48rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { white-space: nowrap;
         padding: .28rem .9rem .28rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
code, pre { font: .88rem/1.5 ui-monospace, monospace; }
pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .8rem 1rem;
      border-radius: 6px; overflow-x: auto; }
a { color: var(--accent); }
"""


@dataclass(frozen=True)
class Section:
    """A heading and the HTML below it; links go to its `id`."""

    title: str
    body: str
    id: str = ""


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    kind: str = "",
    attributes: Sequence[Mapping[str, str]] = (),
) -> str:
    """A table that scrolls sideways if it is wide; arguments as in `tables.html_table`.

    >>> table(["n"], [["1 < 2"]])
    '<div class="scroll"><table>...<td>1 &lt; 2</td></tr>\\n</tbody></table></div>'
    """
    whole = html_table(headings, rows, kind=kind, attributes=attributes)
    return f'<div class="scroll">{whole}</div>'


def figure(svg: str, caption: str) -> str:
    """A drawing with its caption."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def write_page(
    path: str | Path,
    title: str,
    lead: str,
    sections: Sequence[Section],
    *,
    top: str = "",
    style: str = "",
    script: str = "",
) -> Path:
    """Write a page and return its path.

    `top` is HTML above the sections; `style` and `script` are added to the page's own.
    """
    parts = "".join(
        f"<section{tag_attributes({'id': section.id})}><h2>{escape(section.title)}</h2>"
        f"{section.body}</section>\n"
        for section in sections
    )
    text = (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{_STYLE}{style}</style></head>\n"
        f'<body><main><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{top}{parts}'
        f"</main>{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )
    target = Path(path)
    make_folder(target.parent)
    write_text(target, text)
    return target
