"""Pictures and pages of sweeps."""

import json
import re
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh

import saddlescope as ss
from saddlescope.sweep.page import write_sweep_page
from saddlescope.sweep.picture import draw
from saddlescope.sweep.subjects import Status


@pytest.fixture(scope="module")
def array() -> xr.Dataset:
    scales, heads, seeds = [0.01, 0.1, 1.0], [2, 4], [0, 1, 2]
    shape = (3, 2, 3, 2)
    times = np.arange(36.0).reshape(shape) + 1
    times[0, 0, 0, 1] = np.nan
    coordinates = {"init_scale": scales, "heads": heads, "seed": seeds, "drop": [1, 2]}
    return xr.Dataset(
        {
            "drop_time": (tuple(coordinates), times),
            "drops": (("init_scale", "heads", "seed"), np.isfinite(times).sum(-1).astype(float)),
            "status": (("init_scale", "heads", "seed"), np.ones(shape[:3], dtype=np.int8)),
        },
        coordinates,
    )


def test_a_heat_map_shows_means_over_seeds(array: xr.Dataset) -> None:
    drawing = draw(array, x="init_scale", y="heads", color="drops")
    axes, bar = drawing.axes
    (mesh,) = [one for one in axes.collections if isinstance(one, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), array["drops"].mean("seed").T)
    assert axes.get_xscale() == "log"
    assert bar.get_ylabel() == "drops"
    # Cells lie about their values.
    edges = mesh.get_coordinates()[0, :, 0]
    np.testing.assert_allclose(edges, 10 ** np.array([-2.5, -1.5, -0.5, 0.5]))


def test_lines_show_the_median_and_the_spread_in_small_multiples(array: xr.Dataset) -> None:
    drawing = draw(array, x="init_scale", y="drop_time", color="heads")
    assert [axes.get_title() for axes in drawing.axes] == ["drop = 1", "drop = 2"]
    first = drawing.axes[0]
    middle = array["drop_time"].sel({"drop": 1, "heads": 4}).median("seed")
    np.testing.assert_allclose(first.lines[1].get_ydata(), middle)
    assert len(first.collections) == 2, "a band for each number of heads"
    assert first.get_ylim() == drawing.axes[1].get_ylim()
    (fixed,) = draw(array, x="init_scale", y="drop_time", at={"drop": "2", "heads": 2}).axes
    assert len(fixed.lines) == 1


def test_what_cannot_be_drawn_is_said(array: xr.Dataset) -> None:
    for words, said in (
        ({"x": "heads", "y": "init_scale"}, "color = None: must be something kept: drop_time"),
        ({"x": "heads", "y": "losses"}, "y = 'losses': must be something kept"),
        ({"x": "head", "y": "drops"}, "x = 'head': must be an axis of drops: init_scale, heads"),
        ({"x": "heads", "y": "drops", "color": "heads"}, "is along the bottom already"),
        ({"x": "heads", "y": "drops", "color": "rank"}, "color = 'rank': must be an axis"),
        ({"x": "heads", "y": "drop_time", "at": {"drop": 3}}, r"at\.drop = 3: must be one of 1, 2"),
        ({"x": "heads", "y": "drops", "at": {"drop": 1}}, r"at\.drop = 1: must fix an axis"),
    ):
        with pytest.raises(ss.InvalidInput, match=said):
            draw(array, **words)  # type: ignore[arg-type]
    wide = array.isel(init_scale=[0] * 30)
    with pytest.raises(ss.InvalidInput, match="leaves 60 panels: fix an axis, at most 24"):
        draw(wide, x="heads", y="drop_time")


def test_a_page_of_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, array: xr.Dataset) -> None:
    monkeypatch.setattr("saddlescope.sweep.page._MOST_NUMBERS", 10)
    with pytest.raises(ss.InvalidInput, match="a page holds 10: keep less"):
        write_sweep_page(array, "page.html")


def test_seeds_can_be_an_axis(array: xr.Dataset) -> None:
    first = array.sel({"drop": 1})
    drawing = draw(first, x="init_scale", y="seed", color="drop_time", at={"heads": 2})
    (mesh,) = [one for one in drawing.axes[0].collections if isinstance(one, QuadMesh)]
    np.testing.assert_allclose(mesh.get_array(), first["drop_time"].sel(heads=2).T)
    (axes,) = draw(first, x="seed", y="drop_time", at={"heads": 2, "init_scale": 1.0}).axes
    expected = first["drop_time"].sel(heads=2, init_scale=1.0)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), expected)


def test_values_that_are_missing_leave_gaps_and_no_warning(array: xr.Dataset) -> None:
    gap = array.assign(drops=array["drops"].where(array["init_scale"] > 0.05))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (axes,) = draw(gap, x="init_scale", y="drops", at={"heads": 2}).axes
        draw(gap, x="init_scale", y="heads", color="drops")
    assert np.isnan(axes.lines[0].get_ydata()).tolist() == [True, False, False]
    assert axes.get_xlim()[0] < 0.01, "the axis is whole"


