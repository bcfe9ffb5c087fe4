"""Figure 2 of Mainali and Teixeira: the modes of a linear transformer through training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, relatively_within
from saddlescope.figures.kit.mistake import Mistake, replaced, rolled, scaled, swapped
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.linear_transformer_run import (
    BATCH_LABEL,
    LOGISTIC,
    LOGISTIC_LABEL,
    AbstractModesFigure,
    half_times,
    label_theories,
)

_EXACT = "exact_amplitude"


@dataclass(frozen=True)
class MT2(AbstractModesFigure):
    r"""$a_\alpha(t)$ on batches, by the logistic (MT 9–13) and by the exact coupled modes (T15)."""

    id = "mt2"
    title = "Modes of a linear transformer are learned one after another"
    source = "Mainali and Teixeira, Figure 2"
    text = (
        "A linear transformer on aligned tasks, trained on fresh batches. (a) What it has learned "
        "of each mode (solid), with the exact coupled modes (dashed) and the paper's logistic "
        "curves (dotted). The logistic is exact where the value is frozen; for the paper's own "
        "architecture the modes are coupled at order 1/N, and at this context length the logistic "
        "predicts that the slowest mode is learned too early and too far. (b) The differences "
        "from the exact modes; bands are four standard deviations of the noise of batches and "
        "steps of this size. (c) Each mode's own balance of value and query leaves zero, because "
        "the modes are coupled; their sum is conserved. The learning rate grows during the run: "
        "early modes are fast and need small steps, late ones are slow."
    )
    departures = (
        "N, spectrum, start, batch size and rates are ours: the paper's are not known to us",
    )
    seconds = 5.0

    def compute(self, watch: Watch) -> xr.Dataset:
        run = self.descend(watch)
        data = run.merge(self.predict(run["time"].to_numpy()))
        return data.assign(half_time=("mode", half_times(data))).drop_vars(["p2", "q1"])

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        size = data["rest_amplitude"]
        apart = abs(data["amplitude"] - data["exact_amplitude"] - data["batch_shift"])
        from_logistic = abs(data["amplitude"] - data["logistic_amplitude"]).max("time") / size
        from_exact = abs(data["amplitude"] - data["exact_amplitude"]).max("time") / size
        balance = abs((data["exact_p"] ** 2 - data["exact_q"] ** 2).sum("mode"))
        norms = (data["p"] ** 2 + data["q"] ** 2).sum("mode")
        return (
            at_most(
                "training on batches follows the coupled modes (T15): largest distance of each "
                "mode, in standard deviations of the batch noise",
                apart.max("time") / data["batch_spread"].max("time"),
                3.5,
            ),
            # Three and a half times the largest spread, 1.8 %, and .6 % for finite steps.
            at_most("the same distance, as a share of the mode's final value", from_exact, 0.07),
            at_least(
                "the logistic (MT 9–13) does not fit the slowest mode: largest distance, in "
                "standard deviations of the batch noise",
                from_logistic[-1] * size[-1] / data["batch_spread"][:, -1].max(),
                5.0,
            ),
            relatively_within(
                "half-times of the modes on batches are those of the coupled modes (T15)",
                data["half_time"],
                data["exact_half_time"],
                0.025,
            ),
            equal(
                "modes are learned in falling order of eigenvalue",
                np.argsort(data["half_time"].to_numpy()) + 1,
                data["mode"] + 1,
                "modes in order",
            ).stated_in("MT abstract, Figure 2"),
            at_most(
                "|p|² − |q|² is conserved by the exact modes (T15): drift", balance.max(), 1e-8
            ).stated_in("MT Figure 2"),
            at_most(
                "on batches |p|² − |q|² drifts little: as a share of |p|² + |q|²",
                (abs(data["norm_balance"] - data["norm_balance"][0]) / norms).max(),
                0.005,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        start = self.start
        return (
            scaled("half-times four per cent late", 1.04, "half_time"),
            scaled("half-times four per cent early", 0.96, "half_time"),
            scaled("a step of η in place of 2η", 0.5, "half_time"),
            swapped("the logistic in place of what is exact", "logistic_amplitude", _EXACT),
            swapped("p in place of pq", "amplitude", "p"),
            rolled("the modes of another spectrum", "mode", _EXACT),
            scaled("a fixed point of another context length", 1.08, "amplitude"),
            replaced("q that is not trained", {"exact_q": np.sqrt(start)}),
            scaled("batches ten times as large", 0.1**0.5, "batch_spread"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_modes, _draw_distances, _draw_balance)
        drawing = panels.grid(draws, data, 3, width=3.5, height=3.0)
        first = float(data["exact_half_time"][0]) / 4
        for panel in drawing.panels:
            panel.set(xscale="log", xlim=(first, float(data["time"][-1])), xlabel=panels.TIME_LABEL)
            panel.legend(2)
        return drawing.build()


def _draw_modes(axes: PanelBuilder, data: xr.Dataset) -> None:
    time = data["time"]
    for mode in range(data.sizes["mode"]):
        own = panels.colour(mode)
        axes.plot(time, data["amplitude"][:, mode], color=own, label=rf"$\alpha = {mode + 1}$")
        axes.plot(time, data["logistic_amplitude"][:, mode], color=own, **LOGISTIC)
        axes.plot(time, data["exact_amplitude"][:, mode], color="black", **panels.THEORY)
    label_theories(axes)
    axes.set(ylabel=r"$a_\alpha = p_\alpha q_\alpha$", ylim=(0, None))


def _draw_distances(axes: PanelBuilder, data: xr.Dataset) -> None:
    time, size = data["time"], data["rest_amplitude"]
    off = 100 * (data["amplitude"] - data["exact_amplitude"]) / size
    logistic = 100 * (data["logistic_amplitude"] - data["exact_amplitude"]) / size
    band = 400 * data["batch_spread"] / size
    for mode in range(data.sizes["mode"]):
        own = panels.colour(mode)
        axes.fill_between(time, -band[:, mode], band[:, mode], color=own, alpha=0.12, linewidth=0)
        axes.plot(time, off[:, mode], color=own, linewidth=0.9)
        axes.plot(time, logistic[:, mode], color=own, **LOGISTIC)
    axes.axhline(0, color=panels.THEORY_COLOUR, **panels.THEORY)
    axes.set(ylabel=r"distance from exact, % of $a^*_\alpha$")
    axes.plot([], [], color=panels.THEORY_COLOUR, label=BATCH_LABEL, linewidth=0.9)
    axes.fill_between(
        [], [], [], color=panels.THEORY_COLOUR, alpha=0.2, linewidth=0, label="4 sd of batches"
    )
    axes.plot([], [], color=panels.THEORY_COLOUR, label=LOGISTIC_LABEL, **LOGISTIC)


def _draw_balance(axes: PanelBuilder, data: xr.Dataset) -> None:
    time = data["time"]
    own = data["p"] ** 2 - data["q"] ** 2
    exact = data["exact_p"] ** 2 - data["exact_q"] ** 2
    for mode in range(data.sizes["mode"]):
        axes.plot(time, own[:, mode], color=panels.colour(mode))
        axes.plot(time, exact[:, mode], color="black", **panels.THEORY)
    axes.plot(
        time,
        data["norm_balance"],
        color=panels.colour(5),
        linewidth=2.4,
        label=r"all modes, $\|p\|^2-\|q\|^2$",
    )
    axes.plot([], [], color=panels.THEORY_COLOUR, label="exact", **panels.THEORY)
    axes.set(ylabel=r"balance  $p_\alpha^2 - q_\alpha^2$")
