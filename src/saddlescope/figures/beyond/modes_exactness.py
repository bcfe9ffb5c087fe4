"""Beyond the papers: how exact the logistic modes of a linear transformer are, over N."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from saddlescope.attention import GivenStart, LinearTransformer
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, equal, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, swapped
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.linear_transformer_run import FIXED, LOGISTIC, label_theories
from saddlescope.setting import Setting
from saddlescope.task import AlignedRegression, Spectrum
from saddlescope.theory import (
    coupled_modes,
    coupling_coefficient,
    logistic_modes,
    unbalanced_modes,
)

# THEORY's own case: the slowest mode's largest error, to the digits that it states.
_STATED_SPECTRUM, _STATED_START = Spectrum([1.0, 0.6, 0.35, 0.15]), 1e-3
_STATED = {10: (0.84, 2), 100: (0.14, 2), 2000: (0.008, 3)}
_FLOW = Setting(
    LinearTransformer(), AlignedRegression(_STATED_SPECTRUM, 10), GradientFlow(until=1000.0)
)
# Where the error is fitted: below, the next order in 1/N is seen.
_ASYMPTOTIC = 300
# Matrices are turned away from the axes by a fixed rotation, so that none of them is diagonal.
_ROTATION_SEED = 5


@dataclass(frozen=True)
class ModesExactness(AbstractFigure):
    r"""The logistic (MT 9–13) against the coupled modes: an error of order 1/N (T15)."""

    setting: Setting = _FLOW
    start: float = 1e-3
    context_lengths: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)
    trained_lengths: tuple[int, ...] = (10, 100, 1000)
    imbalances: tuple[float, ...] = (0.0, 0.01, 0.1, 1.0)

    varied = (*FIXED, "context_length", "init_scale", "seeds", "at", "spacing")

    id = "modes-exactness"
    title = "The logistic modes are exact to order 1/N"
    source = "Beyond the papers; the logistic modes are Mainali and Teixeira's equations 9 to 13"
    text = (
        "(a) The slowest mode at three context lengths: flow on whole matrices (solid), the "
        "coupled modes (dashed), the logistic (dotted). The coupled modes are exact for the "
        "paper's own architecture; the logistic is exact where the value is frozen. (b) The "
        "largest error of the logistic over time falls as 1/N; circles are measured from the "
        "matrix flow. (c) So does the distance between the two fixed points, with the coefficient "
        "that T15 gives (dashed); it nearly vanishes for the second mode, whose distance changes "
        "sign near N = 30. (d) With the value frozen the closed form is exact from unbalanced "
        "starts too: the more key and query differ, the sooner a mode is learned."
    )
    seconds = 3.0

    @classmethod
    def quick(cls) -> ModesExactness:
        return cls(
            _FLOW.replace(points=400),
            context_lengths=(10, 100, 1000, 10_000),
            trained_lengths=(10, 100),
            imbalances=(0.0, 0.1),
        )

    def compute(self, watch: Watch) -> xr.Dataset:
        points, until = self.setting.record.points, self.setting.method.end
        time = np.concatenate([[0.0], np.geomspace(1e-4, 1, points) * until])
        lengths, modes = list(self.context_lengths), np.arange(self._spectrum.dimension)
        theories = [_errors(self._spectrum, length, self.start, time) for length in lengths]
        stated = [_errors(_STATED_SPECTRUM, one, _STATED_START, time)[0][-1] for one in _STATED]
        data = xr.Dataset(
            {
                "error": (("length", "mode"), np.array([error for error, _ in theories])),
                "rest_distance": (("length", "mode"), np.array([apart for _, apart in theories])),
                "rest_coefficient": ("mode", coupling_coefficient(self._spectrum)),
                "stated_error": ("stated_length", [digits[0] for digits in _STATED.values()]),
                "found_error": ("stated_length", stated),
            },
            coords={"length": lengths, "mode": modes, "stated_length": list(_STATED), "time": time},
        )
        runs = [self._train(watch, length, time) for length in watch.each(self.trained_lengths)]
        trained = xr.DataArray(list(self.trained_lengths), dims="trained")
        data = data.merge(xr.concat(runs, trained)).assign_coords(trained=trained)
        frozen = [self._frozen(imbalance, time) for imbalance in self.imbalances]
        imbalance = xr.DataArray(list(self.imbalances), dims="imbalance")
        return data.merge(xr.concat(frozen, imbalance)).assign_coords(imbalance=imbalance)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        far = data.sel(length=data["length"] >= _ASYMPTOTIC)
        slope = np.polyfit(np.log(far["length"]), np.log(far["error"]), 1)[0]
        last = data.isel(length=-1)
        coefficient = last["rest_distance"] * float(last["length"])
        return (
            equal(
                "the largest error over time of the logistic, for the slowest mode at N = 10, "
                "100 and 2000, is the one stated in T15",
                _rounded(data["found_error"].to_numpy()),
                data["stated_error"],
            ),
            within(
                "the logistic's error falls as 1/N (T15): order in N, for each mode",
                slope,
                -1.0,
                0.02,
            ),
            equal(
                "the logistic's error is largest for the slowest mode, at every N",
                data["error"].argmax("mode") + 1,
                np.full(data.sizes["length"], data.sizes["mode"]),
                "lengths",
            ),
            # The next order is of the size of tr S/s squared over N.
            within(
                "the fixed points of the coupled modes differ from the logistic's limits by "
                "order 1/N (T15): N times the relative difference, at the longest context",
                coefficient,
                data["rest_coefficient"],
                0.015,
            ),
            within(
                "the logistic's errors against training of the whole matrices equal those "
                "against the coupled modes, at every N trained (T15)",
                data["flow_error"],
                data["error"].sel(length=data["trained"].to_numpy()).to_numpy(),
                1e-6,
            ),
            at_most(
                "gradient flow on whole matrices follows the coupled modes, at every N (T15): "
                "largest difference",
                abs(data["flow_amplitude"] - data["coupled_amplitude"]).max(("time", "mode")),
                5e-8,
            ),
            at_most(
                "with the value frozen, the closed form holds from unbalanced starts (T15): "
                "largest difference",
                abs(data["frozen_amplitude"] - data["closed_form"]).max(("time", "mode")),
                1e-9,
            ),
            at_most(
                "with the value frozen, p² − q² of each mode is conserved (T15): largest drift",
                data["frozen_drift"],
                1e-9,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("errors as a share of a*, not of the limit", 1.1, "error"),
            scaled("errors that were stated otherwise", 1.05, "found_error"),
            rolled("errors of another N", "length", "error"),
            rolled("modes in another order", "mode", "error"),
            scaled("a coefficient of 1/(N+1)", 1.01, "rest_coefficient"),
            swapped("the logistic for what is exact", "coupled_amplitude", "logistic_amplitude"),
            rolled("matrices of another N", "trained", "flow_amplitude"),
            rolled("the closed form of another start", "imbalance", "closed_form"),
            scaled("a balance that drifts", 1e6, "frozen_drift"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_slowest, _draw_errors, _draw_rest, _draw_unbalanced)
        drawing = panels.grid(draws, data, 2, width=4.2, height=2.9)
        for panel in drawing.panels:
            panel.legend()
        return drawing.build()

    def _train(self, watch: Watch, length: int, time: FloatArray) -> xr.Dataset:
        """The flow on whole matrices, in turned coordinates, beside both theories."""
        inputs, root = self._turned(), np.sqrt(self.start)
        start = GivenStart(LinearTransformer().start(inputs.basis, root, root))
        setting = self.setting.replace(spectrum=inputs, context_length=length, init=start, at=time)
        run = watch.train(f"context {length}", setting)
        value, query = (run.dataset[name].isel(seed=0).to_numpy() for name in ("p2", "q1"))
        turned = inputs.basis.T @ value @ query @ inputs.basis
        coupled = coupled_modes(self._spectrum, length, root, root, time)
        logistic = logistic_modes(self._spectrum, length, self.start, time)
        axes, amplitude = ("time", "mode"), np.diagonal(turned, axis1=1, axis2=2)
        error = np.abs(amplitude - logistic.amplitude).max(0) / logistic.limit
        return xr.Dataset(
            {
                "flow_amplitude": (axes, amplitude),
                "coupled_amplitude": (axes, coupled.amplitude),
                "logistic_amplitude": (axes, logistic.amplitude),
                "flow_error": ("mode", error),
            }
        )

    def _frozen(self, imbalance: float, time: FloatArray) -> xr.Dataset:
        r"""Key and query as matrices, the value frozen: $\hat y = W\hat\Sigma\,pq\,x_q$."""
        larger = np.sqrt((imbalance + np.hypot(imbalance, 2 * self.start)) / 2)
        p, q = larger, self.start / larger
        length, inputs = self.trained_lengths[0], self._turned()
        path = _frozen_flow(AlignedRegression(inputs, length), p, q, time)
        modes = np.diagonal(inputs.basis.T @ path @ inputs.basis, axis1=2, axis2=3)
        balance = modes[:, 0] ** 2 - modes[:, 1] ** 2
        closed = unbalanced_modes(self._spectrum, length, p, q, time).amplitude
        return xr.Dataset(
            {
                "frozen_amplitude": (("time", "mode"), modes[:, 0] * modes[:, 1]),
                "closed_form": (("time", "mode"), closed),
                "frozen_drift": ("mode", np.abs(balance - balance[0]).max(0)),
            }
        )

    @property
    def _spectrum(self) -> Spectrum:
        return of_kind(AlignedRegression, self.setting.task).spectrum

    def _turned(self) -> Spectrum:
        eigenvalues, size = self._spectrum.eigenvalues, self._spectrum.dimension
        drawn = np.random.default_rng(_ROTATION_SEED).standard_normal((size, size))
        return Spectrum(eigenvalues, np.linalg.qr(drawn)[0])


def _errors(
    spectrum: Spectrum, length: int, start: float, time: FloatArray
) -> tuple[FloatArray, FloatArray]:
    r"""The logistic's largest error over time, and $a^*/a^\infty - 1$, both of each mode."""
    root = np.sqrt(start)
    logistic = logistic_modes(spectrum, length, start, time)
    coupled = coupled_modes(spectrum, length, root, root, time)
    error = np.abs(logistic.amplitude - coupled.amplitude).max(0) / logistic.limit
    return error, coupled.fixed_point.amplitude / logistic.limit - 1


