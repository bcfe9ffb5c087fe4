"""Tables of results, as text for a terminal and as HTML for notebooks and pages.

What tables and pictures count, they count as the papers do: eigenvectors are e1, e2, … and heads
1, 2, …; a seed goes by its own number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Cell:
    """A cell of an HTML table that is HTML already; `kind` is its class."""

    body: str
    kind: str = ""


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 0, rule: bool = True
) -> str:
    """Columns set flush right, the first `left` of them flush left; a rule under the headings.

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
    """A table; `kind` is its class, `attributes` belong to its rows, one mapping a row.

    >>> html_table(["n"], [["1 < 2"]], attributes=[{"data-n": "1"}])
    '<table>...<tr data-n="1"><td>1 &lt; 2</td></tr>\\n</tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = ""
    for index, row in enumerate(rows):
        own = tag_attributes(attributes[index]) if attributes else ""
        body += f"<tr{own}>" + "".join(map(_cell, row)) + "</tr>\n"
    own = tag_attributes({"class": kind})
    return f"<table{own}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(lines: Iterable[str]) -> str:
    """Plain text as HTML, a paragraph a line."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def tag_attributes(values: Mapping[str, str]) -> str:
    """The attributes of an HTML tag; an empty one is left out."""
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items() if value)


def or_dash(value: float | None, form: str) -> str:
    """A number as text, a dash where there is none."""
    return "—" if value is None else format(value, form)


def counted(number: int | str, noun: str) -> str:
    """So many of something: `1 seed`, `2 seeds`, `no seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_eigenvectors(subset: Iterable[int]) -> str:
    """A set of eigenvectors, given by their indices from 0, by the names that people read.

    >>> name_eigenvectors((0, 2)), name_eigenvectors(())
    ('{e1, e3}', '{}')
    """
    return "{" + ", ".join(f"e{index + 1}" for index in subset) + "}"


def _cell(content: str | Cell) -> str:
    if isinstance(content, Cell):
        return f"<td{tag_attributes({'class': content.kind})}>{content.body}</td>"
    return f"<td>{escape(content)}</td>"
