"""Tables in text: commas, semicolons, tabs or spaces, with a line of names or without."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

from saddlescope.errors import InvalidInput
from saddlescope.observe.logs._columns import Columns, Row

_DELIMITERS = ",;\t|"
# By how many columns a table without names has.
_NAMELESS = {1: ["loss"], 2: ["step", "loss"]}


def read_table(
    path: Path, text: str, choose: Callable[[list[str]], Columns]
) -> tuple[list[Row], list[str]]:
    """The rows of a table; their numbers are those of its lines, from 1."""
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InvalidInput("log", str(path), "holds no rows")
    delimiter = max(_DELIMITERS, key=lines[0][1].count)
    if delimiter in lines[0][1] or not re.search(r"\S\s+\S", lines[0][1]):
        # Cells may hold the delimiter within quotes, but no line may hold part of a row.
        try:
            cells = [next(csv.reader([line], delimiter=delimiter)) for _, line in lines]
        except csv.Error as problem:
            raise InvalidInput("log", str(path), f"is no table: {problem}") from None
    else:
        cells = [line.split() for _, line in lines]
    names = [name.strip() for name in cells[0]]
    notes: list[str] = []
    if all(_is_number(name) for name in names):
        if len(names) not in _NAMELESS:
            allowed = "must begin with the names of its columns, or have one column or two"
            raise InvalidInput("log", str(path), allowed)
        names = _NAMELESS[len(names)]
        notes.append(f"the columns have no names: they are read as {' and '.join(names)}")
    else:
        lines, cells = lines[1:], cells[1:]
    columns = choose(names)
    rows: list[Row] = []
    for (number, _), row in zip(lines, cells, strict=True):
        if [cell.strip() for cell in row] == names:
            # A restart that wrote its header again.
            continue
        padded = [*row, *[""] * (len(names) - len(row))]
        rows += columns.rows(number, dict(zip(names, padded, strict=False)))
    return rows, [*notes, columns.note]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
