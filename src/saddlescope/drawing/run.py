"""Pictures of a run: the loss beside its predicted levels and times, and what was learned."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from saddlescope.checks import FloatArray, one_of
from saddlescope.comparison import Comparison
from saddlescope.drawing.style import COLOURS, STYLE, THEORY_COLOUR, Drawing, legend, to_svg
from saddlescope.theory import minimum
from saddlescope.trajectory import Trajectory

# Shares of the seeds: the bands' edges and the median.
_BANDS = (0.05, 0.25, 0.5, 0.75, 0.95)
_MAP_LABEL = r"learned share $e_d^\top W e_d/\xi_d$"


def plot(trajectory: Trajectory, *, seed: int | None = None, scale: str | None = None) -> Drawing:
    """Loss of all seeds beside the predicted levels; what one seed learned, and its values.

    Where quantiles were kept, the median, and bands of half and of nine tenths of the seeds. Solid:
    measured. Dashed: predicted. `scale` of the time axis is `"linear"` or `"log"` (the default
    where the drops lie decades apart). `seed` is the first by default.
    """
    seed_index = 0 if seed is None else trajectory.index_of(seed)
    result = trajectory.compare()
    chosen = (
        time_scale(trajectory, result)
        if scale is None
        else one_of("scale", scale, ("linear", "log"))
    )
    with_weights = "effective_map" in trajectory.dataset
    panels = [draw_loss, _draw_learned, _draw_values] if with_weights else [draw_loss]
    if trajectory.setting.record.keep == "quantiles":
        panels = [_draw_quantiles]
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(3.4 * len(panels) + 0.4, 2.9))
        for axes, draw in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
            draw(axes, trajectory, result, seed_index)
            axes.set_xlabel(r"flow time  $t/\tau$")
            if chosen == "log":
                axes.set_xscale("log")
                axes.set_xlim(first_of_interest(trajectory, result), trajectory.time[-1])
            elif trajectory.time[-1] > trajectory.time[0]:
                axes.set_xlim(trajectory.time[0], trajectory.time[-1])
    return figure


def notebook_display(trajectory: Trajectory) -> str:
    """The picture and the table, for a notebook."""
    figure, table = to_svg(plot(trajectory)), trajectory.compare()._repr_html_()
    return f"<div><p>{trajectory!r}</p>{figure}{table}</div>"


def draw_loss(
    axes: Axes, trajectory: Trajectory, result: Comparison, seed_index: int, only: int | None = None
) -> None:
    _draw_levels(axes, result)
    for row, loss in enumerate(trajectory.loss):
        if only is not None and row != only:
            continue
        colour = COLOURS[row % 6]
        axes.plot(trajectory.time, loss, color=colour, alpha=1 if row == seed_index else 0.55)
        for drop in result.seeds[row].drops:
            if drop.predicted_time is not None and result.plateau_losses is not None:
                middle = sum(result.plateau_losses[drop.number - 1 : drop.number + 1]) / 2
                axes.plot(
                    drop.predicted_time,
                    middle,
                    "D" if drop.is_open else "o",
                    color=colour,
                    markerfacecolor="none",
                    clip_on=False,
                    zorder=3,
                )
    known = [d for s in result.seeds for d in s.drops if d.predicted_time is not None]
    for marker, label, shown in (
        ("o", "drop (theory)", any(not drop.is_open for drop in known)),
        ("D", "drop (theory, close race)", any(drop.is_open for drop in known)),
    ):
        if shown:
            axes.plot([], [], marker, color=THEORY_COLOUR, markerfacecolor="none", label=label)
    axes.plot([], [], color=COLOURS[0], label="training")
    _finish_loss(axes)


def _draw_quantiles(
    axes: Axes, trajectory: Trajectory, result: Comparison, seed_index: int
) -> None:
    _draw_levels(axes, result)
    loss = trajectory.summary(quantiles=_BANDS)["loss"].to_numpy()
    outer, inner, median = loss[[0, 4]], loss[[1, 3]], loss[2]
    for (low, high), shade, name in ((outer, 0.18, "nine tenths"), (inner, 0.35, "half")):
        label = f"{name} of the seeds"
        axes.fill_between(
            trajectory.time, low, high, color=COLOURS[0], alpha=shade, linewidth=0, label=label
        )
    axes.plot(trajectory.time, median, color=COLOURS[0], label="median")
    _finish_loss(axes, columns=2)


def _draw_levels(axes: Axes, result: Comparison) -> None:
    for number, level in enumerate(result.plateau_losses or ()):
        label = None if number else "level (theory)"
        axes.axhline(
            level, color=THEORY_COLOUR, linestyle=(0, (4, 3)), linewidth=0.8, zorder=0, label=label
        )


def _finish_loss(axes: Axes, columns: int = 3) -> None:
    axes.set_ylabel(r"loss  $E(y_q-\hat y_q)^2$")
    axes.set_ylim(bottom=0)
    legend(axes, columns)


def _draw_learned(axes: Axes, trajectory: Trajectory, result: Comparison, seed_index: int) -> None:
    """The effective map along each eigenvector, as a share of its optimum where that is known."""
    basis = eigenbasis(trajectory)
    learned = np.diagonal(effective_maps(trajectory, seed_index), axis1=1, axis2=2)
    goal = np.ones(learned.shape[1]) if basis is None else _optimum(trajectory, basis)
    count = min(learned.shape[1], 6)
    label = "W_{{{0}{0}}}" if basis is None else "e_{{{0}}}"
    for mode in range(count):
        axes.plot(
            trajectory.time,
            learned[:, mode] / goal[mode],
            color=COLOURS[mode],
            label=f"${label.format(mode + 1)}$",
        )
    name = f"seed {trajectory.setting.seeds[seed_index]}"
    if basis is None:
        axes.set_ylabel(f"effective map, its diagonal, {name}")
    else:
        axes.axhline(1, color=THEORY_COLOUR, linestyle=(0, (4, 3)), linewidth=0.8, zorder=0)
        axes.set_ylabel(f"{_MAP_LABEL}, {name}")
    legend(axes, 6)


def _draw_values(axes: Axes, trajectory: Trajectory, result: Comparison, seed_index: int) -> None:
    values = head_values(trajectory, seed_index)
    for head in range(values.shape[1]):
        label = f"$v_{{{head + 1}}}$" if head < 6 else None
        axes.plot(trajectory.time, values[:, head], color=COLOURS[head % 6], label=label)
    axes.set_ylabel(f"values of the heads, seed {trajectory.setting.seeds[seed_index]}")
    legend(axes, 6)


def _optimum(trajectory: Trajectory, directions: FloatArray) -> FloatArray:
    """What the population's optimum has along each direction (1 where it has nothing)."""
    best = minimum(trajectory.setting.task).effective_map
    goal = np.einsum("ad,ab,bd->d", directions, best, directions)
    return np.where(np.abs(goal) > 0, goal, 1.0)


