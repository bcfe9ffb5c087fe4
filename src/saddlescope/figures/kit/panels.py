"""What the drawings share: a sheet of panels, the look of theory and measurement, legends."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from saddlescope.drawing import COLOURS, THEORY_COLOUR, Drawing, legend

__all__ = [
    "LOSS_LABEL",
    "THEORY",
    "THEORY_COLOUR",
    "TIME_LABEL",
    "colour",
    "legend",
    "levels",
    "seed_band",
    "shades",
    "sheet",
    "tidy",
]

TIME_LABEL = r"flow time  $t/\tau$"
LOSS_LABEL = r"loss  $E(y_q-\hat y_q)^2$"
# Dashes tell theory from measurement where colours cannot.
THEORY: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.1}


def sheet(
    rows: int = 1, columns: int = 1, *, width: float = 3.3, height: float = 2.7, **options: Any
) -> tuple[Drawing, Any]:
    """A drawing and its axes, [rows, columns]; width and height of one panel in inches."""
    drawing = Drawing(figsize=(width * columns + 0.3, height * rows + 0.2))
    return drawing, drawing.subplots(rows, columns, squeeze=False, **options)


def colour(place: int) -> str:
    """The colour of the n-th curve; they repeat after seven."""
    return COLOURS[place % 7]


def shades(count: int, name: str = "viridis") -> list[Any]:
    """Colours for an ordered family of curves, dark to light."""
    return list(matplotlib.colormaps[name](np.linspace(0.0, 0.85, count)))


def levels(axes: Axes, values: Any, label: str | None = None) -> None:
    """Predicted levels as dashed lines across the panel."""
    for place, value in enumerate(values):
        axes.axhline(
            float(value),
            color=THEORY_COLOUR,
            zorder=0,
            label=label if place == 0 else None,
            **THEORY,
        )


def seed_band(axes: Axes, curves: xr.DataArray, tint: str, label: str) -> None:
    """Curves over (seed, step): their median, and their range as a band."""
    step = curves["step"].to_numpy()
    axes.plot(step, curves.median("seed"), color=tint, label=label)
    if curves.sizes["seed"] > 1:
        low, high = curves.min("seed"), curves.max("seed")
        axes.fill_between(step, low, high, color=tint, alpha=0.25, linewidth=0)


def tidy(drawing: Figure) -> None:
    """Leave only decades labelled on logarithmic axes that span one or more of them."""
    for axes in drawing.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            if axis.get_scale() == "log" and low > 0 and _decades(low, high) >= 1:
                axis.set_minor_formatter(NullFormatter())


def _decades(low: float, high: float) -> int:
    """How many whole decades lie between two numbers, ends included."""
    return int(np.floor(np.log10(high * 1.0001)) - np.ceil(np.log10(low * 0.9999)))
