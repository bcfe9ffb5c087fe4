"""Matplotlib draws what a sheet describes."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from saddlescope.charts import LAYERS, SheetBuilder
from saddlescope.drawing import draw_sheet
from saddlescope.drawing.sheet import draw_layer


def test_every_kind_of_layer_can_be_drawn() -> None:
    assert set(draw_layer.registry) - {object} == set(LAYERS)


def test_curves_axes_titles_and_legend_are_as_described() -> None:
    drawing = SheetBuilder(1, 1, 4, 3)
    axes = drawing.grid[0, 0]
    axes.plot([1, 10, 100], [1, 2, 3], "s--", color="#D55E00", label="training", markersize=4)
    axes.set(xscale="log", xlabel="time", ylim=(0, None))
    axes.set_title("(a)", loc="right")
    axes.legend(1)
    (drawn,) = draw_sheet(drawing.build()).axes
    (line,) = [one for one in drawn.get_lines() if isinstance(one, Line2D)]
    np.testing.assert_array_equal(line.get_xdata(), [1, 10, 100])
    assert (line.get_marker(), line.get_markersize()) == ("s", 4)
    assert to_hex(line.get_color()) == "#d55e00"
    assert drawn.get_xscale() == "log"
    assert drawn.get_ylim() == pytest.approx((0, 3.1))
    assert (drawn.get_xlabel(), drawn.get_title("right")) == ("time", "(a)")
    legend = drawn.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["training"]


def test_a_row_of_maps_under_joined_panels_is_even() -> None:
    drawing = SheetBuilder(2, 6, 9, 5)
    above = drawing.join(drawing.grid[0, :3]), drawing.join(drawing.grid[0, 3:])
    below = [drawing.join(drawing.grid[1, 2 * n : 2 * n + 2]) for n in range(3)]
    for axes in above:
        axes.plot([0, 1], [0, 1])
    for axes in below:
        axes.imshow(np.eye(3), cmap="viridis")
    drawing.colorbar(below, "weight")
    boxes = [axes.get_position() for axes in draw_sheet(drawing.build()).axes]
    assert boxes[0].width == pytest.approx(boxes[1].width, rel=0.01)
    assert boxes[2].width == pytest.approx(boxes[3].width, rel=0.01)
    assert boxes[3].width == pytest.approx(boxes[4].width, rel=0.01)
    gaps = boxes[3].x0 - boxes[2].x1, boxes[4].x0 - boxes[3].x1
    assert gaps[0] == pytest.approx(gaps[1], abs=0.01)
    # The colour bar stands beside the last of them, not somewhere else.
    assert boxes[5].x0 - boxes[4].x1 < 0.1


def test_a_short_logarithmic_axis_has_labels_between_its_powers() -> None:
    drawing = SheetBuilder(1, 1, 4, 3)
    drawing.grid[0, 0].plot([1500, 35_000], [0, 1])
    drawing.grid[0, 0].set(xscale="log", xlim=(1500, 35_000))
    (drawn,) = draw_sheet(drawing.build()).axes
    shown = [text.get_text() for text in drawn.get_xticklabels()]
    inside = [text for text in shown if text]
    assert len(inside) >= 4
