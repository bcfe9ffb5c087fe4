"""`PanelBuilder`: what a figure draws with. It collects layers, which a renderer draws.

Its methods are named as in matplotlib's axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike
from xarray import DataArray

from saddlescope.charts.layers import (
    AbstractLayer,
    Align,
    AxisName,
    Band,
    Bars,
    Baseline,
    Curve,
    Frame,
    HeatMap,
    Look,
    Note,
    Rule,
    Span,
)
from saddlescope.charts.look import area_look, hex_colour, read_look, refuse
from saddlescope.charts.sheet import Box, Entry, Legend, Place, Scale
from saddlescope.checks import FloatArray

Values = ArrayLike | DataArray
Ends = Sequence[SupportsFloat | None] | FloatArray
_RULES, _AREAS, _MAPS, _NOTES = 2.0, 1.0, 0.0, 3.0


@dataclass(eq=False)
class AxisBuilder:
    """Scale, ends and ticks of an axis; panels that share an axis hold the same object."""

    scale: Scale = "linear"
    base: float = 10.0
    low: float | None = None
    high: float | None = None
    inverted: bool = False
    ticks: tuple[float, ...] | None = None
    names: tuple[str, ...] = ()
    most_ticks: int | None = None

    def end_at(self, ends: Ends) -> None:
        """Set its ends; one that is None or not finite follows from what is drawn."""
        known = [np.nan if end is None else float(end) for end in ends]
        self.low, self.high = (end if np.isfinite(end) else None for end in known)

    def tick_at(self, values: Values, names: Iterable[str] = ()) -> None:
        """Set its ticks, and their names if they are not numbers."""
        self.ticks, self.names = tuple(_array(values).tolist()), tuple(names)


@dataclass(eq=False)
class PanelBuilder:
    """A panel under construction.

    >>> panel = PanelBuilder(Place(0, 0))
    >>> panel.plot([1, 2], [3, 4], "o-", color="black", label="training")
    >>> panel.layers[0].kind, panel.layers[0].look.marker
    ('curve', 'circle')
    """

    place: Place
    xaxis: AxisBuilder = field(default_factory=AxisBuilder)
    yaxis: AxisBuilder = field(default_factory=AxisBuilder)
    layers: list[AbstractLayer] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    keys: list[Entry] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    title_size: float | None = None
    labels: dict[AxisName, str] = field(default_factory=dict)
    label_sizes: dict[AxisName, float] = field(default_factory=dict)
    legend_shown: Legend | None = None
    box: Box = "open"
    square: bool = False
    removed: bool = False

    def plot(self, x: Values, y: Values, style: str = "", /, **options: object) -> None:
        """A curve, or markers. Without points it only adds an entry to the legend.

        `y_in="panel"`: heights are shares of the panel. `clip_on=False`: markers on the frame are
        drawn whole.
        """
        look = read_look(style, options)
        frame: Frame = "panel" if options.pop("y_in", "data") == "panel" else "data"
        clipped = bool(options.pop("clip_on", True))
        label, order = _name_and_order(options, 2.0)
        refuse(options)
        across, up = np.broadcast_arrays(np.atleast_1d(_array(x)), np.atleast_1d(_array(y)))
        if across.ndim > 1:
            raise ValueError(f"a curve has one dimension, not the shape {across.shape}")
        self._explain(label, look, key=not across.size)
        if across.size:
            self.layers.append(Curve(look, label, order, across, up, frame, clipped))

    def step(
        self, x: Values, y: Values, /, *, where: Literal["pre", "post"], **options: object
    ) -> None:
        """A step curve: each value begins (`post`) or ends (`pre`) at its point."""
        across, up = np.repeat(_array(x), 2), np.repeat(_array(y), 2)
        if where == "post":
            self.plot(across[1:], up[:-1], **options)
        else:
            self.plot(across[:-1], up[1:], **options)

    def stairs(self, heights: Values, edges: Values, /, **options: object) -> None:
        """A histogram's outline."""
        up = np.concatenate([[0.0], np.repeat(_array(heights), 2), [0.0]])
        self.plot(np.repeat(_array(edges), 2), up, **options)

    def axhline(self, at: SupportsFloat, /, **options: object) -> None:
        """A horizontal line at a value."""
        self._rule("y", at, options)

    def axvline(self, at: SupportsFloat, /, **options: object) -> None:
        """A vertical line at a value."""
        self._rule("x", at, options)

    def axhspan(self, low: SupportsFloat, high: SupportsFloat, /, **options: object) -> None:
        """A shaded horizontal band."""
        self._span("y", low, high, options)

    def axvspan(self, low: SupportsFloat, high: SupportsFloat, /, **options: object) -> None:
        """A shaded vertical band."""
        self._span("x", low, high, options)

    def fill_between(self, x: Values, low: Values, high: Values, /, **options: object) -> None:
        """The area between two curves; without points only an entry of the legend."""
        look, (label, order) = area_look(options), _name_and_order(options, _AREAS)
        refuse(options)
        across, below, above = np.broadcast_arrays(_array(x), _array(low), _array(high))
        self._explain(label, look, key=not across.size, is_area=True)
        if across.size:
            self.layers.append(Band(look, label, order, across, below, above))

    def bar(self, names: Sequence[str], heights: Values, /, **options: object) -> None:
        """Vertical bars with names under them."""
        look, (label, order) = area_look(options), _name_and_order(options, _AREAS)
        refuse(options)
        places = np.arange(len(names), dtype=float)
        self._explain(label, look, is_area=True)
        self.layers.append(Bars(look, label, order, places, _array(heights)))
        self.xaxis.tick_at(places, names)

    def imshow(
        self,
        values: Values,
        /,
        *,
        cmap: str,
        vmin: float | None = None,
        vmax: float | None = None,
        square: bool = True,
    ) -> None:
        """A matrix, its first row on top; cell (i, j) is at x = j, y = i."""
        array = _array(values)
        rows, columns = array.shape
        edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
        self._map(*edges, array, cmap, vmin, vmax)
        self.yaxis.inverted, self.square = True, square

    def pcolormesh(self, x: Values, y: Values, values: Values, /, *, cmap: str) -> None:
        """Values over two axes, as cells around their coordinates."""
        self._map(_edges(_array(x)), _edges(_array(y)), _array(values), cmap, None, None)

    def text(
        self,
        x: SupportsFloat,
        y: SupportsFloat,
        text: str,
        /,
        *,
        x_in: Frame = "data",
        y_in: Frame = "data",
        shift: tuple[float, float] = (0.0, 0.0),
        ha: Align = "left",
        va: Baseline = "baseline",
        color: str = "black",
        fontsize: float = 9.0,
        rotation: float = 0.0,
    ) -> None:
        """A note at a position in data units or shares of the panel, shifted by some points."""
        look, spot = Look(hex_colour(color), size=float(fontsize)), (float(x), float(y))
        if np.isfinite(spot).all():
            away = (float(shift[0]), float(shift[1]))
            turned = float(rotation)
            note = Note(look, "", _NOTES, *spot, text, x_in, y_in, away, ha, va, turned)
            self.layers.append(note)

    def set(
        self,
        *,
        xlabel: str | None = None,
        ylabel: str | None = None,
        xlim: Ends = (None, None),
        ylim: Ends = (None, None),
        xscale: Scale | None = None,
        yscale: Scale | None = None,
    ) -> None:
        """Set labels, ends and scales; those not given stay as they are."""
        sides: tuple[tuple[AxisName, AxisBuilder, str | None, Ends, Scale | None], ...] = (
            ("x", self.xaxis, xlabel, xlim, xscale),
            ("y", self.yaxis, ylabel, ylim, yscale),
        )
        for name, axis, label, ends, scale in sides:
            if label is not None:
                self.labels[name] = label
            if any(end is not None for end in ends):
                axis.end_at(ends)
            if scale is not None:
                axis.scale = scale

    def set_title(
        self,
        text: str,
        loc: Literal["left", "center", "right"] = "center",
        fontsize: float | None = None,
    ) -> None:
        """A title above the panel: left, centre or right."""
        self.titles[loc] = text
        self.title_size = fontsize

    def legend(
        self,
        columns: int = 3,
        *,
        labels: Sequence[str] | None = None,
        place: Literal["above", "lower right"] = "above",
    ) -> None:
        """Show a legend of everything labelled, or of these `labels`; call it last."""
        chosen = [one for one in self.entries if labels is None or one.label in labels]
        self.legend_shown = Legend(tuple(chosen), columns, place)

    def remove(self) -> None:
        """Leave the panel's cell empty."""
        self.removed = True

    def _rule(self, axis: AxisName, at: SupportsFloat, options: dict[str, object]) -> None:
        look, (label, order) = read_look("", options), _name_and_order(options, _RULES)
        refuse(options)
        self._explain(label, look)
        if np.isfinite(float(at)):
            self.layers.append(Rule(look, label, order, axis, float(at)))

    def _span(
        self, axis: AxisName, low: SupportsFloat, high: SupportsFloat, options: dict[str, object]
    ) -> None:
        look, (label, order) = area_look(options), _name_and_order(options, _AREAS)
        refuse(options)
        self._explain(label, look, is_area=True)
        self.layers.append(Span(look, label, order, axis, float(low), float(high)))

    def _map(
        self,
        x_edges: FloatArray,
        y_edges: FloatArray,
        values: FloatArray,
        palette: str,
        low: float | None,
        high: float | None,
    ) -> None:
        ends = (
            float(np.nanmin(values) if low is None else low),
            float(np.nanmax(values) if high is None else high),
        )
        look = Look(hex_colour("black"))
        self.layers.append(HeatMap(look, "", _MAPS, x_edges, y_edges, values, palette, *ends))

    def _explain(self, label: str, look: Look, *, key: bool = False, is_area: bool = False) -> None:
        """Add a label's entry to the legend; a key is an entry without a layer."""
        if label:
            entry = Entry(label, look, is_area)
            self.entries.append(entry)
            if key:
                self.keys.append(entry)


def _array(values: Values) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _edges(places: FloatArray) -> FloatArray:
    """The borders of cells around their coordinates: midway between them."""
    between = (places[1:] + places[:-1]) / 2
    first, last = places[0] - (between[0] - places[0]), places[-1] + (places[-1] - between[-1])
    return np.concatenate([[first], between, [last]])


def _name_and_order(options: dict[str, object], order: float) -> tuple[str, float]:
    return str(options.pop("label", None) or ""), float(str(options.pop("zorder", order)))