def test_points_that_diverged_or_failed_are_left_out(array: xr.Dataset, tmp_path: Path) -> None:
    lost = array["status"].copy()
    lost[0, 0], lost[1, 0, 1] = Status.DIVERGED, Status.FAILED
    array = array.assign(status=lost)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (axes,) = draw(array, x="init_scale", y="drop_time", at={"heads": 2, "drop": 2}).axes
        drawing = draw(array, x="init_scale", y="heads", color="drops")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [np.nan, 16.0, 28.0])
    (mesh,) = [one for one in drawing.axes[0].collections if isinstance(one, QuadMesh)]
    assert np.ma.getmaskarray(mesh.get_array()).tolist() == [[True, False, False], [False] * 3]
    kept = page_data(write_sweep_page(array, tmp_path / "page.html"))["kept"]
    assert kept["drops"]["mean"][0] is None
    assert kept["drop_time"]["low"][4:6] == [13.0, 14.0]
    assert kept["drop_time"]["high"][4:6] == [17.0, 18.0]


def test_numbers_rise_along_every_axis_whatever_their_order_in_the_plan(
    array: xr.Dataset, tmp_path: Path
) -> None:
    mixed = array.isel(init_scale=[2, 0, 1], heads=[1, 0])
    for words in (
        {"x": "init_scale", "y": "heads", "color": "drops"},
        {"x": "init_scale", "y": "drop_time", "at": {"drop": 1}, "color": "heads"},
    ):
        one, other = (draw(values, **words).axes[0] for values in (array, mixed))  # type: ignore[arg-type]
        for line, again in zip(one.lines, other.lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), again.get_xydata())
        for mesh, again in zip(one.collections, other.collections, strict=True):
            np.testing.assert_array_equal(mesh.get_array(), again.get_array())
    pages = [
        page_data(write_sweep_page(values, tmp_path / "page.html")) for values in (array, mixed)
    ]
    assert pages[0] == pages[1]


def test_ticks_whose_labels_would_touch_are_left_to_the_axis(array: xr.Dataset) -> None:
    for labels, have_own in (([1, 39, 40], False), ([1, 20, 40], True), ([1, 4, 16], True)):
        (axes,) = draw(
            array.assign_coords(init_scale=labels), x="init_scale", y="drops", at={"heads": 2}
        ).axes
        assert (list(axes.get_xticks()) == labels) is have_own


def test_labels_within_a_decade_do_not_touch(array: xr.Dataset) -> None:
    narrow = array.assign_coords(init_scale=[0.01, 0.0119, 0.0142])
    drawing = draw(narrow, x="init_scale", y="drops", at={"heads": 2})
    drawing.draw_without_rendering()
    axis = drawing.axes[0].xaxis
    boxes = [one.get_window_extent() for one in axis.get_ticklabels(which="both")]
    seen = sorted((box.x0, box.x1) for box in boxes if box.width)
    assert len(seen) > 2
    assert all(one[1] < other[0] for one, other in pairwise(seen))


def test_a_field_that_tells_points_apart_stands_for_them() -> None:
    rates = [0.3, 0.1, 0.2]
    array = xr.Dataset(
        {"drops": (("heads", "point"), [[3.0, 1.0, 2.0], [6.0, 4.0, 5.0]])},
        {"heads": [1, 2], "learning_rate": ("point", rates), "rank": ("point", [1, 1, 2])},
    )
    (axes,) = draw(array, x="learning_rate", y="drops", color="heads").axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0.1, 0.2, 0.3])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [1.0, 2.0, 3.0])
    with pytest.raises(ss.InvalidInput, match="x = 'rank': must be an axis of drops: heads, point"):
        draw(array, x="rank", y="drops")


def page_data(page: Path) -> dict[str, dict[str, object]]:
    (data,) = re.findall(r'id="data">(.*?)</script>', page.read_text())
    return dict(json.loads(data))


def test_a_page_of_seeds_alone_has_them_as_its_axis(tmp_path: Path) -> None:
    array = xr.Dataset({"drops": (("seed",), [1.0, 2.0])}, {"seed": [4, 5]})
    data = page_data(write_sweep_page(array, tmp_path / "page.html"))
    assert data["axes"] == {"seed": [4, 5]}
    assert data["kept"] == {"drops": {"axes": ["seed"], "mean": [1.0, 2.0]}}


def test_points_go_by_their_values_on_a_page(tmp_path: Path) -> None:
    array = xr.Dataset(
        {"drops": (("point", "seed"), [[1.0], [2.0]])},
        {"heads": ("point", [2, 3]), "init_scale": ("point", [0.1, 1 / 3]), "seed": [0]},
    )
    data = page_data(write_sweep_page(array, tmp_path / "page.html"))
    assert data["axes"] == {
        "point": ["heads=2, init_scale=0.1", "heads=3, init_scale=0.3333"],
    }
