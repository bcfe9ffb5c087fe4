"""Beyond the papers: the first drops of a million starts, found on a GPU, against T18's law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.figures.beyond.recorded import SCALE, digest, recorded
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import STAIRCASE
from saddlescope.theory import drop_time_law
from saddlescope.theory.parametrisation import population_law


@dataclass(frozen=True)
class DropTimeLawRecorded(AbstractFigure):
    """How many of a million starts have dropped by each of a thousand times."""

    sampled_heads: int = 2**19
    """Heads whose quadratures stand for the law."""

    id = "drop-time-law-recorded"
    title = "When the loss first drops: a million starts on one GPU against one law"
    source = "Beyond the papers (T18); recorded on an NVIDIA H200"
    text = (
        "A million random starts of the staircase's task at w = .01, trained by gradient flow "
        "until all but a handful have dropped, in one call on one GPU (`python -m "
        "saddlescope.figures.beyond.recorded FILE`); the record holds how many had dropped by "
        "each of a thousand times. Dashed: P(t > t₁) = S(t)^H from the runaway times of other "
        "heads, by quadrature alone. (a) The density. (b) The share that has not dropped, down to "
        "one in a million. (c) The difference between the measured and the predicted share that "
        "has dropped, in units of the sampling error of both."
    )
    seconds = 15.0

    @classmethod
    def quick(cls) -> DropTimeLawRecorded:
        return cls(sampled_heads=2**16)

    def inputs(self) -> str:
        return digest()

    def compute(self, watch: Watch) -> xr.Dataset:
        found = recorded()
        heads = STAIRCASE.model.heads
        law = drop_time_law(
            STAIRCASE.model,
            population_law(STAIRCASE.task),
            SCALE,
            sampled_heads=self.sampled_heads,
        )
        left = law.survival(found["time"].to_numpy())
        alone = left ** (1 / heads)
        starts = found.attrs["starts"]
        # Of the starts, and of the heads that stand for the law.
        variance = left * (1 - left) / starts
        variance += (heads * alone ** (heads - 1)) ** 2 * alone * (1 - alone) / self.sampled_heads
        return found.assign(
            share=found["dropped"] / starts,
            law=("time", 1 - left),
            error=("time", np.sqrt(variance)),
        ).drop_vars("dropped")

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        apart = np.abs((data["share"] - data["law"]).to_numpy())
        left = 1 - data[["share", "law"]].sel(time=data.attrs["until"])
        return (
            at_most(
                "the share of starts that have dropped by each time is the law's (T18): "
                "difference in standard errors",
                apart / data["error"].to_numpy(),
                4.0,
            ),
            at_most(
                "median over all times of that difference, in standard errors",
                float(np.median(apart / data["error"])),
                2.0,
            ),
            at_most(
                "share of starts that have not dropped by the end of the run: difference from "
                "the law, in millionths",
                1e6 * abs(float(left["share"] - left["law"])),
                10.0,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        heads = STAIRCASE.model.heads
        return (
            scaled("a law that is a hundredth too high", 1.01, "law"),
            changed("S in place of S^H", "law", by=lambda one: 1 - (1 - one) ** (1 / heads)),
            changed("a law of four heads", "law", by=lambda one: 1 - (1 - one) ** (4 / heads)),
            changed("the share that has not dropped", "share", by=lambda one: 1 - one),
            changed("a share that comes 2 % late", "share", by=lambda one: one.shift(time=20)),
            scaled("a half of the starts counted", 0.5, "share"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_density, _draw_survival, _draw_deviation)
        return panels.grid(draws, data, 3, width=3.4, height=2.8).build()


_CLOCK = r"time $t$ of the first drop"


def _draw_density(axes: PanelBuilder, data: xr.Dataset) -> None:
    # From one of sixteen times to the next both shares grow by more than their error.
    some = data.isel(time=slice(2, None, 16))
    edges = some["time"].to_numpy()
    label = f"{data.attrs['starts']:,} starts in {data.attrs['seconds']:.1f} s".replace(",", " ")
    height = np.diff(some["share"]) / np.diff(edges)
    axes.stairs(height, edges, color=panels.colour(0), linewidth=1.2, label=label)
    middle = (edges[:-1] + edges[1:]) / 2
    fall = np.diff(some["law"]) / np.diff(edges)
    axes.plot(middle, fall, color="black", label="T18", **panels.THEORY)
    axes.set(xlabel=_CLOCK, ylabel="density", xlim=(edges[0], 4500.0), ylim=(0, None))
    axes.legend(2)


def _draw_survival(axes: PanelBuilder, data: xr.Dataset) -> None:
    axes.plot(data["time"], 1 - data["share"], color=panels.colour(0))
    axes.plot(data["time"], 1 - data["law"], color="black", **panels.THEORY)
    axes.set(yscale="log", xlabel=_CLOCK, ylabel="share that has not dropped")
    axes.set(xlim=(data["time"][0].item(), data.attrs["until"]), ylim=(1e-6, 1.5))


def _draw_deviation(axes: PanelBuilder, data: xr.Dataset) -> None:
    axes.axhspan(-2.0, 2.0, color="0.92", zorder=0)
    axes.axhline(0.0, color="black", zorder=1, **panels.THEORY)
    gap = (data["share"] - data["law"]) / data["error"]
    axes.plot(data["law"], gap, color=panels.colour(0), linewidth=0.9)
    axes.set(xlabel="share that has dropped", ylim=(-4.2, 4.2), xlim=(0, 1))
    axes.set(ylabel="difference from T18, in standard errors")