def eigenbasis(trajectory: Trajectory) -> FloatArray | None:
    """The eigenvectors e_1 … e_D as columns; None where a task has none in common."""
    return getattr(trajectory.setting.task, "common_basis", None)


def effective_maps(trajectory: Trajectory, seed_index: int) -> FloatArray:
    """One seed's effective map at every time, [T, D, D]: between eigenvectors where there are."""
    maps = trajectory.dataset["effective_map"].isel(seed=seed_index).to_numpy()
    basis = eigenbasis(trajectory)
    return maps if basis is None else basis.T @ maps @ basis


def head_values(trajectory: Trajectory, seed_index: int) -> FloatArray:
    name = "v" if "v" in trajectory.dataset else "output"
    return trajectory.dataset[name].isel(seed=seed_index).to_numpy()


def _drop_times(trajectory: Trajectory, result: Comparison) -> list[float]:
    if trajectory.setting.record.keep == "quantiles":
        medians = trajectory.summary(quantiles=0.5)["drop_time"].to_numpy()
        return medians[np.isfinite(medians)].tolist()
    return [drop.time for seed in result.seeds for drop in seed.drops if drop.time is not None]


def time_scale(trajectory: Trajectory, result: Comparison) -> str:
    times = _drop_times(trajectory, result)
    return "log" if times and max(times) > 15 * min(times) else "linear"


def first_of_interest(trajectory: Trajectory, result: Comparison) -> float:
    first = min(_drop_times(trajectory, result), default=trajectory.time[-1]) / 5
    return float(max(first, trajectory.time[trajectory.time > 0][0]))
