"""Figure 6 of the published Zhang et al.: from rich to lazy learning with the initial scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted
from saddlescope.figures.kit.panels import THEORY, colour
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.merged_run import with_merged_heads
from saddlescope.figures.zhang.scale_runs import train_scales
from saddlescope.figures.zhang.staircase import FIXED, STAIRCASE, midway, predicted_drop_times
from saddlescope.measure import drop_times
from saddlescope.setting import Setting
from saddlescope.theory import modes, plateau_losses, time_course

_SEPARATE = STAIRCASE.replace(until=1e6, converged=1e-7, points=3000, weights=False, seeds=3)

# The laws of small starts are fitted up to this scale.
_SMALL = 0.01
# The drops of separate attention are predicted up to this scale.
_PREDICTED = 0.1
_MODELS = ("merged", "separate")
_LEFT_LABEL = "share of excess loss left"


@dataclass(frozen=True)
class InitScale(AbstractFigure):
    """Plateaus shorten as ln(1/w) (T11) and 1/w (T12) and vanish where learning is lazy."""

    setting: Setting = _SEPARATE
    merged_heads: int = 8
    scales: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

    id = "init-scale"
    title = "From rich to lazy learning: the initial scale"
    source = "Zhang et al., Figure 6 (ICML 2025)"
    text = (
        "The same random starts at different scales w, from small (dark) to large (light). (a) "
        "Merged attention: its one plateau shortens with the logarithm of the scale. Dashed: the "
        "theory of small starts (T10) at the scales where it applies, and of a frozen kernel at "
        "the largest. (b) Separate attention: every plateau shortens in proportion to 1/w; "
        "circles are the drops predicted by T13. At the largest scale both decay from the very "
        "beginning, as a sum of exponentials with the rates of the initial kernel; in between, "
        "the steps blur into one slow decay. (c) The smallest and the largest start, with time in "
        "units of the time to half the loss: the large ones decay at once, and more slowly later, "
        "as the rates of the kernel differ. (d) The time to half of the excess loss. The lazy "
        "limit is not exact here: with a handful of heads the initial function grows along with "
        "the weights, which still move by a fifth to a half of their length, and no scale reduces "
        "that."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "the scales are ours",
    )
    seconds = 9.0
    varied = (*FIXED, "init_scale", "at", "spacing")

    @classmethod
    def quick(cls) -> InitScale:
        setting = _SEPARATE.replace(seeds=(1,), until=2e5, points=2000)
        return cls(setting, scales=(0.003, 0.01, 0.1, 1.0, 10.0))

    def compute(self, watch: Watch) -> xr.Dataset:
        settings = (with_merged_heads(self.setting, self.merged_heads), self.setting)
        parts = [
            train_scales(watch, name, setting, self.scales)
            for name, setting in watch.each(zip(_MODELS, settings, strict=True))
        ]
        data = xr.concat(parts, dim="model").assign_coords(model=list(_MODELS))
        merged, separate = (
            [setting.replace(init_scale=scale) for scale in self.scales] for setting in settings
        )
        losses = [_small_loss(setting, data["time"].to_numpy()) for setting in merged]
        drops = np.full((len(self.scales), self.setting.task.dimension), np.nan)
        for row in np.flatnonzero(data["scale"] <= _PREDICTED).tolist():
            drops[row] = predicted_drop_times(separate[row], self.setting.seeds[0])
        return data.assign(
            level_loss=("level", plateau_losses(self.setting.task)),
            growth_rate=modes(self.setting.task).growth_rate,
            small_loss=(("scale", "time"), np.array(losses)),
            small_drop_time=(("scale", "drop"), drops),
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        scale = data["scale"].to_numpy()
        small = np.flatnonzero(scale <= _SMALL)
        half_times = data["half_time"].to_numpy()
        slopes = np.polyfit(np.log(1 / scale[small]), half_times[0][small], 1)[0]
        powers = np.polyfit(np.log(scale[small]), np.log(half_times[1][small]), 1)[0]
        waiting = (data["initial_rate"] / data["highest_rate"]).to_numpy()
        last = data.isel(scale=-1)
        lazy_error = abs(last["lazy_loss"] - last["loss"]).max("time") / last["excess"]
        drops = data["drop_count"].to_numpy()
        predicted, drop_times = data["small_drop_time"].to_numpy()[small], _measured_drops(data)
        return (
            relatively_within(
                "merged: the length of the plateau grows as ln(1/w) over the growth rate of Λ² "
                "(T11): its slope in ln(1/w)",
                slopes,
                np.full(slopes.shape, 1 / float(data["growth_rate"])),
                1e-3,
            ).stated_in("Z 51"),
            within(
                "separate: the time to half the loss goes as 1/w (T12): exponent",
                powers,
                np.full(powers.shape, -1.0),
                0.005,
            ).stated_in("Z 68, 73"),
            relatively_within(
                "separate: drops at small scales come at the times predicted from the initial "
                "weights alone (T13)",
                drop_times[small][np.isfinite(predicted)],
                predicted[np.isfinite(predicted)],
                0.01,
            ),
            within(
                "every run ends at the least loss (T7)",
                data["loss"].isel(time=-1),
                np.full(drops.shape, data["level_loss"].to_numpy()[-1]),
                1e-6,
            ),
            at_most(
                "a larger start learns faster: time to half the loss over that at the next "
                "smaller scale",
                half_times[:, 1:] / half_times[:, :-1],
                1.0,
            ).stated_in("Z Figure 6 (ICML 2025)"),
            equal(
                "number of drops: at the smallest scale 1 merged and D separate, at the largest "
                "scale 1 each",
                drops[:, [0, -1]].reshape(4, -1).T,
                np.tile([1, 1, data.sizes["drop"], 1], (data.sizes["seed"], 1)),
                "runs drop so often",
            ),
            at_most(
                "from the smallest start the loss waits: its initial rate of decay over its "
                "highest",
                waiting[:, 0],
                3e-5,
            ),
            at_least(
                "from the largest start the loss decays at once: its initial rate of decay over "
                "its highest",
                waiting[:, -1],
                0.99,
            ).stated_in("Z Figure 6 (ICML 2025)"),
            at_most(
                "at the largest scale the loss decays as with a frozen kernel: largest error as "
                "a share of the initial excess loss",
                lazy_error,
                0.13,
            ).stated_in("Z Figure 6 (ICML 2025)"),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("the growth rate of Λ in place of Λ²", 3.0, "growth_rate"),
            scaled("a clock two per cent slow", 1.02, "time", "half_time"),
            rolled("merged and separate exchanged", "model", "half_time", "drop_count"),
            rolled("the losses of another scale", "scale", "half_time"),
            scaled("predictions of a start twice as large", 0.5, "small_drop_time"),
            shifted("one drop too many", 1.0, "drop_count"),
            scaled("a kernel with a factor one half", 0.5, "initial_rate"),
            rolled("the frozen kernel of the other model", "model", "lazy_loss"),
            scaled("a least loss one per cent too high", 1.01, "level_loss"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(2, 2, width=3.9, height=2.7)
        tones = panels.shades(data.sizes["scale"])
        merged_axes, separate_axes = axes[0]
        for panel, name in zip(axes[0], _MODELS, strict=True):
            _draw_losses(panel, data.sel(model=name).isel(seed=0), tones)
        _draw_small_merged(merged_axes, data)
        _draw_small_separate(separate_axes, data, tones)
        merged_axes.set(xlim=(1e-3, 2e3))
        separate_axes.set(xlim=(1e-3, float(data["time"][-1])))
        _draw_decays(axes[1, 0], data)
        _draw_half_times(axes[1, 1], data)
        panels.letter(axes.flat)
        return drawing.build()


def _small_loss(setting: Setting, time: FloatArray) -> FloatArray:
    """The loss of merged attention's first seed by T10, NaN where the start is large."""
    start = setting.init.weights(setting.model, setting.task, setting.seeds[0])
    try:
        return time_course(setting.task, weights=start, times=time).loss
    except TheoryDoesNotApply:
        return np.full(time.shape, np.nan)


