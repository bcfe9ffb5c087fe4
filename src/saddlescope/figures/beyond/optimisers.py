"""Beyond the papers: the staircase under momentum and under Adam."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import optax
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import Optimiser
from saddlescope.figures.beyond.descents import descent_numbers, first_drop_times
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import FIXED, STAIRCASE, initial_scale
from saddlescope.setting import Setting
from saddlescope.theory import plateau_losses

# The first is out of order under Adam.
_FLOW = STAIRCASE.replace(
    init_scale=0.05, until=15_000.0, points=1000, spacing="log", seeds=(22, 2, 3, 4, 5, 7)
)


@dataclass(frozen=True)
class Optimisers(AbstractFigure):
    """Flow, heavy-ball momentum and Adam from the same weights."""

    setting: Setting = _FLOW
    momentum: float = 0.9
    momentum_rate: float = 0.001
    adam_rate: float = 0.001
    adam_steps: int = 6000
    scales: tuple[float, ...] = (0.1, 0.05, 0.025, 0.0125)

    varied = FIXED

    id = "optimisers"
    title = "Momentum keeps the staircase, Adam does not"
    source = "Beyond the papers (T7, T12, T14)"
    text = (
        "Separate attention of rank one on the exact loss, from the same weights. (a) Momentum β "
        "= .9 at a small rate η follows the staircase of the flow, one step counting as 2η/(1−β) "
        "of time; it lags by its memory times a logarithm of how far a head has to grow. (b) Adam "
        "changes every weight by about its rate per step, however small the gradient, so it "
        "leaves zero after the same number of steps from any start (all scales and seeds). All "
        "that remains of the plateaus are short rests near the third level. (c) The time of the "
        "first drop over the scale w of the start: as 1/w under flow (T12), constant under Adam. "
        "(d) What is learned of the other eigenvectors against what is learned of the first: one "
        "after another under flow, all at once under Adam, where every head takes all directions. "
        "Two directions with the same signs in all heads are tied, and the weaker falls back, so "
        "that the order of the eigenvalues is not always kept. What the flow conserves is not "
        "kept either (T14)."
    )
    seconds = 8.0

    @classmethod
    def quick(cls) -> Optimisers:
        return cls(
            _FLOW.replace(seeds=(22, 2), points=600), momentum_rate=0.002, scales=(0.1, 0.025)
        )

    def compute(self, watch: Watch) -> xr.Dataset:
        flow, end = self.setting, self.setting.method.end
        time_of_step = 2 * self.momentum_rate / (1 - self.momentum)
        ball = Optimiser(
            optax.sgd(self.momentum_rate, momentum=self.momentum), steps=round(end / time_of_step)
        )
        adam = Optimiser("adam", steps=self.adam_steps, learning_rate=self.adam_rate)
        plan = {
            "flow": flow,
            "momentum": flow.replace(method=ball),
            "adam": flow.replace(method=adam),
        }
        for scale in self.scales:
            # The first drop comes at a time that goes as 1/w.
            until = end * initial_scale(flow) / scale
            plan[f"flow-{scale:g}"] = flow.replace(init_scale=scale, until=until)
            plan[f"adam-{scale:g}"] = flow.replace(init_scale=scale, method=adam)
        runs = {name: watch.train(name, setting) for name, setting in watch.each(plan.items())}
        descents = [descent_numbers(runs[name], name) for name in ("flow", "momentum", "adam")]
        data = xr.merge(descents).assign(level_loss=("level", plateau_losses(flow.task)))
        data["momentum_drop_time"] *= time_of_step
        data = data.assign_coords(momentum_time=data["momentum_time"] * time_of_step)
        for name, unit in (("flow", 1.0), ("adam", self.adam_rate)):
            each = [runs[f"{name}-{scale:g}"] for scale in self.scales]
            first = [first_drop_times(run, data["level_loss"].to_numpy()) for run in each]
            data[f"{name}_first_drop"] = (("scale", "seed"), unit * np.array(first))
        rows = np.array([runs[f"adam-{scale:g}"].loss for scale in self.scales])
        data = data.assign(adam_scale_loss=(("scale", "seed", "adam_time"), rows))
        return data.assign_coords(scale=list(self.scales))

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["momentum_drop_time"].to_numpy())
        level = data["level_loss"].to_numpy()
        rests = data["momentum_plateau"].to_numpy()[:, 1:][seen]
        ends = data["adam_loss"].to_numpy()[:, -1]
        on_levels = np.broadcast_to(level[1:], seen.shape)[seen]
        order = np.argsort(data["adam_half_time"].to_numpy(), axis=1, kind="stable") + 1
        return (
            relatively_within(
                "with momentum, drops come when those of the flow do, one step counting as "
                "2η/(1−β) of time",
                data["momentum_drop_time"].to_numpy()[seen],
                data["flow_drop_time"].to_numpy()[seen],
                0.015,
            ),
            within(
                "the plateaus under momentum, and the final loss under Adam, lie at T7's levels",
                np.concatenate([rests, ends]),
                np.concatenate([on_levels, np.full(len(ends), level[-1])]),
                1.5e-4,
            ),
            within(
                "under gradient flow the time of the first drop goes as 1/w (T12): exponent",
                _exponents(data, "flow"),
                -1.0,
                0.035,
            ),
            within(
                "under Adam the step of the first drop does not depend on w: exponent",
                _exponents(data, "adam"),
                0.0,
                0.015,
            ),
            at_least(
                "under Adam the eigenvectors are learned together: learned shares of e2 and e3 "
                "when e1 is half learned",
                data["adam_others"].isel(direction=slice(1, 3)),
                0.25,
            ),
            at_most(
                "under Adam the loss hardly rests on the levels: share of its descent spent there",
                data["adam_rest"],
                0.25,
            ),
            equal(
                "under Adam eigenvectors are half learned in falling order of eigenvalue",
                order,
                np.broadcast_to(np.arange(1, order.shape[1] + 1), order.shape),
            ).expected_to_fail(
                "every head takes all directions at once; two that have the same signs in all "
                "heads are tied, and the weaker of them falls back until heads part: 3 of the "
                "first 24 seeds are out of order"
            ),
            at_least(
                "Adam does not conserve T14's quantities: their drift", data["adam_drift"], 2.0
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("steps of 2η in place of 2η/(1-β)", 0.1, "momentum_drop_time"),
            rolled("momentum from other seeds", "seed", "momentum_drop_time"),
            scaled("drops three per cent late", 1.03, "momentum_drop_time"),
            scaled("levels of a context one pair shorter", 1.003, "level_loss"),
            rolled("the flow of another scale", "scale", "flow_first_drop"),
            scaled("Adam that feels the scale", self._felt(), "adam_first_drop"),
            scaled("flow in place of Adam", 0.1, "adam_others"),
            scaled("plateaus under Adam", 3.0, "adam_rest"),
            scaled("quantities that Adam conserves", 1e-3, "adam_drift"),
        )

    def _felt(self) -> FloatArray:
        return (np.array(self.scales) ** -0.1)[:, None]

    def draw(self, data: xr.Dataset) -> Sheet:
        adam = partial(_draw_adam, rate=self.adam_rate)
        draws = (_draw_momentum, adam, _draw_scales, _draw_shares)
        return panels.grid(draws, data, 2, width=3.7, height=2.7).build()


def _exponents(data: xr.Dataset, name: str) -> FloatArray:
    """The exponent with which the first drop's time depends on the scale, in each seed."""
    return np.polyfit(np.log(data["scale"]), np.log(data[f"{name}_first_drop"]), 1)[0]


