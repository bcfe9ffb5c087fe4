"""The same random starts at many scales, trained in one ensemble, and how fast each one learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from saddlescope.attention import GivenStart
from saddlescope.checks import FloatArray
from saddlescope.figures.kit.watch import Watch
from saddlescope.figures.zhang.staircase import padded_loss
from saddlescope.measure import first_crossing, stages
from saddlescope.setting import Setting
from saddlescope.theory import lazy_course

_EARLIEST = 1e-4


def train_scales(watch: Watch, name: str, setting: Setting, scales: Sequence[float]) -> xr.Dataset:
    """The losses of one model at all scales, and what they would be by a frozen kernel."""
    model, task, count = setting.model, setting.task, len(setting.seeds)
    grid = np.geomspace(_EARLIEST, setting.method.end, setting.record.points - 1)
    time = np.concatenate([[0.0], grid])
    starts = [
        setting.replace(init_scale=scale).init.ensemble(model, task, np.array(setting.seeds))
        for scale in scales
    ]
    init = GivenStart({key: np.concatenate([one[key] for one in starts]) for key in starts[0]})
    run = watch.train(name, setting.replace(init=init, at=time, seeds=len(scales) * count))
    rows = padded_loss(run, time)
    loss = rows.reshape(len(scales), count, -1)
    courses = [
        lazy_course(model, task, {key: array[seed] for key, array in start.items()})
        for start in starts
        for seed in range(count)
    ]
    least = courses[0].least_loss
    lazy = np.array([course.loss(time) for course in courses])
    numbers = {
        "half_time": half_times(time, rows, least),
        "lazy_half_time": half_times(time, lazy, least),
        "initial_rate": np.array([course.initial_rate for course in courses]),
        "highest_rate": _highest_rates(time, rows, least),
        "drop_count": np.array([float(len(stages(row, time).drops)) for row in rows]),
    }
    axes = ("scale", "seed")
    return xr.Dataset(
        {
            "loss": ((*axes, "time"), loss),
            "lazy_loss": (("seed", "time"), lazy[-count:]),
            "excess": (axes, loss[:, :, 0] - least),
            **{key: (axes, values.reshape(-1, count)) for key, values in numbers.items()},
        },
        coords={"time": time, "scale": list(scales), "seed": list(setting.seeds)},
    )


def half_times(time: FloatArray, loss: FloatArray, least: float) -> FloatArray:
    """When half of the excess loss is lost."""
    return first_crossing(loss, (loss[..., 0] + least) / 2, time)


def _highest_rates(time: FloatArray, loss: FloatArray, least: float) -> FloatArray:
    """The fastest decay of the excess loss, from record to record, until a thousandth is left."""
    excess = np.maximum(loss - least, 1e-300)
    rates = -np.diff(np.log(excess), axis=-1) / np.diff(time)
    lasting = excess[..., 1:] > 1e-3 * excess[..., :1]
    return np.where(lasting, rates, 0.0).max(axis=-1)