def _measured_drops(data: xr.Dataset) -> FloatArray:
    """When the first seed of separate attention crosses midway between levels, [scale, drop]."""
    loss = data["loss"].sel(model="separate").isel(seed=0).to_numpy()
    return drop_times(loss, data["level_loss"].to_numpy(), data["time"].to_numpy())


def _left(data: xr.Dataset, name: str = "loss") -> xr.DataArray:
    """The share left of the initial excess loss."""
    return (data[name] - data["loss"].isel(time=0)) / data["excess"] + 1


def _draw_losses(axes: PanelBuilder, one: xr.Dataset, tones: list[FloatArray]) -> None:
    """Every scale's loss of one model and seed; the frozen kernel at the largest."""
    for tone, left, scale in zip(tones, _left(one), one["scale"].to_numpy(), strict=True):
        axes.plot(one["time"], left, color=tone, label=f"$w={scale:g}$")
    axes.plot(one["time"], _left(one.isel(scale=-1), "lazy_loss"), color="black", **THEORY)
    axes.set(xlabel=panels.TIME_LABEL, xscale="log", ylim=(-0.02, 1.05))
    axes.set(ylabel=f"{one['model'].item()}: {_LEFT_LABEL}")


def _draw_small_merged(axes: PanelBuilder, data: xr.Dataset) -> None:
    axes.legend(4)
    for course in _left(data.sel(model="merged").isel(seed=0), "small_loss"):
        axes.plot(data["time"], course, color="black", **THEORY)


