"""The panels of input laws: staircases, levels and drop times by kurtosis, merged courses."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.charts import Baseline, PanelBuilder
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.panels import CIRCLES, THEORY, THEORY_COLOUR

_KURTOSIS_LABEL = r"excess kurtosis  $\gamma$"


def draw_staircases(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The loss of one start on each law, over the steps of the theory."""
    end = float(data["time"][-1])
    for index, law in enumerate(data["law"].to_numpy()):
        one, tint = data.isel(law=index, seed=0), panels.colour(index)
        axes.plot(data["time"], one["loss"], color=tint, linewidth=1.8, label=_label(law))
        ends = np.append(one["predicted_drop_time"].to_numpy(), end)
        axes.step(ends, one["level_loss"], where="pre", color=THEORY_COLOUR, **THEORY)
    axes.plot([], [], color=THEORY_COLOUR, label="theory (T13, T20)", **THEORY)
    axes.set(xscale="log", xlim=(0.5 * float(data["drop_time"].min()), end), ylim=(0, None))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)
    axes.legend(2)


def draw_levels(
    axes: PanelBuilder, data: xr.Dataset, kurtosis: FloatArray, levels: FloatArray
) -> None:
    """The levels `[kurtosis, level]` of the formula, of training and of drawn prompts."""
    own = data["kurtosis"].to_numpy()
    for level in range(1, data.sizes["level"]):
        tint, is_last = panels.colour(level - 1), level == data.sizes["level"] - 1
        axes.plot(kurtosis, levels[:, level], color=tint, **THEORY)
        plateaus = data["plateau_loss"].isel(seed=0, level=level)
        axes.plot(own, plateaus, color=tint, markersize=6, **CIRCLES)
        axes.plot(own, data["drawn_loss"][:, level], "x", color=tint, markersize=4)
        spot = (1.01, float(levels[-1, level]))
        place: Baseline = "top" if is_last else "bottom"
        axes.text(*spot, f"$M_{level}$", x_in="panel", va=place)
    axes.plot([], [], color=THEORY_COLOUR, label="T20", **THEORY)
    axes.plot([], [], color=THEORY_COLOUR, label="training", **CIRCLES)
    axes.plot([], [], "x", color=THEORY_COLOUR, label="drawn prompts", markersize=4)
    axes.set(xlabel=_KURTOSIS_LABEL, ylabel=panels.LOSS_LABEL, ylim=(0, None))
    axes.legend(3)


def draw_shifts(axes: PanelBuilder, data: xr.Dataset) -> None:
    """By how much later each drop comes than on the law that is nearest to Gaussian."""
    kurtosis = data["kurtosis"].to_numpy()
    nearest = int(np.abs(kurtosis).argmin())
    measured, predicted = (
        data[name].to_numpy()[:, 0] for name in ("drop_time", "predicted_drop_time")
    )
    for drop in range(measured.shape[1]):
        tint, label = panels.colour(drop), f"drop {drop + 1}"
        shift, expected = ((one - one[nearest])[:, drop] for one in (measured, predicted))
        axes.plot(kurtosis, expected, color=tint, **THEORY)
        axes.plot(kurtosis, shift, color=tint, label=label, markersize=5, **CIRCLES)
    axes.plot([], [], color=THEORY_COLOUR, label="T13", **THEORY)
    against = rf"drop later than at $\gamma = {kurtosis[nearest]:g}$ by  $t/\tau$"
    axes.set(xlabel=_KURTOSIS_LABEL, ylabel=against)
    axes.legend(3)


def draw_courses(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The loss of merged attention on each law, over its reduced flow."""
    for index, law in enumerate(data["law"].to_numpy()):
        one, tint = data.isel(law=index, seed=0), panels.colour(index)
        clock = one["merged_clock"]
        axes.plot(clock, one["merged_loss"], color=tint, linewidth=2.0, label=_label(law))
        axes.plot(clock, one["merged_predicted_loss"], color=THEORY_COLOUR, **THEORY)
    axes.plot([], [], color=THEORY_COLOUR, label="T10", **THEORY)
    axes.set(xlim=(0, 2.5 * float(data["merged_drop"].max())), ylim=(0, None))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)
    axes.legend(2)


def _label(law: str) -> str:
    """A law in words."""
    name, _, freedom = str(law).partition(":")
    return rf"Student, $\nu = {freedom}$" if freedom else name.capitalize()
