"""What a figure draws is recorded: nothing is lost, and what cannot be recorded is refused."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from saddlescope.charts import PanelBuilder, Place, SheetBuilder
from saddlescope.charts.limits import limits


def panel() -> PanelBuilder:
    return PanelBuilder(Place(0, 0))


def test_a_curve_keeps_its_points_label_and_look() -> None:
    axes = panel()
    axes.plot([0, 1, 2], [3, np.nan, 1], "s--", color="#E69F00", label="$e_1$", linewidth=2)
    (curve,) = axes.layers
    np.testing.assert_array_equal(curve.y, [3, np.nan, 1])
    assert (curve.label, curve.look.colour, curve.look.width) == ("$e_1$", "#e69f00", 2.0)
    assert (curve.look.marker, curve.look.filled, bool(curve.look.dash)) == ("square", True, True)


def test_a_plot_without_points_explains_a_look() -> None:
    axes = panel()
    axes.plot([], [], color="black", label="theory")
    axes.fill_between([], [], [], color="black", label="spread")
    assert axes.layers == []
    assert [(key.label, key.is_area) for key in axes.keys] == [("theory", False), ("spread", True)]


def test_steps_and_stairs_turn_at_the_right_corners() -> None:
    axes = panel()
    axes.step([0, 1, 2], [5, 6, 7], where="post")
    axes.step([0, 1, 2], [5, 6, 7], where="pre")
    axes.stairs([3, 4], [0, 1, 2])
    corners = [(curve.x.tolist(), curve.y.tolist()) for curve in axes.layers]
    assert corners[0] == ([0, 1, 1, 2, 2], [5, 5, 6, 6, 7])
    assert corners[1] == ([0, 0, 1, 1, 2], [5, 6, 6, 7, 7])
    assert corners[2] == ([0, 0, 1, 1, 2, 2], [0, 3, 3, 4, 4, 0])


def test_a_matrix_stands_with_its_first_row_on_top() -> None:
    drawing = SheetBuilder(1, 1, 3, 3)
    axes = drawing.grid[0, 0]
    axes.imshow([[1, 2, 3], [4, np.nan, 6]], cmap="RdBu_r")
    drawing.colorbar([axes], "weight")
    (shown,) = drawing.build().panels
    (heat,) = shown.layers
    assert (heat.low, heat.high, heat.name) == (1.0, 6.0, "weight")
    assert (shown.x.low, shown.x.high, shown.y.low, shown.y.high) == (-0.5, 2.5, -0.5, 1.5)
    assert shown.y.inverted


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda axes: axes.plot([1], [1], transform=1), "no option transform"),
        (lambda axes: axes.axhline(1, ls="--"), "no option ls"),
        (lambda axes: axes.fill_between([1], [1], [2], hatch="x"), "no option hatch"),
        (lambda axes: axes.plot([1], [1], "q"), "must be a mark, a line, or both"),
        (lambda axes: axes.plot([1], [1], marker="8"), "marker = '8'"),
        (lambda axes: axes.plot([1], [1], linestyle="wavy"), "linestyle = 'wavy'"),
        (lambda axes: axes.plot([1], [1], color="no colour"), "is no colour"),
        (lambda axes: axes.plot([1, 2], np.ones((2, 2))), "one dimension"),
    ],
)
def test_what_cannot_be_recorded_is_refused(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(panel())


def test_what_matplotlib_has_and_a_panel_has_not_is_an_error() -> None:
    with pytest.raises(AttributeError):
        panel().quiver([0], [0], [1], [1])  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_axes_end_where_matplotlib_s_do(scale: Any) -> None:
    x, y = np.array([1.0, 30.0, 200.0]), np.array([0.5, np.nan, 20.0])
    drawn, axes = Figure().add_subplot(), panel()
    for one in (drawn, axes):
        one.plot(x, y)
        one.axhline(40.0)
        one.fill_between(x, y / 3, y)
        one.set(xscale=scale, yscale=scale)
    for name, wanted in (("x", drawn.get_xlim()), ("y", drawn.get_ylim())):
        assert limits(axes.layers, name, scale) == pytest.approx(wanted)  # type: ignore[arg-type]


def test_an_axis_asked_to_end_where_its_scale_cannot_ends_at_what_is_drawn() -> None:
    drawing = SheetBuilder(1, 1, 3, 3)
    drawing.grid[0, 0].plot([1, 100], [1, 10])
    drawing.grid[0, 0].set(xscale="log", xlim=(0, 50), ylim=(np.nan, 20))
    (shown,) = drawing.build().panels
    assert 0 < shown.x.low < 1
    assert shown.x.high == 50
    assert (shown.y.low, shown.y.high) == pytest.approx((0.55, 20))


def test_panels_that_share_an_axis_share_ends_scale_and_label() -> None:
    drawing = SheetBuilder(2, 2, 6, 6, sharex=True, sharey="row")
    for index, axes in enumerate(drawing.grid.flat):
        axes.plot([0, index + 1], [0, 10 * index])
    drawing.grid[1, 0].set(xlabel="time", xscale="linear")
    drawing.grid[0, 0].set_title("one layer", loc="left")
    first, second, third, fourth = drawing.build().panels
    assert len({(one.x.low, one.x.high) for one in (first, second, third, fourth)}) == 1
    assert first.y.high == second.y.high < third.y.high == fourth.y.high
    assert {one.x.label for one in (first, second, third, fourth)} == {"time"}
    assert [one.x.shows_label for one in (first, third)] == [False, True]
    assert [one.x.shows_numbers for one in (first, second, third, fourth)] == [False] * 2 + [
        True
    ] * 2
    assert [one.y.shows_numbers for one in (first, second)] == [True, False]
    # Away from its sheet a panel is called as its column is.
    assert (first.name, third.name, fourth.name) == ("one layer", "one layer", "")


def test_joined_and_removed_panels() -> None:
    drawing = SheetBuilder(2, 3, 6, 4, width_ratios=(2, 1, 1))
    joined = drawing.join(drawing.grid[0, :2])
    drawing.grid[1, 2].remove()
    for axes in (joined, *drawing.panels):
        axes.plot([0, 1], [0, 1])
    sheet = drawing.build()
    assert [(one.place.row, one.place.column, one.place.columns) for one in sheet.panels] == [
        (0, 0, 2), (0, 2, 1), (1, 0, 1), (1, 1, 1),
    ]  # fmt: skip
    assert [sheet.share(one) for one in sheet.panels] == [0.75, 0.25, 0.5, 0.25]
    assert sheet.ratio(sheet.panels[0]) == pytest.approx(2 / 4.5)
