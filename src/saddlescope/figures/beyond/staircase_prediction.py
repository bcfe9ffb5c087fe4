"""Beyond the papers: staircases predicted from the initial weights of many starts (T13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.figures.kit.claim import Claim, at_most, equal
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.panels import THEORY, colour, grid
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import (
    FIXED,
    STAIRCASE,
    conserved_claim,
    staircase_numbers,
    timing_claim,
    wrong_times,
)
from saddlescope.setting import Setting

_STARTS = STAIRCASE.replace(heads=4, points=1000, seeds=100)
_PREDICTED = "predicted_drop_time"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class StaircasePrediction(AbstractFigure):
    """Every drop of a hundred random starts against its prediction."""

    setting: Setting = _STARTS
    starts_at_once: int = 20

    varied = FIXED

    id = "staircase-prediction"
    title = "A hundred staircases, predicted before they are run"
    source = "Beyond the papers (T13)"
    text = (
        "One hundred random starts of separate attention. Each head is followed on its own, under "
        "the drive that the earlier winners leave, and the first to take the loss half-way down "
        "the next drop wins it; nothing is taken from the run. (a) The time of every drop, "
        "measured against predicted. In some starts no head is left that can learn the last "
        "eigenvector by the end of the run, and the prediction says which. (b) The relative error "
        "of the prediction, drop by drop; the largest errors occur where two heads rise at nearly "
        "the same time and would have influenced each other."
    )
    seconds = 30.0

    @classmethod
    def quick(cls) -> StaircasePrediction:
        return cls(_STARTS.replace(seeds=8), starts_at_once=8)

    def compute(self, watch: Watch) -> xr.Dataset:
        seeds, parts = self.setting.seeds, []
        for first in watch.each(range(0, len(seeds), self.starts_at_once)):
            some = seeds[first : first + self.starts_at_once]
            run = watch.train(f"starts-{first}", self.setting.replace(seeds=some))
            names = ["level_loss", "drop_time", _PREDICTED, "conserved_drift"]
            parts.append(staircase_numbers(run)[names].drop_vars("time", errors="ignore"))
        data = xr.concat(parts, "seed", data_vars="minimal")
        return data.assign_attrs(until=self.setting.method.end)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        measured, predicted = (data[name].to_numpy() for name in ("drop_time", _PREDICTED))
        seen = np.isfinite(measured)
        error = np.abs(predicted / measured - 1)
        return (
            at_most(
                "drop times: median relative error of the prediction (T13)",
                np.nanmedian(error),
                2e-5,
            ),
            timing_claim(
                "every drop comes at the time predicted from the initial weights alone (T13)",
                data,
                0.01,
            ),
            equal(
                "number of starts that do not learn every eigenvector by the end, measured and "
                "predicted",
                (~seen).sum(axis=0),
                (~np.isfinite(predicted)).sum(axis=0),
            ),
            equal(
                "number of starts in which the missing drops are not those predicted to be missing",
                (seen != np.isfinite(predicted)).any(axis=1).sum(),
                0,
            ),
            conserved_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *wrong_times(1e-4),
            rolled("predictions of the drop before", "drop", _PREDICTED),
            scaled("an integral that is two per cent too long", 1.02, _PREDICTED),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        return grid((_draw_times, _draw_errors), data, 2, width=3.7, height=3.2).build()


def _draw_times(axes: PanelBuilder, data: xr.Dataset) -> None:
    """Measured against predicted; drops that do not come lie on the frame."""
    ends = np.array([0.7 * float(data["drop_time"].min()), 1.5 * float(data.attrs["until"])])
    axes.plot(ends, ends, color="black", zorder=0, label="equal", **THEORY)
    for drop in range(data.sizes["drop"]):
        axes.plot(
            data[_PREDICTED][:, drop],
            data["drop_time"][:, drop],
            _MARKERS[drop % 8],
            color=colour(drop),
            markerfacecolor="none",
            markersize=4,
            label=f"drop {drop + 1}",
        )
    missing = ~np.isfinite(data["drop_time"].to_numpy())
    foreseen = missing & ~np.isfinite(data[_PREDICTED].to_numpy())
    share = "all" if foreseen.sum() == missing.sum() else foreseen.sum()
    note = f"{missing.sum()} drops do not come,\n{share} of them foreseen"
    axes.text(0.97, 0.05, note, x_in="panel", y_in="panel", ha="right", fontsize=7.5)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel=r"predicted drop time  $t/\tau$", ylabel=r"measured drop time  $t/\tau$")
    axes.legend()


def _draw_errors(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The errors of each drop in rising order: which share of starts is below which error."""
    error = np.abs(data[_PREDICTED].to_numpy() / data["drop_time"].to_numpy() - 1)
    for drop in range(data.sizes["drop"]):
        ordered = np.sort(error[np.isfinite(error[:, drop]), drop])
        share = 100 * np.arange(1, len(ordered) + 1) / max(len(ordered), 1)
        axes.step(
            ordered,
            share,
            where="post",
            color=colour(drop),
            linestyle=("-", "--", "-.", ":")[drop % 4],
            label=f"drop {drop + 1}",
        )
    for name, value in (("median", np.nanmedian(error)), ("worst", np.nanmax(error))):
        axes.axvline(value, color="black", zorder=0, linewidth=0.8)
        text = f"{name} {value:.1e}"
        axes.text(value, 55, text, shift=(-3, 0), ha="right", rotation=90, fontsize=7.5)
    axes.set(xscale="log", ylim=(0, 102))
    axes.set(xlabel="relative error of the drop time", ylabel="starts with a smaller error, %")
    axes.legend(4)
