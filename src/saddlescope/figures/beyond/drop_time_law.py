"""Beyond the papers: when the loss first drops, as a law over random starts (T18)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import FIXED, STAIRCASE
from saddlescope.setting import Setting
from saddlescope.theory import drop_time_law
from saddlescope.theory.parametrisation import population_law

_STARTS = STAIRCASE.replace(keep="drops", seeds=2000)
# A run ends when this share of the starts should have dropped.
_LAST_SHARE = 0.999
_SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# The Kolmogorov–Smirnov distance that one sample in a hundred exceeds, times √n.
_CRITICAL = 1.63


@dataclass(frozen=True)
class DropTimeLawFigure(AbstractFigure):
    """The first drops of thousands of starts at three scales against one law."""

    setting: Setting = _STARTS
    scales: tuple[float, ...] = (0.1, 0.01, 0.001)

    varied = (*FIXED, "init_scale", "until", "points", "at", "spacing", "keep")

    id = "drop-time-law"
    title = "When the loss first drops: one law for all scales"
    source = "Beyond the papers (T18)"
    text = (
        "Two thousand random starts at each of three scales w, trained until the loss has dropped "
        "once; no start is used twice. The heads of a start are independent, each runs away after "
        "a time that is an integral over its own initial weights, and that time is inversely "
        "proportional to w. So the times of the runaway, in units of 1/w, have one distribution "
        "in all three samples, P(t* > t) = S(t)^H (dashed: by quadrature alone). (a) Its density. "
        "(b) The share of the starts that have not dropped. (c) The difference between the "
        "measured and the predicted share that has dropped, in units of the sampling error; one "
        "sample in a hundred leaves the grey band somewhere."
    )
    seconds = 60.0

    @classmethod
    def quick(cls) -> DropTimeLawFigure:
        return cls(_STARTS.replace(seeds=150), scales=(0.3, 0.1, 0.03))

    def compute(self, watch: Watch) -> xr.Dataset:
        base, count = self.setting, len(self.setting.seeds)
        law = drop_time_law(base.model, population_law(base.task), 1.0)
        parts = []
        for row, scale in watch.each(enumerate(self.scales)):
            own = replace(law, init_scale=scale)
            seeds = tuple(seed + row * (max(base.seeds) + 1) for seed in base.seeds)
            until = float(own.quantiles(_LAST_SHARE))
            setting = base.replace(init_scale=scale, seeds=seeds, until=until)
            run = watch.train(f"scale-{scale:g}", setting)
            time = run.summary()["drop_time"].to_numpy()[:, 0]
            # Starts that have not dropped count as later than all that have.
            missing = np.isnan(time)
            dropped = np.where(missing, 1.0, 1 - own.survival(np.where(missing, until, time)))
            late = np.where(missing, np.inf, time)
            parts.append(
                xr.Dataset(
                    {
                        "runaway": ("start", np.sort(scale * (late + law.delay))),
                        "dropped": ("start", np.sort(dropped)),
                    }
                )
            )
        data = xr.concat(parts, xr.DataArray(list(self.scales), dims="scale", name="scale"))
        unit = replace(law, init_scale=1.0, delay=0.0)
        curve = np.linspace(float(unit.quantiles(1e-3)), float(unit.quantiles(0.9995)), 300)
        return data.assign(law_survival=("unit_time", unit.survival(curve))).assign_coords(
            unit_time=curve, start=np.arange(count)
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        count, dropped = data.sizes["start"], data["dropped"].to_numpy()
        share = (dropped[:, :, None] <= _SHARES).mean(axis=1)
        runaway = data["runaway"].to_numpy()
        pairs = [
            _distance(runaway[one], runaway[other])
            for one in range(len(runaway))
            for other in range(one)
        ]
        return (
            at_most(
                "the 5 to 95 % quantiles of the drop times are those of the law (T18): "
                "difference in standard errors of the sample",
                np.abs(share - _SHARES) / np.sqrt(_SHARES * (1 - _SHARES) / count),
                3.0,
            ),
            at_most(
                "Kolmogorov–Smirnov distance between the drop times and the law, times √n",
                np.sqrt(count) * np.abs(_steps(count) - dropped[:, :, None]).max(axis=(1, 2)),
                _CRITICAL,
            ),
            at_most(
                "Kolmogorov–Smirnov distance between the runaway times, in units of 1/w, and "
                "the law's one curve for all scales, times √n",
                np.sqrt(count) * _curve_distances(data),
                _CRITICAL,
            ),
            at_most(
                "Kolmogorov–Smirnov distance between the samples at any two scales, times √(n/2)",
                np.sqrt(count / 2) * np.array(pairs),
                _CRITICAL,
            ),
            at_most(
                "share of starts that have not dropped by the time when the law leaves one in a "
                "thousand",
                np.isinf(runaway).mean(axis=1),
                (1 - _LAST_SHARE) + 3 * np.sqrt((1 - _LAST_SHARE) / count),
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        late = np.where(np.arange(len(self.scales)) == 0, 1.3, 1.0)[:, None]
        return (
            scaled("times of a start twice as large", 0.5, "runaway"),
            scaled("one scale a third too late", late, "runaway"),
            changed("S in place of S^H", "dropped", by=self._of_one_head),
            changed("a law of half as many heads", "dropped", by=lambda one: 1 - (1 - one) ** 0.5),
            scaled("quantiles two tenths too high", 1.2, "dropped"),
            changed("the share that has not dropped", "dropped", by=lambda one: 1 - one),
            scaled("a law in units of half the scale", 0.5, "unit_time"),
            rolled("a start that never drops first", "start", "runaway"),
        )

    def _of_one_head(self, dropped: xr.DataArray) -> xr.DataArray:
        return 1 - (1 - dropped) ** (1 / self.setting.model.heads)

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_density, _draw_survival, _draw_deviation)
        return panels.grid(draws, data, 3, width=3.4, height=2.8).build()


def _steps(count: int) -> FloatArray:
    """The shares of a sample below each member, without and with it, in rising order."""
    return np.stack([np.arange(count), np.arange(1, count + 1)], axis=-1) / count


def _curve_distances(data: xr.Dataset) -> FloatArray:
    """The distance of each scale's sample of runaways from the law that is drawn, [scale]."""
    curve, law = data["unit_time"].to_numpy(), 1 - data["law_survival"].to_numpy()
    steps = _steps(data.sizes["start"])
    # Beyond the ends of the curve the law is known to a thousandth.
    share = np.interp(data["runaway"].to_numpy(), curve, law)
    return np.abs(steps - share[:, :, None]).max(axis=(1, 2))


