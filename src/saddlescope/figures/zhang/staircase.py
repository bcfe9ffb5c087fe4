"""What the figures of separate attention share: a run's staircase beside T7 and T13, as numbers."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.checks import FloatArray
from saddlescope.comparison._compare import compare
from saddlescope.dynamics import GradientFlow, Record
from saddlescope.errors import InvalidInput
from saddlescope.figures.kit.claim import Claim, at_most, equal, relatively_within
from saddlescope.setting import Setting
from saddlescope.task import InContextRegression
from saddlescope.trajectory import Trajectory

STAIRCASE = Setting(
    SeparateAttention(heads=5, rank=1),
    InContextRegression([0.4, 0.3, 0.2, 0.1], context_length=31),
    GradientFlow(until=60_000.0),
    RandomStart(0.01),
    Record(points=2000),
    seeds=6,
)
"""The runs of Figure 3, which Figure 7 and the graph of the fixed points show too."""

QUICK_STAIRCASE = STAIRCASE.replace(seeds=2, until=20_000.0, points=800)
"""The same in short."""


def staircase_numbers(run: Trajectory) -> xr.Dataset:
    """Loss, levels and drops of a run beside their predictions; missing drops are NaN.

    Over (seed, time), level (0 is the start) and drop (1 is the first).
    """
    result = compare(run)
    levels = np.array(result.plateau_losses or (), dtype=float)
    drops = [seed.drops for seed in result.seeds]
    before = _table([[drop.loss_before for drop in row[:1]] for row in drops])
    after = _table([[drop.loss_after for drop in row] for row in drops])
    return xr.Dataset(
        {
            "loss": (("seed", "time"), run.loss),
            "level_loss": ("level", levels),
            "plateau_loss": (("seed", "level"), np.concatenate([before, after], axis=1)),
            "drop_time": (("seed", "drop"), _table([[d.time for d in row] for row in drops])),
            "predicted_drop_time": (
                ("seed", "drop"),
                _table([[d.predicted_time for d in row] for row in drops]),
            ),
            "conserved_drift": ("seed", _table([s.conserved_drift for s in result.seeds])),
        },
        coords={
            "seed": list(run.setting.seeds),
            "time": run.time,
            "level": np.arange(len(levels)),
            "drop": np.arange(1, len(levels)),
        },
    )


def initial_scale(setting: Setting) -> float:
    """The scale of a setting's random start."""
    scale = getattr(setting.init, "init_scale", None)
    if not isinstance(scale, float):
        raise InvalidInput("init", setting.init, "must be a start that has a scale")
    return scale


def learned_share(run: Trajectory, amplitude: FloatArray, basis: FloatArray) -> xr.DataArray:
    """What each seed has learned of each eigenvector, 1 at the optimum: (seed, time, direction)."""
    maps = run.dataset["effective_map"].to_numpy()
    along = np.einsum("ad,stab,bd->std", basis, maps, basis) / amplitude
    directions = np.arange(1, basis.shape[1] + 1)
    return xr.DataArray(along, dims=("seed", "time", "direction"), coords={"direction": directions})


def timing_claims(data: xr.Dataset, tolerance: float) -> tuple[Claim, ...]:
    """Drops come when T13 says, or not at all where it says so; what is conserved stays (T14)."""
    measured = data["drop_time"].to_numpy()
    predicted, seen = data["predicted_drop_time"].to_numpy(), np.isfinite(measured)
    return (
        relatively_within(
            "drops come when predicted from the initial weights alone (T13)",
            measured[seen],
            predicted[seen],
            tolerance,
        ),
        equal(
            "drops that do not come by the end of the run are those predicted not to (T13)",
            seen,
            np.isfinite(predicted),
        ),
        at_most("conserved quantities drift by at most (T14)", data["conserved_drift"], 1e-7),
    )


def plateau_record(time: FloatArray, drop_times: FloatArray, drop: SupportsIndex) -> int:
    """The record in the middle of the plateau that follows the n-th drop (0 is the start)."""
    place = int(drop)
    begin = time[0] if place == 0 else drop_times[place - 1]
    end = drop_times[place] if place < len(drop_times) else np.nan
    if not np.isfinite(end):
        return len(time) - 1
    return int(np.searchsorted(time, (begin + end) / 2))


def clearest_seed(drops: FloatArray) -> int:
    """Of the seeds with the most drops, the one whose `drops[seed, drop]` lie furthest apart."""
    count = np.isfinite(drops).sum(axis=1)
    gaps = np.nanmin(np.diff(np.log(drops), axis=1), axis=1, initial=np.inf)
    return int(np.where(count == count.max(), gaps, -np.inf).argmax())


def winning_heads(data: xr.Dataset) -> FloatArray:
    """The head whose value grows most at each drop, over (seed, drop); NaN where there is none.

    `data` holds `time`, `drop_time` and `value[seed, time, head]`.
    """
    time, drops = data["time"].to_numpy(), data["drop_time"].to_numpy()
    size = np.abs(data["value"].to_numpy())
    heads = np.full(drops.shape, np.nan)
    for seed, drop in np.argwhere(np.isfinite(drops)):
        before, after = (plateau_record(time, drops[seed], n) for n in (drop, drop + 1))
        heads[seed, drop] = np.argmax(size[seed, after] - size[seed, before])
    return heads


def crossing_times(time: FloatArray, loss: FloatArray, levels: FloatArray) -> list[float]:
    """When a loss falls midway from each level to the next, by a cubic through the records.

    For runs without recorded weights, which cannot be followed again; NaN where it never does.
    """
    found = []
    for middle in (levels[:-1] + levels[1:]) / 2:
        below = np.flatnonzero(loss <= middle)
        if not below.size or below[0] == 0:
            found.append(np.nan)
            continue
        after = int(below[0])
        near = slice(max(0, after - 4), after + 4)
        roots = CubicSpline(time[near], loss[near]).solve(middle, extrapolate=False)
        inside = roots[(roots >= time[after - 1]) & (roots <= time[after])]
        found.append(float(inside[0]) if inside.size else float(time[after]))
    return found


def _table(values: list[Any]) -> FloatArray:
    return np.array(values, dtype=float)
