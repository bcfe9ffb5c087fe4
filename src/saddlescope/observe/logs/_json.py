"""JSON: an object a line, a list of them, lists by name, or the Trainer's state."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

from saddlescope.errors import InvalidInput
from saddlescope.observe.logs._columns import Columns, Row, number_in

_HISTORY = "log_history"


def read_objects(
    path: Path, text: str, choose: Callable[[list[str]], Columns]
) -> tuple[list[Row], list[str]]:
    """The rows of a file of objects; their numbers count lines, or places in a list, from 1."""
    objects, notes = _objects(text)
    names = dict.fromkeys(name for _, one in objects for name in one)
    if not names:
        raise InvalidInput("log", str(path), "holds no rows")
    columns = choose(list(names))
    rows = [row for number, one in objects for row in columns.rows(number, one)]
    without = len(objects) - len({row.number for row in rows})
    if without:
        notes.append(f"{without} of {len(objects)} rows without this loss, left out")
    return rows, [*notes, columns.note]


def history_losses(history: object) -> tuple[list[int], list[float]]:
    """The training's losses in a Trainer's history, and their steps."""
    entries = history if isinstance(history, list) else []
    pairs = {
        one["step"]: loss
        for one in entries
        if isinstance(one, dict)
        and type(one.get("step")) is int
        and (loss := number_in(one.get("loss"))) is not None
        and math.isfinite(loss)
    }
    return list(pairs), list(pairs.values())


def _objects(text: str) -> tuple[list[tuple[int, dict[str, object]]], list[str]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _lines(text)
    if isinstance(whole, dict) and isinstance(whole.get(_HISTORY), list):
        whole = whole[_HISTORY]
    elif isinstance(whole, dict) and whole and all(isinstance(v, list) for v in whole.values()):
        longest = max(map(len, whole.values()))
        whole = [
            {name: values[index] for name, values in whole.items() if index < len(values)}
            for index in range(longest)
        ]
    entries = whole if isinstance(whole, list) else [whole]
    return [(n, _flat(one)) for n, one in enumerate(entries, 1) if isinstance(one, dict)], []


def _lines(text: str) -> tuple[list[tuple[int, dict[str, object]]], list[str]]:
    objects, broken = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            one = None
        if isinstance(one, dict):
            objects.append((number, _flat(one)))
        else:
            broken.append(number)
    return objects, [f"{in_words(broken)}: no JSON object, left out"] if broken else []


def in_words(numbers: list[int]) -> str:
    """Rows by their numbers, the first of many.

    >>> in_words([3]), in_words([3, 4, 9, 10, 11, 12])
    ('row 3', 'rows 3, 4, 9, 10 and 2 more')
    """
    if len(numbers) == 1:
        return f"row {numbers[0]}"
    rest = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"rows {', '.join(map(str, numbers[:4]))}{rest}"


def _flat(one: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """An object whose inner objects are joined by a slash."""
    flat: dict[str, object] = {}
    for name, value in one.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}/")
        else:
            flat[prefix + name] = value
    return flat
