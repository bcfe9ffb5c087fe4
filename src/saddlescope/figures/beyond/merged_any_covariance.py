"""Merged attention's whole course for any covariance, beyond the papers (T10)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart, RandomStart
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.merged_run import MERGED, course_times, merged_numbers
from saddlescope.figures.zhang.staircase import FIXED
from saddlescope.setting import Setting
from saddlescope.task import Spectrum
from saddlescope.theory import modes, plateau_duration

_FLOW = MERGED.replace(seeds=3, points=400, rtol=1e-10, atol=1e-13)
_MARKERS = "osD^v*"
_PREDICTED = {"color": "black", **panels.THEORY}
# At D = 4 the error is .03 times the scale, or less, in six random starts.
_ORDER_OF_ERROR = 0.05
# The scale whose losses are drawn.
_SHOWN = 1e-3


@dataclass(frozen=True)
class MergedAnyCovariance(AbstractFigure):
    """The loss follows D + 1 scalars at all times, with an error proportional to the scale."""

    setting: Setting = _FLOW
    covariances: tuple[str, ...] = ("white:6", "power:6:1", "power:6:1.5", "random:6")
    scales: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)

    varied = (*FIXED, "spectrum", "covariance", "init_scale", "until", "at", "spacing")

    id = "merged-any-covariance"
    title = "Merged attention, any covariance: the whole course from D + 1 scalars"
    source = "Beyond the papers: T10, T11"
    text = (
        "Zhang et al. solve merged attention in closed form for white inputs only. From a small "
        "start all weights move along one direction, so that for any covariance the loss follows "
        "D + 1 scalar equations, given the initial weights. (a) The loss for white inputs, two "
        "power laws and a random covariance that is not diagonal, at scale .001, in units of the "
        "growth rate; the theory is dashed. (b) The largest error at any time is proportional to "
        "the initial scale, and to its square for white inputs, until the solver's own error is "
        "reached. (c) The drop comes by a constant later than the end of the plateau predicted "
        "from the initial weights; the leading logarithm of the scale alone (dotted) is far off "
        "at any practical scale."
    )
    seconds = 8.0

    @classmethod
    def quick(cls) -> MergedAnyCovariance:
        return cls(_FLOW.replace(seeds=1, points=200), ("white:4", "power:4:1", "random:4"))

    def compute(self, watch: Watch) -> xr.Dataset:
        parts = [self._numbers(watch, name) for name in watch.each(self.covariances)]
        return xr.concat(parts, dim="covariance").assign_coords(covariance=list(self.covariances))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        error, scale = _error(data), data["scale"].to_numpy()
        white = np.char.startswith(data["covariance"].to_numpy().astype(str), "white")
        orders = np.array([_power(scale, np.log(one)) for one in error.to_numpy()[~white]])
        waits = data["drop_time"] * data["growth_rate"]
        slopes = np.array([-_power(scale, one) for one in waits.to_numpy()])
        late = _lateness(data)
        last = data["loss"].isel(point=-1)
        return (
            at_most(
                "the loss follows D + 1 scalar equations at all times (T10): largest error over "
                "the initial scale",
                (error / data["scale"]).max(("scale", "seed")),
                _ORDER_OF_ERROR,
            ),
            within(
                "where the inputs are not white, that error is proportional to the initial "
                "scale (T10): exponent",
                orders,
                np.ones(orders.shape),
                0.04,
            ),
            at_most(
                "with white inputs the loss follows the closed form (T9): largest error at the "
                "smallest scale",
                error.isel(scale=int(scale.argmin()))[white],
                4e-9,
            ),
            relatively_within(
                "the drop comes at the time predicted from the initial weights (T10)",
                data["drop_time"],
                data["predicted_drop_time"],
                4e-4,
            ),
            relatively_within(
                "the length of the plateau grows as ln(1/w) over the growth rate (T11): its "
                "slope in ln(1/w)",
                slopes,
                np.ones(slopes.shape),
                3e-4,
            ),
            at_most(
                "the drop follows T11's end of the plateau by the same delay in every run: "
                "spread of the delay over scales and seeds",
                late.max(("scale", "seed")) - late.min(("scale", "seed")),
                0.003,
            ),
            within(
                "the loss ends at its minimum (T7)",
                last,
                data["level_loss"][:, -1].broadcast_like(last),
                1e-12,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("the course of another covariance", "covariance", "predicted_loss"),
            rolled("the course of another scale", "scale", "predicted_loss"),
            scaled("the growth rate of a slightly other spectrum", 1.001, "growth_rate"),
            scaled("drops late by a thousandth of their time", 1.001, "drop_time"),
            scaled("steps in place of flow time", 10.0, "drop_time"),
            scaled("a plateau of ln(1/s) in place of half of it", 2.0, "aligned_plateau"),
            scaled("levels of another context length", 1.01, "level_loss"),
            scaled("a loss with a factor one half", 0.5, "loss"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_losses, _draw_errors, _draw_drops)
        return panels.grid(draws, data, 3, width=3.3, height=2.9).build()

    def _numbers(self, watch: Watch, name: str) -> xr.Dataset:
        """The runs of one covariance at all scales, beside their theory."""
        setting = self.setting.replace(spectrum=_spectrum(name))
        task, seeds = setting.task, setting.seeds
        starts = [
            RandomStart(scale).ensemble(setting.model, task, np.array(seeds))
            for scale in self.scales
        ]
        times = course_times(task, min(self.scales), setting.record.points)
        given = GivenStart({key: np.concatenate([one[key] for one in starts]) for key in starts[0]})
        count = len(self.scales) * len(seeds)
        setting = setting.replace(init=given, seeds=count, until=float(times[-1]), at=times)
        run = watch.train(name.replace(":", "-"), setting)
        numbers = merged_numbers(run)
        shape, axes = (len(self.scales), len(seeds)), ("scale", "seed")
        durations = [plateau_duration(task, weights=run.weights(seed, 0)) for seed in range(count)]
        columns = {
            "drop_time": numbers["drop_time"].to_numpy()[:, 0],
            "predicted_drop_time": numbers["predicted_drop_time"].to_numpy()[:, 0],
            "leading_plateau": np.array([duration.leading for duration in durations]),
            "aligned_plateau": np.array([duration.aligned for duration in durations]),
        }
        return xr.Dataset(
            {
                "time": ("point", times),
                "loss": ((*axes, "point"), run.loss.reshape(*shape, -1)),
                "predicted_loss": (
                    (*axes, "point"),
                    numbers["predicted_loss"].to_numpy().reshape(*shape, -1),
                ),
                "level_loss": ("level", numbers["level_loss"].to_numpy()),
                "growth_rate": modes(task).growth_rate,
                **{key: (axes, values.reshape(shape)) for key, values in columns.items()},
            },
            coords={"scale": list(self.scales), "seed": list(seeds)},
        )


def _spectrum(name: str) -> Spectrum:
    """A covariance by name: those of `Spectrum.parse`, or `random:D`, of trace 1."""
    kind, *numbers = name.split(":")
    if kind != "random":
        spectrum = Spectrum.parse(name)
        return Spectrum(spectrum.eigenvalues / spectrum.trace, spectrum.basis)
    dimension = int(numbers[0])
    factor = np.random.default_rng(0).standard_normal((dimension, 2 * dimension))
    matrix = factor @ factor.T
    return Spectrum.from_matrix(matrix / np.trace(matrix))


def _error(data: xr.Dataset) -> xr.DataArray:
    """The largest distance of the loss from its theory at any time."""
    return abs(data["loss"] - data["predicted_loss"]).max("point")


def _power(scale: FloatArray, values: FloatArray) -> FloatArray:
    """The slope of values against ln w, one for each seed."""
    return np.polyfit(np.log(scale), values, 1)[0]


def _lateness(data: xr.Dataset) -> xr.DataArray:
    """The delay of the drop after the plateau of T11, in units of 1/‖Λ²‖."""
    return (data["drop_time"] - data["aligned_plateau"]) * data["growth_rate"]


def _draw_losses(axes: PanelBuilder, data: xr.Dataset) -> None:
    shown = data.sel(scale=_SHOWN, method="nearest").isel(seed=0)
    for index, name in enumerate(data["covariance"].to_numpy()):
        one = shown.isel(covariance=index)
        clock = one["time"] * one["growth_rate"]
        axes.plot(clock, one["loss"], color=panels.colour(index), linewidth=2.2, label=_label(name))
        axes.plot(clock, one["predicted_loss"], **_PREDICTED)
    axes.plot([], [], label="theory (T10)", **_PREDICTED)
    axes.set(xlim=(0, 20), xlabel=r"time  $t\,\|\Lambda^2\|_F$")
    axes.set(ylim=(0, 1.03), ylabel=panels.LOSS_LABEL)
    axes.legend(2)


def _draw_errors(axes: PanelBuilder, data: xr.Dataset) -> None:
    error, scale = _error(data), data["scale"].to_numpy()
    for index, name in enumerate(data["covariance"].to_numpy()):
        tint, sign = panels.colour(index), _MARKERS[index % len(_MARKERS)] + "-"
        worst = error[index].max("seed")
        axes.plot(scale, worst, sign, color=tint, markersize=4, linewidth=0.8, label=_label(name))
    start = error.max("seed").isel(scale=int(scale.argmax()))
    for power, anchor in ((1, float(start.max())), (2, float(start.min()))):
        law = 2 * anchor * (scale / scale.max()) ** power
        label = r"$\propto w$, $\propto w^2$" if power == 1 else None
        axes.plot(scale, law, label=label, **_PREDICTED)
    axes.set(xscale="log", yscale="log", xlabel="initial scale  $w$")
    axes.set(ylabel="largest error of the loss", ylim=(1e-11, None))
    axes.legend(2)


def _draw_drops(axes: PanelBuilder, data: xr.Dataset) -> None:
    scale = data["scale"].to_numpy()
    for index, name in enumerate(data["covariance"].to_numpy()):
        one = data.isel(covariance=index, seed=0)
        rate, late = float(one["growth_rate"]), float(_lateness(one).mean())
        tint, sign = panels.colour(index), _MARKERS[index % len(_MARKERS)]
        drop = rate * one["drop_time"]
        axes.plot(scale, drop, sign, color=tint, markersize=5, label=_label(name))
        axes.plot(scale, rate * one["aligned_plateau"] + late, **_PREDICTED)
    axes.plot([], [], label=r"$\frac{1}{2}\ln(1/s_0)$ + const (T11)", **_PREDICTED)
    leading, label = np.log(1 / scale), r"$\ln(1/w)$"
    axes.plot(scale, leading, color=panels.THEORY_COLOUR, linestyle=":", label=label)
    axes.set(xscale="log", xlabel="initial scale  $w$", ylabel=r"drop  $t\,\|\Lambda^2\|_F$")
    axes.set(ylim=(0, None))
    axes.legend(2)


def _label(name: str) -> str:
    """A covariance in words."""
    kind, _, *exponent = str(name).split(":")
    if kind == "power":
        return rf"$\lambda_d\propto d^{{-{exponent[0]}}}$"
    return {"white": "white", "random": "random, not diagonal"}.get(kind, str(name))
