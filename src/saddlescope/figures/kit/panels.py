"""What the drawings share: a sheet of panels, the look of theory and measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from string import ascii_lowercase
from typing import Any, SupportsFloat

import matplotlib
import numpy as np
import xarray as xr

from saddlescope.charts import Entry, PanelBuilder, SheetBuilder, read_look
from saddlescope.checks import FloatArray
from saddlescope.drawing import COLOURS
from saddlescope.drawing import THEORY_COLOUR as THEORY_COLOUR

TIME_LABEL = r"flow time  $t/\tau$"
LOSS_LABEL = r"loss  $E(y_q-\hat y_q)^2$"
# Dashes distinguish theory from measurement where colours cannot.
THEORY: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.1}
CIRCLES: dict[str, Any] = {"marker": "o", "linestyle": "none", "markerfacecolor": "none"}


def sheet(
    rows: int = 1, columns: int = 1, *, width: float = 3.3, height: float = 2.7, **options: Any
) -> tuple[SheetBuilder, Any]:
    """A sheet and its panels, [rows, columns]; width and height of one panel in inches."""
    drawing = SheetBuilder(rows, columns, width * columns + 0.3, height * rows + 0.2, **options)
    return drawing, drawing.grid


def sheet_of(count: int, columns: int, **options: Any) -> tuple[SheetBuilder, Any]:
    """A sheet with this many panels; remaining cells stay empty."""
    drawing, axes = sheet(-(-count // columns), columns, **options)
    for panel in axes.flat[count:]:
        panel.remove()
    return drawing, axes


def grid(
    draws: Sequence[Callable[[PanelBuilder, xr.Dataset], None]],
    data: xr.Dataset,
    columns: int,
    **options: Any,
) -> SheetBuilder:
    """A sheet with a lettered panel for each function that draws the data."""
    drawing, axes = sheet(len(draws) // columns, columns, **options)
    for panel, draw in zip(axes.flat, draws, strict=True):
        draw(panel, data)
    letter(axes.flat)
    return drawing


def letter(panels: Iterable[PanelBuilder]) -> None:
    """Letter the panels (a), (b), … above their right corners."""
    for panel, name in zip(panels, ascii_lowercase, strict=False):
        panel.set_title(f"({name})", loc="right")


def entry(label: str, **look: Any) -> Entry:
    """An entry of a sheet's legend."""
    return Entry(label, read_look("", look))


def colour(index: int) -> str:
    """The colour of the n-th curve; colours repeat after seven."""
    return COLOURS[index % 7]


def shades(count: int, name: str = "viridis") -> list[FloatArray]:
    """Colours for an ordered family of curves, dark to light."""
    return list(matplotlib.colormaps[name](np.linspace(0.0, 0.85, count)))


def levels(axes: PanelBuilder, values: Iterable[SupportsFloat], label: str | None = None) -> None:
    """Predicted levels as dashed lines across the panel."""
    for index, value in enumerate(values):
        first = label if index == 0 else None
        axes.axhline(value, color=THEORY_COLOUR, zorder=0, label=first, **THEORY)


def seed_curves(
    axes: PanelBuilder, x: FloatArray | xr.DataArray, rows: xr.DataArray, label: str, **look: Any
) -> None:
    """A curve for each seed, in its colour unless `look` has one; the first is labelled."""
    for index, row in enumerate(rows):
        axes.plot(x, row, **{"color": colour(index), **look}, label=None if index else label)


def seed_band(axes: PanelBuilder, curves: xr.DataArray, tint: str, label: str) -> None:
    """Curves over (seed, step): their median, and their range as a band."""
    step = curves["step"].to_numpy()
    axes.plot(step, curves.median("seed"), color=tint, label=label)
    if curves.sizes["seed"] > 1:
        low, high = curves.min("seed"), curves.max("seed")
        axes.fill_between(step, low, high, color=tint, alpha=0.25, linewidth=0)


def head_curves(axes: PanelBuilder, curves: xr.DataArray, tint: str) -> None:
    """Thin curves over (head, step), one per head."""
    for curve in curves.transpose("head", "step"):
        axes.plot(curve["step"].to_numpy(), curve, color=tint, linewidth=0.5, alpha=0.5)
