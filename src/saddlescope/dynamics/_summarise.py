"""The summary of a run from its records, and the levels and halves that it is measured by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saddlescope.attention import AbstractLinearAttention
from saddlescope.attention.base import Parametrisation
from saddlescope.checks import FloatArray
from saddlescope.dynamics._summary import ABOUT, Summary, last_losses
from saddlescope.measure import drop_times, first_crossing
from saddlescope.risk import AbstractMapRisk, AbstractRisk, DiagonalRisk
from saddlescope.setting import Setting
from saddlescope.trajectory import Result, Trajectory

if TYPE_CHECKING:
    import xarray as xr

# The solution of 2x − x² = 1/2: the share of its final value at which a direction has given half
# of its gain in loss.
_HALF = 1 - np.sqrt(0.5)


def summarise(trajectory: Trajectory) -> xr.Dataset:
    """The summary of a run, from the events it noted or from its records."""
    setting, dataset = trajectory.setting, trajectory.dataset
    if set(ABOUT) <= set(dataset):
        summary = dataset[list(ABOUT)]
    else:
        drops: FloatArray = np.empty((len(trajectory.loss), 0))
        flattest = learned = drops
        if setting.model.has_exact_loss:
            objective = setting.model.objective(setting.task)
            learned = _learned(trajectory, objective.risk, objective.basis)
            levels = plateau_levels(setting, objective.risk)
            if levels is not None:
                drops = drop_times(trajectory.loss, levels, trajectory.time)
                flattest = _flattest(trajectory.loss, levels, trajectory.time)
        diverged = trajectory.outcomes.are(Result.DIVERGED)
        summary = Summary.of(drops, flattest, learned, diverged).dataset(setting)
    results = np.array([outcome.result.value for outcome in trajectory.outcomes])
    return summary.drop_attrs(deep=False).assign(
        final_loss=("seed", last_losses(trajectory.loss)), result=("seed", results)
    )


def plateau_levels(setting: Setting, risk: AbstractRisk) -> FloatArray | None:
    """The losses of successive plateaus, decreasing; None where they are not known.

    They are the least losses of effective maps of rank 0, 1, … up to the heads' capacity; merged
    attention goes from the first to the last at once.
    """
    model = setting.model
    if not (isinstance(model, AbstractLinearAttention) and model.is_linear):
        return None
    if not isinstance(risk, AbstractMapRisk):
        return None
    most = model.capacity(setting.task.dimension)
    merged = model.parametrisation is Parametrisation.MERGED
    best = [risk.best_map(rank) for rank in ((most,) if merged else range(1, most + 1))]
    maps = [map_ for map_ in best if map_ is not None]
    if len(maps) < len(best):
        return None
    losses = [risk.map_loss(map_) for map_ in (np.zeros_like(maps[-1]), *maps)]
    levels = np.array([float(loss) for loss in losses])
    # A direction that nothing drives has no level of its own.
    return levels[np.append(True, np.diff(levels) < 0)]


def half_learned(setting: Setting, risk: AbstractRisk) -> FloatArray:
    """The diagonal of the effective map where each direction has given half of its gain in loss.

    In the basis of the risk; NaN where nothing drives a direction, empty where there is no common
    basis.
    """
    if not isinstance(risk, DiagonalRisk):
        return np.empty(0)
    best = np.diagonal(np.asarray(risk.best_map(setting.task.dimension)))
    return np.where(best > 0, _HALF * best, np.nan)


def _learned(trajectory: Trajectory, risk: AbstractRisk, basis: FloatArray | None) -> FloatArray:
    """When each direction reaches its half, from the records of the effective map."""
    halves = half_learned(trajectory.setting, risk)
    if "effective_map" not in trajectory.dataset or not halves.size:
        return np.full((len(trajectory.loss), halves.size), np.nan)
    maps = trajectory.dataset["effective_map"].to_numpy()
    rotated = maps if basis is None else basis.T @ maps @ basis
    paths = np.moveaxis(np.diagonal(rotated, axis1=-2, axis2=-1), -1, -2)
    return first_crossing(paths, np.nan_to_num(halves, nan=np.inf), trajectory.time, rising=True)


def _flattest(loss: FloatArray, levels: FloatArray, time: FloatArray) -> FloatArray:
    """The loss where it changes least, among the records at each level."""
    middles = (levels[:-1] + levels[1:]) / 2
    stages = (loss[..., None] <= middles).sum(-1)
    if len(time) < 2:
        return np.where(stages == np.arange(len(middles) + 1), loss, np.nan)
    with np.errstate(all="ignore"):
        changes = np.nan_to_num(np.abs(np.gradient(loss, time, axis=1)), nan=np.inf)
    flattest = np.full((len(loss), len(middles) + 1), np.nan)
    for stage in range(len(middles) + 1):
        inside = np.where(stages == stage, changes, np.inf)
        index = inside.argmin(axis=1)[:, None]
        exists = np.isfinite(np.take_along_axis(inside, index, axis=1))
        flattest[:, stage] = np.where(exists, np.take_along_axis(loss, index, axis=1), np.nan)[:, 0]
    return flattest
