"""Panels read off a drawing: nothing that was drawn is lost, and corners stay."""

import json
from typing import Any

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from saddlescope.drawing import COLOURS, STYLE, THEORY_COLOUR
from saddlescope.report import Panel, panels
from saddlescope.report._artists import POINTS_OF_A_CLOUD, POINTS_OF_A_CURVE
from saddlescope.report._colours import DARK_PAPER, lighten_on_dark, luminance, on_dark, page_colour
from saddlescope.report._plain_text import plain_text
from saddlescope.report._thinning import thin_curve, thin_points


def axes_of(**options: Any) -> Any:
    with matplotlib.rc_context(STYLE):
        return Figure(figsize=(4, 3)).add_subplot(**options)


def panel_of(axes: Any) -> Panel:
    (panel,) = panels(axes.figure)
    return panel


def test_a_curve_keeps_its_points_label_and_look() -> None:
    axes = axes_of(xlabel=r"time $t/\tau$", ylabel="loss", title="(a)")
    axes.plot([0, 1, 2], [3, np.nan, 1], "s--", color=COLOURS[1], label="$e_1$", linewidth=2)
    panel = panel_of(axes)
    (curve,) = panel.layers
    assert curve.kind == "curve"
    assert (curve.x, curve.y) == ((0.0, None, 2.0), (3.0, None, 1.0))
    assert curve.look.colour == ("#e69f00", "#e69f00")
    assert curve.look.dash
    assert (curve.look.marker, curve.look.filled) == ("square", True)
    assert (panel.title, panel.x.label, panel.y.label) == ("(a)", "time t/τ", "loss")
    assert [entry.label for entry in panel.entries] == ["e₁"]
    assert curve.entry == 0


def test_levels_and_moments_cross_the_panel() -> None:
    axes = axes_of()
    axes.plot([0, 1], [0, 1])
    axes.axhline(0.25, color=THEORY_COLOUR, linestyle=(0, (4, 3)))
    axes.axvline(0.5, color="black")
    rules = [layer for layer in panel_of(axes).layers if layer.kind == "rule"]
    assert [(rule.axis, rule.at) for rule in rules] == [("y", 0.25), ("x", 0.5)]
    assert all(rule.look.colour == ("ink", "ink") for rule in rules)
    assert [bool(rule.look.dash) for rule in rules] == [True, False]


def test_logarithmic_axes_and_what_they_cannot_show() -> None:
    axes = axes_of(xscale="log", yscale="log", xlim=(1, 100), ylim=(1e-3, 1))
    axes.plot([0, 1, 10, 100], [1, 0, 0.1, 0.01])
    panel = panel_of(axes)
    assert (panel.x.scale, panel.x.low, panel.x.high) == ("log", 1.0, 100.0)
    assert (panel.y.scale, panel.y.low, panel.y.high) == ("log", 0.001, 1.0)
    (curve,) = panel.layers
    assert [x for x in curve.x if x is not None] == [10.0, 100.0]


def test_an_image_keeps_its_values_where_they_are_seen() -> None:
    axes = axes_of()
    image = axes.imshow([[1, 2, 3], [4, np.nan, 6]], cmap="RdBu_r", vmin=-6, vmax=6)
    axes.set_yticks([0, 1], ["$e_1$", "$e_2$"])
    axes.figure.colorbar(image, ax=axes, label=r"$v_i$")
    panel = panel_of(axes)
    (heat,) = panel.layers
    # Rows upwards along the y edges, and the axis runs downwards, as it does in the picture.
    assert heat.y_edges == (1.5, 0.5, -0.5)
    assert heat.values == ((4.0, None, 6.0), (1.0, 2.0, 3.0))
    assert heat.x_edges == (-0.5, 0.5, 1.5, 2.5)
    assert panel.y.inverted
    assert (heat.low, heat.high, heat.name) == (-6.0, 6.0, "vᵢ")
    assert heat.stops[0] == matplotlib.colors.to_hex(matplotlib.colormaps["RdBu_r"](0.0))
    assert (panel.y.ticks, panel.y.names) == ((0.0, 1.0), ("e₁", "e₂"))


def test_a_mesh_keeps_its_edges() -> None:
    axes = axes_of(yscale="log")
    axes.pcolormesh([0, 1, 3], [1, 10, 100], [[1, 2], [3, 4]])
    (heat,) = panel_of(axes).layers
    assert (heat.x_edges, heat.y_edges) == ((0.0, 1.0, 3.0), (1.0, 10.0, 100.0))
    assert heat.values == ((1.0, 2.0), (3.0, 4.0))


