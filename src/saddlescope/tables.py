"""Tables of results, as text for a terminal and as HTML for notebooks and pages.

Tables and pictures count from 1, as the papers do: eigenvectors are e1, e2, … and heads 1, 2, …; a
seed keeps its own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Cell:
    """A table cell whose content is HTML already; `kind` is its class."""

    body: str
    kind: str = ""


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 0, rule: bool = True
) -> str:
    """Right-aligned columns, the first `left` of them left-aligned; a rule under the headings.

    >>> print(text_table(["name", "n"], [["one", "1"], ["twelve", "12"]], left=1))
    name     n
    ──────  ──
    one      1
    twelve  12
    """
    lines = [tuple(headings), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if rule:
        lines.insert(1, tuple("─" * width for width in widths))
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def html_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    kind: str = "",
    attributes: Sequence[Mapping[str, str]] = (),
) -> str:
    """A table; `kind` is its class, `attributes` holds one mapping for each row.

    >>> html_table(["n"], [["1 < 2"]], attributes=[{"data-n": "1"}])
    '<table>...<tr data-n="1"><td>1 &lt; 2</td></tr>\\n</tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = ""
    for index, row in enumerate(rows):
        marks = tag_attributes(attributes[index]) if attributes else ""
        body += f"<tr{marks}>" + "".join(map(_cell, row)) + "</tr>\n"
    marks = tag_attributes({"class": kind})
    return f"<table{marks}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(lines: Iterable[str]) -> str:
    """Plain text as HTML, one paragraph per line."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def tag_attributes(values: Mapping[str, str]) -> str:
    """The attributes of an HTML tag; empty ones are left out."""
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items() if value)


def or_dash(value: float | None, form: str) -> str:
    """A number as text, or a dash for None."""
    return "—" if value is None else format(value, form)


def counted(number: int | str, noun: str) -> str:
    """A number with its noun: `1 seed`, `2 seeds`, `no seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_eigenvectors(subset: Iterable[int]) -> str:
    """The name of a set of eigenvectors, which are given by their indices from 0.

    >>> name_eigenvectors((0, 2)), name_eigenvectors(())
    ('{e1, e3}', '{}')
    """
    return "{" + ", ".join(f"e{index + 1}" for index in subset) + "}"


def _cell(content: str | Cell) -> str:
    if isinstance(content, Cell):
        return f"<td{tag_attributes({'class': content.kind})}>{content.body}</td>"
    return f"<td>{escape(content)}</td>"
