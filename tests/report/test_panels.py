"""Panels of a sheet for the page: nothing that is described is lost, and corners stay."""

import json
import re
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.charts.conftest import sheet as sheet

from saddlescope.charts import LAYERS, PanelBuilder, Sheet, SheetBuilder
from saddlescope.drawing import COLOURS, THEORY_COLOUR
from saddlescope.report import page_panels
from saddlescope.report._assets import asset
from saddlescope.report._colours import DARK_PAPER, lighten_on_dark, luminance, on_dark, page_colour
from saddlescope.report._page_layers import POINTS_OF_A_CLOUD, POINTS_OF_A_CURVE, page_layer
from saddlescope.report._plain_text import plain_text
from saddlescope.report._thinning import thin_curve, thin_points


def panel_of(draw: Callable[[PanelBuilder], object]) -> Any:
    drawing = SheetBuilder(1, 1, 4, 3)
    draw(drawing.grid[0, 0])
    (panel,) = page_panels(drawing.build())
    return panel


def test_every_kind_of_layer_can_be_shown() -> None:
    assert set(page_layer.registry) - {object} == set(LAYERS)
    script = asset("layers.js")
    drawn = script[script.index("const draw = {") :]
    assert set(re.findall(r"^    (\w+)\(context, layer", drawn, re.M)) == {
        kind.kind for kind in LAYERS
    }


def test_nothing_of_a_sheet_is_lost_and_all_is_plain_json(sheet: Sheet) -> None:
    shown: Any = page_panels(sheet)
    kinds = [[layer["kind"] for layer in panel["layers"]] for panel in shown]
    assert kinds == [[layer.kind for layer in panel.layers] for panel in sheet.panels]
    left, right = shown
    assert (left["x"]["label"], left["y"]["label"], right["title"]) == ("time t/τ", "loss", "map")
    assert left["x"]["names"] == ["one", "two"]
    (note,) = [layer for layer in left["layers"] if layer["kind"] == "note"]
    assert (note["text"], note["x_in"], note["shift"]) == ("λ", "panel", [4.0, 0.0])
    (heat,) = right["layers"]
    assert heat["values"] == [[1.0, None], [3.0, 4.0]]
    assert (heat["low"], heat["high"], heat["name"]) == (-4.0, 4.0, "weight")
    assert heat["stops"][0] == matplotlib.colors.to_hex(matplotlib.colormaps["RdBu_r"](0.0))
    assert "NaN" not in json.dumps(shown, allow_nan=False)


def test_a_curve_keeps_its_points_label_and_look() -> None:
    def draw(axes: PanelBuilder) -> None:
        axes.plot([0, 1, 2], [3, np.nan, 1], "s--", color=COLOURS[1], label="$e_1$", linewidth=2)

    panel = panel_of(draw)
    (curve,) = panel["layers"]
    assert (curve["x"], curve["y"]) == ([0.0, None, 2.0], [3.0, None, 1.0])
    assert curve["look"]["colour"] == ["#e69f00", "#e69f00"]
    assert (curve["look"]["marker"], curve["look"]["filled"]) == ("square", True)
    assert ([entry["label"] for entry in panel["entries"]], curve["entry"]) == (["e₁"], 0)


def test_what_a_logarithmic_axis_cannot_show_is_left_out() -> None:
    def draw(axes: PanelBuilder) -> None:
        axes.plot([0, 1, 10, 100], [1, 0, 0.1, 0.01])
        axes.set(xscale="log", yscale="log", xlim=(1, 100), ylim=(1e-3, 1))

    panel = panel_of(draw)
    assert (panel["x"]["scale"], panel["x"]["low"], panel["x"]["high"]) == ("log", 1.0, 100.0)
    (curve,) = panel["layers"]
    assert [x for x in curve["x"] if x is not None] == [10.0, 100.0]


