"""A sheet with a layer of every kind."""

import numpy as np
import pytest

from saddlescope.charts import LAYERS, Sheet, SheetBuilder


@pytest.fixture(scope="session")
def sheet() -> Sheet:
    drawing = SheetBuilder(1, 2, 6, 3)
    left, right = drawing.grid[0]
    time = np.linspace(1, 9, 40)
    left.plot(time, np.sin(time), label="training", color="#0072B2")
    left.plot(time, np.cos(time), "o", markerfacecolor="none", markeredgecolor="black")
    left.plot(time[:3], 0.04, "^", y_in="panel", clip_on=False)
    left.axhline(0.5, linestyle="--", zorder=0, label="level")
    left.axvspan(2, 3, color="0.9")
    left.fill_between(time, np.sin(time) - 0.1, np.sin(time) + 0.1, alpha=0.2, color="black")
    left.bar(["one", "two"], [0.5, 0.25], color="#009E73")
    left.text(1, 0.5, r"$\lambda$", x_in="panel", shift=(3, 0), va="center")
    left.set(xlabel=r"time $t/\tau$", ylabel="loss")
    left.legend(2)
    right.imshow([[1, np.nan], [3, 4]], cmap="RdBu_r", vmin=-4, vmax=4)
    right.set_title("map")
    drawing.colorbar([right], "weight")
    drawing.legend(left.entries, 2)
    made = drawing.build()
    kinds = {type(layer) for panel in made.panels for layer in panel.layers}
    assert kinds == set(LAYERS)
    return made
