"""Pictures: what is drawn, and that nothing else is needed to draw it."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageSequence

import saddlescope as ss
from saddlescope import drawing
from saddlescope.checks import FloatArray
from saddlescope.comparison import Comparison
from saddlescope.drawing import film
from saddlescope.errors import InvalidInput

TASK = ss.InContextRegression([0.6, 0.3], context_length=31)
DESCENT = ss.GradientDescent(0.2, 5000)
LEVELS = [0.9, 0.34478, 0.07906]


def train(model: Any = None, task: Any = TASK, **changes: Any) -> ss.Trajectory:
    arguments = {"method": DESCENT, "init_scale": 0.1, "seeds": 3, "record": 200, **changes}
    return ss.train(model or ss.SeparateAttention(heads=3), task, **arguments)


@pytest.fixture(scope="module")
def run() -> ss.Trajectory:
    return train()


@pytest.fixture(scope="module")
def comparison(run: ss.Trajectory) -> Comparison:
    return run.compare()


def levels_drawn(axes: Any) -> list[float]:
    """Where horizontal lines lie across the whole panel."""
    return [
        float(line.get_ydata()[0])
        for line in axes.get_lines()
        if list(line.get_xdata()) == [0, 1] and len(set(line.get_ydata())) == 1
    ]


def test_the_loss_stands_beside_its_prediction(run: ss.Trajectory, comparison: Comparison) -> None:
    figure = run.plot(scale="linear")
    loss_axes, learned_axes, value_axes = figure.axes
    curves = [line for line in loss_axes.get_lines() if len(line.get_xdata()) == 200]
    assert len(curves) == 3
    for curve, loss in zip(curves, run.loss, strict=True):
        np.testing.assert_array_equal(curve.get_xdata(), run.time)
        np.testing.assert_array_equal(curve.get_ydata(), loss)
    assert levels_drawn(loss_axes) == pytest.approx(LEVELS, abs=1e-5)
    drops = {
        float(line.get_xdata()[0])
        for line in loss_axes.get_lines()
        if line.get_marker() in "oD" and len(line.get_xdata()) == 1
    }
    predicted = {d.predicted_time for s in comparison.seeds for d in s.drops}
    assert drops == predicted
    assert levels_drawn(learned_axes) == [1.0]
    assert len(learned_axes.get_lines()) == 1 + 2
    assert len(value_axes.get_lines()) == 3


def test_what_was_learned_is_a_share_of_the_optimum(
    run: ss.Trajectory, comparison: Comparison
) -> None:
    _, learned_axes, value_axes = run.plot(seed=1).axes
    shares = [line.get_ydata() for line in learned_axes.get_lines() if len(line.get_xdata()) > 2]
    for share in shares:
        assert share[0] == pytest.approx(0.0, abs=0.02)
        assert share[-1] == pytest.approx(1.0, abs=1e-4)
    values = np.stack([line.get_ydata() for line in value_axes.get_lines()], axis=1)
    np.testing.assert_array_equal(values, run.dataset["v"].isel(seed=1))


CASES = {
    "separate": {},
    "merged": {"model": ss.MergedAttention(3)},
    "two layers": {"model": ss.TwoLayerNetwork(3)},
    "no weights": {"record": ss.Record(points=200, weights=False)},
    "data": {"task": TASK.sample(2000, seed=1)},
    "crossed": {"task": ss.InContextRegression([[0.5, 0.1], [0.1, 0.3]], 31, [1.0, 3.0])},
    "plateau only": {"method": ss.GradientDescent(0.001, 300)},
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_run_is_drawn(name: str, tmp_path: Path) -> None:
    run = train(**CASES[name])
    if name == "two layers":
        with Image.open(run.animate(tmp_path / "film.gif", frames=2)) as film:
            assert film.n_frames == 2
    figure = run.plot()
    assert isinstance(figure, Figure)
    assert len(figure.axes) == (1 if name == "no weights" else 3)
    for axes in figure.axes:
        assert axes.get_xlabel().startswith("flow time")
        assert axes.get_ylabel()
        assert axes.get_legend() is not None
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == list(dict.fromkeys(labels))
        assert labels
    assert figure.axes[0].get_ylabel().startswith("loss")
    words = {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
    assert {"seed 0", "seed 1", "seed 2"} <= words
    assert ("level (theory)" in words) == (name != "data")


@pytest.mark.parametrize("rate", [3.0, 1e6], ids=["after some records", "before any record"])
def test_a_run_that_diverged_is_drawn(rate: float) -> None:
    figure = train(method=ss.GradientDescent(rate, 500)).plot()
    assert len(figure.axes) == 3


def test_the_time_axis_is_as_asked(run: ss.Trajectory) -> None:
    for scale in ("linear", "log"):
        figure = run.plot(scale=scale)
        assert [axes.get_xscale() for axes in figure.axes] == [scale] * 3
        low, high = figure.axes[0].get_xlim()
        assert high == pytest.approx(run.time[-1])
        assert low == 0 if scale == "linear" else low > 0
    # The one that is chosen ends when nothing moves any more, and no sooner.
    low, high = run.plot().axes[0].get_xlim()
    fall = run.loss[:, :1] - run.loss[:, -1:]
    after = run.loss[:, run.time > high / 1.5] - run.loss[:, -1:]
    assert high < run.time[-1]
    assert (np.abs(after) <= 0.01 * fall).all()
    with pytest.raises(InvalidInput, match="scale = 'cubic': must be 'linear' or 'log'"):
        run.plot(scale="cubic")
    with pytest.raises(InvalidInput, match="seed = 3: the run has seeds 0 to 2"):
        run.plot(seed=3)


def test_every_curve_has_the_colour_that_the_legend_says(run: ss.Trajectory) -> None:
    axes = run.plot().axes[0]
    legend = axes.get_legend()
    assert legend is not None
    keys = {line.get_label(): line.get_color() for line in legend.get_lines()}
    curves = [line for line in axes.get_lines() if len(np.ravel(line.get_xdata())) > 2]
    assert [keys[f"seed {seed}"] for seed in range(3)] == [line.get_color() for line in curves]
    marks = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert {line.get_color() for line in marks} == {keys["drop (theory)"]}


def test_many_directions_are_all_drawn_and_some_named_to_the_last() -> None:
    task = ss.InContextRegression([0.2, 0.18, 0.16, 0.14, 0.12, 0.1, 0.06, 0.04], 31)
    figure = train(task=task).plot(caption=False)
    learned = figure.axes[1]
    curves = [line for line in learned.get_lines() if len(np.ravel(line.get_xdata())) > 2]
    assert len(curves) == len({line.get_color() for line in curves}) == 8
    legend = learned.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert (names[0], names[-1]) == ("$e_{1}$", "$e_{8}$")


def test_the_caption_says_what_is_shown_and_can_be_left_out(run: ss.Trajectory) -> None:
    said = run.plot(seed=1).get_supxlabel()
    assert "3 seeds" in said
    assert "Of seed 1" in " ".join(said.split())
    assert not run.plot(caption=False).get_supxlabel()


def test_a_notebook_s_column_may_be_narrower_than_the_picture(run: ss.Trajectory) -> None:
    assert '<svg style="max-width: 100%; height: auto"' in run._repr_html_()


def test_drops_decades_apart_are_drawn_on_a_logarithmic_axis(
    run: ss.Trajectory, comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run.plot().axes[0].get_xscale() == "linear"
    first, second = comparison.seeds[0].drops
    apart = (replace(first, time=20.0), replace(second, time=1000.0))
    seeds = (replace(comparison.seeds[0], drops=apart), *comparison.seeds[1:])
    far = replace(comparison, seeds=seeds)
    monkeypatch.setitem(vars(run), "_comparison", far)
    axes = run.plot().axes[0]
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[0] == pytest.approx(max(20.0 / 5, run.time[1]))


def test_svg_takes_the_colour_of_the_text_around_it(run: ss.Trajectory) -> None:
    svg = drawing.to_svg(run.plot())
    assert svg.startswith("<svg")
    assert svg.rstrip().endswith("</svg>")
    assert "currentColor" in svg
    assert "#000000" not in svg
    again = drawing.to_svg(run.plot())
    assert again == svg, "the same run gives the same bytes"


def test_a_film_is_a_gif_of_at_most_the_frames_asked_for(
    run: ss.Trajectory, tmp_path: Path
) -> None:
    path = run.animate(tmp_path / "deep" / "film.gif", seed=1, frames=5, frames_per_second=10)
    assert path == tmp_path / "deep" / "film.gif"
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert 2 <= film.n_frames <= 5
        assert film.info["duration"] == 100
        first = np.asarray(film.convert("RGB")).copy()
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert("RGB"))
    assert (first != last).any()


def test_a_frame_is_what_the_whole_figure_would_be(
    run: ss.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pictures(name: str) -> FloatArray:
        with Image.open(run.animate(tmp_path / name, frames=4)) as shown:
            frames = [frame.convert("L").copy() for frame in ImageSequence.Iterator(shown)]
        return np.array(frames, float)

    in_parts = pictures("parts.gif")
    monkeypatch.setattr(film._Stage, "draw", Figure.draw)
    whole = pictures("whole.gif")
    assert in_parts.shape == whole.shape
    # The dot lies on the line and not under it; a GIF has few colours.
    assert (np.abs(in_parts - whole) > 40).mean() < 2e-3
    # What moves is more than that.
    assert (np.abs(np.diff(whole, axis=0)) > 40).mean() > 1e-2


def test_frames_follow_the_path_and_not_the_clock() -> None:
    # A map that rests, moves in three steps, and rests.
    maps = np.zeros((101, 2, 2))
    maps[50:] += np.eye(2)
    maps[51:] += np.eye(2)
    maps[52:] += np.eye(2)
    frames = film._even_frames(maps, 20)
    assert frames[0] == 0
    assert frames[-1] == 100
    assert frames == sorted(frames)
    assert len(frames) == 20
    assert {50, 51, 52} <= set(frames)


def test_an_mp4_needs_ffmpeg_and_says_so(
    run: ss.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(film.FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(InvalidInput, match=r"path = .*needs ffmpeg, which is not installed"):
        run.animate(tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "film.png"}, r"path = 'film\.png': must end in \.gif or \.mp4"),
        ({"frames": 1}, "frames = 1: must be a whole number, at least 2"),
        ({"frames_per_second": 0}, "frames_per_second = 0"),
        ({"seed": 3}, "seed = 3: the run has seeds 0 to 2"),
    ],
)
def test_films_that_cannot_be_are_refused(
    run: ss.Trajectory, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        run.animate(**{"path": "film.gif", **options})


def _drawn(run: ss.Trajectory, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Figure:
    """The first frame of a film, of which nothing else is drawn."""
    shown: list[Figure] = []

    class Still:
        def __init__(self, figure: Figure, show: Any, frames: list[int], **_: Any) -> None:
            show(frames[0])
            shown.append(figure)

        def save(self, path: str, writer: Any, progress_callback: Any) -> None:
            progress_callback(0, 2)

    monkeypatch.setattr(film, "FuncAnimation", Still)
    with tempfile.TemporaryDirectory() as folder:
        run.animate(Path(folder) / "film.gif", frames=2, **options)
    return shown[0]


def _ticks(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_film_counts_heads_and_eigenvectors_from_one(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    turned = ss.InContextRegression(turn @ np.diag([0.3, 0.6]) @ turn.T, 31)
    run = ss.train(
        ss.SeparateAttention(3), turned, method=ss.GradientDescent(0.2, 20), seeds=[7], record=5
    )
    figure = _drawn(run, monkeypatch)
    _, maps, values = figure.axes[:3]
    assert _ticks(maps.xaxis) == _ticks(maps.yaxis) == ["$e_{1}$", "$e_{2}$"]
    assert _ticks(values.xaxis) == ["1", "2", "3"]
    assert figure.get_suptitle() == "seed 7, t = 0 τ"
    basis = turned.common_basis
    whole = run.dataset["effective_map"].to_numpy()[0, 0]
    np.testing.assert_allclose(maps.images[0].get_array(), basis.T @ whole @ basis, atol=1e-15)
    assert turned.spectrum.eigenvalues[0] == pytest.approx(
        basis[:, 0] @ turned.covariance @ basis[:, 0]
    )


def test_a_film_labels_as_many_as_there_is_room_for() -> None:
    axis = Figure().subplots().xaxis
    film._count_from_one(axis, 20, "{}")
    assert _ticks(axis) == ["1", "4", "7", "10", "13", "16", "19"]


def test_a_film_needs_recorded_weights(tmp_path: Path) -> None:
    lean = train(record=ss.Record(points=200, weights=False))
    with pytest.raises(InvalidInput, match=r"record\.weights = False: a film needs"):
        lean.animate(tmp_path / "film.gif")
