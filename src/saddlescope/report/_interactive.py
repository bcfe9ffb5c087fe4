"""A drawing as data for the page: its panels with axes, layers and legend.

The picture is drawn once, by matplotlib; `assets/panels.js` draws what is read off it here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.category import StrCategoryLocator
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FixedLocator, NullLocator

from saddlescope.report._artists import look_of, read_layers
from saddlescope.report._layers import (
    AbstractLayer,
    Boxes,
    Curve,
    HeatMap,
    Look,
    Note,
    number,
    plain,
)
from saddlescope.report._plain_text import plain_text

_SCALES = {"linear": "linear", "log": "log", "symlog": "asinh", "asinh": "asinh"}


@dataclass(frozen=True)
class Axis:
    """An axis: its label, scale and limits, and its ticks where they are named.

    A `bare` axis has no ticks.
    """

    label: str
    scale: str
    low: float
    high: float
    inverted: bool = False
    ticks: tuple[float | None, ...] = ()
    names: tuple[str, ...] = ()
    bare: bool = False
    threshold: float = 1.0
    """Below this, in size, an `asinh` scale is linear."""


@dataclass(frozen=True)
class Entry:
    """A line of the legend."""

    label: str
    look: Look


@dataclass(frozen=True)
class Panel:
    """One pair of axes with all that is drawn in it.

    `share` is its part of the drawing's width, `ratio` its height over its width.
    """

    title: str
    x: Axis
    y: Axis
    layers: tuple[AbstractLayer, ...]
    entries: tuple[Entry, ...]
    share: float
    ratio: float

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {name: plain(value) for name, value in vars(self).items()}


def panels(figure: Figure) -> list[Panel]:
    """The panels of a drawing, by rows from its top; colour bars are left out.

    >>> figure = Figure()
    >>> axes = figure.add_subplot(xscale="log", xlabel=r"time $t/\\tau$")
    >>> lines = axes.plot([1, 10, 100], [3, 1, 2], label="$e_1$")
    >>> (panel,) = panels(figure)
    >>> panel.x.label, panel.x.scale, panel.entries[0].label, panel.layers[0].y
    ('time t/τ', 'log', 'e₁', (3.0, 1.0, 2.0))
    """
    # Layout, and limits that depend on it, are settled when a figure is drawn.
    figure.draw_without_rendering()
    shown = sorted((axes for axes in figure.axes if _is_shown(axes)), key=_place)
    return [panel for axes in shown if (panel := _panel(axes)) is not None]


def _is_shown(axes: Axes) -> bool:
    is_bar = hasattr(axes, "_colorbar") or axes.get_label() == "<colorbar>"
    return axes.get_visible() and axes.name == "rectilinear" and not is_bar


def _place(axes: Axes) -> tuple[float, float]:
    box = axes.get_position()
    return -round(float(box.y1), 1), float(box.x0)


def _panel(axes: Axes) -> Panel | None:
    layers = read_layers(axes)
    entries = _entries(axes, layers)
    drawn = tuple(
        replace(layer, entry=_entry_of(layer, entries))
        for layer in layers
        if not (isinstance(layer, Curve) and not layer.x)
    )
    if not any(isinstance(layer, (Curve, Boxes, HeatMap)) for layer in drawn):
        return None
    if not axes.axison and not any(isinstance(layer, HeatMap) for layer in drawn):
        return None
    used = sorted({layer.entry for layer in drawn if layer.entry is not None})
    numbers = {old: new for new, old in enumerate(used)}
    drawn = tuple(replace(layer, entry=numbers.get(layer.entry)) for layer in drawn)  # type: ignore[arg-type]
    figure, box = axes.figure, axes.get_position()
    width, height = figure.get_size_inches()  # type: ignore[union-attr]
    return Panel(
        _title(axes),
        _axis(axes, "x"),
        _axis(axes, "y"),
        drawn,
        tuple(entries[old] for old in used),
        round(float(box.width), 3),
        round(float(box.height * height / (box.width * width)), 3),
    )


def _title(axes: Axes) -> str:
    """Its title, or that of its column in a sheet, whose charts may stand elsewhere on a page."""
    for one in (axes, *_column(axes)):
        texts = [one.get_title(side) for side in ("right", "left", "center")]
        if any(texts):
            return "  ".join(plain_text(text) for text in texts if text)
    return ""


def _column(axes: Axes) -> list[Axes]:
    """The axes above these in a grid with a shared time, topmost first."""
    own = axes.get_subplotspec()
    kin = [(one, one.get_subplotspec()) for one in axes.get_shared_x_axes().get_siblings(axes)]
    above = [
        (spec.rowspan.start, one)
        for one, spec in kin
        if own is not None and spec is not None and spec.colspan == own.colspan
    ]
    return [one for _, one in sorted(above, key=lambda pair: pair[0])]


def _axis(axes: Axes, name: str) -> Axis:
    axis = getattr(axes, f"{name}axis")
    begin, end = (float(value) for value in axis.get_view_interval())
    locator = axis.get_major_locator()
    ticks: tuple[float | None, ...] = ()
    names: tuple[str, ...] = ()
    bare = isinstance(locator, NullLocator)
    if isinstance(locator, (FixedLocator, StrCategoryLocator)):
        values = np.asarray(locator(), dtype=float)
        ticks = tuple(number(value) for value in values)
        names = tuple(plain_text(text) for text in axis.get_major_formatter().format_ticks(values))
        bare = len(values) == 0
    if not any(names):
        ticks, names = (), ()
    return Axis(
        _axis_label(axes, name),
        _SCALES.get(axis.get_scale(), "linear"),
        number(min(begin, end)) or 0.0,
        number(max(begin, end)) or 0.0,
        begin > end,
        ticks,
        names,
        bare,
        float(getattr(axis.get_transform(), "linthresh", 1.0)),
    )


def _axis_label(axes: Axes, name: str) -> str:
    """Its label, or that of an axis that it shares its limits with."""
    group = axes.get_shared_x_axes() if name == "x" else axes.get_shared_y_axes()
    alike = [getattr(one, f"{name}axis") for one in (axes, *group.get_siblings(axes))]
    return plain_text(next(filter(None, (axis.get_label_text() for axis in alike)), ""))


def _entries(axes: Axes, layers: list[AbstractLayer]) -> list[Entry]:
    """The legend: what is labelled, and what legends show besides."""
    looks = [(layer.label, layer.look) for layer in layers]
    for legend in (axes.get_legend(), *axes.figure.legends):
        if isinstance(legend, Legend):
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
                if handle is not None and (look := look_of(handle)) is not None:
                    looks.append((plain_text(text.get_text()), look))
    entries: dict[str, Entry] = {}
    for label, look in looks:
        entries.setdefault(label, Entry(label, look))
    return [entry for label, entry in entries.items() if label]


def _entry_of(layer: AbstractLayer, entries: list[Entry]) -> int | None:
    """Its own line of the legend, or the one that it is drawn like."""
    if isinstance(layer, (HeatMap, Note)):
        return None
    if layer.label:
        return next(n for n, entry in enumerate(entries) if entry.label == layer.label)
    alike = [n for n, entry in enumerate(entries) if entry.look.form == layer.look.form]
    same = [n for n in alike if entries[n].look.colour == layer.look.colour]
    # Seeds differ in colour and share one line of the legend; where several lines have the form,
    # a curve of another colour belongs to none of them.
    return same[0] if same else alike[0] if len(alike) == 1 else None
