"""Figure 4 of Mainali and Teixeira: measures that mark the stages of a run without its theory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.integrate import cumulative_trapezoid

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within, within
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted, swapped
from saddlescope.figures.kit.panels import THEORY, TIME_LABEL, colour, grid
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.linear_transformer_run import (
    VECTOR_LOSS_LABEL,
    AbstractModesFigure,
    mark_stages,
)
from saddlescope.measure import (
    autocorrelation_curvature,
    effective_rank,
    marginalised_effective_rank,
    norm_curvature,
)

# Of the axis: batch noise in a second derivative asks for more than the measure takes by itself.
_NORM_SMOOTHING = 0.01
_RANKS = ("effective_rank", "marginalised_rank")


@dataclass(frozen=True)
class MT4(AbstractModesFigure):
    """Stages from curvatures and effective ranks (section 7), beside the half-times of T15.

    Curves are averaged over `bins` even steps of logarithmic time.
    """

    bins: int = 200

    id = "mt4"
    title = "Curvatures and effective ranks mark the stages"
    source = "Mainali and Teixeira, Figure 4"
    text = (
        "The run of figure 2. Lines t₁, t₂, … are the half-times of the exact coupled modes; "
        "triangles are the stages that each measure marks from its own curve alone, in "
        "logarithmic time. (a) The loss. (b) The curvature of its autocorrelation peaks where it "
        "falls fastest, some 5 % of the time before a mode is half learned. (c) The curvature of "
        "the parameter norm changes from positive to negative in the middle of each stage. (d) "
        "The effective rank of p₂q₁ counts the modes as they are learned. The marginalised one "
        "leaves out the leading mode, so it shows every stage but the first: it falls from D - 1, "
        "where all modes are equally small, and counts the further modes from the second stage on."
    )
    departures = (
        "N, spectrum, start, batch size and rates are ours: the paper's are not known to us",
        "curves are averaged and smoothed in our way",
    )
    seconds = 5.0

    def compute(self, watch: Watch) -> xr.Dataset:
        run = self.descend(watch)
        time = run["time"].to_numpy()
        theory = self.predict(time)
        learned = run["p2"].to_numpy() @ run["q1"].to_numpy()
        exact = theory["exact_amplitude"].to_numpy()[:, :, None] * np.eye(self.task.dimension)
        curves = {
            "loss": run["loss"].to_numpy(),
            "norm": _norm(run["p2"].to_numpy(), run["q1"].to_numpy()),
            "exact_norm": np.sqrt((theory["exact_p"] ** 2 + theory["exact_q"] ** 2).sum("mode")),
            "effective_rank": effective_rank(learned),
            "marginalised_rank": marginalised_effective_rank(learned),
            "exact_effective_rank": effective_rank(exact),
            "exact_marginalised_rank": marginalised_effective_rank(exact),
        }
        data = theory[["exact_half_time", "exact_loss"]].assign(
            {name: ("time", np.asarray(curve)) for name, curve in curves.items()}
        )
        edges = np.geomspace(float(data["exact_half_time"][0]) / 6, time[-1], self.bins + 1)
        moments = np.sqrt(edges[1:] * edges[:-1])
        for name in ("loss", "exact_loss", "norm", "exact_norm"):
            even = _averages(time, data[name].to_numpy(), edges)
            if name.endswith("loss"):
                curvature = autocorrelation_curvature(even, moments)
            else:
                curvature = norm_curvature(even, moments, smoothing=_NORM_SMOOTHING)
            data[f"{name}_curvature"] = ("moment", curvature.value)
            data[f"{name}_mark"] = (f"{name}_stage", curvature.marks)
        for name in _RANKS:
            at = np.interp(data["exact_half_time"], time, data[name])
            data[f"{name}_at_stage"] = ("mode", at)
        return data.assign_coords(moment=moments)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        half, modes = data["exact_half_time"], data["mode"] + 1
        at_stage = [data[f"{name}_at_stage"] for name in _RANKS]
        exact_ranks = [np.interp(half, data["time"], data[f"exact_{name}"]) for name in _RANKS]
        apart = abs(data["marginalised_rank"] - data["exact_marginalised_rank"])
        return (
            equal(
                "the curvature of the autocorrelation marks one stage for each mode: number of "
                "stages",
                data.sizes["loss_stage"],
                data.sizes["mode"],
            ).stated_in("MT Figure 4"),
            # Half of a drop is done when a mode is at 1 - 1/sqrt(2) of its value, a tenth earlier.
            relatively_within(
                "the marks of the autocorrelation's curvature lie at the half-times of the "
                "modes (T15)",
                data["loss_mark"],
                half,
                0.1,
            ).stated_in("MT Figure 4"),
            relatively_within(
                "the marks of the autocorrelation's curvature come when those of the exact loss "
                "do (T15)",
                data["loss_mark"],
                data["exact_loss_mark"].to_numpy(),
                0.05,
            ),
            equal(
                "the curvature of the norm marks one stage for each mode: number of stages",
                data.sizes["norm_stage"],
                data.sizes["mode"],
            ).stated_in("MT Figure 4"),
            relatively_within(
                "the marks of the norm's curvature lie at the half-times of the modes (T15)",
                data["norm_mark"],
                half,
                0.06,
            ).stated_in("MT Figure 4"),
            within(
                "the effective rank at the half-time of stage m is m",
                at_stage[0],
                modes,
                0.3,
            ).stated_in("MT Figure 4"),
            within(
                "the marginalised effective rank at the half-time of stage m is m − 1, from the "
                "second stage on",
                at_stage[1][1:],
                modes[1:] - 1,
                0.2,
            ).stated_in("MT Figure 4"),
            within(
                "both effective ranks at these half-times are those of the exact modes (T15)",
                at_stage,
                exact_ranks,
                0.02,
            ),
            at_most(
                "the marginalised effective rank is that of the exact modes at all times: largest "
                "difference",
                apart.max(),
                0.06,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("the autocorrelation's marks 12 % late", 1.12, "loss_mark"),
            scaled("the autocorrelation's marks 12 % early", 0.88, "loss_mark"),
            scaled("the norm's marks 12 % late", 1.12, "norm_mark"),
            scaled("the norm's marks 12 % early", 0.88, "norm_mark"),
            shifted("effective ranks .29 too high", 0.29, "effective_rank_at_stage"),
            shifted("marginalised ranks .29 too low", -0.29, "marginalised_rank_at_stage"),
            rolled("marks of the stage before", "loss_stage", "loss_mark"),
            swapped("the leading mode left in", *(f"{name}_at_stage" for name in _RANKS)),
            scaled("the stable rank in place of the effective one", 0.9, "marginalised_rank"),
            scaled("half-times of another spectrum", 1.2, "exact_half_time"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_loss, _draw_autocorrelation, _draw_norm, _draw_ranks)
        drawing = grid(draws, data, 2, width=4.2, height=2.5, sharex=True)
        for panel in drawing.panels:
            mark_stages(panel, data)
            panel.set(xscale="log", xlim=(float(data["moment"][0]), float(data["time"][-1])))
            panel.legend()
        for panel in drawing.panels[2:]:
            panel.set(xlabel=TIME_LABEL)
        return drawing.build()


def _norm(*matrices: FloatArray) -> FloatArray:
    """The norm of all weights together at every time."""
    return np.sqrt(sum((matrix**2).sum((1, 2)) for matrix in matrices))


def _averages(time: FloatArray, curve: FloatArray, edges: FloatArray) -> FloatArray:
    """The mean of a curve between each two edges: batch noise is averaged out where it can be."""
    integral = np.interp(edges, time, cumulative_trapezoid(curve, time, initial=0.0))
    return np.diff(integral) / np.diff(edges)


def _draw_loss(axes: PanelBuilder, data: xr.Dataset) -> None:
    axes.plot(data["time"], data["loss"], color=colour(0), linewidth=2, label="batches")
    axes.plot(data["time"], data["exact_loss"], color="black", label="exact (T15)", **THEORY)
    axes.set(ylabel=VECTOR_LOSS_LABEL, ylim=(0, None))


def _draw_autocorrelation(axes: PanelBuilder, data: xr.Dataset) -> None:
    axes.plot(data["moment"], data["loss_curvature"], color=colour(0), label="curvature")
    _draw_marks(axes, data["loss_mark"].to_numpy())
    axes.set(ylabel=r"autocorrelation's  $-A''(0)$", yscale="log")
    axes.set(ylim=(float(data["loss_curvature"].max()) / 3e3, None))


def _draw_norm(axes: PanelBuilder, data: xr.Dataset) -> None:
    axes.axhline(0, color="black", linewidth=0.6)
    axes.plot(data["moment"], data["norm_curvature"], color=colour(2), label="curvature")
    exact = data["exact_norm_curvature"]
    axes.plot(data["moment"], exact, color="black", label="exact (T15)", **THEORY)
    _draw_marks(axes, data["norm_mark"].to_numpy())
    axes.set(ylabel=r"$d^2\sqrt{\|p\|^2+\|q\|^2}\,/\,d(\ln t)^2$")


def _draw_ranks(axes: PanelBuilder, data: xr.Dataset) -> None:
    time = data["time"]
    for name, label, tint in (
        ("effective_rank", "effective rank", colour(0)),
        ("marginalised_rank", "marginalised", colour(5)),
    ):
        axes.plot(time, data[name], color=tint, label=label)
        axes.plot(time, data[f"exact_{name}"], color="black", **THEORY)
    axes.plot([], [], color="black", label="exact (T15)", **THEORY)
    axes.set(ylabel=r"effective rank of $p_2q_1$", ylim=(0.8, data.sizes["mode"] + 0.4))


def _draw_marks(axes: PanelBuilder, marks: FloatArray) -> None:
    axes.plot(marks, 0.04, "^", color=colour(5), y_in="panel", label="marks", clip_on=False)
