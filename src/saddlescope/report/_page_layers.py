"""Layers as plain values: points thinned to what a chart can show, colours for two pages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import singledispatch
from typing import SupportsFloat

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from saddlescope.charts import (
    AbstractLayer,
    Axis,
    Band,
    Bars,
    Curve,
    HeatMap,
    Look,
    Note,
    Panel,
    Rule,
    Span,
)
from saddlescope.checks import FloatArray
from saddlescope.report._colours import on_dark, page_colour
from saddlescope.report._plain_text import plain_text
from saddlescope.report._thinning import thin_curve, thin_points

Values = dict[str, object]
POINTS_OF_A_CURVE = 400
POINTS_OF_A_CLOUD = 1000
_STOPS = 33
_PIXELS_A_POINT = 4 / 3
_BASELINES = {"baseline": "alphabetic", "center": "middle"}


def number(value: SupportsFloat) -> float | None:
    """Numbers with six digits, and None for those that are not finite.

    >>> number(1/3), number(float("nan"))
    (0.333333, None)
    """
    return float(f"{float(value):.6g}") if math.isfinite(value) else None


def page_look(look: Look) -> Values:
    """A look in pixels; its colour is a pair, for a light and for a dark page."""
    # A dot is half as large as a circle of its size.
    size = look.size * (0.5 if look.marker == "dot" else 1.0)
    return {
        "colour": _pair(look.colour),
        "dash": [_pixels(length * look.width) for length in look.dash],
        "width": _pixels(look.width),
        "marker": "circle" if look.marker == "dot" else look.marker,
        "size": _pixels(size),
        "filled": look.filled,
        "edge": _pair(look.edge) if look.edge else None,
        "alpha": look.alpha,
    }


@singledispatch
def page_layer(layer: AbstractLayer, panel: Panel) -> Iterator[Values]:
    """A layer of any kind as the page draws it; an unknown kind is an error."""
    raise TypeError(f"the page is not told how to show a layer of kind {layer.kind!r}")


@page_layer.register
def _(layer: Curve, panel: Panel) -> Iterator[Values]:
    across, up = _shares(layer.x, panel.x), layer.y
    if layer.y_in == "data":
        up = _shares(layer.y, panel.y)
    if not np.isfinite(across + up).any():
        return
    joined = layer.look.width > 0
    up = np.where(_within(across, joined), up, np.nan)
    if not joined:
        chosen = thin_points(across, up, POINTS_OF_A_CLOUD)
    elif layer.look.marker and np.isfinite(up).sum() <= POINTS_OF_A_CURVE:
        chosen = np.arange(len(across))
    else:
        chosen = thin_curve(across, up, POINTS_OF_A_CURVE)
    gap = ~np.isfinite(across[chosen]) | ~np.isfinite(up[chosen])
    if len(chosen):
        yield {
            **_begun(layer),
            "x": _rounded(np.where(gap, np.nan, layer.x[chosen])),
            "y": _rounded(np.where(gap, np.nan, layer.y[chosen])),
            "y_in": layer.y_in,
        }


@page_layer.register
def _(layer: Rule, panel: Panel) -> Iterator[Values]:
    yield {**_begun(layer), "axis": layer.axis, "at": number(layer.at)}


@page_layer.register
def _(layer: Span, panel: Panel) -> Iterator[Values]:
    ends = {"low": number(layer.low), "high": number(layer.high)}
    yield {**_begun(layer), "axis": layer.axis, **ends}


@page_layer.register
def _(layer: Band, panel: Panel) -> Iterator[Values]:
    """A polygon for each stretch without a gap."""
    seen = np.isfinite(_shares(layer.x, panel.x))
    seen &= np.isfinite(_shares(layer.low, panel.y)) & np.isfinite(_shares(layer.high, panel.y))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], seen, [False]]).astype(int)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        x = np.concatenate([layer.x[begin:end], layer.x[begin:end][::-1]])
        y = np.concatenate([layer.low[begin:end], layer.high[begin:end][::-1]])
        chosen = thin_curve(_shares(x, panel.x), _shares(y, panel.y), POINTS_OF_A_CURVE)
        yield {**_begun(layer), "x": _rounded(x[chosen]), "y": _rounded(y[chosen])}


@page_layer.register
def _(layer: Bars, panel: Panel) -> Iterator[Values]:
    yield {
        **_begun(layer),
        "x": _rounded(layer.x),
        "heights": _rounded(layer.heights),
        "thickness": layer.thickness,
    }


@page_layer.register
def _(layer: HeatMap, panel: Panel) -> Iterator[Values]:
    palette = matplotlib.colormaps[layer.palette](np.linspace(0, 1, _STOPS))
    yield {
        **_begun(layer),
        "x_edges": _rounded(layer.x_edges),
        "y_edges": _rounded(layer.y_edges),
        "values": [_rounded(row) for row in layer.values],
        "stops": [to_hex(colour) for colour in palette],
        "low": number(layer.low),
        "high": number(layer.high),
        "name": plain_text(layer.name),
    }


@page_layer.register
def _(layer: Note, panel: Panel) -> Iterator[Values]:
    yield {
        **_begun(layer),
        "x": number(layer.x),
        "y": number(layer.y),
        "text": plain_text(layer.text),
        "x_in": layer.x_in,
        "y_in": layer.y_in,
        "shift": [_pixels(length) for length in layer.shift],
        "align": layer.align,
        "baseline": _BASELINES.get(layer.baseline, layer.baseline),
        "rotation": layer.rotation,
    }


def _begun(layer: AbstractLayer) -> Values:
    """The entries that all kinds have."""
    return {"kind": layer.kind, "look": page_look(layer.look)}


def _shares(values: FloatArray, axis: Axis) -> FloatArray:
    """Values as shares of the panel; NaN where a logarithmic scale has none."""
    if axis.scale == "log":
        values = np.log(np.where(values > 0, values, np.nan))
        low, high = math.log(axis.low), math.log(axis.high)
    else:
        low, high = axis.low, axis.high
    return np.asarray((values - low) / (high - low))


def _within(across: FloatArray, joined: bool) -> FloatArray:
    """Which points are visible, or end a visible piece of the line."""
    if not joined:
        return np.asarray((across >= -0.02) & (across <= 1.02))
    with np.errstate(invalid="ignore"):
        low, high = np.fmin(across[:-1], across[1:]), np.fmax(across[:-1], across[1:])
        seen = (low <= 1) & (high >= 0)
    inside = (across >= 0) & (across <= 1)
    return np.asarray(np.concatenate([seen, [False]]) | np.concatenate([[False], seen]) | inside)


def _pair(colour: str) -> list[str]:
    light = page_colour(colour)
    return [light, on_dark(light)]


def _pixels(points: float) -> float:
    return round(float(points) * _PIXELS_A_POINT, 1)


def _rounded(values: FloatArray) -> list[float | None]:
    return [number(value) for value in values.tolist()]