def _draw_momentum(axes: PanelBuilder, data: xr.Dataset) -> None:
    panels.levels(axes, data["level_loss"], "levels (T7)")
    some = data.isel(seed=slice(3))
    panels.seed_curves(axes, data["flow_time"], some["flow_loss"], "flow", linewidth=3, alpha=0.5)
    look = {"color": "0.25", "linestyle": ":", "linewidth": 1.2}
    panels.seed_curves(axes, data["momentum_time"], some["momentum_loss"], "momentum", **look)
    begin = float(np.nanmin(data["flow_drop_time"])) / 3
    axes.set(xscale="log", xlim=(begin, float(data["flow_time"][-1])), ylim=(0, None))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)
    axes.legend()


def _draw_adam(axes: PanelBuilder, data: xr.Dataset, rate: float) -> None:
    panels.levels(axes, data["level_loss"])
    tints = panels.shades(data.sizes["scale"])
    for rows, tint in zip(data["adam_scale_loss"], tints, strict=True):
        label, look = f"$w={float(rows['scale']):g}$", {"color": tint, "linewidth": 0.9}
        panels.seed_curves(axes, data["adam_time"], rows, label, **look)
    last = float(data["adam_time"][-1])
    axes.set(xscale="log", xlim=(20, last), ylim=(0, None), ylabel=panels.LOSS_LABEL)
    axes.set(xlabel=rf"steps of Adam, rate {rate:g}")
    axes.legend(2)


def _draw_scales(axes: PanelBuilder, data: xr.Dataset) -> None:
    scale = data["scale"].to_numpy()
    for index, (name, label, sign) in enumerate(
        [("flow", r"flow,  $t/\tau$", "o"), ("adam", "Adam,  rate × steps", "s")]
    ):
        look = {"color": panels.colour(index), "marker": sign, "markersize": 4, "linewidth": 0.6}
        panels.seed_curves(axes, scale, data[f"{name}_first_drop"].T, label, **look)
    middle = data["flow_first_drop"].median("seed").to_numpy()
    reference, label = middle[-1] * scale[-1] / scale, r"$\propto 1/w$ (T12)"
    axes.plot(scale, reference, color=panels.THEORY_COLOUR, label=label, **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlabel="scale of the start  $w$")
    axes.set(ylabel="time of the first drop")
    axes.xaxis.tick_at(scale, [f"{value:g}" for value in scale])
    axes.legend(2)


def _draw_shares(axes: PanelBuilder, data: xr.Dataset) -> None:
    for name, sign in (("flow", "-"), ("Adam", (0, (1, 1)))):
        share = data[f"{name.lower()}_share"]
        for mode in range(1, data.sizes["direction"]):
            tint, label = panels.colour(mode), f"{name}, $e_{mode + 1}$"
            pair = share[:, 0], share[:, mode]
            axes.plot(*pair, color=tint, linestyle=sign, linewidth=1.8, label=label)
    axes.set(xlabel="share learned of $e_1$", ylabel="share learned of $e_2$ to $e_4$")
    axes.legend()
