"""Figure 1 of Zhang et al.: merged attention and the linear network it is equivalent to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import MergedAttention, TwoLayerNetwork
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import merged_run
from saddlescope.figures.zhang.staircase import (
    FIXED,
    conserved_claim,
    initial_scale,
    wrong_levels,
    wrong_times,
)
from saddlescope.precision import in_float64
from saddlescope.setting import Setting
from saddlescope.theory.parametrisation import population_law
from saddlescope.trajectory import Trajectory

# T10's error is proportional to the initial scale: at most .03 times it in six random starts.
_ORDER_OF_ERROR = 0.06
# Sums of a few hundred products of order one in float64, carried along the steps of a flow;
# measured: 1e-14, and 2e-12 with other steps.
_ROUNDING = 5e-12
# The flow is followed until it has converged to rounding.
_CONVERGED = 1e-12


@dataclass(frozen=True)
class Figure1(AbstractFigure):
    """One abrupt drop (T10), the same in both models (T4)."""

    setting: Setting = merged_run.MERGED
    prompts: int = 200

    id = "fig1"
    title = "Merged attention is a two-layer linear network and learns all at once"
    source = "Zhang et al., Figure 1 (arXiv v1)"
    text = (
        "Key and query merged into one matrix per head. (a) The loss of every seed (solid) waits "
        "at the zero function and then falls once, to the least loss. The two-layer linear "
        "network on the cubic feature, started at the same weights (dots), follows the same "
        "curve, and so does the theory of five scalar equations, from the initial weights alone "
        "(dashed). (b) The largest differences: network and attention differ by rounding, theory "
        "and training by less than the initial scale. (c) The squared weights grow by ten orders "
        "of magnitude, while what gradient flow conserves changes by no more than the solver's "
        "tolerance. The drop begins abruptly and ends slowly, as the weakest eigenvector is "
        "learned last."
    )
    departures = (
        "gradient flow on the exact loss, where the authors descend on sampled prompts",
        "attention divided by N, and a start scaled to that",
        "initial scale 1e-5, small enough for the theory of small starts",
        "the blocks that are zero in expectation are left out",
    )
    seconds = 6.0
    varied = (*FIXED, "at", "spacing")

    @classmethod
    def quick(cls) -> Figure1:
        return cls(merged_run.QUICK_MERGED)

    def compute(self, watch: Watch) -> xr.Dataset:
        attention = merged_run.until_converged(self.setting)
        settings = {"attention": attention, "network": merged_run.as_network(attention)}
        run, other = (watch.train(name, one) for name, one in watch.each(settings.items()))
        balance, axes = run.dataset["value_balance"].to_numpy(), ("seed", "time")
        data = merged_run.merged_numbers(run).drop_vars("predicted_diagonal")
        data = data.merge(merged_run.block_numbers(watch, run))
        return data.assign(
            network_loss=(axes, other.loss),
            network_distance=(axes, merged_run.map_distance(run, other)),
            balance_change=(axes, np.abs(balance - balance[:, :1]).max(axis=(2, 3))),
            value_square=(axes, (run.dataset["v"].to_numpy() ** 2).sum(axis=2)),
            prompt_distance=("seed", _prompt_distances(run, self.prompts)),
            drop_count=("seed", [float(len(stages.drops)) for stages in run.stages()]),
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        start, end = data["level_loss"].to_numpy()
        middle = data["drop_time"].to_numpy()[:, 0] / 2
        rows = zip(middle, data["loss"], strict=True)
        waited = np.array([np.interp(moment, data["time"], loss) for moment, loss in rows])
        return (
            at_most(
                "attention and the two-layer network agree at all times (T4): difference in "
                "loss and in effective map",
                [abs(data["loss"] - data["network_loss"]).max(), data["network_distance"].max()],
                _ROUNDING,
            ).stated_in("Z 11"),
            at_most(
                "attention computed token by token predicts what the network computes on the "
                "cubic feature (T4): largest difference",
                data["prompt_distance"],
                _ROUNDING,
            ).stated_in("Z 11"),
            equal(
                "the loss drops once",
                data["drop_count"],
                np.ones(data.sizes["seed"]),
                "seeds drop once",
            ).stated_in("Z abstract, Figure 1"),
            at_most(
                "the loss waits on its plateau: share of the fall done at half the drop time",
                (start - waited) / (start - end),
                2e-5,
            ),
            within(
                "the loss falls to that of the only minimum (T7)",
                data["loss"][:, -1],
                np.full(data.sizes["seed"], end),
                _CONVERGED,
            ).stated_in("Z 16"),
            at_most(
                "the loss follows five scalar equations from the initial weights (T10): largest "
                "error in units of the initial scale",
                abs(data["loss"] - data["predicted_loss"]).max("time")
                / initial_scale(self.setting),
                _ORDER_OF_ERROR,
            ),
            relatively_within(
                "the drop comes at the time predicted from the initial weights (T10)",
                data["drop_time"],
                data["predicted_drop_time"],
                2e-7,
            ),
            merged_run.block_claim(data, "Z section C.1"),
            conserved_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            *wrong_levels(self.setting),
            *wrong_times(1e-6),
            rolled("the network's loss from other weights", "seed", "network_loss"),
            scaled("half of the loss, in both models", 0.5, "loss", "network_loss"),
            shifted("a second drop", 1.0, "drop_count"),
            shifted("blocks that do not start at zero", 1e-5, "block_size"),
            shifted("tokens that attend to the query too", 1e-3, "prompt_distance"),
            rolled("a theory of another start", "seed", "predicted_loss"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(2, 2, width=3.5, height=2.4)
        loss_axes = drawing.join(axes[0])
        _draw_loss(loss_axes, data)
        _draw_distances(axes[1, 0], data)
        _draw_growth(axes[1, 1], data)
        last = 2.2 * float(data["drop_time"].max())
        for panel in (loss_axes, *axes[1]):
            panel.set(xlabel=panels.TIME_LABEL, xlim=(0, last))
        panels.letter((loss_axes, *axes[1]))
        return drawing.build()


def _prompt_distances(run: Trajectory, count: int) -> FloatArray:
    """The largest difference between predictions of attention and network, for each seed."""
    law, heads = population_law(run.setting.task), run.setting.model.heads
    prompts = law.sample(count)
    network, tokens = TwoLayerNetwork(heads), MergedAttention(heads, blocks="full")
    distances = []
    for seed in run.setting.seeds:
        weights = run.weights(seed)
        nothing = np.zeros((heads, law.dimension))
        full = {**weights, "nu": nothing, "u": nothing}
        attended = in_float64(tokens.predict)(full, prompts)
        passed = in_float64(network.predict)(network.from_attention(weights), prompts)
        distances.append(float(np.abs(attended - passed).max()))
    return np.array(distances)


def _draw_loss(axes: PanelBuilder, data: xr.Dataset) -> None:
    time, network = data["time"].to_numpy(), data["network_loss"]
    shown = np.searchsorted(time, np.linspace(0, 2.2 * float(data["drop_time"].max()), 80))
    dots = {"marker": "o", "linestyle": "none", "markersize": 3}
    theory = {"color": "black", **panels.THEORY}
    panels.levels(axes, data["level_loss"].to_numpy(), "levels (T7)")
    panels.seed_curves(axes, time, data["loss"], "attention, every seed", linewidth=2.4, alpha=0.6)
    panels.seed_curves(axes, time[shown], network[:, shown], "network, same weights", **dots)
    panels.seed_curves(axes, time, data["predicted_loss"], "theory (T10)", **theory)
    axes.set(ylabel=panels.LOSS_LABEL, ylim=(0, None))
    axes.legend(4)


def _draw_distances(axes: PanelBuilder, data: xr.Dataset) -> None:
    theory = abs(data["loss"] - data["predicted_loss"]).max("seed")
    network = abs(data["loss"] - data["network_loss"]).max("seed")
    axes.plot(data["time"], theory, color=panels.colour(0), label="attention − theory (T10)")
    dots = {
        "color": panels.colour(5),
        "markersize": 3,
        "label": "attention − network (T4), if not 0",
    }
    axes.plot(data["time"], network.where(network > 0), ".", **dots)
    axes.set(yscale="log", ylabel="largest difference in loss", ylim=(1e-17, 1e-3))
    axes.legend(1)


def _draw_growth(axes: PanelBuilder, data: xr.Dataset) -> None:
    change = data["balance_change"].max("seed")
    curves = {
        r"values  $\|v\|^2$": data["value_square"].max("seed"),
        r"change of $v_iv_j-\langle U_i,U_j\rangle$ (T14)": change.where(change > 0),
    }
    for index, (label, curve) in zip((0, 5), curves.items(), strict=True):
        axes.plot(data["time"], curve, color=panels.colour(index), label=label)
    axes.set(yscale="log", ylabel="largest of all seeds")
    axes.legend(1)
