"""What stands in a panel, read off the artists that matplotlib draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import LogNorm, to_hex
from matplotlib.container import BarContainer
from matplotlib.contour import ContourSet
from matplotlib.image import AxesImage
from matplotlib.lines import AxLine, Line2D
from matplotlib.patches import Patch, Rectangle, StepPatch
from matplotlib.quiver import Barbs, Quiver
from matplotlib.text import Annotation, Text
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike

from saddlescope.checks import FloatArray
from saddlescope.report._colours import on_dark, page_colour
from saddlescope.report._layers import (
    AbstractLayer,
    Area,
    Boxes,
    Colours,
    Curve,
    HeatMap,
    Look,
    Note,
    Rule,
    number,
)
from saddlescope.report._plain_text import plain_text
from saddlescope.report._thinning import thin_curve, thin_points

POINTS_OF_A_CURVE = 400
POINTS_OF_A_CLOUD = 1000
_STOPS = 33
_PIXELS_A_POINT = 4 / 3
_DASHES: dict[str, tuple[float, ...]] = {"--": (5, 4), "-.": (6, 3, 1.5, 3), ":": (1.5, 3)}
_MARKERS = {
    "o": "circle", ".": "circle", ",": "circle", "s": "square", "D": "diamond", "d": "diamond",
    "^": "triangle", "v": "wedge", "x": "cross", "X": "cross", "+": "plus", "P": "plus",
    "*": "star", "|": "upright", "_": "flat",
}  # fmt: skip


class About(NamedTuple):
    """What all layers begin with."""

    look: Look
    label: str
    order: float


def read_layers(axes: Axes) -> list[AbstractLayer]:
    """Everything that is drawn in data of the axes, the lowest first."""
    groups = [group for group in axes.containers if isinstance(group, BarContainer)]
    layers: list[AbstractLayer] = [boxes for group in groups for boxes in _bars(group)]
    read = {id(bar) for group in groups for bar in group} | {id(axes.patch)}
    for artist in axes.get_children():
        if artist.get_visible() and id(artist) not in read:
            layers += _layers_of(artist, axes)
    return sorted(layers, key=lambda layer: layer.order)


def look_of(artist: Artist) -> Look | None:
    """How a line, a collection or a patch looks; None for other things."""
    alpha = artist.get_alpha()
    shown = float(alpha) if isinstance(alpha, (int, float)) else 1.0
    if isinstance(artist, Line2D):
        return _look_of_line(artist, shown)
    if isinstance(artist, (LineCollection, ContourSet)):
        return _look_of_lines(artist, shown)
    if isinstance(artist, PathCollection):
        return _look_of_cloud(artist, shown)
    if isinstance(artist, (PolyCollection, Patch)):
        faces = np.atleast_2d(np.asarray(artist.get_facecolor()))
        return Look(_pair(faces[0]), alpha=float(faces[0][3])) if faces.shape[1] == 4 else None
    return None


def _look_of_line(line: Line2D, alpha: float) -> Look:
    style, marker = line.get_linestyle(), line.get_marker()
    drawn = style not in ("None", "none", "", " ")
    kind = "" if marker in (None, "None", "none", "", " ") else _MARKERS.get(str(marker), "circle")
    return Look(
        _pair(line.get_color() if drawn or not kind else line.get_markeredgecolor()),
        _DASHES.get(str(style), ()) if drawn else (),
        _pixels(line.get_linewidth()) if drawn else 0.0,
        kind,
        _pixels(line.get_markersize()) * (0.5 if marker == "." else 1.0) if kind else 0.0,
        not kind or str(line.get_markerfacecolor()) not in ("none", "white", "w"),
        alpha,
    )


def _look_of_lines(lines: LineCollection | ContourSet, alpha: float) -> Look | None:
    colours = np.asarray(lines.get_edgecolor())
    if not len(colours):
        return None
    # A collection has a list of them, whatever the stub says.
    styles: list[tuple[float, list[float] | None]] = lines.get_linestyle()  # type: ignore[assignment]
    dash = () if styles[0][1] is None else _DASHES["--"]
    return Look(_pair(colours[0]), dash, _pixels(np.ravel(lines.get_linewidth())[0]), alpha=alpha)


def _look_of_cloud(cloud: PathCollection, alpha: float) -> Look | None:
    faces, edges = np.asarray(cloud.get_facecolor()), np.asarray(cloud.get_edgecolor())
    sizes = cloud.get_sizes()
    filled = len(faces) > 0 and bool(faces[0][3] > 0)
    if not filled and not len(edges):
        return None
    size = _pixels(np.sqrt(sizes[0])) if len(sizes) else 6.0
    colour = faces[0] if filled else edges[0]
    return Look(_pair(colour), marker="circle", size=size, filled=filled, alpha=alpha)


def _layers_of(artist: Artist, axes: Axes) -> Iterable[AbstractLayer]:
    if isinstance(artist, (AxesImage, QuadMesh)):
        return [_heat_map(artist, axes)]
    if isinstance(artist, Text):
        return _note(artist, axes)
    if isinstance(artist, (Quiver, Barbs)) or (look := look_of(artist)) is None:
        return []
    about = About(look, _label(artist), float(artist.get_zorder()))
    return next(
        (read(artist, axes, about) for kind, read in _READERS if isinstance(artist, kind)), []
    )


def _line(line: Line2D, axes: Axes, about: About) -> Iterator[AbstractLayer]:
    if isinstance(line, AxLine):
        seen = line.get_transform().transform([[0.0, 0.0], [1.0, 1.0]])
        ends = axes.transData.inverted().transform(seen)
        yield from _curve(ends[:, 0], ends[:, 1], axes, about)
        return
    x, y = (np.asarray(part, dtype=float) for part in line.get_data(orig=False))
    if not (np.isfinite(x).any() and np.isfinite(y).any()):
        return
    if line.get_transform() == axes.get_yaxis_transform(which="grid"):
        yield Rule(*about, axis="y", at=number(y[0]) or 0.0)
    elif line.get_transform() == axes.get_xaxis_transform(which="grid"):
        yield Rule(*about, axis="x", at=number(x[0]) or 0.0)
    elif line.get_transform().contains_branch(axes.transData):
        if line.get_drawstyle() != "default":
            x, y = STEP_LOOKUP_MAP[line.get_drawstyle()](x, y)
        yield from _curve(x, y, axes, about)


def _stairs(stairs: StepPatch, axes: Axes, about: About) -> Iterator[Curve]:
    values, edges, _ = stairs.get_data()
    look = Look(_pair(stairs.get_edgecolor()), width=_pixels(stairs.get_linewidth()))
    across, up = np.repeat(edges, 2)[1:-1], np.repeat(values, 2)
    yield from _curve(across, up, axes, about._replace(look=look))


def _areas(areas: PolyCollection, axes: Axes, about: About) -> Iterator[Area]:
    if areas.get_transform().contains_branch(axes.transData):
        for path in areas.get_paths():
            corners = np.asarray(path.vertices, dtype=float)
            x, y = _thinned(corners[:, 0], corners[:, 1], axes, None)
            yield Area(*about, x=x, y=y)


def _curve(x: FloatArray, y: FloatArray, axes: Axes, about: About) -> Iterator[Curve]:
    if not len(x):
        # A key to the legend, without points.
        yield Curve(*about)
        return
    across, up = _thinned(x, y, axes, about.look)
    if across:
        yield Curve(*about, x=across, y=up, points=len(x))


def _thinned(
    x: FloatArray, y: FloatArray, axes: Axes, look: Look | None
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """The points of a curve that are worth keeping, rounded; of an area where there is no look."""
    across, up = _shares(x, axes.xaxis), _shares(y, axes.yaxis)
    joined = look is None or look.width > 0
    if look is not None:
        up = np.where(_within(across, joined), up, np.nan)
    if not joined:
        chosen = thin_points(across, up, POINTS_OF_A_CLOUD)
    elif look is not None and look.marker and np.isfinite(up).sum() <= POINTS_OF_A_CURVE:
        chosen = np.arange(len(x))
    else:
        chosen = thin_curve(across, up, POINTS_OF_A_CURVE)
    gap = ~np.isfinite(across[chosen]) | ~np.isfinite(up[chosen])
    return _rounded(np.where(gap, np.nan, x[chosen])), _rounded(np.where(gap, np.nan, y[chosen]))


def _shares(values: FloatArray, axis: Axis) -> FloatArray:
    """Values as shares of the panel, as they are seen; NaN where a logarithm has none."""
    if axis.get_scale() == "log":
        values = np.where(values > 0, values, np.nan)
    low, high = axis.get_transform().transform(np.asarray(axis.get_view_interval(), dtype=float))
    return np.asarray((axis.get_transform().transform(values) - low) / (high - low))


def _within(across: FloatArray, joined: bool) -> Bool[np.ndarray, " point"]:
    """Which points can be seen, or are the ends of a piece of line that can."""
    if not joined:
        return np.asarray((across >= -0.02) & (across <= 1.02))
    with np.errstate(invalid="ignore"):
        low, high = np.fmin(across[:-1], across[1:]), np.fmax(across[:-1], across[1:])
        seen = (low <= 1) & (high >= 0)
    inside = (across >= 0) & (across <= 1)
    return np.asarray(np.concatenate([seen, [False]]) | np.concatenate([[False], seen]) | inside)


def _cloud(artist: PathCollection, axes: Axes, about: About) -> Iterator[Curve]:
    points: FloatArray = np.ma.filled(np.ma.asarray(artist.get_offsets(), dtype=float), np.nan)
    x, y = points[:, 0], points[:, 1]
    across, up = _shares(x, axes.xaxis), _shares(y, axes.yaxis)
    chosen = thin_points(across, up, POINTS_OF_A_CLOUD)
    faces = np.asarray(artist.get_facecolor() if about.look.filled else artist.get_edgecolor())
    own = tuple(_pair(faces[index]) for index in chosen) if len(faces) == len(x) > 1 else ()
    yield Curve(*about, x=_rounded(x[chosen]), y=_rounded(y[chosen]), colours=own, points=len(x))


def _lines(artist: LineCollection | ContourSet, axes: Axes, about: About) -> Iterator[Curve]:
    """The paths of a collection as one curve with gaps."""
    pieces = [piece for path in artist.get_paths() for piece in path.to_polygons(closed_only=False)]
    gap = np.full((1, 2), np.nan)
    points = np.concatenate([part for piece in pieces for part in (piece, gap)] or [gap])
    return _curve(points[:, 0], points[:, 1], axes, about)


def _bars(group: BarContainer) -> Iterator[Boxes]:
    looks = [look for bar in group if (look := look_of(bar)) is not None]
    if looks:
        own = tuple(look.colour for look in looks)
        yield Boxes(
            looks[0],
            _label(group) or _label(group[0]),
            float(group[0].get_zorder()),
            boxes=tuple(map(_corners, group)),
            colours=own if len(set(own)) > 1 else (),
        )


def _corners(box: Rectangle) -> tuple[float | None, ...]:
    (left, bottom), width, height = box.get_xy(), box.get_width(), box.get_height()
    return _rounded(np.array([left, bottom, left + width, bottom + height]))


def _span(artist: Rectangle, axes: Axes, about: About) -> Iterator[Boxes]:
    corners = _corners(artist)
    transform = artist.get_data_transform()
    if transform == axes.get_yaxis_transform(which="grid"):
        corners = (None, corners[1], None, corners[3])
    elif transform == axes.get_xaxis_transform(which="grid"):
        corners = (corners[0], None, corners[2], None)
    elif transform != axes.transData:
        return
    yield Boxes(*about, boxes=(corners,), bars=False)


# The first kind that an artist is of.
_READERS: tuple[tuple[type | tuple[type, ...], Callable[..., Iterable[AbstractLayer]]], ...] = (
    (Line2D, _line),
    (PathCollection, _cloud),
    ((LineCollection, ContourSet), _lines),
    (StepPatch, _stairs),
    (Rectangle, _span),
    (PolyCollection, _areas),
)


def _heat_map(artist: AxesImage | QuadMesh, axes: Axes) -> AbstractLayer:
    values: FloatArray = np.ma.filled(np.ma.asarray(artist.get_array(), dtype=float), np.nan)
    if isinstance(artist, QuadMesh):
        corners = np.asarray(artist.get_coordinates())
        x_edges, y_edges = corners[0, :, 0], corners[:, 0, 1]
        values = values.reshape(len(y_edges) - 1, len(x_edges) - 1)
    else:
        left, right, bottom, top = artist.get_extent()
        x_edges = np.linspace(left, right, values.shape[1] + 1)
        y_edges = np.linspace(bottom, top, values.shape[0] + 1)
        values = values[::-1] if artist.origin == "upper" else values
    low, high = artist.get_clim()
    palette = artist.get_cmap()(np.linspace(0, 1, _STOPS))
    return HeatMap(
        Look(("", "")),
        order=float(artist.get_zorder()),
        x_edges=_rounded(x_edges),
        y_edges=_rounded(y_edges),
        values=tuple(_rounded(row) for row in values),
        stops=tuple(to_hex(colour) for colour in palette),
        low=number(low) or 0.0,
        high=number(high) or 0.0,
        logarithmic=isinstance(artist.norm, LogNorm),
        name=_scale_name(artist, axes),
    )


def _scale_name(artist: AxesImage | QuadMesh, axes: Axes) -> str:
    """What the colours mean: the label of its own colour bar, or of one with the same limits."""
    bars = [artist.colorbar]
    for other in axes.figure.axes:
        bars += [image.colorbar for image in (*other.images, *other.collections)]
    for bar in bars:
        if bar is not None and bar.mappable.get_clim() == artist.get_clim():
            upright, flat = bar.ax.get_ylabel(), bar.ax.get_xlabel()
            return plain_text(upright or flat or bar.ax.get_title())
    return ""


def _note(artist: Text, axes: Axes) -> Iterator[Note]:
    text = plain_text(artist.get_text())
    if not text or artist.get_transform() != axes.transData or isinstance(artist, Annotation):
        return
    x, y = artist.get_position()
    yield Note(
        Look(_pair(artist.get_color()), size=_pixels(float(artist.get_fontsize()))),
        order=float(artist.get_zorder()),
        x=float(x),
        y=float(y),
        text=text,
        align=str(artist.get_horizontalalignment()),
        baseline={"center": "middle", "center_baseline": "middle", "baseline": "alphabetic"}.get(
            str(artist.get_verticalalignment()), str(artist.get_verticalalignment())
        ),
    )


def _label(artist: Artist | BarContainer) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else plain_text(label)


def _pair(colour: ColorType | FloatArray) -> Colours:
    light = page_colour(colour)
    return light, on_dark(light)


def _pixels(points: float) -> float:
    return round(float(points) * _PIXELS_A_POINT, 1)


def _rounded(values: ArrayLike) -> tuple[float | None, ...]:
    return tuple(number(value) for value in np.asarray(values, dtype=float).ravel())
