"""A plot of the scalings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.table import Scaling

_NAMES = {
    "D": "input dimension D",
    "H": "heads H, rank R",
    "R": "heads H, rank R",
    "seeds": "seeds",
    "P": "prompts P",
    "points": "points of a curve",
}


def draw(scalings: Sequence[Scaling], path: Path) -> None:
    """Log–log plots, a panel for each axis, with a fitted line through the points of each sweep."""
    names = list(dict.fromkeys(_NAMES[scaling.axis] for scaling in scalings))
    figure = Figure(figsize=(4.4 * len(names), 5), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for scaling in scalings:
            if _NAMES[scaling.axis] == name:
                _draw_one(panel, scaling)
        panel.set(xscale="log", yscale="log", xlabel=name)
        panel.margins(y=0.15)
        panel.grid(which="major", alpha=0.3)
        # Below the panel, clear of the curves.
        panel.legend(
            frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(-0.02, -0.16)
        )
    panels[0, 0].set_ylabel("seconds")
    figure.suptitle("Cost with fitted exponents (expected ones in brackets)")
    figure.savefig(path, dpi=150)


def _draw_one(panel: Axes, scaling: Scaling) -> None:
    label = f"{scaling.what}, {scaling.axis}: {scaling.exponent:.2f} ({scaling.expected:g})"
    (points,) = panel.plot(scaling.sizes, scaling.seconds, "o", markersize=5, label=label)
    ends = np.array([scaling.fitted_from, scaling.sizes[-1]], dtype=float)
    panel.plot(ends, scaling.prefactor * ends**scaling.exponent, color=points.get_color())
