"""The comparison of a run with its prediction, and how it is shown.

Quantities have the same names as in a prediction, so that the datasets can be merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from saddlescope import tables
from saddlescope.arrays import nan_padded
from saddlescope.comparison._prediction import OPEN_RACE, result_axes, time_cell
from saddlescope.trajectory import Result


@dataclass(frozen=True)
class DropComparison:
    """One drop of the loss; None where there is none.

    `time` is measured, `predicted_time` comes from the initial weights alone.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> first = run.compare().seeds[0].drops[0]
    >>> first.number, first.time  # none by the end of so short a run
    (1, None)
    """

    number: int
    """Counted from 1."""
    time: float | None
    """When the measured loss crosses midway between the two plateau levels."""
    predicted_time: float | None
    loss_before: float | None
    """The measured loss where it is flattest before the drop, …"""
    loss_after: float | None
    """… and after it."""
    is_open: bool = False
    """Whether the predicted race, or an earlier one, was close: its time may be far off."""

    @property
    def error(self) -> float | None:
        """The relative error of the predicted time."""
        if self.time is None or self.predicted_time is None:
            return None
        return self.predicted_time / self.time - 1


@dataclass(frozen=True)
class SeedComparison:
    """One seed's run beside its prediction.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> seed = run.compare().seeds[0]
    >>> seed.result.value, [drop.number for drop in seed.drops]
    ('finished', [1, 2])
    """

    seed: int
    result: Result
    message: str
    final_loss: float | None
    conserved_drift: float | None
    """The largest change of any conserved quantity (T14) during the run."""
    drops: tuple[DropComparison, ...]


@dataclass(frozen=True, repr=False)
class Comparison:
    """A run beside its prediction: prints as a table.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> [seed.result.value for seed in run.compare().seeds]
    ['finished']
    """

    plateau_losses: tuple[float, ...] | None
    """The levels that the theory predicts (T7), None where it makes no statement."""
    seeds: tuple[SeedComparison, ...]
    notes: tuple[str, ...]
    """What the theory could not say, and why."""

    headings = ("seed", "drop", "loss before", "loss after", "time", "predicted", "error")
    """The table's column headings."""

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; null where there is nothing."""
        return asdict(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a seed and drop."""
        columns = ["loss_before", "loss_after", "time", "predicted_time", "error"]
        rows = [
            (seed.seed, drop.number, *(getattr(drop, name) for name in columns))
            for seed, drop in self._rows()
        ]
        return pd.DataFrame(rows, columns=["seed", "drop", *columns])

    def to_dataset(self) -> xr.Dataset:
        """Measured and predicted over seed, drop (1 is the first) and level (0 is the start).

        NaN where there is none. `plateau_loss` is measured, `level_loss` predicted. xarray has an
        option called drop: choose one by `.sel({"drop": 1})`.
        """
        levels = np.array(self.plateau_losses or (), dtype=float)
        drops = [seed.drops for seed in self.seeds]
        count = max(map(len, drops), default=0)
        before, after, times, predicted, errors = (
            nan_padded([[getattr(drop, name) for drop in row] for row in drops], count)
            for name in ("loss_before", "loss_after", "time", "predicted_time", "error")
        )
        plateaus = np.concatenate([before[:, :1], after], axis=1)
        by_seed = ("seed", "drop")
        drifts = np.array([s.conserved_drift for s in self.seeds], dtype=float)
        data: dict[str, Any] = {
            "plateau_loss": (("seed", "level"), plateaus),
            "drop_time": (by_seed, times),
            "predicted_drop_time": (by_seed, predicted),
            "error": (by_seed, errors),
            "final_loss": ("seed", np.array([s.final_loss for s in self.seeds], dtype=float)),
            "conserved_drift": ("seed", drifts),
            "result": ("seed", [str(s.result) for s in self.seeds]),
        }
        if self.plateau_losses is not None:
            data["level_loss"] = ("level", levels)
        seeds = [seed.seed for seed in self.seeds]
        return xr.Dataset(data, result_axes(seeds, count, plateaus.shape[1]))

    def to_latex(self) -> str:
        """A table for a paper (booktabs)."""
        lines = [
            r"\begin{tabular}{rrrrrrr}",
            r"\toprule",
            r"seed & drop & loss before & loss after & time & predicted & error \\",
            r"\midrule",
            *(" & ".join(cells) + r" \\" for cells in self.cells(percent=r"\,\%")),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines).replace("—", "--")

    def cells(self, percent: str = " %") -> Iterator[tuple[str, ...]]:
        """The table's rows as text: seed, drop, losses, time, predicted time, error.

        What the run did not show is "not seen"; a dash is what the theory does not say.
        """
        for seed, drop in self._rows():
            yield (
                str(seed.seed),
                str(drop.number),
                _measured(drop.loss_before, ".5f"),
                _measured(drop.loss_after, ".5f"),
                _measured(drop.time, ".1f"),
                time_cell(drop.predicted_time, drop.is_open),
                _percentage(drop.error, percent),
            )

    @property
    def summary(self) -> tuple[str, ...]:
        """Remarks besides the table, one line each."""
        lines = []
        if self.plateau_losses is not None:
            levels = ", ".join(f"{level:.5f}" for level in self.plateau_losses)
            lines.append(f"predicted plateaus: {levels}")
        drifts = [s.conserved_drift for s in self.seeds if s.conserved_drift is not None]
        if drifts:
            lines.append(f"conserved quantities drift by at most {max(drifts):.1e}")
        if any(drop.is_open for _, drop in self._rows()):
            lines.append(OPEN_RACE)
        lines += [f"seed {s.seed}: {s.message}" for s in self.seeds if s.message]
        return (*lines, *self.notes)

    def __repr__(self) -> str:
        rows = list(self._rows())
        errors = [abs(drop.error) for _, drop in rows if drop.error is not None]
        worst = f", times predicted within {100 * max(errors):.2g} %" if errors else ""
        seen = sum(drop.time is not None for _, drop in rows)
        seeds = tables.counted(len(self.seeds) or "no", "seed")
        return f"Comparison({seeds}, {tables.counted(seen or 'no', 'drop')}{worst})"

    def __str__(self) -> str:
        table = [tables.text_table(self.headings, self.cells())] if self.seeds else []
        return "\n".join([*table, *self.summary])

    def _repr_html_(self) -> str:
        table = tables.html_table(self.headings, self.cells()) if self.seeds else ""
        return table + tables.paragraphs(self.summary)

    def _rows(self) -> Iterator[tuple[SeedComparison, DropComparison]]:
        return ((seed, drop) for seed in self.seeds for drop in seed.drops)


def _measured(value: float | None, form: str) -> str:
    """A measured number as text; a dash would say that there is nothing to measure."""
    return "not seen" if value is None else format(value, form)


def _percentage(value: float | None, unit: str) -> str:
    if value is None:
        return "—"
    rounded = round(100 * value, 3)
    return (f"{rounded:+.3f}" if rounded else "0.000") + unit