def _distance(one: FloatArray, other: FloatArray) -> float:
    """The Kolmogorov–Smirnov distance of two sorted samples."""
    both = np.concatenate([one, other])
    below = [np.searchsorted(sample, both, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


_CLOCK = r"$w\,t^*$,  scale × time of the runaway"


def _draw_density(axes: PanelBuilder, data: xr.Dataset) -> None:
    time = data["unit_time"].to_numpy()
    edges = np.linspace(time[0], float(data["runaway"].quantile(0.99)), 30)
    for index, sample in enumerate(data["runaway"]):
        counts, _ = np.histogram(sample, edges)
        height = counts / (sample.size * np.diff(edges))
        label = f"$w={float(data['scale'][index]):g}$"
        axes.stairs(height, edges, color=panels.colour(index), linewidth=1.2, label=label)
    # From one of ten points to the next the sample that stands for the law is smooth.
    some = time[::10]
    fall = -np.diff(data["law_survival"].to_numpy()[::10]) / np.diff(some)
    axes.plot((some[:-1] + some[1:]) / 2, fall, color="black", label="T18", **panels.THEORY)
    axes.set(xlabel=_CLOCK, ylabel="density", xlim=(edges[0], edges[-1]), ylim=(0, None))
    axes.legend(4)


def _draw_survival(axes: PanelBuilder, data: xr.Dataset) -> None:
    count = data.sizes["start"]
    left = 1 - np.arange(count) / count
    for index, sample in enumerate(data["runaway"]):
        axes.step(sample, left, where="pre", color=panels.colour(index))
    axes.plot(data["unit_time"], data["law_survival"], color="black", **panels.THEORY)
    axes.set(yscale="log", xlabel=_CLOCK, ylabel="share that has not dropped")
    axes.set(xlim=(data["unit_time"][0].item(), None), ylim=(0.7 / count, 1.2))


def _draw_deviation(axes: PanelBuilder, data: xr.Dataset) -> None:
    count = data.sizes["start"]
    share = np.arange(1, count + 1) / count
    axes.axhspan(-_CRITICAL, _CRITICAL, color="0.92", zorder=0)
    axes.axhline(0.0, color="black", zorder=1, **panels.THEORY)
    for index, dropped in enumerate(data["dropped"]):
        gap = np.sqrt(count) * (share - dropped)
        axes.plot(share, gap, color=panels.colour(index), linewidth=0.9)
    axes.set(xlabel="share that has dropped", ylim=(-2.2, 2.2), xlim=(0, 1))
    axes.set(ylabel=r"$\sqrt{n}$ × difference from T18")
