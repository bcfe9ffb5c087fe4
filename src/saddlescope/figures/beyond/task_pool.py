"""Beyond the papers: memory against learning in context, over the number of training tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from saddlescope.attention import MergedAttention, RandomStart
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.figures.kit.claim import Claim, at_least, at_most, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.panels import (
    LOSS_LABEL,
    THEORY,
    TIME_LABEL,
    colour,
    legend,
    levels,
    shades,
    sheet,
)
from saddlescope.figures.kit.watch import Watch
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression, TaskPool
from saddlescope.theory import block_loss, block_optimum, plateau_losses, time_course

# From this many tasks on the excess on fresh tasks is that of many tasks, 1/K.
_MANY = 64
# That of one pool scatters by half of itself, so that the mean of 20 pools is known to 11 % and the
# exponent fitted to five doublings to .05; three times that.
_EXPONENT_ERROR = 0.15
# A loss that rises again by more than this share rises: the solver's error is a thousandth of it.
_RISE = 1e-3


@dataclass(frozen=True)
class TaskPoolFigure(AbstractFigure):
    """The loss on the training tasks and on fresh ones, for pools of K tasks."""

    dimension: int = 4
    context_length: int = 31
    heads: int = 8
    tasks: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    shown_tasks: tuple[int, ...] = (1, 4, 16, 64)
    more_tasks: tuple[int, ...] = (512, 1024)
    pools: int = 20
    init_scale: float = 0.01
    until: float = 20_000.0
    points: int = 500

    id = "task-pool"
    title = "Few tasks are memorised, many are learned in context"
    source = "Beyond the papers (Zhang et al. leave the competition to future work)"
    text = (
        "Merged attention with all blocks is trained on K task vectors drawn once, and tested on "
        "fresh ones; both losses are exact (T6). (a) The loss on fresh tasks during training. "
        "With few tasks it ends far above the in-context optimum, with many near it, where the "
        "pure task (K = ∞, dashed, T9) ends. (b) The loss on the training tasks themselves. (c) "
        "The end of training over K, on the best linear predictor that the pool's statistics "
        "allow (dashed: median and 10–90 % of 20 pools, without any training). The excess on "
        "fresh tasks falls as 1/K once tasks are many. Learning in "
        "context is transient: at every K the loss on fresh tasks was lower earlier in training "
        "(triangles) than at its end. One pool can be worse than a smaller one, most of all below "
        "K = D; the median over pools falls with every doubling."
    )
    seconds = 5.0

    @classmethod
    def quick(cls) -> TaskPoolFigure:
        return cls(tasks=(1, 4, 16, 64), more_tasks=(256, 1024), until=10_000.0, points=300)

    def compute(self, watch: Watch) -> xr.Dataset:
        law = InContextRegression(self._inputs, self.context_length)
        model = MergedAttention(heads=self.heads, blocks="full")
        pooled, fresh, drift = [], [], []
        for count in watch.each(self.tasks):
            setting = Setting(
                model,
                self._pool(count, 0),
                GradientFlow(until=self.until),
                RandomStart(self.init_scale),
                Record(points=self.points, spacing="log"),
            )
            run = watch.train(f"tasks-{count}", setting)
            pooled.append(run.loss[0])
            fresh.append(run.dataset["loss_in_context"].to_numpy()[0])
            balance = run.dataset["value_balance"]
            drift.append(float(np.abs(balance - balance.isel(time=0)).max()))
        start = {name: run.weights(0, 0)[name] for name in ("v", "U")}
        course = time_course(law, weights=start, model=MergedAttention(self.heads), times=run.time)
        best_pool, best_fresh = self._optima(law)
        return xr.Dataset(
            {
                "pool_loss": (("tasks", "time"), np.array(pooled)),
                "fresh_loss": (("tasks", "time"), np.array(fresh)),
                "pure_loss": ("time", course.loss),
                "best_pool_loss": (("all_tasks", "pool"), best_pool),
                "best_fresh_loss": (("all_tasks", "pool"), best_fresh),
                "level_loss": ("level", plateau_losses(law)[[0, -1]]),
                "conserved_drift": ("tasks", np.array(drift)),
            },
            coords={
                "tasks": list(self.tasks),
                "all_tasks": [*self.tasks, *self.more_tasks],
                "time": run.time,
                "pool": np.arange(self.pools),
            },
        )

    def claims(self, data: xr.Dataset) -> tuple[Claim, ...]:
        zero, least = data["level_loss"].to_numpy()
        count = data["tasks"].to_numpy()
        end = data.isel(time=-1)
        enough, many = count >= self.dimension, data["all_tasks"].to_numpy() >= _MANY
        own = data.isel(pool=0).sel(all_tasks=count)
        typical = data["best_fresh_loss"].median("pool").to_numpy()
        excess = data["best_fresh_loss"].mean("pool").to_numpy() - least
        slope = np.polyfit(np.log(data["all_tasks"][many]), np.log(excess[many]), 1)[0]
        return (
            relatively_within(
                "training ends at the pool's best linear predictor, at every K (T6)",
                end["pool_loss"],
                own["best_pool_loss"],
                0.01,
            ),
            relatively_within(
                "so does the loss on fresh tasks, at K of D and more",
                end["fresh_loss"][enough],
                own["best_fresh_loss"][enough],
                0.01,
            ),
            at_least(
                "one task is remembered: loss on fresh tasks over that of predicting zero",
                end["fresh_loss"][count == 1] / zero,
                1.0,
            ),
            at_most(
                "many are learned in context: loss on fresh tasks over the pure task's last level",
                end["fresh_loss"][count >= _MANY] / least,
                1.05,
            ),
            at_least(
                "the median over pools falls with K: ratio of each to the next",
                typical[:-1] / typical[1:],
                1.0,
            ),
            within(
                f"the excess over the in-context optimum goes as 1/K from K = {_MANY} on: exponent",
                slope,
                -1.0,
                _EXPONENT_ERROR,
            ),
            at_least(
                "learning in context is transient: fresh loss at the end over its least, K of D up",
                (data["fresh_loss"].isel(time=-1) / data["fresh_loss"].min("time"))[enough],
                1 + _RISE,
            ),
            at_most("conserved quantities drift by at most (T14)", data["conserved_drift"], 1e-7),
        )

    def draw(self, data: xr.Dataset) -> Figure:
        drawing, axes = sheet(1, 3, width=3.3, height=3.0)
        over_time = data.isel(time=slice(1, None))
        shown = [count for count in self.shown_tasks if count in data["tasks"]]
        tints = shades(len(shown))
        panels = (("fresh_loss", "loss on fresh tasks"), ("pool_loss", "loss on the pool's tasks"))
        for panel, (name, text), letter in zip(axes[0], panels, "ab", strict=False):
            for place, count in enumerate(shown):
                row = over_time[name].sel(tasks=count)
                panel.plot(over_time["time"], row, color=tints[place], label=rf"$K={count}$")
            pure = over_time["pure_loss"]
            label = r"$K=\infty$ (T9)"
            panel.plot(over_time["time"], pure, color="black", label=label, **THEORY)
            panel.set(xscale="log", xlabel=TIME_LABEL, ylabel=text, ylim=(0, None))
            panel.set(xlim=(3, self.until))
            panel.set_title(f"({letter})", loc="right")
            legend(panel)
        _draw_ends(axes[0, 2], data)
        return drawing

    @property
    def _inputs(self) -> list[float]:
        return [1 / self.dimension] * self.dimension

    def _pool(self, count: int, seed: int) -> TaskPool:
        return TaskPool.draw(self._inputs, self.context_length, count, seed=seed)

    def _optima(self, law: InContextRegression) -> tuple[FloatArray, FloatArray]:
        """The best linear predictor of many pools: its loss there and on fresh tasks."""
        fresh = law.block_statistics()
        counts = (*self.tasks, *self.more_tasks)
        found = np.empty((2, len(counts), self.pools))
        for row, count in enumerate(counts):
            for seed in range(self.pools):
                statistics = self._pool(count, seed).block_statistics()
                best = block_optimum(statistics)
                found[:, row, seed] = best.loss, block_loss(fresh, best.coefficients)
        return found[0], found[1]


def _draw_ends(axes: Any, data: xr.Dataset) -> None:
    end, count, every = data.isel(time=-1), data["tasks"], data["all_tasks"]
    for place, (name, best, sign, text) in enumerate(
        [
            ("fresh_loss", "best_fresh_loss", "o", "fresh, end"),
            ("pool_loss", "best_pool_loss", "s", "pool, end"),
        ]
    ):
        tint = colour(2 * place)
        low, middle, high = data[best].quantile([0.1, 0.5, 0.9], "pool").to_numpy()
        axes.fill_between(every, low, high, color=tint, alpha=0.15, linewidth=0)
        axes.plot(every, middle, color=tint, **THEORY)
        axes.plot(count, end[name], sign, color=tint, markersize=5, label=text)
    least = data["fresh_loss"].min("time")
    axes.plot(count, least, "^", color=colour(1), markersize=4, label="fresh, least")
    axes.plot([], [], color=colour(0), label="optimum (T6)", **THEORY)
    levels(axes, data["level_loss"].to_numpy()[1:], "in context (T7)")
    axes.set(xscale="log", yscale="log", xlabel="training tasks  $K$", ylabel=LOSS_LABEL)
    axes.set_xscale("log", base=2)
    axes.set_title("(c)", loc="right")
    legend(axes, columns=2)
