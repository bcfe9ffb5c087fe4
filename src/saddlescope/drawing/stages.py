"""The picture of a curve's stages."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes

from saddlescope.drawing.style import COLOURS, STYLE, Drawing, legend
from saddlescope.errors import InvalidInput
from saddlescope.measure import Stages


def draw_stages(stages: Stages, label: str, unit: str) -> Drawing:
    """The curve, with plateaus as lines at their levels and drops as bands."""
    if stages.curve is None or stages.time is None:
        raise InvalidInput("stages.curve", None, "must be known: these stages are of no curve")
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(6.4, 3.2))
        axes = figure.subplots()
        axes.plot(stages.time, stages.curve, color=COLOURS[4], linewidth=0.9, label=label)
        _draw_plateaus(axes, stages)
        for place, drop in enumerate(stages.drops):
            axes.axvspan(
                drop.start,
                drop.end,
                color=COLOURS[1],
                alpha=0.25,
                linewidth=0,
                label=None if place else "drop",
            )
            axes.axvline(drop.time, color=COLOURS[5], linewidth=1, linestyle=":")
        axes.set(xlabel=unit, ylabel=label, xlim=(stages.time[0], stages.time[-1]))
        legend(axes)
    return figure


def _draw_plateaus(axes: Axes, stages: Stages) -> None:
    for place, plateau in enumerate(stages.plateaus):
        axes.plot(
            [plateau.start, plateau.end],
            [plateau.level] * 2,
            color=COLOURS[0],
            linewidth=2,
            label=None if place else "plateau",
        )
