"""Figure 10 of Zhang et al.: the in-weight mixture at every share, to the end of training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import Sheet
from saddlescope.figures.kit.claim import Claim, at_least, at_most, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake
from saddlescope.figures.kit.panels import LOSS_LABEL, TIME_LABEL, colour, sheet_of
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import mixture
from saddlescope.figures.zhang.mixture import LOSSES
from saddlescope.figures.zhang.staircase import conserved_claim
from saddlescope.setting import Setting

_LONG = mixture.MIXTURE.replace(until=20_000.0, spacing="log")


@dataclass(frozen=True)
class Figure10(AbstractFigure):
    """Training, in-weight and in-context loss at six shares, to the optimum of the statistics."""

    setting: Setting = _LONG
    shares: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    published_until: float = 124.0

    id = "fig10"
    title = "In-weight and in-context learning at every share, to the end"
    source = "Zhang et al., Figure 10 (arXiv v1)"
    text = (
        "The mixture of figure 5 at six shares ρ of prompts with the fixed task. Without such "
        "prompts only learning in context occurs, with nothing else only memorisation; in "
        "between, memorisation comes first. The published runs end at the vertical line (4000 "
        "steps at learning rate .0005 without 1/N; there ν and u start random, here at zero). "
        "Until then the eight heads move as one (dashed, T10), and the loss is still above the "
        "optimum. The population has a third stage ten times later, in which further heads grow; "
        "it ends, in all three losses, at the best linear predictor from the features of all "
        "blocks (dots at the right, T6). The training loss falls in that stage; except at the "
        "extreme shares, the loss on fresh tasks rises a little. The in-weight test, whose "
        "context labels are random, ends above the loss of predicting zero at every share below "
        "one: in the end the model reads the context."
    )
    departures = (
        "the exact loss of the population in place of sampled prompts",
        "ν and u begin at zero; the authors draw them",
        "carried to flow time 20 000; the published runs end at 124",
    )
    seconds = 8.0
    varied = mixture.VARIED

    @classmethod
    def quick(cls) -> Figure10:
        return cls(_LONG.replace(seeds=1, until=10_000.0, points=400))

    def compute(self, watch: Watch) -> xr.Dataset:
        data = mixture.mixture_curves(watch, self.setting, self.shares)
        times = {
            f"{name}_time": (("share", "seed"), mixture.half_fall_times(data, name))
            for name in ("in_weight", "in_context")
        }
        return data.assign(times)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        pure = [data.isel(share=data["share"].to_numpy() == share) for share in (0, 1)]
        mixed = data.isel(share=(data["share"] > 0) & (data["share"] < 1))
        zero = float(data["level_loss"][0])
        published = data.sel(time=slice(None, self.published_until))
        published_end = published.isel(time=-1, share=data["share"].to_numpy() > 0)
        gaps = [np.abs(published[name] - published[f"one_head_{name}"]).max() for name in LOSSES]
        ends = [data[name].isel(time=-1).transpose("seed", "share") for name in LOSSES]
        bests = [np.broadcast_to(data[f"best_{name}"], ends[0].shape) for name in LOSSES]
        return (
            at_most(
                "learning in weight comes before learning in context, 0 < ρ < 1: ratio of the "
                "half-fall times of the two losses",
                mixed["in_weight_time"] / mixed["in_context_time"],
                1.0,
            ).stated_in("Z section 7.1, Figure 10"),
            at_least(
                "at ρ = 0 nothing is learned in weight, at ρ = 1 nothing in context: least "
                "value of that loss",
                [pure[0]["in_weight"].min("time"), pure[1]["in_context"].min("time")],
                zero - 1e-6,
            ).stated_in("Z Figure 10"),
            *mixture.anchor_claims(data),
            relatively_within(
                "training, in-weight and in-context loss end at those of the best linear "
                "predictor (T6)",
                ends,
                bests,
                5e-4,
            ),
            at_least(
                "at the end of the published runs the training loss at ρ > 0 is still above "
                "that optimum: ratio",
                published_end["training"] / published_end["best_training"],
                1.03,
            ),
            at_most(
                "until then the heads move as one (T10): largest difference of the losses from "
                "those of one head",
                gaps,
                1e-3,
            ),
            at_least(
                "in the end the model relies on the context, not on memory: in-weight loss at ρ "
                "< 1 over that of predicting zero",
                mixed["in_weight"].isel(time=-1) / zero,
                1.01,
            ),
            conserved_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return mixture.mixture_mistakes()

    def draw(self, data: xr.Dataset) -> Sheet:
        count, last = data.sizes["share"], float(data["time"][-1])
        drawing, axes = sheet_of(count, 3, width=2.9, height=2.3, sharex=True)
        for index, panel in enumerate(axes.flat[:count]):
            row = data.isel(seed=0, share=index)
            mixture.draw_three_losses(panel, row)
            for number, name in enumerate(LOSSES):
                best = float(row[f"best_{name}"])
                panel.plot(last, best, "o", color=colour(number), markersize=4, clip_on=False)
            panel.axvline(self.published_until, color="0.6", linewidth=0.8, zorder=0)
            panel.set(xscale="log", xlim=(8, last), ylim=(0, None), ylabel=None)
            letter = chr(ord("a") + index)
            panel.set_title(rf"({letter})  $\rho = {float(row['share']):g}$", fontsize=9)
        for panel in axes[:, 0]:
            panel.set(ylabel=LOSS_LABEL)
        for panel in axes[-1]:
            panel.set(xlabel=TIME_LABEL)
        axes[0, 0].plot([], [], "o", color="0.4", markersize=4, label="optimum (T6)")
        axes[0, 0].plot([], [], color="0.6", linewidth=0.8, label="published runs end")
        drawing.legend(axes[0, 0].entries, 6)
        return drawing.build()