def _draw_small_separate(axes: PanelBuilder, data: xr.Dataset, tones: list[FloatArray]) -> None:
    heights = data["level_loss"].to_numpy()
    heights = (heights - heights[-1]) / (heights[0] - heights[-1])
    for tone, times in zip(tones, data["small_drop_time"].to_numpy(), strict=True):
        axes.plot(times, midway(heights), color=tone, markersize=4, **panels.CIRCLES)
    panels.levels(axes, heights)
    labels = ("levels (T7), frozen kernel", "drops (T13)")
    axes.plot([], [], color="black", label=labels[0], **THEORY)
    axes.plot([], [], color=tones[0], label=labels[1], **panels.CIRCLES)
    axes.legend(1, labels=labels)


def _draw_decays(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The smallest and the largest start in their own units of time; exponentials are straight."""
    for row, name in enumerate(_MODELS):
        one = data.sel(model=name).isel(seed=0)
        for end, width in ((0, 1.4), (-1, 2.6)):
            clock = one["time"] / one["half_time"][end]
            label = f"{name}, $w={float(data['scale'][end]):g}$"
            axes.plot(clock, _left(one)[end], color=colour(5 * row), linewidth=width, label=label)
        lazy = _left(one.isel(scale=-1), "lazy_loss")
        axes.plot(clock, lazy, color="black", label="frozen kernel" if row else None, **THEORY)
    axes.set(yscale="log", xlim=(0, 6), ylim=(3e-3, 1.3))
    axes.set(xlabel="time over the time to half", ylabel=_LEFT_LABEL)
    axes.legend(2)


def _draw_half_times(axes: PanelBuilder, data: xr.Dataset) -> None:
    scale = data["scale"].to_numpy()
    large, small = scale >= 1.0, scale <= 1.0
    first = data["half_time"].isel(seed=0).to_numpy()[:, 0]
    waits = first[0] - np.log(scale[small] / scale[0]) / float(data["growth_rate"])
    laws = (waits, first[1] * scale[0] / scale[small])
    labels = (r"$\ln(1/w)/\|\Lambda^2\|_F$ + const (T11)", r"$\propto 1/w$ (T12)")
    for row, name in enumerate(_MODELS):
        one, tone = data.sel(model=name).isel(seed=0), colour(5 * row)
        axes.plot(scale, one["half_time"], "os"[row], color=tone, markersize=5, label=name)
        axes.plot(scale[small], laws[row], color=tone, label=labels[row], **THEORY)
        lazy, label = one["lazy_half_time"].to_numpy()[large], None if row else "frozen kernel"
        axes.plot(scale[large], lazy, color=tone, linestyle=":", label=label)
    axes.set(xscale="log", yscale="log", xlabel="initial scale  $w$")
    axes.set(ylabel=r"time to half  $t/\tau$")
    axes.legend(2)
