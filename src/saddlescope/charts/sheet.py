"""A picture as data: panels with axes, layers and legends, on a sheet with a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from saddlescope.charts.layers import AbstractLayer, Look

Scale = Literal["linear", "log"]
Box = Literal["open", "closed", "none"]
"""The lines around a panel: on the left and below, on all sides, or none."""


@dataclass(frozen=True)
class Axis:
    """An axis: its label, scale and ends, and its ticks where they are given.

    If `ticks` is None the renderer chooses them. In a sheet whose panels share an axis, only the
    outer panels show its `label` and numbers.
    """

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    base: float = 10.0
    inverted: bool = False
    ticks: tuple[float, ...] | None = None
    names: tuple[str, ...] = ()
    """Of the ticks; their numbers where there are none."""
    most_ticks: int | None = None
    shows_label: bool = True
    shows_numbers: bool = True
    label_size: float | None = None


@dataclass(frozen=True)
class Entry:
    """An entry of a legend; for an area it is a patch."""

    label: str
    look: Look
    is_area: bool = False


@dataclass(frozen=True)
class Legend:
    """A legend with entries in columns: above a panel or a sheet, or in a corner of a panel."""

    entries: tuple[Entry, ...]
    columns: int = 3
    place: Literal["above", "center above", "lower right"] = "above"


@dataclass(frozen=True)
class Place:
    """The cells of the sheet's grid that a panel takes."""

    row: int
    column: int
    columns: int = 1


@dataclass(frozen=True)
class Panel:
    """A pair of axes with everything drawn in it, the lowest layer first.

    `titles` are above it on the left, in the centre and on the right. `keys` are entries of its
    legend without a layer: they explain a look. `name` identifies the panel outside its sheet.
    """

    name: str
    titles: tuple[str, str, str]
    x: Axis
    y: Axis
    layers: tuple[AbstractLayer, ...]
    place: Place
    legend: Legend | None = None
    keys: tuple[Entry, ...] = ()
    box: Box = "open"
    square: bool = False
    """Whether a unit of x is as long as one of y."""
    title_size: float | None = None


@dataclass(frozen=True)
class ColourBar:
    """The colour scale of heat maps, beside some panels."""

    beside: tuple[int, ...]
    panel: int
    """One that holds such a map."""
    label: str
    shrink: float = 1.0


@dataclass(frozen=True)
class Sheet:
    """Panels on a grid, the whole `width` by `height` inches; ratios are of columns and rows."""

    width: float
    height: float
    width_ratios: tuple[float, ...]
    height_ratios: tuple[float, ...]
    panels: tuple[Panel, ...]
    legend: Legend | None = None
    colour_bars: tuple[ColourBar, ...] = ()

    def share(self, panel: Panel) -> float:
        """The share of the sheet's width that a panel takes."""
        place, ratios = panel.place, self.width_ratios
        return sum(ratios[place.column : place.column + place.columns]) / sum(ratios)

    def ratio(self, panel: Panel) -> float:
        """The ratio of a panel's height to its width."""
        part = self.height_ratios[panel.place.row] / sum(self.height_ratios)
        return part * self.height / (self.share(panel) * self.width)
