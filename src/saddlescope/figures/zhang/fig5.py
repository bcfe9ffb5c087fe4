"""Figure 5 of Zhang et al.: learning in weight first, in context later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.panels import THEORY
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import mixture
from saddlescope.figures.zhang.staircase import conserved_claim
from saddlescope.setting import Setting


@dataclass(frozen=True)
class Figure5(AbstractFigure):
    """The three losses of a mixture, and when each kind of learning comes, over the share."""

    setting: Setting = mixture.MIXTURE
    shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    shown_share: float = 0.6
    shown_until: float = 124.0

    id = "fig5"
    title = "Learning in weight comes first, learning in context later"
    source = "Zhang et al., Figure 5 (arXiv v1)"
    text = (
        "Merged attention with all blocks. A share ρ of the training prompts has one fixed task "
        "vector, the others a fresh one; the loss is that of the population. (a) The published "
        "length of training (4000 steps, 124 units of flow time) at ρ = .6. The in-weight test "
        "has random context labels, so that only memory solves it: its loss falls first, while "
        "the loss on fresh tasks rises above that of predicting zero. Then learning in context "
        "takes over, and what had been learned in weight is given up. (b) The same as a path, "
        "from the upper right to the left, then down and back. (c) The time at which each test "
        "loss is half-way down, for three seeds: memory comes earlier the larger its share; "
        "learning in context comes soonest at intermediate shares. Dashed: the one head to which "
        "eight small heads reduce (T10, for all blocks), from the initial weights alone."
    )
    departures = (
        "the exact loss of the population in place of sampled prompts",
        "ν and u begin at zero; the authors draw them",
        "initial scale 2e-5",
    )
    seconds = 6.0
    varied = mixture.VARIED

    @classmethod
    def quick(cls) -> Figure5:
        setting = mixture.MIXTURE.replace(seeds=1, points=400)
        return cls(setting, shares=(0.0, 0.2, 0.6, 0.9, 1.0))

    def compute(self, watch: Watch) -> xr.Dataset:
        data = mixture.mixture_curves(watch, self.setting, self.shares)
        times = {
            f"{name}_time": (("share", "seed"), mixture.half_fall_times(data, name))
            for name in ("in_weight", "in_context", "one_head_in_weight", "one_head_in_context")
        }
        rates = (("share", "seed"), mixture.first_rates(data))
        return data.assign({**times, "first_rate": rates})

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        mixed = data.isel(share=(data["share"] > 0) & (data["share"] < 1))
        shown = data.sel(share=self.shown_share, method="nearest")
        zero = float(data["level_loss"][0])
        errors = [np.abs(data[name] - data[f"one_head_{name}"]).max() for name in mixture.LOSSES]
        first_fall = mixed["in_weight"].argmin("time")
        after = [mixed[name].isel(time=first_fall) for name in ("in_weight", "training")]
        rates = np.broadcast_to(data["drive_rate"].to_numpy()[:, None], data["first_rate"].shape)
        return (
            at_most(
                "learning in weight comes before learning in context at every share: ratio of "
                "the half-fall times of the two losses",
                mixed["in_weight_time"] / mixed["in_context_time"],
                1.0,
            ).stated_in("Z section 7.1, Figure 5"),
            at_least(
                "after the first drop, at the least in-weight loss, the in-weight and the "
                "training loss are lower the larger the share: difference from one share to the "
                "next",
                -np.diff(np.stack(after), axis=1),
                0.01,
            ).stated_in("Z section 7.1"),
            at_least(
                "the larger the share of in-weight prompts, the earlier they are memorised: how "
                "much earlier from one share to the next",
                -np.diff(mixed["in_weight_time"], axis=0),
                1.0,
            ),
            at_least(
                "at the share shown, the in-context loss first rises: its peak over the loss of "
                "predicting zero",
                shown["in_context"].max("time") / zero,
                1.08,
            ),
            at_least(
                "memorisation is given up again: final in-weight loss over that of predicting zero",
                mixed["in_weight"].isel(time=-1) / zero,
                1.01,
            ),
            relatively_within(
                "the weights leave the plateau at a rate equal to the largest singular value of "
                "the drive E[yφ] (T5, T10)",
                data["first_rate"],
                rates,
                1e-3,
            ),
            at_most(
                "the heads move as one (T10): largest difference of the three losses from those "
                "of one head",
                errors,
                1.5e-3,
            ),
            relatively_within(
                "half-fall times of the losses are those of one head, from the initial weights "
                "alone (T10)",
                [mixed["in_weight_time"], mixed["in_context_time"]],
                [mixed["one_head_in_weight_time"], mixed["one_head_in_context_time"]],
                5e-4,
            ),
            *mixture.anchor_claims(data),
            conserved_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        alone = ("one_head_in_weight_time", "one_head_in_context_time")
        return (
            *mixture.mixture_mistakes(),
            scaled("the growth of the loss in place of that of the weights", 2.0, "first_rate"),
            rolled("the drive of another share", "share", "drive_rate"),
            scaled("one head from a start that is a tenth larger", 0.99, *alone),
            scaled("steps of rate .0005 in place of flow time", 1000.0, "in_weight_time"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(1, 3, width=3.3, height=3.0)
        curves, path, times = axes[0]
        one = data.isel(seed=0)
        mixture.draw_three_losses(curves, one.sel(share=self.shown_share, method="nearest"))
        curves.set(xlim=(0, self.shown_until), xlabel=panels.TIME_LABEL)
        _draw_paths(path, one)
        _draw_times(times, data)
        panels.letter(axes[0])
        for panel in axes[0]:
            panel.set(ylim=(0, None))
            panel.legend(2)
        return drawing.build()


def _draw_paths(axes: PanelBuilder, one: xr.Dataset) -> None:
    inside = one.isel(share=(one["share"] > 0) & (one["share"] < 1))
    # Every other share: more than four paths would hide one another.
    inside = inside.isel(share=slice(1, None, 2)) if inside.sizes["share"] > 5 else inside
    tints = panels.shades(inside.sizes["share"] + 1, "plasma")[1:]
    for index, share in enumerate(inside["share"].to_numpy()):
        row = inside.isel(share=index)
        look = {"color": tints[index], "label": rf"$\rho={share:g}$", **mixture.UNDER_THEORY}
        axes.plot(row["in_weight"], row["in_context"], **look)
        axes.plot(row["one_head_in_weight"], row["one_head_in_context"], color="black", **THEORY)
    axes.plot([1], [1], "o", color="black", markersize=4)
    axes.text(1, 1, "start", shift=(4, 4))
    axes.set(xlabel="in-weight test loss", ylabel="in-context test loss")


def _draw_times(axes: PanelBuilder, data: xr.Dataset) -> None:
    for index, (name, marker) in enumerate({"in_weight": "s", "in_context": "o"}.items()):
        tint, rows = panels.colour(1 + index), data[f"{name}_time"].T
        look = {**panels.CIRCLES, "marker": marker, "color": tint, "markersize": 4}
        theory = data[f"one_head_{name}_time"].mean("seed")
        axes.plot(data["share"], theory, color=tint, **THEORY)
        panels.seed_curves(axes, data["share"], rows, name.replace("_", " "), **look)
    axes.plot([], [], color="black", label="one head (T10)", **THEORY)
    axes.set(xlabel=r"share of in-weight prompts  $\rho$", ylabel=r"time of half fall  $t/\tau$")
