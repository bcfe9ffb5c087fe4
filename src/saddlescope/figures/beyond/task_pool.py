"""Beyond the papers: memory against learning in context, over the number of training tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import MergedAttention, RandomStart
from saddlescope.charts import PanelBuilder, Sheet
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.figures.kit import panels
from saddlescope.figures.kit.claim import Claim, at_least, at_most, relatively_within, within
from saddlescope.figures.kit.figure import AbstractFigure
from saddlescope.figures.kit.mistake import Mistake, rolled, scaled
from saddlescope.figures.kit.parts import of_kind
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import FIXED, conserved_claim
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression, TaskPool
from saddlescope.theory import block_loss, block_optimum, plateau_losses, time_course

_FLOW = Setting(
    MergedAttention(heads=8, blocks="full"),
    InContextRegression([0.25] * 4, context_length=31),
    GradientFlow(until=20_000.0),
    RandomStart(0.01),
    Record(points=500, spacing="log"),
)
# From this many tasks on the excess on fresh tasks is that of many tasks, 1/K.
_MANY = 64
# One pool's excess scatters by half of itself, so the mean of 20 pools is known to 11 %, and the
# exponent fitted to five doublings to .05.
_EXPONENT_ERROR = 0.05
# A loss that rises again by more than this share rises: the solver's error is a thousandth of it.
_RISE = 1e-3


@dataclass(frozen=True)
class TaskPoolFigure(AbstractFigure):
    """The loss on the training tasks and on fresh ones, for pools of K tasks."""

    setting: Setting = _FLOW
    tasks: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    shown_tasks: tuple[int, ...] = (1, 4, 16, 64)
    more_tasks: tuple[int, ...] = (512, 1024)
    pools: int = 20

    varied = (
        *FIXED,
        "blocks",
        "task_covariance",
        "query_covariance",
        "label_noise",
        "inputs",
        "seeds",
    )

    id = "task-pool"
    title = "Few tasks are memorised, many are learned in context"
    source = "Beyond the papers (Zhang et al. leave the competition to future work)"
    text = (
        "Merged attention with all blocks is trained on K task vectors drawn once, and tested on "
        "fresh ones; both losses are exact (T6). (a) The loss on fresh tasks during training. "
        "With few tasks it ends far above the in-context optimum, with many close to it, where "
        "unlimited tasks (K = ∞, dashed, T9) end. (b) The loss on the training tasks themselves. "
        "(c) The losses at the end of training over K, on those of the best linear predictor that "
        "the pool's statistics allow (dashed: median and 10–90 % of 20 pools, without any "
        "training). The excess on fresh tasks falls as 1/K once there are many tasks. Learning in "
        "context is transient: at every K the loss on fresh tasks was lower earlier in training "
        "(triangles) than at its end. One pool can be worse than a smaller one, especially below "
        "K = D; the median over pools falls with every doubling."
    )
    seconds = 5.0

    @classmethod
    def quick(cls) -> TaskPoolFigure:
        return cls(
            _FLOW.replace(until=10_000.0, points=300), tasks=(1, 4, 16, 64), more_tasks=(256, 1024)
        )

    def compute(self, watch: Watch) -> xr.Dataset:
        law = of_kind(InContextRegression, self.setting.task)
        pooled, fresh, drift = [], [], []
        for count in watch.each(self.tasks):
            setting = self.setting.replace(task=_pool(law, count, 0), seeds=1)
            run = watch.train(f"tasks-{count}", setting)
            pooled.append(run.loss[0])
            fresh.append(run.dataset["loss_in_context"].to_numpy()[0])
            balance = run.dataset["value_balance"]
            drift.append(float(np.abs(balance - balance.isel(time=0)).max()))
        start = {name: run.weights(0, 0)[name] for name in ("v", "U")}
        reduced = self.setting.replace(blocks="reduced").model
        course = time_course(law, weights=start, model=reduced, times=run.time)
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
        enough, many = count >= self.setting.task.dimension, data["all_tasks"].to_numpy() >= _MANY
        own = data.isel(pool=0).sel(all_tasks=count)
        typical = data["best_fresh_loss"].median("pool").to_numpy()
        excess = data["best_fresh_loss"].mean("pool").to_numpy() - least
        slope = np.polyfit(np.log(data["all_tasks"][many]), np.log(excess[many]), 1)[0]
        return (
            relatively_within(
                "training ends at the loss of the pool's best linear predictor, at every K (T6)",
                end["pool_loss"],
                own["best_pool_loss"],
                0.006,
            ),
            relatively_within(
                "for K ≥ D, the loss on fresh tasks ends at that of the same predictor (T6)",
                end["fresh_loss"][enough],
                own["best_fresh_loss"][enough],
                3e-4,
            ),
            at_least(
                "a single task is memorised: loss on fresh tasks over that of predicting zero",
                end["fresh_loss"][count == 1] / zero,
                1.5,
            ),
            at_most(
                "many tasks are learned in context: final loss on fresh tasks at large K over "
                "the last level of unlimited tasks",
                end["fresh_loss"][count >= _MANY] / least,
                1.03,
            ),
            at_least(
                "the more tasks, the better the pool's best predictor on fresh ones: its loss, "
                "median over pools, over that at the next K",
                typical[:-1] / typical[1:],
                1.0,
            ),
            within(
                f"its mean excess over the in-context optimum goes as 1/K from K = {_MANY} on: "
                "exponent",
                slope,
                -1.0,
                _EXPONENT_ERROR,
            ),
            at_least(
                "in-context learning is transient for K ≥ D: final loss on fresh tasks over its "
                "least",
                (data["fresh_loss"].isel(time=-1) / data["fresh_loss"].min("time"))[enough],
                1 + _RISE,
            ),
            conserved_claim(data),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        return (
            scaled("a loss with a factor one half", 0.5, "pool_loss", "fresh_loss"),
            rolled("the curves of another K", "tasks", "fresh_loss", "pool_loss"),
            rolled("the optima of other pools", "pool", "best_pool_loss"),
            rolled("the optima of another K", "all_tasks", "best_fresh_loss"),
            scaled("losses on the pool in place of fresh tasks", 0.9, "fresh_loss"),
            scaled("the last level of another context length", [1.0, 1.05], "level_loss"),
            scaled("optima that are three per cent off", 1.03, "best_fresh_loss"),
        )

    def draw(self, data: xr.Dataset) -> Sheet:
        drawing, axes = panels.sheet(1, 3, width=3.3, height=3.0)
        over_time = data.isel(time=slice(1, None))
        time, pure = over_time["time"], over_time["pure_loss"]
        shown = [count for count in self.shown_tasks if count in data["tasks"]]
        tints = panels.shades(len(shown))
        for axis, name in zip(axes[0], ("fresh", "pool"), strict=False):
            for count, tint in zip(shown, tints, strict=True):
                row = over_time[f"{name}_loss"].sel(tasks=count)
                axis.plot(time, row, color=tint, label=rf"$K={count}$")
            axis.plot(time, pure, color="black", label=r"$K=\infty$ (T9)", **panels.THEORY)
            text = {"fresh": "loss on fresh tasks", "pool": "loss on the pool's tasks"}[name]
            axis.set(xscale="log", xlabel=panels.TIME_LABEL, ylabel=text, ylim=(0, None))
            axis.set(xlim=(3, self.setting.method.end))
            axis.legend()
        _draw_ends(axes[0, 2], data)
        panels.letter(axes.flat)
        return drawing.build()

    def _optima(self, law: InContextRegression) -> tuple[FloatArray, FloatArray]:
        """The best linear predictor of many pools: its loss there and on fresh tasks."""
        fresh = law.block_statistics()
        counts = (*self.tasks, *self.more_tasks)
        losses = np.empty((2, len(counts), self.pools))
        for row, count in enumerate(counts):
            for seed in range(self.pools):
                best = block_optimum(_pool(law, count, seed))
                losses[:, row, seed] = best.loss, block_loss(fresh, best.coefficients)
        return losses[0], losses[1]


def _pool(law: InContextRegression, count: int, seed: int) -> TaskPool:
    return TaskPool.draw(law.spectrum, law.context_length, count, seed=seed)


def _draw_ends(axes: PanelBuilder, data: xr.Dataset) -> None:
    end, count, every = data.isel(time=-1), data["tasks"], data["all_tasks"]
    for name, sign, tint in (("fresh", "o", panels.colour(0)), ("pool", "s", panels.colour(2))):
        best, text = data[f"best_{name}_loss"], f"{name}, end"
        low, middle, high = best.quantile([0.1, 0.5, 0.9], "pool").to_numpy()
        axes.fill_between(every, low, high, color=tint, alpha=0.15, linewidth=0)
        axes.plot(every, middle, color=tint, **panels.THEORY)
        axes.plot(count, end[f"{name}_loss"], sign, color=tint, markersize=5, label=text)
    least = data["fresh_loss"].min("time")
    axes.plot(count, least, "^", color=panels.colour(1), markersize=4, label="fresh, least")
    axes.plot([], [], color=panels.colour(0), label="optimum (T6)", **panels.THEORY)
    panels.levels(axes, data["level_loss"].to_numpy()[1:], "in context (T7)")
    axes.set(yscale="log", xlabel="training tasks  $K$", ylabel=panels.LOSS_LABEL)
    axes.xaxis.scale, axes.xaxis.base = "log", 2.0
    axes.legend(2)
