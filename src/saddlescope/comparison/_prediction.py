"""The prediction of a run, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from textwrap import indent
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from saddlescope import tables
from saddlescope.arrays import nan_padded

# How the tables name a predictor.
_BY = {
    "race": ", by the race of the heads (T13)",
    "quadrature": ", by quadrature (T18)",
    "time course": ", by the time course (T10)",
}
# What a stable rate is.
_STABLE = ", below which gradient descent rests on every plateau (T21)"
# What a sign after a predicted time means.
OPEN_RACE = "?: another head came close to winning this drop or an earlier one: it may be far off"
# The table of fixed points is printed up to this many.
_PRINTED_POINTS = 32


def time_cell(time: float | None, is_open: bool) -> str:
    """A predicted time as text, marked where its race was close."""
    return tables.or_dash(time, ".1f") + ("?" if is_open else "")


def result_axes(seeds: Sequence[int], drops: int, levels: int) -> dict[str, Any]:
    """The coordinates that predictions and comparisons share, so that their datasets merge."""
    return {
        "seed": np.array(seeds, dtype=int),
        "drop": np.arange(1, drops + 1),
        "level": np.arange(levels),
    }


@dataclass(frozen=True)
class PredictedPoint:
    """A fixed point: the eigenvectors it has learned (from 0), its loss and its index (T16).

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> [point.subset for point in ss.predict(model, task).fixed_points]
    [(), (0,), (1,), (0, 1)]
    """

    subset: tuple[int, ...]
    loss: float
    index: int


@dataclass(frozen=True)
class PredictedSeed:
    """The drop times of one seed, from its initial weights alone.

    A time is None where the drop does not come by `until`, or is not predicted; a note says which.

    `drop_times` are in the order of the drops.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> (seed,) = ss.predict(model, task, seeds=[7]).seeds
    >>> seed.seed, len(seed.drop_times)
    (7, 2)
    """

    seed: int
    drop_times: tuple[float | None, ...]
    margins: tuple[float | None, ...] = ()
    """How much later the next head would have won each drop."""
    is_open: tuple[bool, ...] = ()
    """Whether the race of a drop, or an earlier one, was close: its time may be far off."""
    next_time: float | None = None
    """When the first drop after `until` comes, by quadrature (T18); None where none does."""
    heads: tuple[int | None, ...] = ()
    """The head that learns at each drop; empty where no head does so by itself."""
    directions: tuple[int | None, ...] = ()
    """The eigenvector that it learns."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The times as text."""
        marks = self.is_open or (False,) * len(self.drop_times)
        cells = [time_cell(*drop) for drop in zip(self.drop_times, marks, strict=True)]
        if None in self.drop_times and self.next_time is not None:
            cells[self.drop_times.index(None)] = f"({self.next_time:.1f})"
        return tuple(cells)


