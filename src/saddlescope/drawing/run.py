"""Pictures of a run: the loss with its predicted levels and times, and what was learned."""

from __future__ import annotations

from html import escape
from textwrap import fill

import matplotlib
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from saddlescope.checks import FloatArray, one_of
from saddlescope.comparison import Comparison
from saddlescope.drawing.style import COLOURS, STYLE, THEORY_COLOUR, Drawing, legend, to_svg
from saddlescope.theory import minimum
from saddlescope.trajectory import Trajectory

_OTHERS = "#BBBBBB"
# Shares of the seeds: the bands' edges and the median.
_BANDS = (0.05, 0.25, 0.5, 0.75, 0.95)
_MAP_LABEL = r"learned share $e_d^\top W e_d/\xi_d$"


# More curves than these are drawn in shades, and only some of them are named.
_MOST_NAMED = 6
# A linear axis ends this many times as late as the last drop or movement.
_AFTER_LAST_DROP = 1.5
_QUANTILES = (
    "The median of the loss over all seeds, and bands of half and of nine tenths of them; dashed "
    "lines are the predicted plateaus."
)


def plot(
    trajectory: Trajectory,
    *,
    seed: int | None = None,
    scale: str | None = None,
    caption: bool = True,
) -> Drawing:
    """The loss of all seeds with its predicted levels; what one seed learned, and its values.

    Where quantiles were kept: the median, and bands of half and of nine tenths of the seeds. Solid
    lines are measured, dashed ones predicted. `scale` of the time axis is `"linear"` or `"log"`, by
    default `"log"` if the drops are decades apart; a linear axis chosen by default ends where
    nothing happens any more. `seed` is the first by default. A caption says what is shown, unless
    `caption` is False.
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
            set_time_axis(axes, trajectory, result, chosen, whole=scale is not None)
        if caption:
            words = fill(describe(trajectory, seed), 48 * len(panels))
            figure.supxlabel(words, x=0.01, ha="left", fontsize=7.5, color=THEORY_COLOUR)
    return figure


def describe(trajectory: Trajectory, seed: int | None = None) -> str:
    """Describe what the picture shows, depending on what the run has kept."""
    if trajectory.setting.record.keep == "quantiles":
        return _QUANTILES
    seeds = trajectory.setting.seeds
    words = "The loss" + (f" of {len(seeds)} seeds" if len(seeds) > 1 else "")
    words += (
        "; dashed lines are the predicted plateaus, circles the predicted drops, which come from "
        "the initial weights alone."
    )
    if "effective_map" not in trajectory.dataset:
        return words
    shown = seeds[0] if seed is None else seed
    of_what = (
        "the diagonal of the effective map"
        if eigenbasis(trajectory) is None
        else "what it has learned along each eigenvector, as a share of the optimum"
    )
    return f"{words} Of seed {shown}: in the middle {of_what}; on the right the heads' values."


def set_time_axis(
    axes: Axes, trajectory: Trajectory, result: Comparison, scale: str, *, whole: bool = False
) -> None:
    """From before the first drop on a logarithmic axis; a linear one ends after the last.

    Unless the `whole` run is to be seen.
    """
    flows = trajectory.setting.method.has_flow_time
    axes.set_xlabel(r"flow time  $t/\tau$" if flows else "steps")
    first, last = trajectory.time[0], trajectory.time[-1]
    if scale == "log":
        axes.set_xscale("log")
        axes.set_xlim(first_of_interest(trajectory, result), last)
    elif last > first:
        drops = [*_drop_times(trajectory, result), *_predicted_times(result)]
        end = last if whole else max(max(drops, default=last), _settled(trajectory))
        axes.set_xlim(first, min(last, _AFTER_LAST_DROP * end))


def notebook_display(trajectory: Trajectory) -> str:
    """The picture and the table as HTML, for a notebook."""
    figure, table = to_svg(plot(trajectory)), trajectory.compare()._repr_html_()
    # A column may be narrower than the picture.
    fitted = figure.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)
    return f"<div><p>{escape(repr(trajectory))}</p>{fitted}{table}</div>"


def draw_loss(
    axes: Axes, trajectory: Trajectory, result: Comparison, seed_index: int, only: int | None = None
) -> None:
    _draw_levels(axes, result)
    rows = range(len(trajectory.loss)) if only is None else [only]

    def is_shown(row: int) -> bool:
        """Of many seeds only the chosen one's predictions are."""
        return len(rows) <= _MOST_NAMED or row == seed_index

    for row in rows:
        label, colour = _name_seed(trajectory, row, seed_index, len(rows))
        highest = 2.1 if row == seed_index else 2.0
        axes.plot(trajectory.time, trajectory.loss[row], color=colour, label=label, zorder=highest)
        for drop in result.seeds[row].drops if is_shown(row) else ():
            if drop.predicted_time is not None and result.plateau_losses is not None:
                middle = sum(result.plateau_losses[drop.number - 1 : drop.number + 1]) / 2
                axes.plot(
                    drop.predicted_time,
                    middle,
                    "D" if drop.is_open else "o",
                    color=THEORY_COLOUR,
                    markerfacecolor="none",
                    clip_on=False,
                    zorder=3,
                )
    drops = [drop for row in rows if is_shown(row) for drop in result.seeds[row].drops]
    known = [drop for drop in drops if drop.predicted_time is not None]
    for marker, label, shown in (
        ("o", "drop (theory)", any(not drop.is_open for drop in known)),
        ("D", "drop (theory, close race)", any(drop.is_open for drop in known)),
    ):
        if shown:
            axes.plot([], [], marker, color=THEORY_COLOUR, markerfacecolor="none", label=label)
    _finish_loss(axes)