def _rounded(errors: FloatArray) -> list[float]:
    """Errors to the digits that THEORY states of each."""
    pairs = zip(errors, _STATED.values(), strict=True)
    return [round(float(error), digits) for error, (_, digits) in pairs]


def _frozen_flow(task: AlignedRegression, p: float, q: float, time: FloatArray) -> FloatArray:
    """p and q from multiples of the identity along `time`, [T, 2, D, D] (T3 with W = pq)."""
    moments, size = task.moments(), task.dimension

    def velocity(_: float, state: FloatArray) -> FloatArray:
        p, q = state.reshape(2, size, size)
        force = moments.drive - moments.summary @ p @ q @ moments.query
        return np.concatenate([(force @ q.T).ravel(), (p.T @ force).ravel()])

    start = np.concatenate([(scale * np.eye(size)).ravel() for scale in (p, q)])
    solved = solve_ivp(
        velocity, (0, time[-1]), start, method="LSODA", rtol=1e-11, atol=1e-13, t_eval=time
    )
    return solved.y.T.reshape(-1, 2, size, size)


def _draw_slowest(axes: PanelBuilder, data: xr.Dataset) -> None:
    for index, length in enumerate(data["trained"].to_numpy()):
        here, own = data.isel(trained=index, mode=-1), panels.colour(index)
        axes.plot(data["time"], here["flow_amplitude"], color=own, label=f"$N = {length}$")
        axes.plot(data["time"], here["logistic_amplitude"], color=own, **LOGISTIC)
        axes.plot(data["time"], here["coupled_amplitude"], color="black", **panels.THEORY)
    label_theories(axes)
    axes.set(xscale="log", xlim=(10, float(data["time"][-1])), ylim=(0, None))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=rf"slowest mode  $a_{data.sizes['mode']}$")


