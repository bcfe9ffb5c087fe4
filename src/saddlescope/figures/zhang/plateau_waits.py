"""How long a head waits before it learns its eigenvector, measured and estimated (T12)."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.checks import FloatArray
from saddlescope.figures.zhang.staircase import staircase_numbers, winning_heads
from saddlescope.measure import drop_times
from saddlescope.task import AbstractData
from saddlescope.theory import HeadTimeCourse, head_time_course, modes, plateau_losses
from saddlescope.trajectory import Trajectory

TURNED = 0.1
"""A head has turned to its eigenvector once the speed of its value stays this close to T12's."""

# Where the estimate is evaluated, as shares of the wait.
_PROGRESS = np.linspace(0.0, 0.95, 39)


def random_waits(run: Trajectory) -> xr.Dataset:
    """A staircase of rank one, with the wait of the head that learns, over (seed, drop).

    `estimated_wait` is τ/(λ_d² v) with its value v at the plateau's start (Z 68, 73), and
    `estimate_ratio` the estimated over the actual time left, along the plateau. `rest_of_wait`
    begins when the head has turned to its eigenvector; `predicted_rest` is that of one head (T12).
    """
    data = staircase_numbers(run)
    task, time, drops = run.setting.task, run.time, data["drop_time"].to_numpy()
    heads = winning_heads(data.assign(value=(("seed", "time", "head"), run.dataset["v"].data)))
    names = ("wait", "estimated_wait", "rest_of_wait", "predicted_rest")
    waits = {name: np.full(drops.shape, np.nan) for name in names}
    ratio = np.full((*drops.shape, len(_PROGRESS)), np.nan)
    for seed, drop in np.argwhere(np.isfinite(heads)).tolist():
        begin, end = (drops[seed, drop - 1] if drop else 0.0), drops[seed, drop]
        size, speed = _head(run, seed, int(heads[seed, drop]), drop)
        moments = begin + _PROGRESS * (end - begin)
        sizes = np.interp(moments, time, size)
        estimates = np.array([_course(task, drop, one).plateau for one in sizes])
        ratio[seed, drop] = estimates / (end - moments)
        turning = (time < begin) | ((time < end) & (np.abs(speed / size**2 - 1) > TURNED))
        turned = int(np.flatnonzero(turning).max(initial=-1)) + 1
        waits["wait"][seed, drop] = end - begin
        waits["estimated_wait"][seed, drop] = estimates[0]
        waits["rest_of_wait"][seed, drop] = end - time[turned]
        waits["predicted_rest"][seed, drop] = _course(task, drop, size[turned]).drop_time
    data = data.assign({name: (("seed", "drop"), values) for name, values in waits.items()})
    data["estimate_ratio"] = (("seed", "drop", "progress"), ratio)
    return data.assign_coords(progress=_PROGRESS)


def aligned_start(task: AbstractData, heads: int, scales: FloatArray) -> dict[str, FloatArray]:
    """Weights with head d on eigenvector d and v = ‖k‖ = ‖q‖, one scale a seed; spare heads 0."""
    used = min(heads, task.dimension)
    value, pair = np.zeros(heads), np.zeros((heads, 1, task.dimension))
    value[:used] = 1.0
    pair[:used, 0] = modes(task).basis.T[modes(task).order][:used]
    pairs = scales[:, None, None, None] * pair
    return {"v": scales[:, None] * value, "k": pairs, "q": pairs.copy()}


def aligned_waits(run: Trajectory) -> xr.Dataset:
    """The waits of heads that started on the eigenvectors, and their estimates (Z 68, 73)."""
    drops = drop_times(run.loss, plateau_losses(run.setting.task), run.time)
    begins = np.concatenate([np.zeros((len(drops), 1)), drops[:, :-1]], axis=1)
    estimates = np.full(drops.shape, np.nan)
    for seed, drop in np.argwhere(np.isfinite(drops)).tolist():
        size, _ = _head(run, seed, drop, drop)
        start = float(np.interp(begins[seed, drop], run.time, size))
        estimates[seed, drop] = _course(run.setting.task, drop, start).plateau
    dims = ("seed", "drop")
    return xr.Dataset(
        {"aligned_wait": (dims, drops - begins), "aligned_estimate": (dims, estimates)}
    )


def _head(run: Trajectory, seed: int, head: int, drop: int) -> tuple[FloatArray, FloatArray]:
    """The size of a head's value, and its speed along the eigenvector of a drop, over λ²."""
    learned = modes(run.setting.task)
    direction = learned.basis[:, learned.order[drop]]
    value, key, query = (run.dataset[name].to_numpy()[seed, :, head] for name in ("v", "k", "q"))
    return np.abs(value), np.sign(value) * (key[:, 0] @ direction) * (query[:, 0] @ direction)


def _course(task: AbstractData, drop: int, size: float) -> HeadTimeCourse:
    return head_time_course(task, int(modes(task).order[drop]), float(size), [0.0])
