"""The run behind the figures of Mainali and Teixeira: batches, and both theories beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart, LinearTransformer
from saddlescope.charts import PanelBuilder
from saddlescope.checks import FloatArray
from saddlescope.dynamics import Record, StochasticGradientDescent
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import THEORY, THEORY_COLOUR
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.measure import first_crossing
from saddlescope.setting import Setting
from saddlescope.task import AlignedRegression
from saddlescope.theory import batch_spread, coupled_modes, logistic_modes

VECTOR_LOSS_LABEL = r"loss  $E\|y_q-\hat y_q\|^2$"
DESCENT = Setting(
    LinearTransformer(),
    AlignedRegression([1.0, 0.65, 0.42, 0.27], context_length=31),
    StochasticGradientDescent(learning_rate=0.01, steps=600, batch_size=256),
    record=Record(points=101),
)
"""One leg of the run of figures 2 to 4."""

QUICK_DESCENT = DESCENT.replace(spectrum=(1.0, 0.6, 0.35), context_length=20, steps=300, points=51)
QUICK_RATES = (0.01, 0.02, 0.05)
"""The same in short."""

EXACT_LABEL, LOGISTIC_LABEL, BATCH_LABEL = "coupled modes (exact)", "logistic (MT)", "batches"
# The fields of a setting that are fixed in a figure, and those that differ between its legs.
FIXED = ("tasks", "blocks", "weights")
LEG_FIELDS = ("learning_rate", "key")
# The paper's curves are dotted: dashes are for what is exact here.
LOGISTIC: dict[str, Any] = {"linestyle": (0, (1, 1.6)), "linewidth": 1.3}


@dataclass(frozen=True)
class AbstractModesFigure(AbstractFigure):
    r"""A figure of the linear transformer on aligned tasks, trained on batches (T15).

    It starts at $p_2 = q_1 = \sqrt{a^0} I$, `start` being $a^0$, and goes through the held setting
    at each of the learning rates: what is left to learn is the slower the later it is.
    """

    setting: Setting = DESCENT
    start: float = 1e-3
    learning_rates: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05)

    varied: ClassVar[tuple[str, ...]] = (*FIXED, *LEG_FIELDS, "init_scale", "seeds")

    @classmethod
    def quick(cls) -> AbstractModesFigure:
        return cls(QUICK_DESCENT, learning_rates=QUICK_RATES)

    @property
    def task(self) -> AlignedRegression:
        """What is learned."""
        return of_kind(AlignedRegression, self.setting.task)

    def descend(self, watch: Watch) -> xr.Dataset:
        """The run: loss, weights and their modes over time, all legs together."""
        model, root = of_kind(LinearTransformer, self.setting.model), np.sqrt(self.start)
        basis = self.task.spectrum.basis
        legs: list[xr.Dataset] = []
        run = None
        for leg, rate in enumerate(watch.each(self.learning_rates)):
            start = GivenStart(model.start(basis, root, root) if run is None else run.weights())
            # Steps are counted from the beginning of each leg, so each has a key for new prompts.
            setting = self.setting.replace(learning_rate=rate, key=leg, init=start, seeds=1)
            run = watch.train(f"leg {leg}", setting, run)
            legs.append(run.dataset.isel(seed=0, time=slice(int(leg > 0), None)))
        joined = xr.concat(legs, "time", combine_attrs="drop")
        data = joined[["loss", "norm_balance", *model.axes]].reset_coords(drop=True)
        for name, weight in (("p", "p2"), ("q", "q1")):
            turned = basis.T @ joined[weight].to_numpy() @ basis
            data[name] = (("time", "mode"), np.diagonal(turned, axis1=1, axis2=2))
        data["amplitude"] = data["p"] * data["q"]
        return data.assign_coords(mode=np.arange(self.task.dimension))

    def predict(self, time: FloatArray) -> xr.Dataset:
        """Both theories at the given times, the fixed points of the modes, and the batch noise."""
        root, axes = np.sqrt(self.start), ("time", "mode")
        spectrum, length = self.task.spectrum, self.task.context_length.longest
        exact = coupled_modes(spectrum, length, root, root, time)
        logistic = logistic_modes(spectrum, length, self.start, time)
        method = of_kind(StochasticGradientDescent, self.setting.method)
        allowed = batch_spread(
            self.task, self.start, self.learning_rates, method.steps, method.batch_size
        )
        rest = exact.fixed_point
        shares = exact.amplitude / rest.amplitude
        return xr.Dataset(
            {
                "exact_p": (axes, exact.p),
                "exact_q": (axes, exact.q),
                "exact_amplitude": (axes, exact.amplitude),
                "exact_loss": ("time", exact.loss),
                "exact_half_time": ("mode", first_crossing(shares.T, 0.5, time, rising=True)),
                "logistic_amplitude": (axes, logistic.amplitude),
                "logistic_loss": ("time", logistic.loss),
                "logistic_half_time": ("mode", logistic.half_time),
                "logistic_limit": ("mode", logistic.limit),
                "rest_amplitude": ("mode", rest.amplitude),
                "rest_loss": ((), rest.loss),
                "batch_shift": (axes, _at(time, allowed.time, allowed.shift)),
                "batch_spread": (axes, _at(time, allowed.time, allowed.spread)),
            },
            coords={"time": time, "mode": np.arange(spectrum.dimension)},
        )


def half_times(data: xr.Dataset) -> FloatArray:
    r"""When each mode of the run first reaches half of $a^*_\alpha$, [mode]."""
    share = (data["amplitude"] / data["rest_amplitude"]).to_numpy()
    return first_crossing(share.T, 0.5, data["time"].to_numpy(), rising=True)


def mark_stages(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The exact half-time of each mode as a thin line down the panel, with its number on top."""
    for mode, time in enumerate(data["exact_half_time"].to_numpy(), start=1):
        axes.axvline(time, color=THEORY_COLOUR, linewidth=0.7, alpha=0.6, zorder=0)
        axes.text(time, 1, rf"$t_{mode}$", y_in="panel", shift=(2, -2), va="top", fontsize=8)


def label_theories(axes: PanelBuilder) -> None:
    """One entry in the legend for each theory, whatever the colours of its curves."""
    axes.plot([], [], color=THEORY_COLOUR, label=EXACT_LABEL, **THEORY)
    axes.plot([], [], color=THEORY_COLOUR, label=LOGISTIC_LABEL, **LOGISTIC)


def _at(time: FloatArray, known: FloatArray, columns: FloatArray) -> FloatArray:
    return np.stack([np.interp(time, known, column) for column in columns.T], axis=1)