def _draw_errors(axes: PanelBuilder, data: xr.Dataset) -> None:
    for mode in range(data.sizes["mode"]):
        own, label = panels.colour(mode), rf"$\alpha = {mode + 1}$"
        axes.plot(data["length"], data["error"][:, mode], ".-", color=own, label=label)
        error = data["flow_error"][:, mode]
        axes.plot(data["trained"], error, "o", color=own, markersize=8, markerfacecolor="none")
    axes.plot([], [], "o", color=panels.THEORY_COLOUR, markerfacecolor="none", label="matrix flow")
    guide = 0.3 * float(data["error"][-1, 0]) * float(data["length"][-1]) / data["length"]
    look = {"color": panels.THEORY_COLOUR, **panels.THEORY}
    axes.plot(data["length"], guide, label=r"$\propto 1/N$", **look)
    axes.set(xscale="log", yscale="log", xlabel=r"context length  $N$")
    axes.set(ylabel=r"largest error of the logistic / $a^\infty$")


def _draw_rest(axes: PanelBuilder, data: xr.Dataset) -> None:
    for mode in range(data.sizes["mode"]):
        distance, label = np.abs(data["rest_distance"][:, mode]), rf"$\alpha = {mode + 1}$"
        axes.plot(data["length"], distance, ".-", color=panels.colour(mode), label=label)
        predicted = np.abs(data["rest_coefficient"][mode]) / data["length"]
        axes.plot(data["length"], predicted, color="black", **panels.THEORY)
    axes.plot([], [], color="black", label=r"coefficient of T15 over $N$", **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlabel=r"context length  $N$")
    axes.set(ylabel=r"fixed points' distance  $|a^*/a^\infty - 1|$")


def _draw_unbalanced(axes: PanelBuilder, data: xr.Dataset) -> None:
    colours = panels.shades(data.sizes["imbalance"])
    for index, imbalance in enumerate(data["imbalance"].to_numpy()):
        here = data.isel(imbalance=index, mode=-1)
        label = rf"$p_0^2 - q_0^2 = {imbalance:g}$"
        axes.plot(data["time"], here["frozen_amplitude"], color=colours[index], label=label)
        axes.plot(data["time"], here["closed_form"], color="black", **panels.THEORY)
    axes.plot([], [], color="black", label="closed form (T15)", **panels.THEORY)
    axes.set(xscale="log", xlim=(1, float(data["time"][-1])), ylim=(0, None))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=rf"$a_{data.sizes['mode']}$, value frozen")
