"""Pictures of a run: the loss beside its predicted levels and times, and what was learned."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saddlescope.checks import FloatArray, one_of, whole_number
from saddlescope.comparison import Comparison, compare
from saddlescope.errors import InvalidInput
from saddlescope.trajectory import Trajectory, check_seed

# Okabe and Ito's colours, which the colour-blind can tell apart; their order alternates in
# lightness, so that neighbours differ in grey as well.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
THEORY_COLOUR = "#555555"
STYLE: dict[Any, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "svg.fonttype": "none",
    "svg.hashsalt": "saddlescope",
}
_MAP_LABEL = r"learned share $e_d^\top W e_d/\xi_d$"


class Drawing(Figure):
    """A figure that shows itself in a notebook, without pyplot and its global state."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def plot(
    trajectory: Trajectory,
    *,
    seed: int = 0,
    scale: str | None = None,
    comparison: Comparison | None = None,
) -> Drawing:
    """Loss of all seeds beside the predicted levels; what one seed learned, and its values.

    Solid: measured. Dashed: predicted. `scale` of the time axis is `"linear"` or `"log"` (the
    default where the drops lie decades apart). `seed` is a place in the ensemble.
    """
    place = check_seed(trajectory, seed)
    result = compare(trajectory) if comparison is None else comparison
    chosen = _time_scale(result) if scale is None else one_of("scale", scale, ("linear", "log"))
    panels = _panels(trajectory)
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(3.4 * len(panels) + 0.4, 2.9))
        for axes, draw in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            draw(axes, trajectory, result, place)
            axes.set_xlabel(r"flow time  $t/\tau$")
            if chosen == "log":
                axes.set_xscale("log")
                axes.set_xlim(_first_of_interest(trajectory, result), trajectory.time[-1])
            elif trajectory.time[-1] > trajectory.time[0]:
                axes.set_xlim(trajectory.time[0], trajectory.time[-1])
    return figure


def animate(
    trajectory: Trajectory,
    path: str | Path,
    *,
    seed: int = 0,
    frames: int = 120,
    frames_per_second: int = 20,
) -> Path:
    """Write a film of one seed: the loss, the effective map and the heads' values, over time.

    GIF, or MP4 where ffmpeg is installed. Frames are spaced evenly along the path that the
    effective map takes, so that plateaus pass quickly and drops can be watched.
    """
    target = Path(path)
    writer = _writer(target, whole_number("frames_per_second", frames_per_second))
    place = check_seed(trajectory, seed)
    if "effective_map" not in trajectory.dataset:
        raise InvalidInput("record.weights", False, "a film needs recorded weights")
    maps = trajectory.dataset["effective_map"].isel(seed=place).to_numpy()
    shown = _even_frames(maps, whole_number("frames", frames, at_least=2))
    target.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({**STYLE, "figure.constrained_layout.use": False}):
        figure = Figure(figsize=(8.4, 2.9), dpi=110)
        loss_axes, map_axes, value_axes = figure.subplots(1, 3)
        figure.subplots_adjust(left=0.07, right=0.97, bottom=0.18, top=0.88, wspace=0.35)
        result = compare(trajectory)
        _draw_loss(loss_axes, trajectory, result, place, only=place)
        loss_axes.set_xlabel(r"flow time  $t/\tau$")
        if _time_scale(result) == "log":
            loss_axes.set_xscale("log")
            loss_axes.set_xlim(_first_of_interest(trajectory, result), trajectory.time[-1])
        (dot,) = loss_axes.plot([], [], "o", color=COLOURS[5])
        limit = float(np.nanmax(np.abs(maps)))
        image = map_axes.imshow(maps[0], cmap="RdBu_r", vmin=-limit, vmax=limit)
        map_axes.set(title="effective map $W$", xlabel="query dimension", ylabel="key dimension")
        map_axes.set(xticks=range(maps.shape[2]), yticks=range(maps.shape[1]))
        figure.colorbar(image, ax=map_axes, shrink=0.8)
        values = _values(trajectory, place)
        bars = value_axes.bar(np.arange(values.shape[1]), values[0], color=COLOURS[0])
        span = float(np.nanmax(np.abs(values))) * 1.1
        value_axes.set(ylim=(-span, span), xlabel="head", title="value $v_i$")
        value_axes.set_xticks(range(values.shape[1]))
        value_axes.axhline(0, color="black", linewidth=0.6)

        def show(frame: int) -> None:
            dot.set_data([trajectory.time[frame]], [trajectory.loss[place, frame]])
            image.set_data(maps[frame])
            for bar, height in zip(bars, values[frame], strict=True):
                bar.set_height(height)
            figure.suptitle(f"t = {trajectory.time[frame]:.0f} τ", fontsize=10)

        film = FuncAnimation(figure, show, frames=shown, interval=1000 / frames_per_second)
        film.save(str(target), writer=writer)
    return target


