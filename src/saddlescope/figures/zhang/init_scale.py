"""Figure 6 of the published Zhang et al.: from rich to lazy learning with the initial scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from saddlescope.attention import AbstractLinearAttention, MergedAttention, SeparateAttention
from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.figures.kit.claim import (
    Claim,
    at_least,
    at_most,
    equal,
    relatively_within,
    within,
)
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import (
    THEORY,
    TIME_LABEL,
    colour,
    legend,
    levels,
    shades,
    sheet,
)
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.scale_runs import ScaleRuns
from saddlescope.measure import drop_times
from saddlescope.task import InContextRegression
from saddlescope.theory import modes, plateau_losses, predict_staircase, time_course

# Up to this scale the laws of small starts are fitted.
_SMALL = 0.01
# Up to this one separate attention's drops are predicted.
_PREDICTED = 0.1
_MODELS = ("merged", "separate")
_LEFT_LABEL = "share of excess loss left"


@dataclass(frozen=True)
class InitScale(AbstractFigure):
    """Plateaus shorten as ln(1/w) (T11) and 1/w (T12) and vanish where learning is lazy."""

    spectrum: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    context_length: int = 31
    merged_heads: int = 8
    separate_heads: int = 5
    scales: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    seeds: int = 3
    until: float = 1e6
    points: int = 3000

    id = "init-scale"
    title = "From rich to lazy learning: the initial scale"
    source = "Zhang et al., Figure 6 (ICML 2025)"
    text = (
        "The same random starts at different scales w, light is large. (a) Merged attention: its "
        "one plateau shortens with the logarithm of the scale; dashed is the theory of small "
        "starts (T10) as far as it goes and of a frozen kernel at the largest. (b) Separate "
        "attention: every plateau shortens as 1/w; circles are the drops predicted by T13. At the "
        "largest scale both decay from the first moment on, a sum of exponentials with the rates "
        "of the initial kernel; in between steps blur into one slow decay. (c) The smallest and "
        "the largest start on one clock: the large ones decay without delay, and slower later, as "
        "the kernel's rates differ. (d) How long it takes to lose half of the excess loss. The "
        "lazy limit is not exact here: with a handful of heads the initial function grows along "
        "with the weights, which still move by a fifth to a half of their length, and no scale "
        "makes that less."
    )
    seconds = 9.0

    @classmethod
    def quick(cls) -> InitScale:
        return cls(scales=(0.003, 0.01, 0.1, 1.0, 10.0), seeds=1, until=2e5, points=2000)

    def compute(self, watch: Watch) -> xr.Dataset:
        task = InContextRegression(self.spectrum, self.context_length)
        models = (
            MergedAttention(self.merged_heads),
            SeparateAttention(self.separate_heads, rank=1),
        )
        parts = [
            self._runs.numbers(watch, name, task, model)
            for name, model in watch.each(zip(_MODELS, models, strict=True))
        ]
        data = xr.concat(parts, dim="model").assign_coords(model=list(_MODELS))
        data["level_loss"] = ("level", plateau_losses(task))
        data["growth_rate"] = modes(task).growth_rate
        data["small_loss"] = (("scale", "time"), self._small_merged(task, data["time"].to_numpy()))
        data["small_drop_time"] = (("scale", "drop"), self._small_separate(task, models[1]))
        return data

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        scale = data["scale"].to_numpy()
        small = np.flatnonzero(scale <= _SMALL)
        merged, separate = data["half_time"].to_numpy()
        slopes = np.polyfit(np.log(1 / scale[small]), merged[small], 1)[0]
        powers = np.polyfit(np.log(scale[small]), np.log(separate[small]), 1)[0]
        half_times = data["half_time"].to_numpy()
        waiting = (data["initial_rate"] / data["highest_rate"]).to_numpy()
        last = data.isel(scale=-1)
        lazy_error = abs(last["lazy_loss"] - last["loss"]).max("time") / last["excess"]
        drops = data["drop_count"].to_numpy()
        predicted, drop_times = data["small_drop_time"].to_numpy()[small], _measured_drops(data)
        return (
            relatively_within(
                "merged: the plateau grows as ln(1/w) over the growth rate of Λ² (T11)",
                slopes,
                np.full(slopes.shape, 1 / float(data["growth_rate"])),
                0.01,
            ),
            within(
                "separate: the time to half the loss goes as a power of w, -1 (T12)",
                powers,
                np.full(powers.shape, -1.0),
                0.02,
            ),
            relatively_within(
                "separate: drops at small scales come when predicted (T13)",
                drop_times[small][np.isfinite(predicted)],
                predicted[np.isfinite(predicted)],
                0.03,
            ),
            at_most(
                "a larger start is faster: time to half the loss over that at the scale before",
                half_times[:, 1:] / half_times[:, :-1],
                1.0,
            ),
            equal(
                "drops at the smallest scale: one merged, all D separate; at the largest one",
                drops[:, [0, -1]].reshape(4, -1).T,
                np.tile([1, 1, len(self.spectrum), 1], (data.sizes["seed"], 1)),
            ),
            at_most(
                "the smallest start waits: its rate of decay at first, over the highest",
                waiting[:, 0],
                0.01,
            ),
            at_least(
                "the largest start does not: its rate of decay is highest at first",
                waiting[:, -1],
                0.99,
            ),
            at_most(
                "at the largest scale the loss decays by a frozen kernel: error over its excess",
                lazy_error,
                0.15,
            ),
        )

    def draw(self, data: xr.Dataset) -> Figure:
        drawing, axes = sheet(2, 2, width=3.9, height=2.7)
        tones = shades(data.sizes["scale"])
        for place, name in enumerate(_MODELS):
            one = data.sel(model=name).isel(seed=0)
            _draw_losses(axes[0, place], one, tones)
        merged_axes, separate_axes = axes[0]
        _draw_small_merged(merged_axes, data)
        _draw_small_separate(separate_axes, data, tones)
        merged_axes.set_xlim(1e-3, 2e3)
        separate_axes.set_xlim(1e-3, float(data["time"][-1]))
        _draw_decays(axes[1, 0], data)
        _draw_half_times(axes[1, 1], data)
        for panel, letter in zip(axes.ravel(), "abcd", strict=True):
            panel.set_title(f"({letter})", loc="right")
        return drawing

    @property
    def _runs(self) -> ScaleRuns:
        return ScaleRuns(self.scales, self.seeds, self.until, self.points)

    def _small_merged(self, task: InContextRegression, time: FloatArray) -> FloatArray:
        """The loss of the first seed of merged attention by T10, NaN where the start is large."""
        courses = []
        for start in self._runs.starts(task, MergedAttention(self.merged_heads)):
            first = {key: array[0] for key, array in start.items()}
            try:
                courses.append(time_course(task, weights=first, times=time).loss)
            except TheoryDoesNotApply:
                courses.append(np.full(time.shape, np.nan))
        return np.array(courses)

    def _small_separate(
        self, task: InContextRegression, model: AbstractLinearAttention
    ) -> FloatArray:
        """The drop times of the first seed of separate attention by T13, NaN for large starts."""
        table = np.full((len(self.scales), len(self.spectrum)), np.nan)
        for row, start in enumerate(self._runs.starts(task, model)):
            if self.scales[row] <= _PREDICTED:
                weights = {key: array[0] for key, array in start.items()}
                drops = predict_staircase(model, task, weights, self.until).drops
                table[row, : len(drops)] = [drop.time for drop in drops]
        return table


def _measured_drops(data: xr.Dataset) -> FloatArray:
    """When the first seed of separate attention crosses midway between levels, [scale, drop]."""
    loss = data["loss"].sel(model="separate").isel(seed=0).to_numpy()
    return drop_times(loss, data["level_loss"].to_numpy(), data["time"].to_numpy())


def _left(data: xr.Dataset, name: str = "loss") -> xr.DataArray:
    """The share of the initial excess loss that is left."""
    start = data["loss"].isel(time=0)
    left: xr.DataArray = (data[name] - start) / data["excess"] + 1
    return left


def _draw_losses(axes: Any, one: xr.Dataset, tones: list[Any]) -> None:
    """Every scale's loss of one model and seed; the frozen kernel at the largest."""
    for place, scale in enumerate(one["scale"].to_numpy()):
        axes.plot(one["time"], _left(one)[place], color=tones[place], label=f"$w={scale:g}$")
    axes.plot(one["time"], _left(one.isel(scale=-1), "lazy_loss"), color="black", **THEORY)
    axes.set(xlabel=TIME_LABEL, xscale="log", ylim=(-0.02, 1.05))
    axes.set_ylabel(f"{one['model'].item()}: {_LEFT_LABEL}")


