"""Figure 1 of Mainali and Teixeira: where a linear transformer comes to rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import NullLocator

from saddlescope.checks import FloatArray
from saddlescope.drawing import Drawing
from saddlescope.dynamics import GradientDescent
from saddlescope.figures.kit.claim import Claim, at_most, relatively_within
from saddlescope.figures.kit.panels import THEORY, THEORY_COLOUR, colour, legend
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.mainali.linear_transformer_run import (
    DESCENT,
    FIXED,
    LEG_FIELDS,
    AbstractModesFigure,
)
from saddlescope.setting import Setting
from saddlescope.theory import coupled_fixed_point, logistic_modes

_DESCENT = DESCENT.replace(blocks="full", steps=450, init_scale=0.1, points=21, seeds=3)
_MARKERS = "osD^v"


@dataclass(frozen=True)
class MT1(AbstractModesFigure):
    r"""The fixed point: $p_2$ and $q_1$ diagonal in the eigenbasis, their product $a^*$ (T15).

    Besides the run on batches, which trains all blocks, descents on the exact loss at several
    context lengths, from the random weights and in the seeds of the held setting.
    """

    setting: Setting = _DESCENT
    start: float = 1e-2
    learning_rates: tuple[float, ...] = (0.02, 0.06, 0.02)
    context_lengths: tuple[int, ...] = (10, 31, 100)
    exact_rate: float = 0.1
    exact_steps: int = 15_000

    varied = (*FIXED, *LEG_FIELDS)

    id = "mt1"
    title = "What a linear transformer has learned at the end"
    source = "Mainali and Teixeira, Figure 1"
    text = (
        "The linear transformer's lower value row and left query column at the end of training on "
        "fresh batches (a, b; in the eigenbasis of the inputs): of four blocks two stay at zero, "
        "two are diagonal. Their product (c) is the predicted fixed point (d). (e) Descent on "
        "the exact loss from random matrices, at several context lengths, ends at the fixed point "
        "of the coupled modes, whatever the start. (f) The same as a relative distance: the "
        "paper's own limit (MT 12, crosses), which is exact where the value is frozen, is off at "
        "order 1/N."
    )
    seconds = 5.0

    @classmethod
    def quick(cls) -> MT1:
        small = _DESCENT.replace(spectrum=(1.0, 0.6, 0.35), context_length=20, seeds=2)
        return cls(small, learning_rates=(0.03, 0.02), context_lengths=(10, 31))

    def compute(self, watch: Watch) -> xr.Dataset:
        run, *ends = [
            self.descend(watch) if length is None else self._rest(watch, length)
            for length in watch.each((None, *self.context_lengths))
        ]
        data = run.isel(time=-1).drop_vars(["time", "loss", "norm_balance"])
        seen = self.predict(run["time"].to_numpy()).isel(time=-1).drop_vars("time")
        basis = self.task.spectrum.basis
        for name in self.setting.model.axes:
            data[name] = (("row", "column"), basis.T @ data[name].to_numpy() @ basis)
        data = data.assign(
            map=(("row", "column"), data["p2"].to_numpy() @ data["q1"].to_numpy()),
            batch_spread=seen["batch_spread"],
            rest_amplitude=seen["rest_amplitude"],
        )
        lengths = xr.DataArray(list(self.context_lengths), dims="length")
        return data.merge(xr.concat(ends, lengths)).assign_coords(length=lengths)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        rest = data["length_rest_amplitude"].broadcast_like(data["descent_amplitude"])
        limit = data["length_limit"].broadcast_like(data["descent_amplitude"])
        eigenvalues = self.task.spectrum.eigenvalues
        root = np.sqrt(eigenvalues / eigenvalues[0])
        ratio = data["descent_ratio"] / data["descent_ratio"].isel(mode=0)
        apart = np.abs(np.diagonal(data["map"]) - data["rest_amplitude"])
        others = max(float(np.abs(data[name]).max()) for name in ("p1", "q2"))
        return (
            relatively_within(
                "from random weights descent ends at the fixed point of the coupled modes (T15)",
                data["descent_amplitude"],
                rest,
                1e-4,
            ),
            at_most(
                "there p and q are diagonal: largest other entry as a share of the largest",
                data["descent_off_diagonal"],
                1e-3,
            ),
            relatively_within(
                "and p/q goes with the root of the eigenvalue (T15)",
                ratio,
                np.broadcast_to(root, ratio.shape),
                1e-3,
            ),
            relatively_within(
                "the loss there is L* (T15)",
                data["descent_loss"],
                data["length_rest_loss"].broadcast_like(data["descent_loss"]),
                1e-6,
            ),
            at_most(
                "batches end there too: distance in standard deviations of the batch noise",
                apart / data["batch_spread"],
                4.0,
            ),
            at_most(
                "on batches the other two blocks stay near zero: largest entry as a share of p",
                others / float(np.abs(data["p2"]).max()),
                0.05,
            ),
            relatively_within(
                "descent ends at the paper's limit (MT 12)", data["descent_amplitude"], limit, 0.01
            ).expected_to_fail(
                "MT 12 is exact where the value is frozen; where it is trained the modes are "
                "coupled and rest elsewhere, by order 1/N: see modes-exactness"
            ),
        )

    def draw(self, data: xr.Dataset) -> Figure:
        drawing = Drawing(figsize=(11.0, 5.4))
        rows = drawing.add_gridspec(2, 1, height_ratios=(1, 1.15))
        upper = rows[0].subgridspec(1, 4, width_ratios=(2, 2, 1.05, 1.05))
        lower = rows[1].subgridspec(1, 2)
        value, query, product, rest = (drawing.add_subplot(upper[index]) for index in range(4))
        limit = float(max(np.abs(data[name]).max() for name in ("map", "p2", "q1")))
        _draw_matrix(value, np.hstack([data["p1"], data["p2"]]), limit, r"(a)  $p_1\,|\,p_2$")
        _draw_matrix(query, np.hstack([data["q2"], data["q1"]]), limit, r"(b)  $q_2\,|\,q_1$")
        _draw_matrix(product, data["map"].to_numpy(), limit, r"(c)  $p_2q_1$")
        predicted = np.diag(data["rest_amplitude"].to_numpy())
        image = _draw_matrix(rest, predicted, limit, r"(d)  $\mathrm{diag}\,a^*$")
        drawing.colorbar(image, ax=[value, query, product, rest], shrink=0.7, label="weight")
        _draw_parity(drawing.add_subplot(lower[0]), data)
        _draw_distance(drawing.add_subplot(lower[1]), data)
        return drawing

    def _rest(self, watch: Watch, length: int) -> xr.Dataset:
        """Where descents from random weights end, and both theories of it."""
        exact, spectrum = GradientDescent(self.exact_rate, self.exact_steps), self.task.spectrum
        setting = self.setting.replace(
            context_length=length, blocks="reduced", method=exact, points=2
        )
        run = watch.train(f"context {length}", setting)
        final, basis = run.weights(), spectrum.basis
        value, query = (basis.T @ final[name] @ basis for name in ("p2", "q1"))
        p, q = (np.diagonal(matrix, axis1=1, axis2=2) for matrix in (value, query))
        rest = coupled_fixed_point(spectrum, length)
        off = [_off_diagonal(matrix) for matrix in (value, query)]
        axes = ("seed", "mode")
        return xr.Dataset(
            {
                "descent_amplitude": (axes, np.diagonal(value @ query, axis1=1, axis2=2)),
                "descent_ratio": (axes, np.abs(p / q)),
                "descent_off_diagonal": ("seed", np.max(off, axis=0)),
                "descent_loss": ("seed", run.loss[:, -1]),
                "length_rest_amplitude": ("mode", rest.amplitude),
                "length_rest_loss": ((), rest.loss),
                "length_limit": ("mode", logistic_modes(spectrum, length, 1e-3, [0]).limit),
            }
        )


def _off_diagonal(matrices: FloatArray) -> FloatArray:
    """The largest entry off the diagonal of each as a share of the largest of all."""
    off = np.abs(matrices) * (1 - np.eye(matrices.shape[-1]))
    return off.max((1, 2)) / np.abs(matrices).max((1, 2))


def _draw_matrix(axes: Axes, matrix: FloatArray, limit: float, title: str) -> AxesImage:
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    rows, columns = matrix.shape
    axes.set_title(title, loc="left")
    axes.set_xticks(range(columns), [f"$e_{index % rows + 1}$" for index in range(columns)])
    axes.set_yticks(range(rows), [f"$e_{index + 1}$" for index in range(rows)])
    axes.spines[["top", "right"]].set_visible(True)
    if columns > rows:
        axes.axvline(rows - 0.5, color=THEORY_COLOUR, linewidth=1)
    axes.set(xlabel="eigenvector")
    return image


def _draw_parity(axes: Axes, data: xr.Dataset) -> None:
    span = np.array(
        [data["length_rest_amplitude"].min() / 1.2, data["descent_amplitude"].max() * 1.2]
    )
    axes.plot(span, span, color=THEORY_COLOUR, label="equal", **THEORY)
    for index, length in enumerate(data["length"].to_numpy()):
        here = data.sel(length=length)
        rest = here["length_rest_amplitude"].broadcast_like(here["descent_amplitude"])
        axes.plot(
            rest.to_numpy().ravel(),
            here["descent_amplitude"].to_numpy().ravel(),
            _MARKERS[index % 5],
            color=colour(index),
            markerfacecolor="none",
            label=f"$N = {length}$",
        )
    axes.plot(
        data["rest_amplitude"],
        np.diagonal(data["map"]),
        "*",
        color=colour(5),
        markersize=9,
        label="batches",
    )
    axes.set(xscale="log", yscale="log", xlim=span, ylim=span)
    axes.set(xlabel=r"predicted  $a^*_\alpha$", ylabel=r"learned  $a_\alpha$")
    ticks = [tick for tick in (0.5, 1, 2, 3, 4, 5) if span[0] < tick < span[1]]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_minor_locator(NullLocator())
    axes.set_title("(e)", loc="right")
    legend(axes)


def _draw_distance(axes: Axes, data: xr.Dataset) -> None:
    axes.axhline(0, color=THEORY_COLOUR, label="coupled modes (exact)", **THEORY)
    modes = data["mode"].to_numpy() + 1
    for index, length in enumerate(data["length"].to_numpy()):
        here = data.sel(length=length)
        rest = here["length_rest_amplitude"]
        aside = modes + 0.12 * (index - (data.sizes["length"] - 1) / 2)
        off = 100 * (here["descent_amplitude"].mean("seed") / rest - 1)
        axes.plot(
            aside,
            off,
            _MARKERS[index % 5],
            color=colour(index),
            markerfacecolor="none",
            label=f"$N = {length}$",
        )
        axes.plot(aside, 100 * (here["length_limit"] / rest - 1), "x", color=colour(index))
    axes.plot([], [], "x", color=THEORY_COLOUR, label="limit of MT 12")
    axes.set_xticks(modes)
    axes.set(xlabel=r"mode  $\alpha$", ylabel=r"distance from $a^*_\alpha$, %")
    axes.set_title("(f)", loc="right")
    legend(axes)
