"""What the figures of merged attention share: a run beside its reduced flow, as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from saddlescope.attention import MergedAttention, RandomStart
from saddlescope.attention.starts import stack_starts
from saddlescope.checks import FloatArray
from saddlescope.dynamics import GradientFlow
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import staircase_numbers
from saddlescope.task import InContextRegression
from saddlescope.theory import time_course
from saddlescope.trajectory import Trajectory


def course_times(task: InContextRegression, init_scale: float, points: int) -> FloatArray:
    """When to look at merged attention from a small start: closely through its drop, then ever
    more sparsely until it has converged (T10)."""
    usual = time_course(task, init_scale).time
    return np.interp(np.linspace(0, len(usual) - 1, points), np.arange(len(usual)), usual)


def merged_run(
    watch: Watch,
    task: InContextRegression,
    *,
    heads: int,
    init_scale: float,
    seeds: int,
    points: int,
    model: Any = None,
) -> Trajectory:
    """Merged attention of the papers' random start, or its equivalent, trained to convergence.

    `model` is one that offers `from_attention`, and starts at the same weights.
    """
    attention = MergedAttention(heads)
    weights = stack_starts(RandomStart(init_scale), attention, task, range(seeds))
    times = course_times(task, init_scale, points)
    return watch.train(
        "attention" if model is None else "network",
        attention if model is None else model,
        task,
        weights=weights if model is None else model.from_attention(weights),
        method=GradientFlow(until=float(times[-1])),
        record=times,
    )


def merged_numbers(run: Trajectory) -> xr.Dataset:
    """Loss, levels, drops and conserved quantities of a run, and its whole course by T10.

    Over (seed, time), level and drop as in `staircase_numbers`, and direction.
    """
    data = staircase_numbers(run)
    task, places = run.setting.task, range(len(run.setting.seeds))
    courses = [time_course(task, weights=run.weights(place, 0), times=run.time) for place in places]
    data["predicted_loss"] = (("seed", "time"), np.array([course.loss for course in courses]))
    data["predicted_diagonal"] = (
        ("seed", "time", "direction"),
        np.array([course.diagonal for course in courses]),
    )
    return data
