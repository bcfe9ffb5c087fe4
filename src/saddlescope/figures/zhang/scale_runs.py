"""The same random starts at many scales, trained in one ensemble, and how fast each one learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from saddlescope.attention import AbstractLinearAttention, GivenStart, RandomStart, Weights
from saddlescope.attention.starts import stack_starts
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.figures.kit.watch import Watch
from saddlescope.measure import first_crossing, stages
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.theory import lazy_course

_EARLIEST = 1e-4


@dataclass(frozen=True)
class ScaleRuns:
    """Which starts are trained, for how long, and how often they are looked at."""

    scales: tuple[float, ...]
    seeds: int
    until: float
    points: int

    def starts(self, task: InContextRegression, model: AbstractLinearAttention) -> list[Weights]:
        """The initial weights of every scale, seeds along the first axis of each."""
        return [
            stack_starts(RandomStart(scale), model, task, range(self.seeds))
            for scale in self.scales
        ]

    def numbers(
        self, watch: Watch, name: str, task: InContextRegression, model: AbstractLinearAttention
    ) -> xr.Dataset:
        """The losses of one model at all scales, and what they would be by a frozen kernel."""
        time = np.concatenate([[0.0], np.geomspace(_EARLIEST, self.until, self.points - 1)])
        starts = self.starts(task, model)
        shape = (len(self.scales), self.seeds)
        setting = Setting(
            model,
            task,
            GradientFlow(until=self.until, converged=1e-7),
            GivenStart({key: np.concatenate([one[key] for one in starts]) for key in starts[0]}),
            Record(at=time, weights=False),
            len(self.scales) * self.seeds,
        )
        run = watch.train(name, setting)
        # The run ends where all have converged.
        rows = np.pad(run.loss, ((0, 0), (0, len(time) - len(run.time))), mode="edge")
        loss = rows.reshape(*shape, -1)
        courses = [
            lazy_course(model, task, {key: array[seed] for key, array in start.items()})
            for start in starts
            for seed in range(self.seeds)
        ]
        least = courses[0].least_loss
        lazy = np.array([course.loss(time) for course in courses])
        counts = [len(stages(row, time).drops) for row in rows]
        axes = ("scale", "seed")
        return xr.Dataset(
            {
                "loss": ((*axes, "time"), loss),
                "lazy_loss": (("seed", "time"), lazy[-self.seeds :]),
                "excess": (axes, loss[:, :, 0] - least),
                "half_time": (axes, half_times(time, rows, least).reshape(shape)),
                "lazy_half_time": (axes, half_times(time, lazy, least).reshape(shape)),
                "initial_rate": (
                    axes,
                    np.array([course.initial_rate for course in courses]).reshape(shape),
                ),
                "highest_rate": (axes, _highest_rates(time, rows, least).reshape(shape)),
                "drop_count": (axes, np.array(counts, dtype=float).reshape(shape)),
            },
            coords={"time": time, "scale": list(self.scales), "seed": list(range(self.seeds))},
        )


def half_times(time: FloatArray, loss: FloatArray, least: float) -> FloatArray:
    """When half of the excess loss is lost."""
    return first_crossing(loss, (loss[..., 0] + least) / 2, time)


def _highest_rates(time: FloatArray, loss: FloatArray, least: float) -> FloatArray:
    """The fastest decay of the excess loss, from record to record, until a thousandth is left."""
    excess = np.maximum(loss - least, 1e-300)
    rates = -np.diff(np.log(excess), axis=-1) / np.diff(time)
    lasting = excess[..., 1:] > 1e-3 * excess[..., :1]
    highest: FloatArray = np.where(lasting, rates, 0.0).max(axis=-1)
    return highest
