"""What can stand in a panel: curves, rules, boxes, areas, maps and notes."""

from __future__ import annotations

import math
from dataclasses import dataclass, is_dataclass
from typing import ClassVar, SupportsFloat

Colours = tuple[str, str]

# What the page has no use for.
_UNSEEN = ("order", "label")


@dataclass(frozen=True)
class Look:
    """How a layer is drawn; a colour is a pair, for a light and for a dark page."""

    colour: Colours
    dash: tuple[float, ...] = ()
    width: float = 0.0
    marker: str = ""
    size: float = 0.0
    filled: bool = True
    alpha: float = 1.0

    @property
    def form(self) -> tuple[tuple[float, ...], bool, str, bool]:
        """What is left of it in grey."""
        return (self.dash, self.width > 0, self.marker, self.filled)


@dataclass(frozen=True)
class AbstractLayer:
    """What all kinds have: a look, what its own label says and where it stands among others."""

    kind: ClassVar[str] = ""
    look: Look
    label: str = ""
    order: float = 0.0
    entry: int | None = None
    """The line of the legend that it belongs to."""

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        own = {name: plain(value) for name, value in vars(self).items()}
        return {"kind": self.kind} | {name: own[name] for name in own if name not in _UNSEEN}


@dataclass(frozen=True)
class Curve(AbstractLayer):
    """Points, joined by a line, marked, or both. None in x and y is a gap."""

    kind = "curve"
    x: tuple[float | None, ...] = ()
    y: tuple[float | None, ...] = ()
    colours: tuple[Colours, ...] = ()
    """Of each point, where they differ."""
    points: int = 0
    """How many there were before thinning."""


@dataclass(frozen=True)
class Rule(AbstractLayer):
    """A line across the panel at one value of an axis."""

    kind = "rule"
    axis: str = "y"
    at: float = 0.0


@dataclass(frozen=True)
class Boxes(AbstractLayer):
    """Rectangles, [left, bottom, right, top]: bars, or a span of an axis (None: to the border)."""

    kind = "boxes"
    boxes: tuple[tuple[float | None, ...], ...] = ()
    colours: tuple[Colours, ...] = ()
    bars: bool = True


@dataclass(frozen=True)
class Area(AbstractLayer):
    """A filled polygon."""

    kind = "area"
    x: tuple[float | None, ...] = ()
    y: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class HeatMap(AbstractLayer):
    """Values of cells, rows upwards along the y edges; colours from low to high."""

    kind = "map"
    x_edges: tuple[float | None, ...] = ()
    y_edges: tuple[float | None, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()
    stops: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    logarithmic: bool = False
    name: str = ""


@dataclass(frozen=True)
class Note(AbstractLayer):
    """A text at a place."""

    kind = "note"
    x: float = 0.0
    y: float = 0.0
    text: str = ""
    align: str = "left"
    baseline: str = "bottom"


def plain(value: object) -> object:
    """As JSON has it."""
    if isinstance(value, AbstractLayer):
        return value.to_dict()
    if is_dataclass(value):
        return {name: plain(part) for name, part in vars(value).items()}
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def number(value: SupportsFloat) -> float | None:
    """Six digits, and None for what is not finite.

    >>> number(1/3), number(float("nan"))
    (0.333333, None)
    """
    return float(f"{float(value):.6g}") if math.isfinite(value) else None
