"""A sweep as a picture: heat maps over two axes, lines over one with the spread of the seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.drawing.style import COLOURS, STYLE, Drawing
from saddlescope.errors import InvalidInput
from saddlescope.sweep._labelled import shown_in_pictures
from saddlescope.sweep.plan import POINT, SEED

_MOST_PANELS = 24
_SPREAD = (0.1, 0.9)
_MOST_TICKS = 12
# Values whose largest is more than this many times their smallest are shown by their logarithm.
_LOGARITHMIC = 50.0


def draw(
    array: xr.Dataset,
    *,
    x: str,
    y: str,
    color: str | None = None,
    at: Mapping[str, object] | None = None,
) -> Drawing:
    """Draw something that a sweep kept.

    With an axis as `y`, a heat map of `color`, averaged over seeds; with something kept as `y`,
    lines over `x`: the median over seeds and a band from the 10th to the 90th percentile, one
    colour for each value of the axis `color`. Axes that are not named become small multiples; `at`
    fixes some. A zipped or random field with distinct values can stand for the axis `point`. Points
    that diverged or failed are left out.

    >>> values = xr.DataArray(np.ones((2, 3)), {"heads": [1, 2], "init_scale": [.1, .2, .3]})
    >>> len(draw(values.to_dataset(name="drops"), x="init_scale", y="heads", color="drops").axes)
    2
    """
    array = _along_point(shown_in_pictures(array), x, y, color)
    is_map = y in array.dims
    shown = color if is_map else y
    if shown is None or shown not in array.data_vars:
        known = ", ".join(map(str, array.data_vars))
        if is_map:
            raise InvalidInput("color", shown, f"must be something kept: {known}")
        known += f"; or an axis: {', '.join(map(str, array.dims))}"
        raise InvalidInput("y", shown, f"must be something kept: {known}")
    values = fix(array[shown], at or {})
    named = [x, y] if is_map else [x, *([] if color is None else [color])]
    for field, name in zip(("x", "y" if is_map else "color"), named, strict=False):
        if name not in values.dims:
            axes = [str(name) for name in values.dims]
            raise InvalidInput(field, name, f"must be an axis of {shown}: {', '.join(axes)}")
    if len(set(named)) < len(named):
        raise InvalidInput("y" if is_map else "color", named[-1], "is along the bottom already")
    multiples = [str(name) for name in values.dims if name not in (*named, SEED)]
    panels = _panels(values, multiples)
    with matplotlib.rc_context(STYLE):
        if is_map:
            return _heat_maps(panels, x, y, shown)
        return _lines(panels, x, shown, color)


def _along_point(array: xr.Dataset, *names: str | None) -> xr.Dataset:
    """The array with the first of these that tells its points apart in place of `point`."""
    zipped = (name for name in names if name in array.coords and array[name].dims == (POINT,))
    for name in zipped:
        if len(np.unique(array[name])) == array.sizes[POINT]:
            return array.swap_dims({POINT: name}).sortby(name)
    return array


def fix(values: xr.DataArray, at: Mapping[str, object]) -> xr.DataArray:
    """The values at one label of some axes; labels may be given as text."""
    for name, wanted in at.items():
        if name not in values.dims:
            axes = ", ".join(str(axis) for axis in values.dims)
            raise InvalidInput(f"at.{name}", wanted, f"must fix an axis: {axes}")
        labels = values[name].to_numpy()
        values = values.isel({name: _nearest(name, labels, wanted)})
    return values


def _nearest(name: str, labels: AnyArray, wanted: object) -> int:
    if labels.dtype.kind in "OUT":
        matches = np.flatnonzero(labels.astype(str) == str(wanted))
    else:
        try:
            number = float(str(wanted))
        except ValueError:
            number = math.nan
        matches = np.flatnonzero(np.isclose(labels.astype(float), number, rtol=1e-3))
    if not matches.size:
        listed = ", ".join(_label(one) for one in labels[:12].tolist())
        raise InvalidInput(f"at.{name}", wanted, f"must be one of {listed}")
    return int(matches[0])


def _panels(values: xr.DataArray, multiples: Sequence[str]) -> list[tuple[str, xr.DataArray]]:
    sizes = [values.sizes[name] for name in multiples]
    if math.prod(sizes) > _MOST_PANELS:
        wide = ", ".join(f"{name} ({size})" for name, size in zip(multiples, sizes, strict=True))
        raise InvalidInput(
            "at", wide, f"leaves {math.prod(sizes)} panels: fix an axis, at most {_MOST_PANELS}"
        )
    panels = []
    for indices in np.ndindex(*sizes):
        where = dict(zip(multiples, indices, strict=True))
        title = ", ".join(
            f"{name} = {_label(values[name].to_numpy()[index])}" for name, index in where.items()
        )
        panels.append((title, values.isel(where)))
    return panels


def _heat_maps(panels: list[tuple[str, xr.DataArray]], x: str, y: str, shown: str) -> Drawing:
    means = [(title, part.mean(set(part.dims) - {x, y}).transpose(y, x)) for title, part in panels]
    every = np.concatenate([part.to_numpy().ravel() for _, part in means])
    scale = _scale(every)
    drawing, grid = _grid(len(panels))
    for axes, (title, part) in zip(grid, means, strict=False):
        edges = [_edges(_positions(axes, *one)) for one in _sides(part, x, y)]
        mesh = axes.pcolormesh(*edges, part.to_numpy(), norm=scale, cmap="viridis")
        axes.set_title(title, fontsize=9)
        axes.set(xlabel=x, ylabel=y)
        axes.set_facecolor("0.9")
    drawing.colorbar(mesh, ax=grid[: len(panels)], label=_words(shown))
    return drawing


def _lines(
    panels: list[tuple[str, xr.DataArray]], x: str, shown: str, color: str | None
) -> Drawing:
    drawing, grid = _grid(len(panels))
    every = np.concatenate([part.to_numpy().ravel() for _, part in panels])
    for axes, (title, part) in zip(grid, panels, strict=False):
        labels = [None] if color is None else part[color].to_numpy().tolist()
        positions = _positions(axes, "x", part[x].to_numpy())
        for index, (label, colour) in enumerate(zip(labels, _colours(len(labels)), strict=True)):
            line = part if color is None else part.isel({color: index})
            _line(axes, line, positions, colour, label)
        # All of the axis, also where the last points have not finished.
        axes.dataLim.update_from_data_x(positions, ignore=False)
        if isinstance(_scale(every), LogNorm):
            axes.set_yscale("log")
        axes.set_title(title, fontsize=9)
        axes.set(xlabel=x, ylabel=_words(shown))
    if color is not None:
        drawing.legend(*grid[0].get_legend_handles_labels(), loc="outside right upper", title=color)
    return drawing


def _colours(count: int) -> list[object]:
    """Distinct colours; of more than there are, colours along a scale."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.95, count)))


