"""`SheetBuilder`: panels on a grid, which may share axes; it builds the `Sheet`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from saddlescope.charts.builder import AxisBuilder, PanelBuilder
from saddlescope.charts.layers import AbstractLayer, AxisName, HeatMap
from saddlescope.charts.limits import limits
from saddlescope.charts.sheet import Axis, ColourBar, Entry, Legend, Panel, Place, Sheet
from saddlescope.checks import AnyArray

Shared = bool | Literal["row", "col"]
_SIDES: tuple[AxisName, AxisName] = ("x", "y")


class SheetBuilder:
    """A sheet under construction: `grid[row, column]` are its panels.

    >>> drawing = SheetBuilder(1, 2, 6.0, 3.0, sharey=True)
    >>> left, right = drawing.grid[0]
    >>> left.plot([0, 1], [0, 10], label="measured")
    >>> right.plot([0, 1], [0, 20])
    >>> [panel.y.high for panel in drawing.build().panels]
    [21.0, 21.0]
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        width: float,
        height: float,
        *,
        sharex: Shared = False,
        sharey: Shared = False,
        width_ratios: Sequence[float] | None = None,
        height_ratios: Sequence[float] | None = None,
    ) -> None:
        self.size = float(width), float(height)
        self.width_ratios = tuple(map(float, width_ratios or (1.0,) * columns))
        self.height_ratios = tuple(map(float, height_ratios or (1.0,) * rows))
        self._shared = {"x": sharex, "y": sharey}
        axes: dict[tuple[AxisName, object], AxisBuilder] = {}
        self.grid: AnyArray = np.empty((rows, columns), dtype=object)
        self._joined: list[PanelBuilder] = []
        self._legend: Legend | None = None
        self._bars: list[tuple[list[PanelBuilder], PanelBuilder, str, float]] = []
        for row, column in np.ndindex(rows, columns):
            place = Place(row, column)
            across, up = (
                axes.setdefault(self._group(name, place), AxisBuilder()) for name in _SIDES
            )
            self.grid[row, column] = PanelBuilder(place, across, up)

    @property
    def panels(self) -> list[PanelBuilder]:
        """The panels that are shown, by rows."""
        shown = [panel for panel in (*self.grid.flat, *self._joined) if not panel.removed]
        return sorted(shown, key=lambda panel: (panel.place.row, panel.place.column))

    def join(self, panels: AnyArray) -> PanelBuilder:
        """Replace several adjacent panels of a row by one."""
        for panel in panels:
            panel.remove()
        first = panels[0].place
        joined = PanelBuilder(Place(first.row, first.column, len(panels)))
        self._joined.append(joined)
        return joined

    def legend(
        self,
        entries: Iterable[Entry],
        columns: int,
        place: Literal["above", "center above"] = "center above",
    ) -> None:
        """One legend for the whole sheet."""
        self._legend = Legend(tuple(entries), columns, place)

    def colorbar(
        self,
        maps: Iterable[PanelBuilder],
        label: str,
        *,
        beside: Iterable[PanelBuilder] | None = None,
        shrink: float = 1.0,
    ) -> None:
        """Add the colour scale that the heat maps in some panels share."""
        held = list(maps)
        for panel in held:
            panel.layers = [
                replace(layer, name=label) if isinstance(layer, HeatMap) else layer
                for layer in panel.layers
            ]
        self._bars.append((held if beside is None else list(beside), held[0], label, shrink))

    def build(self) -> Sheet:
        """The sheet as described so far."""
        shown = self.panels
        bars = [
            ColourBar(tuple(map(shown.index, beside)), shown.index(panel), label, shrink)
            for beside, panel, label, shrink in self._bars
        ]
        return Sheet(
            *self.size,
            self.width_ratios,
            self.height_ratios,
            tuple(self._panel(panel) for panel in shown),
            self._legend,
            tuple(bars),
        )

    def _panel(self, panel: PanelBuilder) -> Panel:
        order, titles = sorted(panel.layers, key=lambda layer: layer.order), panel.titles
        return Panel(
            self._name(panel),
            (titles.get("left", ""), titles.get("center", ""), titles.get("right", "")),
            self._axis(panel, "x"),
            self._axis(panel, "y"),
            tuple(order),
            panel.place,
            panel.legend_shown,
            tuple(panel.keys),
            panel.box,
            panel.square,
            panel.title_size,
        )

    def _axis(self, panel: PanelBuilder, name: AxisName) -> Axis:
        own = panel.xaxis if name == "x" else panel.yaxis
        kin = self._kin(panel, name)
        layers: list[AbstractLayer] = [layer for one in kin for layer in one.layers]
        # What a panel does not set on a shared axis, another panel sets.
        label = panel.labels.get(name) or next(filter(None, (k.labels.get(name) for k in kin)), "")
        return Axis(
            label,
            *_ends(own, limits(layers, name, own.scale)),
            own.scale,
            own.base,
            own.inverted,
            own.ticks,
            own.names,
            own.most_ticks,
            bool(panel.labels.get(name)),
            self._is_outer(panel, name, kin),
            panel.label_sizes.get(name),
        )

    def _kin(self, panel: PanelBuilder, name: AxisName) -> list[PanelBuilder]:
        """The panels that share an axis with this one, itself included."""
        if name == "x":
            return [one for one in self.panels if one.xaxis is panel.xaxis]
        return [one for one in self.panels if one.yaxis is panel.yaxis]

    def _is_outer(self, panel: PanelBuilder, name: AxisName, kin: list[PanelBuilder]) -> bool:
        """Whether no panel that shares the axis is below it, or on its left."""
        if name == "x":
            column = [one.place.row for one in kin if one.place.column == panel.place.column]
            return panel.place.row == max(column)
        row = [one.place.column for one in kin if one.place.row == panel.place.row]
        return panel.place.column == min(row)

    def _name(self, panel: PanelBuilder) -> str:
        """Its titles, or those of the topmost panel above it with the same axis."""
        above = [one for one in self._kin(panel, "x") if one.place.column == panel.place.column]
        for one in (panel, *above):
            titles = [one.titles.get(side, "") for side in ("right", "left", "center")]
            if any(titles):
                return "  ".join(filter(None, titles))
        return ""

    def _group(self, name: AxisName, place: Place) -> tuple[AxisName, object]:
        """Panels with the same of these share the axis."""
        shared = self._shared[name]
        if shared == "row":
            return name, ("row", place.row)
        if shared == "col":
            return name, ("column", place.column)
        return name, "all" if shared else (place.row, place.column)


def _ends(axis: AxisBuilder, whole: tuple[float, float]) -> tuple[float, float]:
    """The limits asked for, if the scale can show them, else the whole range."""
    low, high = (
        end if asked is None or (axis.scale == "log" and asked <= 0) else asked
        for asked, end in zip((axis.low, axis.high), whole, strict=True)
    )
    return (low, high) if low < high else whole
