"""Beyond the papers: noisy labels, shifted queries, uneven tasks, and a head that rotates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.figures.beyond.rotation import draw_rotation, rotation_numbers
from saddlescope.figures.kit.claim import Claim, at_least, equal, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import (
    LOSS_LABEL,
    THEORY,
    THEORY_COLOUR,
    TIME_LABEL,
    colour,
    legend,
    levels,
    sheet,
)
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import learned_share, staircase_numbers
from saddlescope.measure import first_crossing
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import modes
from saddlescope.trajectory import Trajectory

# A plateau that lasts a smaller share of the time so far has no floor to be measured.
_SHORTEST_PLATEAU = 0.05


@dataclass(frozen=True)
class NoiseAndShift(AbstractFigure):
    """T17: levels, order and drop times beyond the papers' case, and where the path is another."""

    spectrum: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    context_length: int = 31
    label_noise: float = 1.0
    white_queries: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)
    reversed_tasks: tuple[float, ...] = (0.5, 0.5, 2.0, 3.0)
    reversed_queries: tuple[float, ...] = (0.1, 0.3, 0.2, 0.4)
    heads: int = 5
    init_scale: float = 0.01
    seeds: int = 2
    until: float = 40_000.0
    rotating_spectrum: tuple[float, ...] = (1.0, 0.3)
    rotating_tasks: tuple[float, ...] = (0.5, 0.9)
    rotating_queries: tuple[float, ...] = (1.0, 1.0)
    rotating_heads: int = 4
    rotating_scale: float = 0.003
    rotating_seeds: int = 8
    rotating_until: float = 8000.0
    points: int = 1000

    id = "noise-and-shift"
    title = "Noise and shift move the staircase; where two orders disagree a head rotates"
    source = "Beyond the papers (T17)"
    text = (
        "Separate attention of rank one when labels are noisy, queries have another covariance "
        "than the context, or tasks are uneven, all in one eigenbasis. (a) Label noise alone "
        "lifts the levels and leaves the order and, nearly, the times. (b) White queries: the "
        "drops become alike in height. (c) Uneven tasks and queries can reverse the order: here "
        "the weakest eigenvector of the inputs is learned first. Dashed: the levels of T17; "
        "circles: the drops predicted from the initial weights (T13). (d) All these drops, "
        "measured and predicted. (e, f) Where the mode that escapes zero first (largest drive) "
        "is not the one that is stable (largest drop), the in-order path is not claimed and "
        "predicting it raises TheoryDoesNotApply. Training then goes ∅, {1}, {2}, {1, 2}: the "
        "head that had learned the first eigenvector rotates to the second, down the one "
        "negative direction of that saddle, and another head learns the first anew."
    )
    seconds = 8.0

    @classmethod
    def quick(cls) -> NoiseAndShift:
        return cls(seeds=1, until=12_000.0, rotating_seeds=2, points=800)

    def compute(self, watch: Watch) -> xr.Dataset:
        cases = self._cases()
        rows = []
        for name in watch.each([*cases, "rotating"]):
            if name == "rotating":
                rotation = rotation_numbers(self._rotate(watch))
            else:
                rows.append(_case_numbers(self._train(watch, name, cases[name])))
        data = xr.concat(rows, xr.DataArray(np.arange(len(rows)), dims="case"))
        return data.merge(rotation)

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        seen = np.isfinite(data["drop_time"].to_numpy())
        lasting = _lasting(data)
        on_levels = data["level_loss"].to_numpy()[:, None, 1:]
        order = np.broadcast_to(data["predicted_order"].to_numpy()[:, None], seen.shape)
        last = data["visited"].sizes["stop"]
        return (
            within(
                "every plateau lies at its level, with noise and shift too (T17)",
                data["plateau_loss"].to_numpy()[:, :, 1:][lasting],
                np.broadcast_to(on_levels, lasting.shape)[lasting],
                1e-3,
            ),
            equal(
                "eigenvectors are learned in the order of their drives c = λωκ (T17)",
                data["learned_order"].to_numpy()[seen],
                order[seen],
            ),
            relatively_within(
                "drops come when predicted from the initial weights alone (T13, T17)",
                data["drop_time"].to_numpy()[seen],
                data["predicted_drop_time"].to_numpy()[seen],
                0.03,
            ),
            relatively_within(
                "label noise alone leaves the times of the drops",
                data["drop_time"].isel(case=1).to_numpy()[seen[1]],
                data["drop_time"].isel(case=0).to_numpy()[seen[1]],
                2e-3,
            ),
            equal(
                "where the orders disagree the theory makes no statement of a path, and says so",
                data["path_refused"],
                1,
            ),
            equal(
                "there training visits ∅, {1}, {2}, {1, 2}, in every seed (T17)",
                data["visited"],
                np.broadcast_to([0, 1, 2, 3], (data.sizes["rotating_seed"], last)),
            ),
            within(
                "at each of these its loss is that of the fixed point (T17)",
                data["visited_loss"],
                np.broadcast_to(data["point_loss"], data["visited_loss"].shape),
                0.01,
            ),
            at_least(
                "the head that had learned e1 has turned to e2: |cos| of its key, at {1} and {2}",
                data["key_alignment"],
                0.95,
            ),
        )

    def draw(self, data: xr.Dataset) -> Figure:
        drawing, axes = sheet(2, 3, width=3.3, height=2.8)
        panels = ((0, 1), (2,), (3,))
        names = ("papers' case", "label noise", "white queries", "uneven tasks")
        for place, (panel, cases) in enumerate(zip(axes[0], panels, strict=True)):
            for case in cases:
                _draw_case(panel, data.isel(case=case), case, names[case])
            panel.plot([], [], "o", color=THEORY_COLOUR, markerfacecolor="none", label="T13")
            panel.set(xscale="log", xlim=(1000, self.until), ylim=(0, None), xlabel=TIME_LABEL)
            panel.set_title(f"({'abc'[place]})", loc="right")
            legend(panel, columns=2)
        axes[0, 0].set_ylabel(LOSS_LABEL)
        _draw_times(axes[1, 0], data, names)
        draw_rotation(axes[1, 1:], data)
        return drawing

    def _cases(self) -> dict[str, InContextRegression]:
        inputs, length = self.spectrum, self.context_length
        return {
            "papers": InContextRegression(inputs, length),
            "noise": InContextRegression(inputs, length, label_noise=self.label_noise),
            "queries": InContextRegression(inputs, length, query_covariance=self.white_queries),
            "reversed": InContextRegression(
                inputs, length, self.reversed_tasks, self.reversed_queries
            ),
        }

    def _train(self, watch: Watch, name: str, task: InContextRegression) -> Trajectory:
        setting = Setting(
            SeparateAttention(heads=self.heads),
            task,
            GradientFlow(until=self.until),
            RandomStart(self.init_scale),
            Record(points=self.points, spacing="log"),
            self.seeds,
        )
        return watch.train(name, setting)

    def _rotate(self, watch: Watch) -> Trajectory:
        task = InContextRegression(
            self.rotating_spectrum, self.context_length, self.rotating_tasks, self.rotating_queries
        )
        setting = Setting(
            SeparateAttention(heads=self.rotating_heads),
            task,
            GradientFlow(until=self.rotating_until),
            RandomStart(self.rotating_scale),
            Record(points=self.points),
            self.rotating_seeds,
        )
        return watch.train("rotating", setting)


