"""Rows of a log in order: one run after the other, each step once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from saddlescope.observe.logs._columns import Row
from saddlescope.observe.logs._json import in_words

# If more than this share of the rows goes back, the log as a whole is out of order.
_UNSORTED = 0.1


def parted(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of each run; if runs are not named, a return to the first step starts another."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    if len(runs) > 1:
        listed = ", ".join(list(runs)[:8]) + (", …" if len(runs) > 8 else "")
        return runs, [f"{len(runs)} runs: {listed}"]
    (name, only), *_ = [*runs.items(), ("", [])]
    starts = _new_beginnings(only)
    if len(starts) < 2:
        return runs, []
    ends = [*starts[1:], len(only)]
    parts = {
        f"{name or 'run'} {number}": list(only[start:end])
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    }
    rows_of = in_words([only[start].number for start in starts[1:]])
    return parts, [f"{rows_of}: the steps begin again, which is read as another run"]


def tidied(rows: Sequence[Row]) -> tuple[list[float], list[float], list[str]]:
    """Increasing steps, their losses, and notes on what was done to get there."""
    notes: list[str] = []
    sound = [row for row in rows if math.isfinite(row.loss)]
    lost = [row.number for row in rows if not math.isfinite(row.loss)]
    if lost:
        notes.append(f"{in_words(lost)}: no finite loss, left out")
    if any(row.step is None for row in sound):
        return [float(index) for index in range(len(sound))], [row.loss for row in sound], notes
    strange = [row.number for row in sound if not math.isfinite(row.step or 0.0)]
    if strange:
        notes.append(f"{in_words(strange)}: no finite step, left out")
    sound = [row for row in sound if math.isfinite(row.step or 0.0)]
    kept: dict[float, float] = {}
    back = [n for n in range(1, len(sound)) if _step(sound[n]) < _step(sound[n - 1])]
    restarts, unsorted, repeated = [], [], []
    is_shuffled = len(back) > _UNSORTED * len(sound)
    for index, row in enumerate(sound):
        step = _step(row)
        if index in back and step in kept and not is_shuffled:
            redone = [one for one in kept if one >= step]
            for one in redone:
                del kept[one]
            restarts.append((row.number, step, len(redone)))
        elif index in back:
            unsorted.append(row.number)
        if step in kept:
            repeated.append(row.number)
        kept[step] = row.loss
    for number, step, count in restarts:
        notes.append(
            f"row {number}: a restart at step {step:g}; {count} earlier rows from there on are "
            "replaced by what follows"
        )
    if unsorted:
        notes.append(f"{in_words(unsorted)}: out of order, sorted by step")
    if repeated:
        notes.append(f"{in_words(repeated)}: a step again, the last of each is kept")
    steps = sorted(kept)
    return steps, [kept[step] for step in steps], notes


def _new_beginnings(rows: Sequence[Row]) -> list[int]:
    """The rows at which the steps return to the first one; none if the rows are shuffled."""
    steps = [_step(row) for row in rows]
    falls = [n for n in range(1, len(steps)) if steps[n] < steps[n - 1]]
    if len(falls) > _UNSORTED * len(steps):
        return [0] if rows else []
    return [0, *(n for n in falls if steps[n] <= steps[0])] if rows else []


def _step(row: Row) -> float:
    return math.nan if row.step is None else row.step
