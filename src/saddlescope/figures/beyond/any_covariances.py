"""Beyond the papers: levels, index and first drop where covariances do not commute (T18, T19)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import AbstractAttention, RandomStart, SeparateAttention
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.figures.beyond.saddle_nodes import draw_graph, node_numbers
from saddlescope.figures.beyond.turning import around_first_drops, draw_turning, turning_numbers
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import (
    Claim,
    at_least,
    at_most,
    equal,
    relatively_within,
    within,
)
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import FIXED, midway, staircase_numbers
from saddlescope.setting import Setting
from saddlescope.task import AbstractData, InContextRegression
from saddlescope.theory import (
    dormant_staircase,
    fixed_points,
    hessian_index,
    minimal_norm_weights,
    saddle_graph,
)
from saddlescope.theory.courses.head import half_way_lead
from saddlescope.theory.parametrisation import population_law
from saddlescope.theory.staircase.dormant import first_drop_delay
from saddlescope.trajectory import Trajectory

_CROSSED = Setting(
    SeparateAttention(heads=4),
    InContextRegression(
        [0.6, 0.3, 0.1],
        31,
        task_covariance=[[1.0, 0.7, 0.4], [0.7, 2.0, 1.0], [0.4, 1.0, 3.0]],
        query_covariance=[[0.3, 0.1, 0.0], [0.1, 0.3, 0.1], [0.0, 0.1, 0.4]],
    ),
    GradientFlow(until=60_000.0),
    RandomStart(0.003),
    seeds=6,
    record=Record(points=1501, spacing="log"),
)
# How long the runs of a scale w last, in units of 1/(w c_1).
_WAITS = 25.0


@dataclass(frozen=True)
class AnyCovariances(AbstractFigure):
    """T19's levels and indices, and T18's first drop with K, beside training."""

    setting: Setting = _CROSSED
    scales: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003, 0.001)
    random_tasks: int = 30

    varied = FIXED

    id = "any-covariances"
    title = (
        "Where covariances do not commute a head grows along one direction and settles on another"
    )
    source = "Beyond the papers (T18, T19)"
    text = (
        "Separate attention of rank one where the covariances of inputs, tasks and queries share "
        "no eigenvectors. (a) The loss rests at the levels of T19, tr(Σ_wΛ_q) less the squares of "
        "the largest singular values of B^(−1/2) ΛΣ_wΛ_q^(1/2) (dashed); circles: the first drop, "
        "from the initial weights by the runaway of the first head and one run of a single head "
        "(T18 with K); of later drops no time is predicted. (b) The head that wins it, in every "
        "seed: its key and its query grow along the first singular vectors of C = ΛΣ_wΛ_q, and "
        "turn to those of the fixed point W_S from half-way down on. (c) Errors of the predicted "
        "first drop at falling scales w of the start; dashed: in proportion to w². Grey: with the "
        "delay of a head that would not turn. (d) All fixed points by loss and trace (e_d is the "
        "d-th singular triple that is learned), with their indices by the Hessian; training goes "
        "along those that have none."
    )
    seconds = 10.0

    @classmethod
    def quick(cls) -> AnyCovariances:
        short = _CROSSED.replace(seeds=2, until=20_000.0, points=601)
        return cls(short, scales=(0.03, 0.003), random_tasks=6)

    def compute(self, watch: Watch) -> xr.Dataset:
        model, task = self.setting.model, self.setting.task
        drive = float(np.linalg.norm(population_law(task).moments().drive, 2))
        plan = {"staircase": self.setting, "turning": around_first_drops(self.setting)}
        for scale in self.scales:
            until = _WAITS / (scale * drive)
            plan[f"scale-{scale:g}"] = self.setting.replace(init_scale=scale, until=until)
        runs = {name: watch.train(name, one) for name, one in watch.each(plan.items())}
        run, close = runs.pop("staircase"), runs.pop("turning")
        first = [staircase_numbers(one) for one in runs.values()]
        measured, predicted = (
            np.array([one[name].to_numpy()[:, 0] for one in first])
            for name in ("drop_time", "predicted_drop_time")
        )
        data = staircase_numbers(run)
        data = data.merge(turning_numbers(close)).merge(_ways(run, close))
        data = data.merge(node_numbers(model, task, saddle_graph(task)))
        return data.assign_coords(scale=list(self.scales)).assign(
            first_drop=(("scale", "seed"), measured),
            predicted_first_drop=(("scale", "seed"), predicted),
            delay=first_drop_delay(model, task),
            delay_without_turning=_delay_without_turning(task),
            later_refused=_refuses_later(model, task),
            random_index=(
                ("random_point", "way"),
                _random_indices(model, task.dimension, self.random_tasks),
            ),
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        reached = np.isfinite(data["plateau_loss"].to_numpy())
        levels = np.broadcast_to(data["level_loss"].to_numpy(), reached.shape)
        turned, scale = data["turn"].to_numpy(), data["scale"].to_numpy()
        errors, unturned = _errors(data)
        smallest = {"scale": int(scale.argmin())}
        counted = data["random_index"].to_numpy()
        return (
            within(
                "each plateau lies at its predicted level, tr(Σ_wΛ_q) − Σ σ_d² (T19): measured "
                "against predicted loss",
                data["plateau_loss"].to_numpy()[reached],
                levels[reached],
                5e-5,
            ),
            at_most(
                "when the first head has grown to a tenth of its final length, it lies along "
                "the top singular vectors of the drive (T18): angle of its key and of its "
                "query, degrees",
                data["angle_growing"],
                1.2,
            ),
            at_most(
                "on the plateau after the first drop, that head lies along the singular vectors "
                "of the fixed point (T19): angle of its key and of its query, degrees",
                data["angle_settled"],
                0.003,
            ),
            within(
                "in between, its key and its query turn by the angle between these two pairs of "
                "vectors: measured against predicted angle, degrees",
                data["angle_turned"],
                np.broadcast_to(turned, data["angle_turned"].shape),
                1.2,
            ),
            relatively_within(
                "at the smallest scale the first drop comes at T18's time, its constant K taken "
                "from one run of a single head",
                data["first_drop"].isel(smallest),
                data["predicted_first_drop"].isel(smallest).to_numpy(),
                2e-6,
            ),
            at_most(
                "the error of that time falls as w²: relative error/w² at every scale",
                errors / scale[:, None] ** 2,
                0.2,
            ),
            at_least(
                "ignoring that the head turns makes the error many times as large: ratio of the "
                "two errors",
                unturned / errors,
                10.0,
            ),
            equal(
                "the Hessian at each fixed point has one negative eigenvalue for each pair of a "
                "learned mode and an unlearned mode of larger σ (T19)",
                data["hessian_index"],
                data["inversions"],
                "fixed points as predicted",
            ),
            equal(
                "the same at every fixed point of tasks with random covariances (T19)",
                counted[:, 0],
                counted[:, 1],
                "fixed points as predicted",
            ),
            equal(
                "the theory declines to predict a time for any drop after the first",
                data["later_refused"],
                1,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("levels of covariances that commute", 1.01, "level_loss"),
            rolled("levels of the drop before", "level", "level_loss"),
            rolled("angles of the query in place of the key", "side", "angle_turned"),
            shifted("a head that grows along the fixed point", 5.0, "angle_growing"),
            shifted("a head that settles along the drive", 5.0, "angle_settled"),
            rolled("first drops of other seeds", "seed", "predicted_first_drop"),
            rolled("first drops of another scale", "scale", "predicted_first_drop"),
            scaled("a delay one per cent too long", 1.0001, "predicted_first_drop"),
            rolled("indices of other fixed points", "node", "hessian_index"),
            shifted("later drops stated all the same", -1, "later_refused"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(2, 2, width=4.2, height=3.0)
        _draw_losses(axes[0, 0], data)
        draw_turning(axes[0, 1], data)
        _draw_errors(axes[1, 0], data)
        draw_graph(axes[1, 1], data.assign(loss=data["way_loss"]))
        panels.letter(axes.flat)
        return drawing.build()


def _ways(*runs: Trajectory) -> xr.Dataset:
    """The loss and the trace of the map over the records of several runs of the same seeds."""
    order = np.argsort(np.concatenate([run.time for run in runs]), kind="stable")
    maps = np.concatenate([run.dataset["effective_map"].to_numpy() for run in runs], axis=1)
    loss = np.concatenate([run.loss for run in runs], axis=1)
    trace = np.trace(maps, axis1=-2, axis2=-1)
    axes = ("seed", "record")
    return xr.Dataset({"way_loss": (axes, loss[:, order]), "map_trace": (axes, trace[:, order])})


def _delay_without_turning(task: object) -> float:
    r"""$\kappa/(c_1\xi^{1/3})$ with $\xi = c_1/((p^\top Bp)(q^\top\Lambda_q q))$: a head that stays
    along the drive."""
    moments = population_law(task).moments()
    keys, drives, queries = np.linalg.svd(moments.drive)
    key, query = keys[:, 0], queries[0]
    curvature = (key @ moments.summary @ key) * (query @ moments.query @ query)
    return half_way_lead() / float(drives[0] * np.cbrt(drives[0] / curvature))


def _refuses_later(model: AbstractAttention, task: AbstractData) -> int:
    start = RandomStart(0.01).weights(model, task, seed=0)
    try:
        dormant_staircase(model, task, start)
    except TheoryDoesNotApply:
        return 1
    return 0


def _random_indices(model: AbstractAttention, size: int, count: int) -> FloatArray:
    """The index by the Hessian and by T19, at every fixed point of random tasks."""
    generator = np.random.default_rng(0)
    rows = []
    for _ in range(count):
        factors = generator.standard_normal((3, size, size))
        inputs, tasks, queries = factors @ factors.mT / size
        task = InContextRegression(inputs, 20, task_covariance=tasks, query_covariance=queries)
        for point in fixed_points(task):
            weights = minimal_norm_weights(model, task, point)
            rows.append((hessian_index(model, task, weights), point.index))
    return np.array(rows, dtype=float)


def _errors(data: xr.Dataset) -> tuple[FloatArray, FloatArray]:
    """Relative errors of the first drop by T18, and with the delay of a head that does not turn."""
    measured, predicted = (data[name].to_numpy() for name in ("first_drop", "predicted_first_drop"))
    apart = float(data["delay_without_turning"] - data["delay"])
    return np.abs(predicted / measured - 1), np.abs((predicted - apart) / measured - 1)


def _draw_losses(axes: PanelBuilder, data: xr.Dataset) -> None:
    levels = data["level_loss"].to_numpy()
    panels.levels(axes, levels, "levels (T19)")
    panels.seed_curves(axes, data["time"], data["loss"], "training")
    for seed, times in enumerate(data["predicted_drop_time"]):
        look = {"color": panels.colour(seed), **panels.CIRCLES}
        label = None if seed else "first drop (T18)"
        axes.plot(times[:1], midway(levels)[:1], label=label, **look)
    begin = float(data["drop_time"].min()) / 3
    axes.set(xscale="log", xlim=(begin, float(data["time"][-1])), ylim=(0, 1.08 * levels[0]))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=panels.LOSS_LABEL)
    axes.legend(3)


def _draw_errors(axes: PanelBuilder, data: xr.Dataset) -> None:
    errors, naive = _errors(data)
    scale = data["scale"].to_numpy()
    width = np.linspace(-0.04, 0.04, errors.shape[1])
    for seed in range(errors.shape[1]):
        at = scale * 10 ** width[seed]
        axes.plot(at, naive[:, seed], ".", color="#AAAAAA", label=None if seed else "no turn")
        axes.plot(at, errors[:, seed], "o", markersize=4, color=panels.colour(seed))
    axes.plot([], [], "o", markersize=4, color=panels.colour(0), label="T18 with $K$")
    typical = np.median(errors, axis=1)
    guide = typical[-1] * (scale / scale[-1]) ** 2
    axes.plot(scale, guide, color=panels.THEORY_COLOUR, label="$w^2$", zorder=0, **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlabel="scale of the start  $w$")
    axes.set(ylabel="error of the first drop's time")
    axes.legend(3)