def to_svg(figure: Figure) -> str:
    """A figure as an SVG element, its black replaced by the colour of the text around it."""
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    for ink in ("#000000", THEORY_COLOUR):
        text = text.replace(ink, "currentColor").replace(ink.lower(), "currentColor")
    # Text has no colour of its own: it takes the one of the element around it.
    return text[text.index("<svg") :].replace("<svg ", '<svg fill="currentColor" ', 1)


def notebook_display(trajectory: Trajectory) -> str:
    """The picture and the table, for a notebook."""
    result = compare(trajectory)
    figure = to_svg(plot(trajectory, comparison=result))
    return f"<div><p>{trajectory!r}</p>{figure}{result._repr_html_()}</div>"


def _panels(trajectory: Trajectory) -> list[Any]:
    if "effective_map" not in trajectory.dataset:
        return [_draw_loss]
    return [_draw_loss, _draw_learned, _draw_values]


def _draw_loss(
    axes: Axes, trajectory: Trajectory, result: Comparison, place: int, only: int | None = None
) -> None:
    for level in result.plateau_losses or ():
        axes.axhline(level, color=THEORY_COLOUR, linestyle=(0, (4, 3)), linewidth=0.8, zorder=0)
    for row, loss in enumerate(trajectory.loss):
        if only is not None and row != only:
            continue
        colour = COLOURS[row % 6]
        axes.plot(trajectory.time, loss, color=colour, alpha=1 if row == place else 0.55)
        for drop in result.seeds[row].drops:
            if drop.predicted_time is not None and result.plateau_losses is not None:
                middle = sum(result.plateau_losses[drop.number - 1 : drop.number + 1]) / 2
                axes.plot(
                    drop.predicted_time,
                    middle,
                    "o",
                    color=colour,
                    markerfacecolor="none",
                    clip_on=False,
                    zorder=3,
                )
    if result.plateau_losses is not None:
        axes.plot(
            [], [], color=THEORY_COLOUR, linestyle="--", linewidth=0.8, label="level (theory)"
        )
    if any(d.predicted_time is not None for s in result.seeds for d in s.drops):
        axes.plot([], [], "o", color=THEORY_COLOUR, markerfacecolor="none", label="drop (theory)")
    axes.plot([], [], color=COLOURS[0], label="training")
    axes.set_ylabel(r"loss  $E(y_q-\hat y_q)^2$")
    axes.set_ylim(bottom=0)
    legend(axes, 3)