@dataclass(frozen=True, repr=False)
class Prediction:
    """The theory of one setting: prints as tables.

    `fixed_points` are listed where they are few.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model = ss.SeparateAttention(heads=2)
    >>> prediction = ss.predict(model, task, init_scale=.01)
    >>> [round(level, 4) for level in prediction.plateau_losses]
    [0.7, 0.3326, 0.0617]
    """

    plateau_losses: tuple[float, ...] | None
    least_loss: float
    fixed_points: tuple[PredictedPoint, ...]
    seeds: tuple[PredictedSeed, ...]
    until: float
    notes: tuple[str, ...]
    """What theory does not predict here, and why."""
    by: str | None = None
    """How drop times were predicted: `race` (T13), `quadrature` (T18) or `time course` (T10)."""
    stable_learning_rate: float | None = None
    """The learning rate below which gradient descent is stable on every plateau (T21)."""

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; null where there is nothing."""
        return asdict(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per seed and drop, with the levels before and after it."""
        levels = self.plateau_losses or ()
        rows = [
            (seed.seed, index + 1, time, *levels[index : index + 2])
            for seed in self.seeds
            for index, time in enumerate(seed.drop_times)
        ]
        columns = ["seed", "drop", "predicted_time", "level_before", "level_after"]
        return pd.DataFrame(rows, columns=columns)

    def to_dataset(self) -> xr.Dataset:
        """The levels over `level`, drop times over (seed, drop), and the fixed points.

        `learned` says over (point, direction) which eigenvectors a fixed point has learned.
        """
        levels = np.array(self.plateau_losses or (), dtype=float)
        directions = max((max(p.subset, default=-1) for p in self.fixed_points), default=-1) + 1
        learned = np.zeros((len(self.fixed_points), directions), dtype=bool)
        for row, point in zip(learned, self.fixed_points, strict=True):
            row[list(point.subset)] = True
        times = nan_padded([seed.drop_times for seed in self.seeds], max(len(levels) - 1, 0))
        return xr.Dataset(
            {
                "level_loss": ("level", levels),
                "least_loss": self.least_loss,
                "stable_learning_rate": (
                    np.nan if self.stable_learning_rate is None else self.stable_learning_rate
                ),
                "predicted_drop_time": (("seed", "drop"), times),
                "point_loss": ("point", np.array([p.loss for p in self.fixed_points], dtype=float)),
                "point_index": ("point", np.array([p.index for p in self.fixed_points], dtype=int)),
                "learned": (("point", "direction"), learned),
            },
            coords=result_axes([seed.seed for seed in self.seeds], times.shape[1], len(levels)),
        )

    def __repr__(self) -> str:
        levels = self.plateau_losses
        parts = [
            tables.counted(len(levels or ()) or "no", "plateau"),
            f"least loss {self.least_loss:.5g}",
            tables.counted(len(self.fixed_points) or "no", "fixed point"),
            f"drop times of {tables.counted(len(self.seeds) or 'no', 'seed')}",
        ]
        return f"Prediction({', '.join(parts)})"

    def __str__(self) -> str:
        parts = []
        if self.plateau_losses is not None:
            levels = "  ".join(f"{level:.5f}" for level in self.plateau_losses)
            parts.append(f"plateaus     {levels}")
        parts.append(f"least loss   {self.least_loss:.5f}")
        if self.stable_learning_rate is not None:
            parts.append(f"stable rate  {self.stable_learning_rate:.5g}{_STABLE}")
        for title, headings, rows in self._tables():
            parts.append(f"\n{title}")
            if rows:
                parts.append(indent(tables.text_table(headings, rows, left=1, rule=False), "  "))
        return "\n".join([*parts, *(f"\n{note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        levels = ", ".join(f"{level:.5f}" for level in self.plateau_losses or ())
        lines = [f"plateaus: {levels}"] if levels else []
        lines.append(f"least loss: {self.least_loss:.5f}")
        if self.stable_learning_rate is not None:
            lines.append(f"stable rate: {self.stable_learning_rate:.5g}{_STABLE}")
        shown = tables.paragraphs(lines)
        for title, headings, rows in self._tables():
            shown += tables.paragraphs([title]) + (
                tables.html_table(headings, rows) if rows else ""
            )
        return shown + tables.paragraphs(self.notes)

    def _tables(self) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
        """Fixed points and drop times: a title, headings and rows each."""
        points = self.fixed_points
        if points and len(points) <= _PRINTED_POINTS:
            yield (
                "fixed points (index: negative directions of the Hessian; those in order have none "
                "and are left at third order)",
                ("learned", "loss", "index"),
                [
                    (tables.name_eigenvectors(p.subset), f"{p.loss:.5f}", str(p.index))
                    for p in points
                ],
            )
        elif points:
            yield f"{len(points)} fixed points (--json lists them)", (), []
        drops = max((len(seed.drop_times) for seed in self.seeds), default=0)
        if drops:
            signs = [f"—: not by {self.until:g}"]
            if any(seed.next_time is not None for seed in self.seeds):
                signs.append("in brackets: the next one after that, by quadrature (T18)")
            if any(any(seed.is_open) for seed in self.seeds):
                signs.append(OPEN_RACE)
            yield (
                f"drop times ({'; '.join(signs)}){_BY.get(self.by or '', '')}",
                ("seed", *(f"drop {number}" for number in range(1, drops + 1))),
                [(str(seed.seed), *seed.cells) for seed in self.seeds],
            )
