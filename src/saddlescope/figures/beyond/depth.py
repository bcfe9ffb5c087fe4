"""Beyond the papers: the algorithms of one, two and three layers of attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import optax
import xarray as xr

from saddlescope.attention import DeepAttention, RandomStart
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.comparison.algorithms import trace_algorithms
from saddlescope.dynamics import Optimiser, Record, StochasticGradientDescent
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, relatively_within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.precision import in_float64
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression, Prompts
from saddlescope.theory import algorithms, minimum
from saddlescope.trajectory import Trajectory

_DESCENT = Setting(
    DeepAttention(layers=1, heads=4),
    InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31),
    StochasticGradientDescent(learning_rate=0.2, steps=6000, batch_size=256),
    RandomStart(0.05),
    Record(points=120, spacing="log"),
    seeds=3,
)
# Held-out prompts: for the distances during training, and for the errors at the end.
_PROBES, _FINAL_PROBES, _FINAL_SEED = 2000, 20_000, 27_182
# Three standard errors of the mean of this many squared errors, whose tails are heavy.
_PROBE_ERROR = 0.1


@dataclass(frozen=True)
class Depth(AbstractFigure):
    """Linear attention with several layers on in-context regression (sections 2 and 5).

    Merged heads, all blocks trained by descent on fresh batches, its gradients clipped: predictions
    are polynomials of degree 3 to the number of layers, and some prompts have enormous gradients.
    The rate falls to zero in the second half.
    """

    setting: Setting = _DESCENT
    depths: tuple[int, ...] = (1, 2, 3)
    clipping: float = 0.5

    varied = ("layers", "weights")

    id = "depth"
    title = "Deeper attention goes through one step of descent to least squares"
    source = "Beyond the papers"
    text = (
        "Linear attention with one, two and three layers, trained on fresh prompts. (a) The loss, "
        "with the least possible for one layer (dashed), below which deeper attention goes. (b) "
        "and on, for each depth: the mean-square distance of one seed on held-out prompts from "
        "the algorithms of section 5; the strip at the bottom has the colour of the nearest. "
        "Every depth begins with the zero function, then regresses on more and more principal "
        "components, then takes one step of preconditioned descent. One layer ends there, at its "
        "optimum. Two and three layers go on to least squares, which is Bayes-optimal here, since "
        "the labels have no noise (ridge and regression on all components are the same). Most "
        "deep seeds pass the optimum of one layer without a rest; one with two layers rests near "
        "it for a thousand steps before it goes on. Predictions are polynomials of degree 3, 9 "
        "and 27 in the prompt and have heavy tails, which show as spikes in the distances. With a "
        "single head some seeds stay at one component, which they learn through the blocks that "
        "reduced attention does not have."
    )
    seconds = 80.0

    @classmethod
    def quick(cls) -> Depth:
        small = _DESCENT.replace(
            spectrum=(0.5, 0.3, 0.2), context_length=20, heads=3, seeds=1, points=60
        )
        return cls(small.replace(steps=2000, batch_size=128), depths=(1, 2))

    def compute(self, watch: Watch) -> xr.Dataset:
        task = of_kind(InContextRegression, self.setting.task)
        fresh = task.sample(_FINAL_PROBES, seed=_FINAL_SEED)
        known = {algorithm.name: algorithm for algorithm in algorithms(task)}
        # What each depth is set beside: one step of descent, then the depth before.
        step = shallower = known["preconditioned_step"](fresh)[None]
        parts = []
        for depth in watch.each(self.depths):
            run = watch.train(f"{depth} layers", self._descent(depth))
            candidates = [known[name] for name in self._names()]
            traced = trace_algorithms(run, task, _PROBES, candidates=candidates)
            predicted = np.stack([_predict(run, seed, fresh) for seed in run.setting.seeds])
            numbers = {
                "loss": (("seed", "time"), run.loss),
                "distance": (("seed", "time", "algorithm"), traced["distance"].to_numpy()),
                "error": ("seed", ((predicted - fresh.target) ** 2).mean(1)),
                "step_distance": ("seed", ((predicted - step) ** 2).mean(1)),
                "gain": ("seed", _gain(predicted, shallower, fresh.target)),
            }
            parts.append(xr.Dataset(numbers))
            shallower = predicted
        data = xr.concat(parts, xr.DataArray(list(self.depths), dims="depth"))
        data = data.assign_coords(depth=list(self.depths), step=("time", run.time))
        power = float((fresh.target**2).mean())
        return data.assign(one_layer_loss=minimum(task).loss, label_power=power)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        one, deep = data.sel(depth=1), data.sel(depth=data["depth"] > 1)
        names = self._names()
        final = data["distance"].isel(time=-1).argmin("algorithm")
        goal = xr.where(data["depth"] > 1, len(names) - 1, len(names) - 2)
        order, predicted_order = self._orders(data)
        return (
            equal(
                "the algorithm nearest to the trained model is one step of preconditioned "
                "gradient descent with one layer, least squares (the last in the list) with "
                "more: its number in the list",
                final + 1,
                goal.broadcast_like(final) + 1,
                "runs end there",
            ),
            equal(
                "earlier in training the nearest algorithm is principal component regression "
                "with 0, 1, … D − 2 components, then one step of descent: order of the "
                "midpoints of the times at which each is nearest, by depth and seed",
                order,
                predicted_order,
            ),
            at_most(
                "one layer ends at its optimum: distance of its predictions as a share of the "
                "labels' power",
                one["step_distance"] / data["label_power"],
                4e-4,
            ).stated_in("Z 16"),
            relatively_within(
                "with one layer the final error on held-out prompts is the least possible (T7)",
                one["error"],
                data["one_layer_loss"].item(),
                _PROBE_ERROR,
            ),
            at_least(
                "each additional layer lowers the error on held-out prompts, in every seed: by "
                "how many standard errors",
                deep["gain"],
                3.0,
            ),
            at_most(
                "with two or more layers the error is at most half the least one of a single "
                "layer (T7): ratio",
                deep["error"] / data["one_layer_loss"],
                0.5,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("errors with a factor one half", 0.5, "error"),
            rolled("errors of another depth", "depth", "error"),
            rolled("the nearest of another depth", "depth", "distance"),
            rolled("algorithms in another order", "algorithm", "distance"),
            rolled("one step as far as the deeper ones are", "depth", "step_distance"),
            scaled("one layer that has not converged", 10.0, "step_distance"),
            scaled("a gain of the shallower over the deeper", -1.0, "gain"),
            scaled("the least error of another context length", 1.2, "one_layer_loss"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        count = data.sizes["depth"] + 1
        drawing, axes = panels.sheet_of(count, 2, width=4.3, height=2.9)
        shown = axes.flat[:count]
        self._draw_loss(shown[0], data)
        for index, panel in enumerate(shown[1:]):
            self._draw_distances(panel, data.isel(depth=index, seed=0))
        for panel in shown:
            panel.set(xscale="log", xlabel="training step", xlim=(10, float(data["step"][-1])))

        panels.letter(shown)
        shown[0].legend()
        shown[1].legend()
        return drawing.build()

    def _descent(self, depth: int) -> Setting:
        base = of_kind(StochasticGradientDescent, self.setting.method)
        half = base.steps // 2
        rate = optax.linear_schedule(base.learning_rate, 0.0, base.steps - half, half)
        clipped = optax.chain(optax.clip_by_global_norm(self.clipping), optax.sgd(rate))
        method = Optimiser(clipped, base.steps, batch_size=base.batch_size, key=base.key)
        return self.setting.replace(layers=depth, method=method)

    def _names(self) -> list[str]:
        """The algorithms that differ without noise in the labels, least squares last."""
        counts = range(self.setting.task.dimension)
        components = [f"principal_components_{count}" for count in counts]
        return [*components, "preconditioned_step", "least_squares"]

    def _orders(self, data: xr.Dataset) -> tuple[list[int], list[int]]:
        """The order in which algorithms are nearest, for each depth and seed, and as it should be.

        All components but one are left out: one step is nearer before they are nearest.
        """
        nearest = data["distance"].argmin("algorithm").to_numpy()
        left_out = self.setting.task.dimension - 1
        path = [index for index in range(len(self._names())) if index != left_out]
        measured: list[int] = []
        predicted: list[int] = []
        for depth, row in zip(data["depth"].to_numpy(), nearest, strict=True):
            members = path if depth > 1 else path[:-1]
            for passed in row:
                middles = [np.median(np.flatnonzero(passed == index)) for index in members]
                measured += (1 + np.argsort(np.argsort(middles))).tolist()
                predicted += range(1, len(members) + 1)
        return measured, predicted

    def _draw_loss(self, axes: PanelBuilder, data: xr.Dataset) -> None:
        panels.levels(axes, [data["one_layer_loss"]], "least of one layer (T7)")
        for index, depth in enumerate(data["depth"].to_numpy()):
            label, tint = f"{depth} layer{'s' if depth > 1 else ''}", panels.colour(index)
            panels.seed_curves(axes, data["step"], data["loss"][index], label, color=tint)
        axes.set(yscale="log", ylabel=panels.LOSS_LABEL)

    def _draw_distances(self, axes: PanelBuilder, one: xr.Dataset) -> None:
        colours, labels = self._looks()
        nearest = one["distance"].argmin("algorithm").to_numpy()
        for index, label in enumerate(labels):
            axes.plot(one["step"], one["distance"][:, index], color=colours[index], label=label)
            near = one["step"].to_numpy()[nearest == index]
            axes.plot(near, 0.03, "s", color=colours[index], markersize=4, y_in="panel")
        depth = int(one["depth"])
        axes.set(yscale="log", ylim=(2e-3, 3))
        axes.set(ylabel=f"mean-square distance, {depth} layer{'s' if depth > 1 else ''}")

    def _looks(self) -> tuple[list[FloatArray | str], list[str]]:
        count = self.setting.task.dimension
        components = ["zero", "1 component", *[f"{n} components" for n in range(2, count)]]
        tints: list[FloatArray | str] = [*panels.shades(count), panels.colour(5), panels.colour(3)]
        return tints, [*components, "one step", "least squares"]


def _predict(run: Trajectory, seed: int, prompts: Prompts) -> FloatArray:
    """What the weights at the end of the run make of prompts, [P]."""
    return np.asarray(in_float64(run.setting.model.predict)(run.weights(seed), prompts))


def _gain(predicted: FloatArray, other: FloatArray, target: FloatArray) -> FloatArray:
    """By how many standard errors the mean-square error is below another's, [S]."""
    gained = (other - target) ** 2 - (predicted - target) ** 2
    return gained.mean(1) / (gained.std(1) / np.sqrt(len(target)))