def _draw_small_merged(axes: Any, data: xr.Dataset) -> None:
    legend(axes, 4)
    excess = data["excess"].sel(model="merged").isel(seed=0)
    start = data["loss"].sel(model="merged").isel(seed=0, time=0)
    for course in (data["small_loss"] - start) / excess + 1:
        axes.plot(data["time"], course, color="black", **THEORY)


def _draw_small_separate(axes: Any, data: xr.Dataset, tones: list[Any]) -> None:
    heights = data["level_loss"].to_numpy()
    heights = (heights - heights[-1]) / (heights[0] - heights[-1])
    for place, known in enumerate(data["small_drop_time"].to_numpy()):
        middles = (heights[:-1] + heights[1:]) / 2
        axes.plot(known, middles, "o", color=tones[place], markerfacecolor="none", markersize=4)
    levels(axes, heights)
    axes.plot([], [], color="black", label="levels (T7), frozen kernel", **THEORY)
    axes.plot([], [], "o", color=tones[0], markerfacecolor="none", label="drops (T13)")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[-2:],
        labels[-2:],
        fontsize=7.5,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        handlelength=1.3,
    )


def _draw_decays(axes: Any, data: xr.Dataset) -> None:
    """The smallest and the largest start on one clock: a straight line is an exponential."""
    for row, name in enumerate(_MODELS):
        one = data.sel(model=name).isel(seed=0)
        for place, width in ((0, 1.4), (-1, 2.6)):
            scale = float(data["scale"][place])
            clock = one["time"] / one["half_time"][place]
            label = f"{name}, $w={scale:g}$"
            axes.plot(clock, _left(one)[place], color=colour(5 * row), linewidth=width, label=label)
        axes.plot(
            clock,
            _left(one.isel(scale=-1), "lazy_loss"),
            color="black",
            label="frozen kernel" if row else None,
            **THEORY,
        )
    axes.set(
        yscale="log",
        xlim=(0, 6),
        ylim=(3e-3, 1.3),
        xlabel="time over the time to half",
        ylabel=_LEFT_LABEL,
    )
    legend(axes, 2)


def _draw_half_times(axes: Any, data: xr.Dataset) -> None:
    scale = data["scale"].to_numpy()
    large, small = scale >= 1.0, scale <= 1.0
    first = data["half_time"].isel(seed=0).to_numpy()[:, 0]
    waits = first[0] - np.log(scale[small] / scale[0]) / float(data["growth_rate"])
    laws = (waits, first[1] * scale[0] / scale[small])
    labels = (r"$\ln(1/w)/\|\Lambda^2\|_F$ + const (T11)", r"$\propto 1/w$ (T12)")
    for place, name in enumerate(_MODELS):
        one, tone = data.sel(model=name).isel(seed=0), colour(5 * place)
        axes.plot(scale, one["half_time"], "os"[place], color=tone, markersize=5, label=name)
        axes.plot(scale[small], laws[place], color=tone, label=labels[place], **THEORY)
        axes.plot(
            scale[large],
            one["lazy_half_time"].to_numpy()[large],
            color=tone,
            linestyle=":",
            label=None if place else "frozen kernel",
        )
    axes.set(
        xscale="log", yscale="log", xlabel="initial scale  $w$", ylabel=r"time to half  $t/\tau$"
    )
    legend(axes, 2)