def _line(
    axes: Axes, values: xr.DataArray, positions: FloatArray, colour: object, label: object
) -> None:
    name = None if label is None else _label(label)
    if values.ndim == 1:
        axes.plot(positions, values.to_numpy(), "o-", color=colour, label=name, markersize=3)
        return
    middle = values.median(SEED)
    axes.plot(positions, middle.to_numpy(), "o-", color=colour, label=name, markersize=3)
    if values.sizes[SEED] > 1:
        # A column without any value would make numpy warn: its band is left out.
        full = values.where(values.notnull().any(SEED), 0)
        low, high = (full.quantile(share, SEED).where(middle.notnull()) for share in _SPREAD)
        axes.fill_between(
            positions, low.to_numpy(), high.to_numpy(), color=colour, alpha=0.2, linewidth=0
        )


def _grid(count: int) -> tuple[Drawing, list[Axes]]:
    columns = min(count, 4 if count > 3 else 3)
    rows = -(-count // columns)
    drawing = Drawing(figsize=(1.2 + 3.0 * columns, 0.4 + 2.7 * rows))
    first = drawing.add_subplot(rows, columns, 1)
    # On one scale, so that panels can be compared.
    others = (drawing.add_subplot(rows, columns, n, sharey=first) for n in range(2, count + 1))
    return drawing, [first, *others]


def _positions(axes: Axes, side: str, labels: AnyArray) -> FloatArray:
    """Positions of labels: numbers on a linear or a logarithmic axis, texts in order."""
    if labels.dtype.kind in "OUT":
        ticks = np.arange(len(labels), dtype=float)
        names = [str(one) for one in labels.tolist()]
        turned = {"rotation": 30, "ha": "right"} if side == "x" else {}
        getattr(axes, f"set_{side}ticks")(ticks, names, **turned)
        return ticks
    values = labels.astype(float)
    is_logarithmic = len(values) > 2 and _is_geometric(values)
    if is_logarithmic:
        getattr(axes, f"set_{side}scale")("log")
        if values[-1] < 10 * values[0]:
            # Within a decade matplotlib labels all of its parts, one over another.
            axis = axes.xaxis if side == "x" else axes.yaxis
            axis.set_major_locator(MaxNLocator(4))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
    if (values == values.round()).all() and _have_room(
        np.log(values) if is_logarithmic else values
    ):
        getattr(axes, f"set_{side}ticks")(values, [f"{value:g}" for value in values], minor=False)
        getattr(axes, f"set_{side}ticks")([], minor=True)
    return values


def _have_room(values: FloatArray) -> bool:
    """Whether ticks at rising values are so far apart that their labels do not touch."""
    return len(values) < 2 or float(np.diff(values).min()) * _MOST_TICKS > float(np.ptp(values))


def _sides(part: xr.DataArray, x: str, y: str) -> list[tuple[str, AnyArray]]:
    return [("x", part[x].to_numpy()), ("y", part[y].to_numpy())]


def _edges(values: FloatArray) -> FloatArray:
    """The edges of cells around values, midway between neighbours."""
    if len(values) == 1:
        return values[0] + np.array([-0.5, 0.5])
    logarithmic = len(values) > 2 and _is_geometric(values)
    positions = np.log(values) if logarithmic else values
    middles = (positions[1:] + positions[:-1]) / 2
    first, last = 2 * positions[0] - middles[0], 2 * positions[-1] - middles[-1]
    edges = np.concatenate([[first], middles, [last]])
    return np.exp(edges) if logarithmic else edges


def _is_geometric(values: FloatArray) -> bool:
    """Whether values are more evenly spaced in the logarithm."""
    if (values <= 0).any():
        return False
    steps, ratios = np.diff(values), np.diff(np.log(values))
    return float(np.ptp(ratios)) / abs(ratios.mean()) < float(np.ptp(steps)) / abs(steps.mean())


def _scale(values: FloatArray) -> Normalize:
    sound = values[np.isfinite(values)]
    if not sound.size:
        return Normalize(0.0, 1.0)
    low, high = float(sound.min()), float(sound.max())
    return LogNorm(low, high) if low > 0 and high > _LOGARITHMIC * low else Normalize(low, high)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _label(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
