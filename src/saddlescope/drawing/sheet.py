"""A described sheet, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, singledispatch
from itertools import groupby
from typing import Literal, TypedDict

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter, NullLocator

from saddlescope.charts import (
    AbstractLayer,
    Axis,
    Band,
    Bars,
    Curve,
    Entry,
    HeatMap,
    Legend,
    Look,
    Note,
    Panel,
    Rule,
    Sheet,
    Span,
)
from saddlescope.drawing.style import LEGEND, STYLE, Drawing

_MARKERS = {
    "circle": "o", "dot": ".", "square": "s", "diamond": "D", "triangle": "^", "wedge": "v",
    "cross": "x", "plus": "+", "star": "*", "upright": "|", "flat": "_",
}  # fmt: skip
_SIDES = ("left", "center", "right")
# On fewer decades than these, ticks between the powers are labelled.
_ALWAYS = (np.inf, np.inf)


def draw_sheet(sheet: Sheet) -> Drawing:
    """The picture of a sheet, laid out once for all formats."""
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(sheet.width, sheet.height))
        drawn = _place_panels(figure, sheet)
        for axes, panel in zip(drawn, sheet.panels, strict=True):
            _draw_panel(axes, panel)
        _draw_colour_bars(figure, drawn, sheet)
        if sheet.legend is not None:
            _draw_sheet_legend(figure, sheet.legend)
        # For a sheet of many panels the layout takes seconds.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def _place_panels(figure: Figure, sheet: Sheet) -> list[Axes]:
    """Axes for every panel; rows whose panels begin at other columns are laid out separately."""
    widths, heights = sheet.width_ratios, sheet.height_ratios
    groups = [list(rows) for _, rows in groupby(range(len(heights)), partial(_begins, sheet))]
    totals = [sum(heights[row] for row in rows) for rows in groups]
    whole = figure.add_gridspec(len(groups), 1, height_ratios=totals)
    drawn: list[Axes] = []
    for group, rows in enumerate(groups):
        begins = _begins(sheet, rows[0])
        ends = [*begins[1:], len(widths)]
        cells = whole[group].subgridspec(
            len(rows),
            len(begins),
            width_ratios=[sum(widths[one:end]) for one, end in zip(begins, ends, strict=True)],
            height_ratios=[heights[row] for row in rows],
        )
        for panel in sheet.panels:
            place = panel.place
            if place.row in rows:
                cell = cells[rows.index(place.row), begins.index(place.column)]
                drawn.append(figure.add_subplot(cell))
    return drawn


def _begins(sheet: Sheet, row: int) -> list[int]:
    """The columns of a row at which a panel begins, or could."""
    places = [panel.place for panel in sheet.panels if panel.place.row == row]
    joined = {one.column + more for one in places for more in range(1, one.columns)}
    return [column for column in range(len(sheet.width_ratios)) if column not in joined]


def _draw_panel(axes: Axes, panel: Panel) -> None:
    # The background is the figure's; a panel has none of its own.
    axes.patch.set_visible(False)
    for layer in panel.layers:
        draw_layer(layer, axes)
    _draw_axis(axes, axes.xaxis, panel.x, "x")
    _draw_axis(axes, axes.yaxis, panel.y, "y")
    axes.set_aspect("equal" if panel.square else "auto")
    for side, title in zip(_SIDES, panel.titles, strict=True):
        if title:
            axes.set_title(title, loc=side, fontsize=panel.title_size)  # type: ignore[arg-type]
    if panel.box != "open":
        axes.spines[:].set_visible(panel.box == "closed")
    if panel.legend is not None and panel.legend.entries:
        _draw_legend(axes, panel.legend)


def _draw_axis(axes: Axes, drawn: DrawnAxis, axis: Axis, name: str) -> None:
    if axis.scale == "log":
        (axes.set_xscale if name == "x" else axes.set_yscale)("log", base=axis.base)
    ends = (axis.high, axis.low) if axis.inverted else (axis.low, axis.high)
    axes.set(**{f"{name}lim": ends})
    if axis.shows_label:
        size = None if axis.label_size is None else {"fontsize": axis.label_size}
        drawn.set_label_text(axis.label, fontdict=size)
    if axis.ticks is not None:
        drawn.set_ticks(axis.ticks, axis.names or None)
        drawn.set_minor_locator(NullLocator())
        if not axis.names and axis.scale == "log":
            drawn.set_ticks(axis.ticks, [f"{tick:g}" for tick in axis.ticks])
    elif axis.scale == "log":
        # Where two decades are labelled, ticks between them need no labels.
        drawn.set_minor_formatter(NullFormatter())
        if _decades(axis.low, axis.high) < 1:
            drawn.set_major_locator(LogLocator(axis.base, subs=(1.0, 2.0, 5.0)))
            drawn.set_major_formatter(LogFormatterSciNotation(axis.base, minor_thresholds=_ALWAYS))
    elif axis.most_ticks is not None:
        axes.locator_params(axis=name, nbins=axis.most_ticks)  # type: ignore[arg-type]
    if not axis.shows_numbers:
        drawn.set_tick_params(
            which="both", **{f"label{'bottom' if name == 'x' else 'left'}": False}
        )


def _decades(low: float, high: float) -> int:
    """How many powers of ten lie between two numbers, ends included."""
    return int(np.floor(np.log10(high * 1.0001)) - np.ceil(np.log10(low * 0.9999)))


@singledispatch
def draw_layer(layer: AbstractLayer, axes: Axes) -> None:
    """Draw a layer of any kind; an unknown kind is an error."""
    raise TypeError(f"matplotlib is not told how to draw a layer of kind {layer.kind!r}")


class _LineLook(TypedDict, total=False):
    color: str
    linestyle: Literal["-", "none"] | tuple[float, tuple[float, ...]]
    linewidth: float
    marker: str
    markersize: float
    markerfacecolor: str
    markeredgecolor: str
    alpha: float | None


def _line_look(look: Look) -> _LineLook:
    options: _LineLook = {"color": look.colour, "linestyle": "none"}
    if look.width:
        options["linewidth"] = look.width
        options["linestyle"] = (0, look.dash) if look.dash else "-"
    if look.marker:
        options["marker"], options["markersize"] = _MARKERS[look.marker], look.size
        options["markerfacecolor"] = look.colour if look.filled else "none"
    if look.edge:
        options["markeredgecolor"] = look.edge
    if look.alpha < 1:
        options["alpha"] = look.alpha
    return options


@draw_layer.register
def _(layer: Curve, axes: Axes) -> None:
    across = axes.get_xaxis_transform() if layer.y_in == "panel" else axes.transData
    look = _line_look(layer.look)
    axes.plot(layer.x, layer.y, transform=across, zorder=layer.order, clip_on=layer.clipped, **look)


@draw_layer.register
def _(layer: Rule, axes: Axes) -> None:
    draw = axes.axhline if layer.axis == "y" else axes.axvline
    draw(layer.at, zorder=layer.order, **_line_look(layer.look))


@draw_layer.register
def _(layer: Span, axes: Axes) -> None:
    draw, look = (axes.axhspan if layer.axis == "y" else axes.axvspan), layer.look
    draw(
        layer.low, layer.high, color=look.colour, alpha=look.alpha, linewidth=0, zorder=layer.order
    )


@draw_layer.register
def _(layer: Band, axes: Axes) -> None:
    look = layer.look
    axes.fill_between(
        layer.x,
        layer.low,
        layer.high,
        color=look.colour,
        alpha=look.alpha,
        linewidth=0,
        zorder=layer.order,
    )


@draw_layer.register
def _(layer: Bars, axes: Axes) -> None:
    look = layer.look
    axes.bar(
        layer.x,
        layer.heights,
        layer.thickness,
        color=look.colour,
        alpha=look.alpha,
        zorder=layer.order,
    )


@draw_layer.register
def _(layer: HeatMap, axes: Axes) -> None:
    axes.pcolormesh(
        layer.x_edges,
        layer.y_edges,
        layer.values,
        cmap=layer.palette,
        vmin=layer.low,
        vmax=layer.high,
        zorder=layer.order,
        rasterized=layer.values.size > 10_000,
    )


@draw_layer.register
def _(layer: Note, axes: Axes) -> None:
    frames = {"data": "data", "panel": "axes fraction"}
    axes.annotate(
        layer.text,
        (layer.x, layer.y),
        xycoords=(frames[layer.x_in], frames[layer.y_in]),
        xytext=layer.shift,
        textcoords="offset points",
        ha=layer.align,
        va=layer.baseline,
        color=layer.look.colour,
        fontsize=layer.look.size,
        rotation=layer.rotation,
        zorder=layer.order,
        annotation_clip=False,
    )


def _draw_colour_bars(figure: Figure, drawn: Sequence[Axes], sheet: Sheet) -> None:
    for bar in sheet.colour_bars:
        layers = sheet.panels[bar.panel].layers
        heat = next(layer for layer in layers if isinstance(layer, HeatMap))
        colours = ScalarMappable(Normalize(heat.low, heat.high), heat.palette)
        beside = [drawn[index] for index in bar.beside]
        figure.colorbar(colours, ax=beside, shrink=bar.shrink, label=bar.label)


def _draw_legend(axes: Axes, legend: Legend) -> None:
    handles = [_handle(entry) for entry in legend.entries]
    if legend.place == "lower right":
        axes.legend(handles=handles, fontsize=7.5, loc="lower right", handletextpad=0.2)
    else:
        axes.legend(handles=handles, ncols=legend.columns, **LEGEND)


def _draw_sheet_legend(figure: Figure, legend: Legend) -> None:
    handles = [_handle(entry) for entry in legend.entries]
    if legend.place == "center above":
        figure.legend(
            handles=handles, loc="outside upper center", ncols=legend.columns, fontsize=7.5
        )
    else:
        figure.legend(handles=handles, loc="outside upper left", ncols=legend.columns, fontsize=7.5)


def _handle(entry: Entry) -> Artist:
    if entry.is_area:
        look = entry.look
        return Patch(color=look.colour, alpha=look.alpha, linewidth=0, label=entry.label)
    return Line2D([], [], label=entry.label, **_line_look(entry.look))