def _draw_learned(axes: Axes, trajectory: Trajectory, result: Comparison, place: int) -> None:
    """The effective map along each eigenvector, as a share of its optimum where that is known."""
    maps = trajectory.dataset["effective_map"].isel(seed=place).to_numpy()
    basis = getattr(trajectory.setting.task, "common_basis", None)
    directions = np.eye(maps.shape[1]) if basis is None else basis
    learned = np.einsum("ad,tab,bd->td", directions, maps, directions)
    goal = np.ones(maps.shape[1]) if basis is None else _optimum(trajectory, directions)
    count = min(learned.shape[1], 6)
    label = "W_{{{0}{0}}}" if basis is None else "e_{{{0}}}"
    for mode in range(count):
        axes.plot(
            trajectory.time,
            learned[:, mode] / goal[mode],
            color=COLOURS[mode],
            label=f"${label.format(mode + 1)}$",
        )
    name = f"seed {trajectory.setting.seeds[place]}"
    if basis is None:
        axes.set_ylabel(f"effective map, its diagonal, {name}")
    else:
        axes.axhline(1, color=THEORY_COLOUR, linestyle=(0, (4, 3)), linewidth=0.8, zorder=0)
        axes.set_ylabel(f"{_MAP_LABEL}, {name}")
    legend(axes, 6)


def _draw_values(axes: Axes, trajectory: Trajectory, result: Comparison, place: int) -> None:
    values = _values(trajectory, place)
    for head in range(values.shape[1]):
        label = f"$v_{{{head + 1}}}$" if head < 6 else None
        axes.plot(trajectory.time, values[:, head], color=COLOURS[head % 6], label=label)
    axes.set_ylabel(f"values of the heads, seed {trajectory.setting.seeds[place]}")
    legend(axes, 6)


def legend(axes: Axes, columns: int = 3) -> None:
    """A legend above the axes, where no curve can run into it."""
    axes.legend(
        fontsize=7.5,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=columns,
        handlelength=1.3,
        handletextpad=0.4,
        columnspacing=0.9,
    )


def _optimum(trajectory: Trajectory, directions: FloatArray) -> FloatArray:
    """What the population's optimum has along each direction (1 where it has nothing)."""
    moments = trajectory.setting.task.moments()
    best = np.linalg.pinv(moments.summary) @ moments.drive @ np.linalg.pinv(moments.query)
    goal = np.einsum("ad,ab,bd->d", directions, best, directions)
    return np.where(np.abs(goal) > 0, goal, 1.0)


def _values(trajectory: Trajectory, place: int) -> FloatArray:
    name = "v" if "v" in trajectory.dataset else "output"
    return trajectory.dataset[name].isel(seed=place).to_numpy()


def _drop_times(result: Comparison) -> list[float]:
    return [drop.time for seed in result.seeds for drop in seed.drops if drop.time is not None]


def _time_scale(result: Comparison) -> str:
    times = _drop_times(result)
    return "log" if times and max(times) > 15 * min(times) else "linear"


def _first_of_interest(trajectory: Trajectory, result: Comparison) -> float:
    first = min(_drop_times(result), default=trajectory.time[-1]) / 5
    return float(max(first, trajectory.time[trajectory.time > 0][0]))


def _even_frames(maps: FloatArray, frames: int) -> list[int]:
    """Records spaced evenly along the path of the effective map, with some share for time."""
    steps = np.linalg.norm(np.diff(np.nan_to_num(maps), axis=0), axis=(1, 2))
    pace = steps / max(steps.sum(), 1e-300) + 1 / max(len(steps), 1)
    along = np.concatenate([[0.0], np.cumsum(pace)])
    wanted = np.linspace(0, along[-1], frames)
    return [int(place) for place in np.searchsorted(along, wanted).clip(0, len(maps) - 1)]


def _writer(path: Path, frames_per_second: int) -> AbstractMovieWriter:
    if path.suffix.lower() == ".gif":
        return PillowWriter(fps=frames_per_second)
    if path.suffix.lower() != ".mp4":
        raise InvalidInput("path", str(path), "must end in .gif or .mp4")
    if not FFMpegWriter.isAvailable():
        raise InvalidInput(
            "path", str(path), "an MP4 needs ffmpeg, which is not installed; try .gif"
        )
    return FFMpegWriter(fps=frames_per_second)
