"""A run as a film: the loss, the effective map and the heads' values, over time."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, FuncAnimation, PillowWriter
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure

from saddlescope.checks import FloatArray, whole_number
from saddlescope.drawing.run import (
    draw_loss,
    effective_maps,
    eigenbasis,
    head_values,
    set_time_axis,
    time_scale,
)
from saddlescope.drawing.style import COLOURS, STYLE
from saddlescope.errors import InvalidInput
from saddlescope.running import ProgressBar
from saddlescope.running.files import as_path, make_folder, replacing
from saddlescope.trajectory import Trajectory

_MOST_TICKS = 8
_MOST_FRAMES = 10_000
# About an eighth of the frames show plateaus, where nothing moves.
_SHARE_OF_TIME = 0.15


class _Stage(Figure):
    """A figure in which all but a few artists stand still, and are drawn once."""

    moving: tuple[Artist, ...] = ()
    """What is drawn anew in every frame, over the rest and in this order."""

    _still: object = None

    def draw(self, renderer: RendererAgg) -> None:  # type: ignore[override]
        if self._still is None:
            for artist in self.moving:
                artist.set_visible(False)
            super().draw(renderer)
            self._still = renderer.copy_from_bbox(self.bbox)
            for artist in self.moving:
                artist.set_visible(True)
        renderer.restore_region(self._still)
        for artist in self.moving:
            artist.draw(renderer)


def animate(
    trajectory: Trajectory,
    path: str | Path,
    *,
    seed: int | None = None,
    frames: int = 120,
    frames_per_second: int = 20,
) -> Path:
    """Write a film of one seed: the loss, the effective map and the heads' values, over time.

    GIF, or MP4 where ffmpeg is installed. Frames are spaced evenly along the path that the
    effective map takes, so that plateaus pass quickly and drops can be watched.
    """
    target = as_path("path", path)
    pace = whole_number("frames_per_second", frames_per_second, at_most=_MOST_FRAMES)
    writer = _writer(target, pace)
    seed_index = 0 if seed is None else trajectory.index_of(seed)
    if "effective_map" not in trajectory.dataset:
        raise InvalidInput("record.weights", False, "a film needs recorded weights")
    maps = effective_maps(trajectory, seed_index)
    shown = _even_frames(maps, whole_number("frames", frames, at_least=2, at_most=_MOST_FRAMES))
    make_folder(target.parent)
    with matplotlib.rc_context({**STYLE, "figure.constrained_layout.use": False}):
        figure = _Stage(figsize=(8.4, 2.9), dpi=110)
        loss_axes, map_axes, value_axes = figure.subplots(1, 3)
        figure.subplots_adjust(left=0.07, right=0.97, bottom=0.18, top=0.88, wspace=0.5)
        result = trajectory.compare()
        draw_loss(loss_axes, trajectory, result, seed_index, only=seed_index)
        set_time_axis(loss_axes, trajectory, result, time_scale(trajectory, result))
        (dot,) = loss_axes.plot([], [], "o", color=COLOURS[5])
        limit = float(np.nanmax(np.abs(maps)))
        image = map_axes.imshow(maps[0], cmap="RdBu_r", vmin=-limit, vmax=limit)
        map_axes.set(title="effective map $W$", xlabel="query", ylabel="key")
        name = "${}$" if eigenbasis(trajectory) is None else "$e_{{{}}}$"
        _count_from_one(map_axes.xaxis, maps.shape[2], name)
        _count_from_one(map_axes.yaxis, maps.shape[1], name)
        figure.colorbar(image, ax=map_axes, shrink=0.8)
        values = head_values(trajectory, seed_index)
        bars = value_axes.bar(np.arange(values.shape[1]), values[0], color=COLOURS[0])
        span = float(np.nanmax(np.abs(values))) * 1.1
        value_axes.set(ylim=(-span, span), xlabel="head", title="value $v_i$")
        _count_from_one(value_axes.xaxis, values.shape[1], "{}")
        ground = value_axes.axhline(0, color="black", linewidth=0.6)
        moment = figure.suptitle("", fontsize=10)
        # An image lies under the frame of its panel.
        frame_lines = map_axes.spines.values()
        figure.moving = (dot, image, *frame_lines, *bars, ground, moment)

        def show(frame: int) -> None:
            dot.set_data([trajectory.time[frame]], [trajectory.loss[seed_index, frame]])
            image.set_data(maps[frame])
            for bar, height in zip(bars, values[frame], strict=True):
                bar.set_height(height)
            unit = " τ" if trajectory.setting.method.has_flow_time else " steps"
            moment.set_text(
                f"seed {trajectory.setting.seeds[seed_index]}, "
                f"t = {trajectory.time[frame]:.0f}{unit}"
            )

        film = FuncAnimation(figure, show, frames=shown, interval=1000 / frames_per_second)
        with replacing(target) as unfinished, ProgressBar("film") as bar:
            film.save(
                str(unfinished),
                writer=writer,
                progress_callback=lambda frame, count: bar.show(frame / count),
            )
    return target


def _count_from_one(axis: Axis, count: int, name: str) -> None:
    """Label the rows, columns or bars of a panel by their numbers, if there is room."""
    shown = range(0, count, -(-count // _MOST_TICKS))
    axis.set_ticks(list(shown), [name.format(index + 1) for index in shown])


def _even_frames(maps: FloatArray, frames: int) -> list[int]:
    """Records spaced evenly along the path of the effective map, with a small share for time."""
    steps = np.linalg.norm(np.diff(np.nan_to_num(maps), axis=0), axis=(1, 2))
    pace = steps / max(steps.sum(), 1e-300) + _SHARE_OF_TIME / max(len(steps), 1)
    along = np.concatenate([[0.0], np.cumsum(pace)])
    wanted = np.linspace(0, along[-1], frames)
    return [int(index) for index in np.searchsorted(along, wanted).clip(0, len(maps) - 1)]


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
