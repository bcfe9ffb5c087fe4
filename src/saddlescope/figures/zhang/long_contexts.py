"""What plateaus compute in context, and how far they fall, as the context grows (Z 27, 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, changed, rolled, scaled
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang import staircase
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import algorithms
from saddlescope.theory.in_context import InContextPredictor
from saddlescope.trajectory import Trajectory

# A start whose drops come early and are well separated.
_STARTED = staircase.STAIRCASE.replace(
    init_scale=0.02, until=20_000.0, points=1500, spacing="log", seeds=(4,)
)
# The draw of the prompts on which algorithms are compared.
_DRAW = 3
# From this length on every plateau before the last is nearest to its own regression.
_LONG = 100


@dataclass(frozen=True)
class LongContexts(AbstractFigure):
    """Plateau m against regression on m components, and drops against eigenvalues, over N."""

    setting: Setting = _STARTED
    lengths: tuple[int, ...] = (31, 100, 300, 1000, 3000)
    prompts: int = 500

    varied = (*staircase.FIXED, "rank", "context_length")

    id = "long-contexts"
    title = "As the context grows, plateau m becomes regression on m principal components"
    source = "Zhang et al., equation 27 and section 3.4 (no figure of theirs)"
    text = (
        "Separate attention of rank one, trained at several context lengths N from the same "
        "weights. What it computes in context on each plateau is compared, on prompts not used in "
        "training, with principal component regression on 0 to D components (D: least squares) "
        "and with one step of preconditioned descent. (a) The mean-square distance of plateau m "
        "from regression on m components, as a share of the labels' power, falls as 1/N (dashed). "
        "(b) So does the difference between the height of each drop and its eigenvalue; dashed: "
        "T7. (c) At the shortest context, every plateau against every algorithm; the nearest is "
        "framed. At N = 31 the third plateau is nearer to one step of preconditioned descent, "
        "which is what the model computes in the end at every N, than to regression on three "
        "components: the published statement is the limit of long contexts."
    )
    seconds = 8.0

    @classmethod
    def quick(cls) -> LongContexts:
        return cls(_STARTED.replace(points=600), lengths=(31, 300, 1000), prompts=1000)

    def compute(self, watch: Watch) -> xr.Dataset:
        settings = [self.setting.replace(context_length=length) for length in self.lengths]
        runs = [
            watch.train(f"context-{length}", one)
            for length, one in watch.each(list(zip(self.lengths, settings, strict=True)))
        ]
        numbers = [staircase.staircase_numbers(run) for run in runs]
        keep = ["level_loss", "plateau_loss", "drop_time", "predicted_drop_time", "conserved_drift"]
        lengths = xr.DataArray(list(self.lengths), dims="length")
        data = xr.concat([one[keep].isel(seed=0) for one in numbers], lengths)
        task = of_kind(InContextRegression, self.setting.task)
        distances = [self._distances(run) for run in runs]
        return data.assign_coords(length=lengths).assign(
            distance=(("length", "level", "algorithm"), np.array(distances)),
            eigenvalue=("drop", np.sort(task.spectrum.eigenvalues)[::-1]),
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        length = data["length"].to_numpy()
        nearest = data["distance"].argmin("algorithm").to_numpy()[:, :-1]
        expected = np.broadcast_to(np.arange(nearest.shape[1]), nearest.shape)
        long = length >= _LONG
        own = _own_distances(data)
        orders = np.polyfit(np.log(length), np.log(own[:, 1:]), 1)[0]
        height = -np.diff(data["plateau_loss"].to_numpy(), axis=1)
        levels = -np.diff(data["level_loss"].to_numpy(), axis=1)
        eigenvalue = data["eigenvalue"].to_numpy()
        return (
            equal(
                f"from N = {_LONG} on, plateau m < D computes principal component regression "
                "with m components: index of the nearest algorithm",
                nearest[long],
                expected[long],
                "plateaus nearest to their regression",
            ).stated_in("Z 27"),
            equal(
                "at shorter contexts too, plateau m < D computes principal component regression "
                "with m components: index of the nearest algorithm",
                nearest[~long],
                expected[~long],
                "plateaus nearest to their regression",
            )
            .stated_in("Z 27")
            .expected_to_fail(
                "at N = 31 the third plateau is nearer to one step of preconditioned descent: with "
                "few pairs in the context the fixed points shrink what regression would take whole"
            ),
            at_most(
                "at convergence attention computes least squares as N grows: N times its "
                "distance from it",
                length * own[:, -1],
                8.0,
            ).stated_in("Z section 3.4"),
            # On some hundred prompts a distance is known to a few per cent.
            within(
                "the distance of plateau m from regression on m components falls as 1/N: order "
                "in N",
                orders,
                np.full(orders.shape, -1.0),
                0.12,
            ),
            # By T7 it is short by a share of (1 + tr Λ/λ_m)/N.
            relatively_within(
                "at the longest context the loss falls by λ_m at drop m",
                height[-1],
                eigenvalue,
                1.1 * (1 + eigenvalue.sum() / eigenvalue.min()) / length[-1],
            ).stated_in("Z 24"),
            relatively_within(
                "at every N the height of each drop is that between T7's levels",
                height,
                levels,
                1e-4,
            ).stated_in("Z 24, 59"),
            staircase.timing_claim(
                "drops come at the times predicted from the initial weights alone, at every N "
                "(T13)",
                data,
                5e-5,
            ),
            staircase.conserved_claim(data, "Z 79"),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("algorithms in another order", "algorithm", "distance"),
            rolled("plateaus of the drop before", "level", "distance"),
            rolled("runs of another N", "length", "distance"),
            scaled("distances as a share of half the power", 2.0, "distance"),
            rolled("levels of another N", "length", "level_loss"),
            scaled("heights with a factor one half", 0.5, "plateau_loss"),
            rolled("eigenvalues in another order", "drop", "eigenvalue"),
            scaled("drops late by a hundredth of their time", 1.01, "drop_time"),
            changed("contexts twice as long", "length", by=lambda length: length * 2),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        draws = (_draw_distances, _draw_heights, _draw_nearest)
        return panels.grid(draws, data, 3, width=3.5, height=3.0).build()

    def _distances(self, run: Trajectory) -> FloatArray:
        """The distance of each plateau's predictor from every algorithm, over the labels' power."""
        task = of_kind(InContextRegression, run.setting.task)
        prompts, count = task.sample(self.prompts, seed=_DRAW), task.dimension
        known = {one.name: one for one in algorithms(task)}
        names = [f"principal_components_{m}" for m in range(count + 1)] + ["preconditioned_step"]
        predicted = np.array([known[name](prompts) for name in names])
        drops = staircase.staircase_numbers(run)["drop_time"].to_numpy()[0]
        maps = run.dataset["effective_map"].to_numpy()[0]
        records = [staircase.plateau_record(run.time, drops, m) for m in range(count + 1)]
        computed = np.array([InContextPredictor(maps[record])(prompts) for record in records])
        apart = ((computed[:, None] - predicted) ** 2).mean(axis=2)
        return apart / (prompts.target**2).mean()


def _own_distances(data: xr.Dataset) -> FloatArray:
    """The distance of each plateau to regression on as many components, [length, level]."""
    return np.diagonal(data["distance"].to_numpy(), axis1=1, axis2=2)


def _draw_distances(axes: PanelBuilder, data: xr.Dataset) -> None:
    own, length = _own_distances(data), data["length"].to_numpy()
    for level in range(1, own.shape[1]):
        tint = panels.colour(level - 1)
        axes.plot(length, own[:, level], "o-", color=tint, markersize=4, label=f"$m={level}$")
    guide = own[0, -1] * length[0] / length
    axes.plot(length, guide, color="black", label=r"$\propto 1/N$", **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlabel="context length  $N$")
    axes.set(ylabel="distance to $m$ components / labels' power")
    axes.legend(3)


def _draw_heights(axes: PanelBuilder, data: xr.Dataset) -> None:
    height, levels = (
        1 + np.diff(data[name].to_numpy(), axis=1) / data["eigenvalue"].to_numpy()
        for name in ("plateau_loss", "level_loss")
    )
    for drop in range(height.shape[1]):
        look = {**panels.CIRCLES, "color": panels.colour(drop), "markersize": 4.5}
        axes.plot(data["length"], height[:, drop], label=f"drop {drop + 1}", **look)
        axes.plot(data["length"], levels[:, drop], color=panels.colour(drop), **panels.THEORY)
    axes.plot([], [], color=panels.THEORY_COLOUR, label="T7", **panels.THEORY)
    axes.set(xscale="log", yscale="log", xlabel="context length  $N$")
    axes.set(ylabel=r"height short of $\lambda_m$, as a share")
    axes.legend(3)


def _draw_nearest(axes: PanelBuilder, data: xr.Dataset) -> None:
    """The distances at the shortest context as a table, the nearest framed."""
    shortest = data.isel(length=int(data["length"].to_numpy().argmin()))
    table = shortest["distance"].to_numpy()
    axes.imshow(np.log10(np.maximum(table, 1e-4)), cmap="Blues_r", square=False)
    for (row, column), value in np.ndenumerate(table):
        ink = "white" if value < 0.02 else "black"
        text = f"{value:.3f}".lstrip("0")
        axes.text(column, row, text, color=ink, ha="center", va="center", fontsize=7)
    for row, column in enumerate(table.argmin(axis=1).tolist()):
        axes.plot(column, row, "s", markersize=21, color=panels.colour(1), markerfacecolor="none")
    names = [*(str(count) for count in range(table.shape[1] - 1)), "step"]
    axes.xaxis.tick_at(range(len(names)), names)
    axes.yaxis.tick_at(range(len(table)))
    axes.set(xlabel="components, or one step", ylabel="plateau  $m$")
    axes.set_title(f"$N={int(shortest['length'])}$", loc="left")
    axes.box = "none"
