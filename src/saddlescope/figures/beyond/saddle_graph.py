"""Beyond the papers: the graph of the fixed points, and the path of training in it (T16)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.beyond.saddle_nodes import ZERO, draw_graph, node_numbers
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, equal, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import (
    FIXED,
    QUICK_STAIRCASE,
    STAIRCASE,
    clearest_seed,
    on_logarithmic_grid,
    plateau_record,
    staircase_numbers,
)
from saddlescope.setting import Setting
from saddlescope.theory import saddle_graph
from saddlescope.theory.parametrisation import population_law
from saddlescope.trajectory import Trajectory

_DISTANCE_LABEL = r"distance to the fixed point  $(E(\hat y-\hat y_S)^2)^{1/2}$"
# Records are logarithmic and begin at this share of the run, before the first drop.
_FIRST_RECORD = 1 / 300


@dataclass(frozen=True)
class SaddleGraphFigure(AbstractFigure):
    """All 2^D fixed points with their Hessians' indices, and the runs of Figure 3 among them."""

    setting: Setting = STAIRCASE

    varied = (*FIXED, "at", "spacing")

    id = "saddle-graph"
    title = "The path of training through the graph of saddles"
    source = "Beyond the papers (T16)"
    text = (
        "(a) Every fixed point of separate attention in four dimensions, one for each set of "
        "learned eigenvectors (written next to it), by its loss and the trace of its effective "
        "map; grey lines join sets that differ by one eigenvector. The number in a node, and its "
        "shade, is the index: the number of negative eigenvalues of the Hessian at the "
        "minimal-norm weights, by automatic differentiation. It counts the pairs of a learned and "
        "an unlearned eigenvector of which the unlearned one is the stronger. Training (six "
        "seeds, coloured) goes from one in-order point to the next, along the lower edge: only "
        "these have no negative eigenvalue, and are left slowly, at third order; all the others "
        "are strict saddles, which training passes by. (b) The distance in function space of one "
        "run from the in-order fixed points, each of which it reaches in turn, and from the "
        "nearest of all the others."
    )
    seconds = 5.0

    @classmethod
    def quick(cls) -> SaddleGraphFigure:
        return cls(QUICK_STAIRCASE)

    def compute(self, watch: Watch) -> xr.Dataset:
        model, task, points = self.setting.model, self.setting.task, self.setting.record.points
        setting = on_logarithmic_grid(self.setting, _FIRST_RECORD, points - 1)
        run, graph = watch.train("staircase", setting), saddle_graph(task)
        data = staircase_numbers(run).merge(node_numbers(model, task, graph))
        maps = np.array([point.effective_map for point in graph.nodes])
        return _with_visits(data, run, maps)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        path = data["path"].to_numpy()
        others = np.setdiff1d(np.arange(data.sizes["node"]), path)
        reached = np.isfinite(data["plateau_loss"].to_numpy())
        lowest = data["lowest_eigenvalue"].to_numpy()
        return (
            equal(
                "the Hessian at each fixed point has one negative eigenvalue for each "
                "inversion, a learned eigenvector weaker than an unlearned one (T16)",
                data["hessian_index"],
                data["inversions"],
                "fixed points as predicted",
            ),
            at_most(
                "fixed points out of order are strict saddles (T16): lowest eigenvalue of the "
                "Hessian over the largest of all",
                lowest[others],
                -0.02,
            ),
            at_least(
                "fixed points in order have no negative eigenvalue (T16): lowest eigenvalue of "
                "the Hessian over the largest of all",
                lowest[path],
                -ZERO,
            ),
            equal(
                "the fixed point nearest to plateau m of each seed is the one that has learned "
                "the m strongest eigenvectors",
                data["visited"].to_numpy()[reached],
                np.broadcast_to(path, reached.shape)[reached],
            ),
            at_most(
                "each plateau lies on that fixed point in function space: E(ŷ − ŷ_S)² as a "
                "share of the first loss",
                data["visit_distance"].to_numpy()[reached] / float(data["level_loss"][0]),
                2e-5,
            ),
            within(
                "each plateau has the loss of that fixed point (T7)",
                data["plateau_loss"].to_numpy()[reached],
                np.broadcast_to(data["node_loss"].to_numpy()[path], reached.shape)[reached],
                6e-5,
            ),
            at_least(
                "no run comes near a fixed point out of order: least E(ŷ − ŷ_S)² to each of "
                "them, against half of the smallest drop",
                data["least_distance"].to_numpy()[:, others].min(axis=0),
                0.5 * float(data["level_loss"][-2] - data["level_loss"][-1]),
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("indices of other fixed points", "node", "hessian_index"),
            scaled("each pair counted twice", 2, "inversions"),
            scaled("a Hessian with the other sign", -1.0, "lowest_eigenvalue"),
            rolled("the path out of order", "level", "path"),
            rolled("plateaus counted from the drop before", "level", "visited"),
            scaled("the losses of a slightly other context length", 1.001, "node_loss"),
            scaled("distances ten times as far", 10.0, "visit_distance"),
            scaled("runs that come near points out of order", 0.3, "least_distance"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(1, 5, width=2.0, height=3.9)
        graph, distances = drawing.join(axes[0, :3]), drawing.join(axes[0, 3:])
        draw_graph(graph, data)
        _draw_distances(distances, data)
        panels.letter((graph, distances))
        return drawing.build()


def _with_visits(data: xr.Dataset, run: Trajectory, nodes: FloatArray) -> xr.Dataset:
    """Which fixed point each plateau is nearest to, in the mean square of the predictions."""
    maps = run.dataset["effective_map"].to_numpy()
    moments = population_law(run.setting.task).moments()
    apart = maps[:, :, None] - nodes
    bent = np.einsum("ab,stnbc,cd->stnad", moments.summary, apart, moments.query)
    distance = (apart * bent).sum((-2, -1))
    drops, time = data["drop_time"].to_numpy(), run.time
    shape = (len(drops), data.sizes["level"])
    visited, away = np.full(shape, np.nan), np.full(shape, np.nan)
    for seed, level in np.argwhere(np.isfinite(data["plateau_loss"].to_numpy())):
        record = plateau_record(time, drops[seed], level)
        visited[seed, level] = distance[seed, record].argmin()
        away[seed, level] = distance[seed, record].min()
    path = data["path"].to_numpy()
    others = np.setdiff1d(np.arange(len(nodes)), path)
    return data.assign(
        map_trace=(("seed", "time"), np.trace(maps, axis1=-2, axis2=-1)),
        visited=(("seed", "level"), visited),
        visit_distance=(("seed", "level"), away),
        least_distance=(("seed", "node"), distance.min(axis=1)),
        path_distance=(("seed", "time", "level"), distance[:, :, path]),
        other_distance=(("seed", "time"), distance[:, :, others].min(axis=2)),
    )


def _draw_distances(axes: PanelBuilder, data: xr.Dataset) -> None:
    one = data.isel(seed=clearest_seed(data["drop_time"].to_numpy()))
    styles = ("-", "--", "-.", ":", (0, (1, 1)))
    for level in range(one.sizes["level"]):
        distance, label = np.sqrt(one["path_distance"][:, level]), f"$M_{level}$"
        tint, style = panels.colour(level), styles[level % 5]
        axes.plot(one["time"], distance, color=tint, linestyle=style, linewidth=1.8, label=label)
    axes.plot(one["time"], np.sqrt(one["other_distance"]), color="#888888", label="nearest other")
    first = float(one["drop_time"].min()) / 3
    axes.set(xscale="log", xlim=(first, float(one["time"][-1])), ylim=(-0.03, 1))
    axes.set(xlabel=panels.TIME_LABEL, ylabel=_DISTANCE_LABEL)
    axes.legend(3)
