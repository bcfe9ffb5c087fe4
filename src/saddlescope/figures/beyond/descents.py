"""The staircase under another optimiser, as numbers."""

from __future__ import annotations

import numpy as np
import xarray as xr

from saddlescope.checks import FloatArray
from saddlescope.figures.zhang.staircase import learned_share, staircase_numbers
from saddlescope.measure import drop_times, first_crossing, first_record
from saddlescope.theory import modes
from saddlescope.trajectory import Trajectory

# A loss this close to a level rests there.
_NEAR = 0.02


def descent_numbers(run: Trajectory, name: str) -> xr.Dataset:
    """Loss, plateaus, drops and learned shares of a run, in variables that begin with its name.

    Over (seed, `name`_time), level, drop and direction. `share` is that of the first seed,
    `others` what is learned of every direction when the first is half learned, `rest` how much of
    the descent is spent at the levels between its ends.
    """
    staircase, law = staircase_numbers(run), modes(run.setting.task)
    share = learned_share(run, law.amplitude, law.basis).to_numpy()
    seeds = np.arange(len(share))
    courses = np.moveaxis(share, 1, -1)
    half = first_crossing(courses, 0.5, run.time, rising=True)
    record = first_record(courses[:, 0], 0.5, rising=True)
    others = np.where(record[:, None] >= 0, share[seeds, record], np.nan)
    clock = f"{name}_time"
    return xr.Dataset(
        {
            f"{name}_loss": (("seed", clock), run.loss),
            f"{name}_plateau": (("seed", "level"), staircase["plateau_loss"].to_numpy()),
            f"{name}_drop_time": (("seed", "drop"), staircase["drop_time"].to_numpy()),
            f"{name}_drift": ("seed", staircase["conserved_drift"].to_numpy()),
            f"{name}_share": ((clock, "direction"), share[0]),
            f"{name}_others": (("seed", "direction"), others),
            f"{name}_half_time": (("seed", "direction"), half),
            f"{name}_rest": ("seed", _rest(run.time, run.loss, staircase["level_loss"].to_numpy())),
        },
        coords={clock: run.time},
    )


def first_drop_times(run: Trajectory, levels: FloatArray) -> FloatArray:
    """When each seed is half-way down the first drop, in the run's own unit of time."""
    return drop_times(run.loss, levels[:2], run.time)[:, 0]


def _rest(time: FloatArray, loss: FloatArray, level: FloatArray) -> FloatArray:
    """The share of each descent `[S, T]`, from end to end, spent near a level between the two."""
    weight = np.gradient(time)
    between = (loss < level[0] - 2 * _NEAR) & (loss > level[-1] + _NEAR / 2)
    near = (np.abs(loss[:, :, None] - level[1:-1]) < _NEAR).any(axis=2)
    return (weight * (between & near)).sum(axis=1) / (weight * between).sum(axis=1)