def _case_numbers(run: Trajectory) -> xr.Dataset:
    """A run's staircase, and the order in which eigenvectors are half learned, counted from 1."""
    data, found = staircase_numbers(run), modes(run.setting.task)
    share = learned_share(run, found.amplitude, found.basis).to_numpy()
    half = first_crossing(np.moveaxis(share, 1, -1), 0.5, run.time, rising=True)
    # Those that are never half learned come last.
    data["learned_order"] = (("seed", "drop"), 1.0 + np.argsort(half, axis=1, kind="stable"))
    data["predicted_order"] = ("drop", 1.0 + found.order)
    return data


def _lasting(data: xr.Dataset) -> Any:
    """Which plateaus were reached and last long enough to have a floor, (case, seed, drop)."""
    begin = data["drop_time"].to_numpy()
    end = np.concatenate([begin[:, :, 1:], np.full_like(begin[:, :, :1], np.nan)], axis=2)
    end = np.where(np.isnan(end), float(data["time"][-1]), end)
    return np.isfinite(begin) & (end - begin > _SHORTEST_PLATEAU * end)


def _draw_case(axes: Any, case: xr.Dataset, place: int, name: str) -> None:
    values = case["level_loss"].to_numpy()
    if place == 1:
        for value in values[1:]:
            axes.axhline(value, color=colour(place), zorder=0, **THEORY)
    else:
        levels(axes, values, "T17")
    for seed in range(case.sizes["seed"]):
        axes.plot(
            case["time"],
            case["loss"][seed],
            color=colour(place),
            linewidth=1.0,
            label=name if seed == 0 else None,
        )
        axes.plot(
            case["predicted_drop_time"][seed],
            (values[:-1] + values[1:]) / 2,
            "o",
            color=colour(place),
            markersize=4,
            markerfacecolor="none",
        )


def _draw_times(axes: Any, data: xr.Dataset, names: tuple[str, ...]) -> None:
    span = [1000, float(data["time"][-1])]
    axes.plot(span, span, color=THEORY_COLOUR, zorder=0, **THEORY)
    for case, sign in enumerate("osD^"):
        row = data.isel(case=case)
        axes.plot(
            row["predicted_drop_time"].to_numpy().ravel(),
            row["drop_time"].to_numpy().ravel(),
            sign,
            color=colour(case),
            markersize=6 - case,
            markerfacecolor="none",
            label=names[case],
        )
    axes.legend(fontsize=7.5, loc="lower right", handletextpad=0.2)
    axes.set(xscale="log", yscale="log", xlim=span, ylim=span)
    axes.set(xlabel=r"predicted time of drop  $t/\tau$", ylabel=r"measured  $t/\tau$")
    axes.set_title("(d)", loc="right")