def test_clouds_bars_bands_steps_and_notes_are_read() -> None:
    axes = axes_of()
    axes.scatter([1, 2], [3, 4], c=["#d55e00", "#0072b2"], label="starts")
    axes.bar(["one", "two"], [3, 2], color=COLOURS[2])
    axes.fill_between([0, 1], [0, 0], [1, 2], alpha=0.3)
    axes.step([0, 1, 2], [0, 1, 2], where="post", color="C1")
    axes.vlines([0.5], 0, 1, color="C2")
    axes.text(0.5, 0.5, r"$\lambda$")
    axes.axvspan(0, 1, alpha=0.1)
    panel = panel_of(axes)
    found: dict[str, list[Any]] = {}
    for layer in panel.layers:
        found.setdefault(layer.kind, []).append(layer)
    cloud = next(curve for curve in found["curve"] if curve.look.marker)
    assert cloud.colours == (("#d55e00", "#d55e00"), ("#0072b2", on_dark("#0072b2")))
    bars = next(boxes for boxes in found["boxes"] if boxes.bars)
    assert bars.boxes == ((-0.4, 0.0, 0.4, 3.0), (0.6, 0.0, 1.4, 2.0))
    span = next(boxes for boxes in found["boxes"] if not boxes.bars)
    assert span.boxes == ((0.0, None, 1.0, None),)
    assert panel.x.names == ("one", "two")
    assert found["area"][0].look.alpha == pytest.approx(0.3)
    steps = [(curve.x, curve.y) for curve in found["curve"]]
    assert ((0.0, 1.0, 1.0, 2.0, 2.0), (0.0, 0.0, 1.0, 1.0, 2.0)) in steps
    assert ((0.5, 0.5, None), (0.0, 1.0, None)) in steps or ((0.5, 0.5), (0.0, 1.0)) in steps
    assert found["note"][0].text == "λ"


def test_seeds_share_a_line_of_the_legend_and_proxies_name_what_looks_like_them() -> None:
    axes = axes_of()
    for seed in range(3):
        label = "training" if seed == 0 else None
        axes.plot([0, 1], [seed, 1], color=COLOURS[seed], label=label)
        axes.plot([0, 1], [seed, 2], "k--")
    axes.plot([], [], "k--", label="theory")
    axes.legend()
    panel = panel_of(axes)
    assert [entry.label for entry in panel.entries] == ["training", "theory"]
    assert [layer.entry for layer in panel.layers] == [0, 1, 0, 1, 0, 1]


def test_a_curve_of_another_colour_belongs_to_none_of_several_like_it() -> None:
    axes = axes_of()
    axes.plot([0, 1], [0, 1], color=COLOURS[0], label="one")
    axes.plot([0, 1], [1, 1], color=COLOURS[1], label="two")
    axes.plot([0, 1], [2, 1], color=COLOURS[2])
    assert [layer.entry for layer in panel_of(axes).layers] == [0, 1, None]


def test_panels_come_by_rows_without_colour_bars_and_empty_axes() -> None:
    figure = Figure(layout="constrained")
    grid = figure.subplots(2, 2)
    for number, axes in enumerate([grid[1, 1], grid[1, 0], grid[0, 1]]):
        image = axes.imshow([[number]])
        axes.set_title(f"panel {3 - number}")
    figure.colorbar(image, ax=grid[0, 1])
    grid[0, 0].set_axis_off()
    assert [panel.title for panel in panels(figure)] == ["panel 1", "panel 2", "panel 3"]


def test_shared_axes_share_their_label_and_bare_ones_have_no_ticks() -> None:
    figure = Figure()
    above, below = figure.subplots(2, sharex=True)
    above.plot([0, 1], [0, 1])
    above.set_yticks([])
    below.plot([0, 1], [0, 1])
    below.set_xlabel("time")
    one, other = panels(figure)
    assert (one.x.label, other.x.label) == ("time", "time")
    assert (one.y.bare, other.y.bare) == (True, False)


def test_everything_is_plain_json() -> None:
    axes = axes_of(yscale="log")
    axes.plot(np.linspace(0, 1, 50), np.linspace(0, 1, 50) ** 2, label="<b>")
    axes.scatter([0.5], [np.nan], facecolors="none", edgecolors="red")
    text = json.dumps(panel_of(axes).to_dict(), allow_nan=False)
    assert "NaN" not in text


def staircase(time: Any) -> Any:
    return np.select([time < 3, time < 40, time < 500], [1.0, 0.6, 0.3], 0.1)


def test_a_staircase_of_many_points_keeps_its_corners_on_a_logarithmic_axis() -> None:
    time = np.geomspace(1, 1000, 20_000)
    axes = axes_of(xscale="log", xlim=(1, 1000))
    axes.plot(time, staircase(time))
    (curve,) = panel_of(axes).layers
    assert len(curve.x) <= 20
    assert curve.points == len(time)
    for corner in (3, 40, 500):
        before = time[time < corner][-1]
        assert float(f"{before:.6g}") in curve.x
        assert float(f"{time[time >= corner][0]:.6g}") in curve.x
    shown = np.interp(np.log(time), np.log(np.array(curve.x)), np.array(curve.y))
    # Between two records of a drop a straight line stands for the step.
    assert np.abs(shown - staircase(time)).max() < 0.01


def test_a_wild_curve_is_thinned_to_what_a_chart_can_hold() -> None:
    rough = np.random.default_rng(0).normal(size=5000)
    axes = axes_of()
    axes.plot(np.arange(5000), rough)
    (curve,) = panel_of(axes).layers
    assert len(curve.x) == POINTS_OF_A_CURVE
    rounded = [float(f"{value:.6g}") for value in (rough.min(), rough.max())]
    assert [min(curve.y), max(curve.y)] == rounded


def test_what_lies_outside_the_panel_is_left_out_but_not_what_crosses_it() -> None:
    axes = axes_of(xlim=(10, 20))
    axes.plot(np.arange(100.0), np.sin(np.arange(100.0)))
    axes.plot([-100, 200], [0, 1])
    many, crossing = panel_of(axes).layers
    assert 9.0 <= min(many.x) <= 10.0
    assert 20.0 <= max(many.x) <= 21.0
    assert crossing.x == (-100.0, 200.0)


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