def _name_seed(trajectory: Trajectory, row: int, chosen: int, count: int) -> tuple[str | None, str]:
    """The label and colour of a seed's curve; of many, only the chosen one stands out."""
    if count == 1:
        return "training", COLOURS[0]
    seed = trajectory.setting.seeds[row]
    if count <= _MOST_NAMED:
        return f"seed {seed}", COLOURS[row]
    if row == chosen:
        return f"seed {seed}", COLOURS[0]
    first = 1 if chosen == 0 else 0
    return ("other seeds" if row == first else None), _OTHERS


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
    """The effective map along each eigenvector, as a share of its optimum if that is known."""
    basis = eigenbasis(trajectory)
    learned = np.diagonal(effective_maps(trajectory, seed_index), axis1=1, axis2=2)
    goal = np.ones(learned.shape[1]) if basis is None else _optimum(trajectory, basis)
    name = "$W_{{{0},{0}}}$" if basis is None else "$e_{{{0}}}$"
    _draw_family(axes, trajectory.time, learned / goal, name)
    seed = f"seed {trajectory.setting.seeds[seed_index]}"
    if basis is None:
        axes.set_ylabel(f"effective map, its diagonal, {seed}")
    else:
        axes.axhline(1, color=THEORY_COLOUR, linestyle=(0, (4, 3)), linewidth=0.8, zorder=0)
        axes.set_ylabel(f"{_MAP_LABEL}, {seed}")
    legend(axes, 6)


def _draw_values(axes: Axes, trajectory: Trajectory, result: Comparison, seed_index: int) -> None:
    values = head_values(trajectory, seed_index)
    _draw_family(axes, trajectory.time, values, "$v_{{{0}}}$")
    axes.set_ylabel(f"values of the heads, seed {trajectory.setting.seeds[seed_index]}")
    legend(axes, 6)


def _draw_family(axes: Axes, time: FloatArray, curves: FloatArray, name: str) -> None:
    """A curve for each column; many are drawn in shades, and only some of them named."""
    count = curves.shape[1]
    named, colours = set(range(count)), list(COLOURS)
    if count > _MOST_NAMED:
        named = set(np.linspace(0, count - 1, _MOST_NAMED).round().astype(int).tolist())
        colours = [to_hex(one) for one in colormaps["viridis"](np.linspace(0.0, 0.9, count))]
    for index in range(count):
        label = name.format(index + 1) if index in named else None
        axes.plot(time, curves[:, index], color=colours[index], label=label)


def _optimum(trajectory: Trajectory, directions: FloatArray) -> FloatArray:
    """What the population's optimum has along each direction (1 where it has nothing)."""
    best = minimum(trajectory.setting.task).effective_map
    goal = np.einsum("ad,ab,bd->d", directions, best, directions)
    return np.where(np.abs(goal) > 0, goal, 1.0)


def eigenbasis(trajectory: Trajectory) -> FloatArray | None:
    """The eigenvectors e_1 … e_D as columns; None if the covariances share none."""
    return getattr(trajectory.setting.task, "common_basis", None)


def effective_maps(trajectory: Trajectory, seed_index: int) -> FloatArray:
    """One seed's effective map at every time, [T, D, D], in the eigenbasis if there is one."""
    maps = trajectory.dataset["effective_map"].isel(seed=seed_index).to_numpy()
    basis = eigenbasis(trajectory)
    return maps if basis is None else basis.T @ maps @ basis


def head_values(trajectory: Trajectory, seed_index: int) -> FloatArray:
    name = "v" if "v" in trajectory.dataset else "output"
    return trajectory.dataset[name].isel(seed=seed_index).to_numpy()


def _settled(trajectory: Trajectory) -> float:
    """When the last seed has fallen by all but a hundredth of its whole fall."""
    if trajectory.setting.record.keep == "quantiles":
        return float(trajectory.time[-1])
    loss = np.nan_to_num(trajectory.loss, nan=np.inf, posinf=np.inf)
    begin, end = loss[:, :1], loss[:, -1:]
    with np.errstate(invalid="ignore"):
        away = ~(np.abs(loss - end) <= 0.01 * np.abs(begin - end))
    return float(trajectory.time[away.any(axis=0)].max(initial=0.0))


def _predicted_times(result: Comparison) -> list[float]:
    times = (drop.predicted_time for seed in result.seeds for drop in seed.drops)
    return [time for time in times if time is not None]


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
