"""The layers of a panel: curves, rules, spans, bands, bars, heat maps and notes, as data."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from saddlescope.checks import FloatArray

AxisName = Literal["x", "y"]
Frame = Literal["data", "panel"]
"""What a place is given in: the data of an axis, or shares of the panel."""
Align = Literal["left", "center", "right"]
Baseline = Literal["baseline", "bottom", "center", "top"]


def _nothing() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True)
class Look:
    """How a layer is drawn. Lengths are in points; dashes are multiples of the line's width.

    A width of 0 is no line, an empty `marker` no marker; a marker may have an `edge` of another
    colour.
    """

    colour: str
    width: float = 0.0
    dash: tuple[float, ...] = ()
    marker: str = ""
    size: float = 0.0
    filled: bool = True
    edge: str = ""
    alpha: float = 1.0


@dataclass(frozen=True, eq=False)
class AbstractLayer(abc.ABC):
    """The fields of all layers: a look, a label for the legend, and a drawing order."""

    kind: ClassVar[str]
    look: Look
    label: str = ""
    order: float = 2.0
    """Layers of a higher order are drawn over those of a lower one."""

    @abc.abstractmethod
    def extent(self, axis: AxisName) -> FloatArray:
        """The values that a panel must include to show it whole."""

    def borders(self, axis: AxisName) -> FloatArray:
        """The values up to which it fills the panel, without a margin beyond them."""
        return _nothing()


@dataclass(frozen=True, eq=False)
class Curve(AbstractLayer):
    """Points joined by a line, with markers, or both; NaN is a gap."""

    kind = "curve"
    x: FloatArray = field(default_factory=_nothing)
    y: FloatArray = field(default_factory=_nothing)
    y_in: Frame = "data"
    clipped: bool = True
    """Whether what lies beyond the panel is cut off."""

    def extent(self, axis: AxisName) -> FloatArray:
        if axis == "x":
            return self.x
        return self.y if self.y_in == "data" else _nothing()


@dataclass(frozen=True, eq=False)
class Rule(AbstractLayer):
    """A line across the panel at one value of an axis."""

    kind = "rule"
    axis: AxisName = "y"
    at: float = 0.0

    def extent(self, axis: AxisName) -> FloatArray:
        return np.array([self.at]) if axis == self.axis else _nothing()


@dataclass(frozen=True, eq=False)
class Span(AbstractLayer):
    """A range of an axis, shaded across the panel."""

    kind = "span"
    axis: AxisName = "x"
    low: float = 0.0
    high: float = 0.0

    def extent(self, axis: AxisName) -> FloatArray:
        return np.array([self.low, self.high]) if axis == self.axis else _nothing()


@dataclass(frozen=True, eq=False)
class Band(AbstractLayer):
    """The area between two curves."""

    kind = "band"
    x: FloatArray = field(default_factory=_nothing)
    low: FloatArray = field(default_factory=_nothing)
    high: FloatArray = field(default_factory=_nothing)

    def extent(self, axis: AxisName) -> FloatArray:
        return self.x if axis == "x" else np.concatenate([self.low, self.high])


@dataclass(frozen=True, eq=False)
class Bars(AbstractLayer):
    """Vertical bars from zero, of one width, centred on their coordinates."""

    kind = "bars"
    x: FloatArray = field(default_factory=_nothing)
    heights: FloatArray = field(default_factory=_nothing)
    thickness: float = 0.8

    def extent(self, axis: AxisName) -> FloatArray:
        if axis == "x":
            half = self.thickness / 2
            return np.concatenate([self.x - half, self.x + half])
        return np.append(self.heights, 0.0)

    def borders(self, axis: AxisName) -> FloatArray:
        return np.zeros(1) if axis == "y" else _nothing()


@dataclass(frozen=True, eq=False)
class HeatMap(AbstractLayer):
    """Values of cells between edges, `values[y, x]`; their colours run from `low` to `high`."""

    kind = "map"
    x_edges: FloatArray = field(default_factory=_nothing)
    y_edges: FloatArray = field(default_factory=_nothing)
    values: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    palette: str = "viridis"
    """A colour map of matplotlib's."""
    low: float = 0.0
    high: float = 1.0
    name: str = ""
    """What the values are."""

    def extent(self, axis: AxisName) -> FloatArray:
        return self.x_edges if axis == "x" else self.y_edges

    def borders(self, axis: AxisName) -> FloatArray:
        return self.extent(axis)


@dataclass(frozen=True, eq=False)
class Note(AbstractLayer):
    """A text at a position, shifted by `shift` points; its look is a colour and a size."""

    kind = "note"
    x: float = 0.0
    y: float = 0.0
    text: str = ""
    x_in: Frame = "data"
    y_in: Frame = "data"
    shift: tuple[float, float] = (0.0, 0.0)
    align: Align = "left"
    baseline: Baseline = "baseline"
    rotation: float = 0.0

    def extent(self, axis: AxisName) -> FloatArray:
        return _nothing()


LAYERS: tuple[type[AbstractLayer], ...] = (Curve, Rule, Span, Band, Bars, HeatMap, Note)
"""Every kind, for those that draw and those that read."""