def test_a_band_with_a_gap_is_two_polygons() -> None:
    low = np.array([0, 0, np.nan, 0, 0])
    panel = panel_of(lambda axes: axes.fill_between(np.arange(5), low, low + 1, color="black"))
    first, second = panel["layers"]
    assert (first["x"], first["y"]) == ([0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    assert second["x"] == [3.0, 4.0, 4.0, 3.0]


def test_seeds_share_a_line_of_the_legend_and_keys_name_what_looks_like_them() -> None:
    def draw(axes: PanelBuilder) -> None:
        for seed in range(3):
            label = "training" if seed == 0 else None
            axes.plot([0, 1], [seed, 1], color=COLOURS[seed], label=label)
            axes.plot([0, 1], [seed, 2], "--", color="black")
        axes.plot([], [], "--", color="black", label="theory")

    panel = panel_of(draw)
    assert [entry["label"] for entry in panel["entries"]] == ["training", "theory"]
    assert [layer["entry"] for layer in panel["layers"]] == [0, 1, 0, 1, 0, 1]


def test_a_curve_of_another_colour_belongs_to_none_of_several_like_it() -> None:
    def draw(axes: PanelBuilder) -> None:
        axes.plot([0, 1], [0, 1], color=COLOURS[0], label="one")
        axes.plot([0, 1], [1, 1], color=COLOURS[1], label="two")
        axes.plot([0, 1], [2, 1], color=COLOURS[2])

    assert [layer["entry"] for layer in panel_of(draw)["layers"]] == [0, 1, None]


def staircase(time: Any) -> Any:
    return np.select([time < 3, time < 40, time < 500], [1.0, 0.6, 0.3], 0.1)


def test_a_staircase_of_many_points_keeps_its_corners_on_a_logarithmic_axis() -> None:
    time = np.geomspace(1, 1000, 20_000)

    def draw(axes: PanelBuilder) -> None:
        axes.plot(time, staircase(time))
        axes.set(xscale="log", xlim=(1, 1000))

    (curve,) = panel_of(draw)["layers"]
    assert len(curve["x"]) <= 20
    for corner in (3, 40, 500):
        before = time[time < corner][-1]
        assert float(f"{before:.6g}") in curve["x"]
        assert float(f"{time[time >= corner][0]:.6g}") in curve["x"]
    shown = np.interp(np.log(time), np.log(np.array(curve["x"])), np.array(curve["y"]))
    # Between two records of a drop a straight line stands for the step.
    assert np.abs(shown - staircase(time)).max() < 0.01


def test_a_wild_curve_is_thinned_to_what_a_chart_can_hold() -> None:
    rough = np.random.default_rng(0).normal(size=5000)
    (curve,) = panel_of(lambda axes: axes.plot(np.arange(5000), rough))["layers"]
    assert len(curve["x"]) == POINTS_OF_A_CURVE
    rounded = [float(f"{value:.6g}") for value in (rough.min(), rough.max())]
    assert [min(curve["y"]), max(curve["y"])] == rounded


def test_what_lies_outside_the_panel_is_left_out_but_not_what_crosses_it() -> None:
    def draw(axes: PanelBuilder) -> None:
        axes.plot(np.arange(100.0), np.sin(np.arange(100.0)))
        axes.plot([-100, 200], [0, 1])
        axes.set(xlim=(10, 20))

    many, crossing = panel_of(draw)["layers"]
    assert 9.0 <= min(many["x"]) <= 10.0
    assert 20.0 <= max(many["x"]) <= 21.0
    assert crossing["x"] == [-100.0, 200.0]


@given(
    heights=st.lists(st.floats(0, 1), min_size=2, max_size=60),
    gap=st.integers(0, 60),
)
def test_thinning_stays_on_the_curve(heights: list[float], gap: int) -> None:
    x, y = np.linspace(0, 1, len(heights)), np.array(heights)
    if gap < len(y):
        y[gap] = np.nan
    kept = thin_curve(x, y, 1000)
    finite = np.isfinite(y)
    for piece in np.split(np.arange(len(y)), [gap] if gap < len(y) else []):
        piece = piece[finite[piece]]
        if len(piece):
            inside = [place for place in kept if place in piece]
            assert {piece[0], piece[-1]} <= set(inside)
            error = np.interp(x[piece], x[inside], y[inside]) - y[piece]
            # The distance from the line is at most 1e-4; upwards it is more where that is steep.
            assert np.abs(error).max() <= 1e-4 * np.hypot(1, len(y)) + 1e-12


def test_many_points_keep_the_outermost() -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 5000))
    kept = thin_points(x, y, POINTS_OF_A_CLOUD)
    assert len(kept) <= POINTS_OF_A_CLOUD
    assert {x.argmin(), x.argmax(), y.argmin(), y.argmax()} <= set(kept)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("plain, 100 %", "plain, 100 %"),
        ("$e_1$", "e₁"),
        (r"flow time  $t/\tau$", "flow time t/τ"),
        (r"loss  $E(y_q-\hat y_q)^2$", "loss E(y_q−ŷ_q)²"),
        (r"$v_i\,k_i^\top e_d$", "vᵢ kᵢᵀ e_d"),
        (r"$10^{-3}$", "10⁻³"),
        (r"$\mathdefault{10^{2}}$", "10²"),
        (r"$\lambda_{\mathrm{max}} \leq \Lambda$", "λₘₐₓ ≤ Λ"),
        (r"$\frac{a}{b+1}$, $\sqrt{x}$", "a/(b+1), √x"),
        (r"$W_{dq}^{new}$", "W_(dq)ⁿᵉʷ"),
        (r"$\log x + \log(y)$", "log x + log(y)"),
        (r"$\mystery{x}$", "mysteryx"),
        (r"$\|w\|$ costs \$5", "‖w‖ costs $5"),
        ("a single $ sign", "a single $ sign"),
        (r"$\bar{\sigma}$", "σ̄"),
        (r"$x_$", "x"),
        (r"$a^*_\beta$", "a*ᵦ"),
    ],
)
def test_mathematics_becomes_text(source: str, wanted: str) -> None:
    assert plain_text(source) == wanted


@given(st.text(alphabet=r"ab1{}^_\$ -+%&", max_size=30))
def test_no_text_breaks_the_reading(source: str) -> None:
    assert isinstance(plain_text(source), str)


@pytest.mark.parametrize("colour", [*COLOURS, "#440154", "#111133", "0.4", THEORY_COLOUR])
def test_every_colour_can_be_seen_on_a_dark_page(colour: str) -> None:
    shown = on_dark(page_colour(colour))
    if shown != "ink":
        rgb, paper = (matplotlib.colors.to_rgb(one) for one in (shown, DARK_PAPER))
        assert (luminance(rgb) + 0.05) / (luminance(paper) + 0.05) >= 3


def test_dark_strokes_turn_lighter_and_areas_keep_their_colour() -> None:
    line, area = '<path style="fill: none; stroke: #440154"/>', '<path style="fill: #440154"/>'
    lighter = lighten_on_dark(line + area)
    assert f"stroke: light-dark(#440154, {on_dark('#440154')})" in lighter
    assert lighter.endswith(area)
    bright = '<path style="stroke: #e69f00"/>'
    assert lighten_on_dark(bright) == bright
