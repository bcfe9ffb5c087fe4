"""What the drawings share: a sheet of panels, the look of theory and measurement, legends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from string import ascii_lowercase
from typing import Any, SupportsFloat

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.drawing import COLOURS, Drawing
from saddlescope.drawing import THEORY_COLOUR as THEORY_COLOUR
from saddlescope.drawing import legend as legend

TIME_LABEL = r"flow time  $t/\tau$"
LOSS_LABEL = r"loss  $E(y_q-\hat y_q)^2$"
# Dashes tell theory from measurement where colours cannot.
THEORY: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.1}
CIRCLES: dict[str, Any] = {"marker": "o", "linestyle": "none", "markerfacecolor": "none"}


def sheet(
    rows: int = 1, columns: int = 1, *, width: float = 3.3, height: float = 2.7, **options: Any
) -> tuple[Drawing, Any]:
    """A drawing and its axes, [rows, columns]; width and height of one panel in inches."""
    drawing = Drawing(figsize=(width * columns + 0.3, height * rows + 0.2))
    return drawing, drawing.subplots(rows, columns, squeeze=False, **options)


def sheet_of(count: int, columns: int, **options: Any) -> tuple[Drawing, Any]:
    """A sheet, as `sheet` makes it, of so many panels; places that are left over stay empty."""
    drawing, axes = sheet(-(-count // columns), columns, **options)
    for panel in axes.flat[count:]:
        panel.set_axis_off()
    return drawing, axes


def grid(
    draws: Sequence[Callable[[Axes, xr.Dataset], None]],
    data: xr.Dataset,
    columns: int,
    **options: Any,
) -> Drawing:
    """A sheet, as `sheet` makes it, with a lettered panel for each way to draw the data."""
    drawing, axes = sheet(len(draws) // columns, columns, **options)
    for panel, draw in zip(axes.flat, draws, strict=True):
        draw(panel, data)
    letter(axes.flat)
    return drawing


def join(panels: AnyArray) -> Axes:
    """One panel in place of several that lie side by side on a sheet."""
    first, last = (panels.flat[index].get_subplotspec() for index in (0, -1))
    drawing = panels.flat[0].figure
    for panel in panels.flat:
        panel.remove()
    rows = slice(first.rowspan.start, last.rowspan.stop)
    columns = slice(first.colspan.start, last.colspan.stop)
    return drawing.add_subplot(first.get_gridspec()[rows, columns])


def letter(panels: Iterable[Axes]) -> None:
    """Panels are called (a), (b), … above their right corners."""
    for panel, name in zip(panels, ascii_lowercase, strict=False):
        panel.set_title(f"({name})", loc="right")


def colour(index: int) -> str:
    """The colour of the n-th curve; they repeat after seven."""
    return COLOURS[index % 7]


def shades(count: int, name: str = "viridis") -> list[FloatArray]:
    """Colours for an ordered family of curves, dark to light."""
    return list(matplotlib.colormaps[name](np.linspace(0.0, 0.85, count)))


def levels(axes: Axes, values: Iterable[SupportsFloat], label: str | None = None) -> None:
    """Predicted levels as dashed lines across the panel."""
    for index, value in enumerate(values):
        first = label if index == 0 else None
        axes.axhline(float(value), color=THEORY_COLOUR, zorder=0, label=first, **THEORY)


def seed_curves(
    axes: Axes, x: FloatArray | xr.DataArray, rows: xr.DataArray, label: str, **look: Any
) -> None:
    """A curve for each seed, in its colour unless `look` has one; the first has the label."""
    for index, row in enumerate(rows):
        axes.plot(x, row, **{"color": colour(index), **look}, label=None if index else label)


def seed_band(axes: Axes, curves: xr.DataArray, tint: str, label: str) -> None:
    """Curves over (seed, step): their median, and their range as a band."""
    step = curves["step"].to_numpy()
    axes.plot(step, curves.median("seed"), color=tint, label=label)
    if curves.sizes["seed"] > 1:
        low, high = curves.min("seed"), curves.max("seed")
        axes.fill_between(step, low, high, color=tint, alpha=0.25, linewidth=0)


def head_curves(axes: Axes, curves: xr.DataArray, tint: str) -> None:
    """Thin curves over (head, step), one a head."""
    for curve in curves.transpose("head", "step"):
        axes.plot(curve["step"].to_numpy(), curve, color=tint, linewidth=0.5, alpha=0.5)


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
