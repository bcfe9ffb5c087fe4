"""Beyond the papers: noisy labels, shifted queries, uneven tasks, and a head that rotates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import AnyArray
from saddlescope.figures.beyond.rotation import ROTATING, draw_rotation, rotation_numbers
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled, shifted
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import (
    FIXED,
    STAIRCASE,
    learned_share,
    level_claim,
    midway,
    staircase_numbers,
    timing_claim,
)
from saddlescope.measure import first_crossing
from saddlescope.setting import Setting
from saddlescope.theory import modes
from saddlescope.trajectory import Trajectory

_FLOW = STAIRCASE.replace(seeds=2, until=40_000.0, points=1000, spacing="log")
# A plateau shorter than this share of the time at its end has no level to measure.
_SHORTEST_PLATEAU = 0.05


@dataclass(frozen=True)
class NoiseAndShift(AbstractFigure):
    """T17: levels, order and drop times beyond the papers' case, and where the path differs."""

    setting: Setting = _FLOW
    noise: float = 1.0
    white_queries: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)
    reversed_tasks: tuple[float, ...] = (0.5, 0.5, 2.0, 3.0)
    reversed_queries: tuple[float, ...] = (0.1, 0.3, 0.2, 0.4)
    rotating_seeds: int = 8

    varied = (*FIXED, "label_noise", "task_covariance", "query_covariance")

    id = "noise-and-shift"
    title = "Noise and shift move the staircase; where two orders disagree a head rotates"
    source = "Beyond the papers (T17)"
    text = (
        "Separate attention of rank one with noisy labels, with queries of another covariance "
        "than the context, or with uneven tasks, all in one eigenbasis. (a) Label noise alone "
        "raises the levels but leaves the order and, nearly, the times. (b) White queries: the "
        "drops become similar in height. (c) Uneven tasks and queries can reverse the order: here "
        "the weakest eigenvector of the inputs is learned first. Dashed: the levels of T17; "
        "circles: the drops predicted from the initial weights (T13). (d) All these drops, "
        "measured and predicted. (e, f) Where the mode that escapes zero first (largest drive) is "
        "not the stable one (largest drop), no in-order path is claimed, and predicting one "
        "raises TheoryDoesNotApply. Training then visits ∅, {1}, {2}, {1, 2}: the head that had "
        "learned the first eigenvector rotates to the second, down the one negative direction of "
        "that saddle, and another head learns the first anew."
    )
    seconds = 8.0

    @classmethod
    def quick(cls) -> NoiseAndShift:
        return cls(_FLOW.replace(seeds=1, until=12_000.0, points=800), rotating_seeds=2)

    def compute(self, watch: Watch) -> xr.Dataset:
        base = self.setting
        rotating = ROTATING.replace(points=base.record.points, seeds=self.rotating_seeds)
        plan = {
            "papers": base,
            "noise": base.replace(label_noise=self.noise),
            "queries": base.replace(query_covariance=self.white_queries),
            "reversed": base.replace(
                task_covariance=self.reversed_tasks, query_covariance=self.reversed_queries
            ),
            "rotating": rotating,
        }
        runs = {name: watch.train(name, setting) for name, setting in watch.each(plan.items())}
        rotation = rotation_numbers(runs.pop("rotating"))
        cases = [_case_numbers(run) for run in runs.values()]
        return xr.concat(cases, xr.DataArray(np.arange(4), dims="case")).merge(rotation)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["drop_time"].to_numpy())
        order = np.broadcast_to(data["predicted_order"].to_numpy()[:, None], seen.shape)
        last = data["visited"].sizes["stop"]
        return (
            level_claim(
                "each plateau lies at its predicted level, with label noise and covariance "
                "shift too (T17)",
                data,
                _lasting(data),
                4e-4,
            ),
            equal(
                "eigenvectors are learned in falling order of their drives c = λωκ (T17)",
                data["learned_order"].to_numpy()[seen],
                order[seen],
                "drops in order",
            ),
            timing_claim(
                "drops come at the times predicted from the initial weights alone (T13, T17)",
                data,
                0.002,
            ),
            relatively_within(
                "label noise alone does not change the drop times: with noise against without",
                data["drop_time"].isel(case=1).to_numpy()[seen[1]],
                data["drop_time"].isel(case=0).to_numpy()[seen[1]],
                6e-4,
            ),
            equal(
                "where the order of the drives differs from that of the drops, the theory "
                "declines to predict a path",
                data["path_refused"],
                1,
            ),
            equal(
                "in that case every seed visits the fixed points ∅, {1}, {2}, {1, 2} (T17)",
                data["visited"],
                np.broadcast_to([0, 1, 2, 3], (data.sizes["rotating_seed"], last)),
                "visits in this order",
            ),
            within(
                "at each of these visits the loss is that of the fixed point (T17)",
                data["visited_loss"],
                np.broadcast_to(data["point_loss"], data["visited_loss"].shape),
                0.002,
            ),
            at_least(
                "the head that had learned e1 turns to e2: |cos| of its key with e1 at {1}, "
                "with e2 at {2}",
                data["key_alignment"],
                0.985,
            ),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            rolled("levels of another case", "case", "level_loss"),
            scaled("levels of a context one pair shorter", 1.003, "level_loss"),
            rolled("the order of the inputs' eigenvalues", "case", "predicted_order"),
            rolled("predictions of another case", "case", "predicted_drop_time"),
            scaled("drops late by half a per cent", 1.005, "drop_time"),
            shifted("a path stated all the same", -1, "path_refused"),
            rolled("fixed points in another order", "stop", "visited"),
            scaled("losses without the tasks' covariance", 1.1, "point_loss"),
            scaled("keys a dozen degrees off", np.cos(np.radians(12)), "key_alignment"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(2, 3, width=3.3, height=2.8)
        names = ("papers' case", "label noise", "white queries", "uneven tasks")
        for axis, cases in zip(axes[0], ((0, 1), (2,), (3,)), strict=True):
            for case in cases:
                _draw_case(axis, data.isel(case=case), case, names[case])
            look = {"color": panels.THEORY_COLOUR, "markerfacecolor": "none"}
            axis.plot([], [], "o", label="drops (T13)", **look)
            end = self.setting.method.end
            axis.set(xscale="log", xlim=(1000, end), ylim=(0, None), xlabel=panels.TIME_LABEL)
            axis.legend(2)
        axes[0, 0].set(ylabel=panels.LOSS_LABEL)
        _draw_times(axes[1, 0], data, names)
        draw_rotation(axes[1, 1], axes[1, 2], data)
        panels.letter(axes.flat)
        return drawing.build()


def _case_numbers(run: Trajectory) -> xr.Dataset:
    """A run's staircase, and the order in which eigenvectors are half learned, counted from 1."""
    law = modes(run.setting.task)
    share = learned_share(run, law.amplitude, law.basis).to_numpy()
    half = first_crossing(np.moveaxis(share, 1, -1), 0.5, run.time, rising=True)
    return staircase_numbers(run).assign(
        # Eigenvectors that are never half learned come last.
        learned_order=(("seed", "drop"), 1.0 + np.argsort(half, axis=1, kind="stable")),
        predicted_order=("drop", 1.0 + law.order),
    )


def _lasting(data: xr.Dataset) -> AnyArray:
    """Which plateaus were reached and last long enough to have a floor, (case, seed, drop)."""
    begin = data["drop_time"].to_numpy()
    end = np.concatenate([begin[:, :, 1:], np.full_like(begin[:, :, :1], np.nan)], axis=2)
    end = np.where(np.isnan(end), float(data["time"][-1]), end)
    return np.isfinite(begin) & (end - begin > _SHORTEST_PLATEAU * end)


def _draw_case(axes: PanelBuilder, case: xr.Dataset, index: int, name: str) -> None:
    values, tint = case["level_loss"].to_numpy(), panels.colour(index)
    if index == 1:
        for value in values[1:]:
            axes.axhline(value, color=tint, zorder=0, **panels.THEORY)
    else:
        panels.levels(axes, values, "levels (T17)")
    panels.seed_curves(axes, case["time"], case["loss"], name, color=tint, linewidth=1.0)
    for times in case["predicted_drop_time"]:
        axes.plot(times, midway(values), color=tint, markersize=4, **panels.CIRCLES)


def _draw_times(axes: PanelBuilder, data: xr.Dataset, names: tuple[str, ...]) -> None:
    span = [1000, float(data["time"][-1])]
    axes.plot(span, span, color=panels.THEORY_COLOUR, zorder=0, **panels.THEORY)
    for case, sign in enumerate("osD^"):
        axes.plot(
            data["predicted_drop_time"][case].to_numpy().ravel(),
            data["drop_time"][case].to_numpy().ravel(),
            **{**panels.CIRCLES, "marker": sign, "color": panels.colour(case)},
            markersize=6 - case,
            label=names[case],
        )
    axes.legend(1, place="lower right")
    axes.set(xscale="log", yscale="log", xlim=span, ylim=span)
    axes.set(xlabel=r"predicted time of drop  $t/\tau$", ylabel=r"measured  $t/\tau$")
