"""Comparison of a run with its prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.attention import GivenStart
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.comparison._comparison import Comparison, DropComparison, SeedComparison
from saddlescope.comparison.drop_times import predicted_drops, predictor
from saddlescope.dynamics import Record, train
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.measure import first_crossing, first_record, stages
from saddlescope.measure._stages import LARGEST_VALUE
from saddlescope.theory import plateau_losses
from saddlescope.trajectory import Outcome, Result, Trajectory

if TYPE_CHECKING:
    import xarray as xr

# What is said of a run that kept quantiles.
_SHARES = (0.05, 0.5, 0.95)
# A curve of fewer records has no stages.
_FEWEST_FOR_STAGES = 3


@dataclass(frozen=True)
class _Predicted:
    """The prediction of one drop; by default there is none."""

    time: float | None = None
    is_open: bool = False


def compare(trajectory: Trajectory) -> Comparison:
    """Compare a run with its prediction from theory.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> [round(level, 4) for level in ss.compare(run).plateau_losses]
    [0.7, 0.3326, 0.0617]
    """
    if not isinstance(trajectory, Trajectory):
        raise InvalidInput("trajectory", trajectory, "must be a Trajectory")
    notes: list[str] = []
    levels = _levels(trajectory, notes)
    plateaus = None if levels is None else tuple(float(level) for level in levels)
    if trajectory.setting.record.keep == "quantiles":
        return Comparison(plateaus, (), (*notes, *_over_seeds(trajectory)))
    predicted = _predicted_drops(trajectory, levels, notes)
    middles = np.empty(0) if levels is None else (levels[:-1] + levels[1:]) / 2
    kept = trajectory.summary() if "drop_time" in trajectory.dataset else None
    crossings = _crossings(trajectory, middles) if kept is None else []
    seeds = []
    for index, seed in enumerate(trajectory.setting.seeds):
        finite = np.isfinite(trajectory.loss[index])
        time, loss = trajectory.time[finite], trajectory.loss[index, finite]
        drops = (
            _kept_drops(kept.isel(seed=index), predicted[index])
            if kept is not None
            else _measured_stages(time, loss, trajectory.outcomes[index])
            if levels is None
            else _measured_drops(
                time, loss, middles, [row[index] for row in crossings], predicted[index]
            )
        )
        outcome = trajectory.outcomes[index]
        seeds.append(
            SeedComparison(
                seed=seed,
                result=outcome.result,
                message=outcome.message,
                final_loss=float(loss[-1]) if loss.size else None,
                conserved_drift=_conserved_drift(trajectory, index),
                drops=drops,
            )
        )
    return Comparison(plateaus, tuple(seeds), tuple(dict.fromkeys(notes)))


def _over_seeds(trajectory: Trajectory) -> Iterator[str]:
    """The quantiles over all seeds, one line for each drop."""
    yield "quantiles over seeds were kept: no seed is set beside its own prediction"
    few = trajectory.summary(quantiles=_SHARES)
    columns = [*few["drop_time"].to_numpy().T, few["final_loss"].to_numpy()]
    names = [*(f"time of drop {drop}" for drop in few["drop"].to_numpy()), "final loss"]
    for name, column in zip(names, columns, strict=True):
        low, middle, high = ("—" if np.isnan(value) else f"{value:.6g}" for value in column)
        yield f"{name}: {middle} in the median, {low} to {high} for nine seeds of ten"
    yield f"seeds: {trajectory.outcomes!r}"


def _levels(trajectory: Trajectory, notes: list[str]) -> FloatArray | None:
    setting = trajectory.setting
    try:
        return plateau_losses(setting.task, model=setting.model)
    except TheoryDoesNotApply as reason:
        notes.append(f"no predicted plateaus: {reason}")
        return None


def _predicted_drops(
    trajectory: Trajectory, levels: FloatArray | None, notes: list[str]
) -> list[tuple[_Predicted, ...]]:
    """What is predicted of each drop of each seed, from its initial weights alone."""
    setting, until = trajectory.setting, float(trajectory.time[-1])
    if levels is None:
        return [() for _ in setting.seeds]
    try:
        _require_flow_from_start(trajectory)
        seeds = predicted_drops(setting, levels, until, predictor(setting), notes)
    except TheoryDoesNotApply as reason:
        notes.append(f"no predicted times: {reason}")
        return [(_Predicted(),) * (len(levels) - 1) for _ in setting.seeds]
    return [tuple(map(_Predicted, seed.drop_times, seed.is_open)) for seed in seeds]


def _require_flow_from_start(trajectory: Trajectory) -> None:
    """Raise where drop times cannot be predicted from the run's initial weights."""
    if not trajectory.setting.method.has_flow_time:
        raise TheoryDoesNotApply("under this optimiser the unit of time is the step")
    if trajectory.time_start > 0:
        raise TheoryDoesNotApply("the run goes on from an earlier one")
    if trajectory.time[-1] == 0:
        raise TheoryDoesNotApply("no time passed before the run ended")


def _measured_drops(
    time: FloatArray,
    loss: FloatArray,
    middles: FloatArray,
    crossings: list[float | None],
    predicted: tuple[_Predicted, ...],
) -> tuple[DropComparison, ...]:
    """The crossings of the midway levels, and the flattest losses between them."""
    # A level that the run began below was crossed before it.
    passed = [bool(loss.size and loss[0] <= level) for level in middles]
    inner = [
        -np.inf if before else np.inf if t is None else t
        for before, t in zip(passed, crossings, strict=True)
    ]
    borders = [-np.inf, *inner, np.inf]
    flattest = [
        _flattest(time, loss, borders[index], borders[index + 1])
        if borders[index] < np.inf
        else None
        for index in range(len(crossings) + 1)
    ]
    return tuple(
        DropComparison(
            number=index + 1,
            time=crossings[index],
            predicted_time=predicted[index].time,
            loss_before=flattest[index],
            loss_after=None if crossings[index] is None else flattest[index + 1],
            is_open=predicted[index].is_open,
        )
        for index in range(len(crossings))
    )


def _kept_drops(
    summary: xr.Dataset, predicted: tuple[_Predicted, ...]
) -> tuple[DropComparison, ...]:
    """The drops that a run measured inside the solver."""
    times, levels = (
        [None if np.isnan(one) else one for one in summary[name].to_numpy().tolist()]
        for name in ("drop_time", "plateau_loss")
    )
    known = predicted if len(predicted) == len(times) else (_Predicted(),) * len(times)
    return tuple(
        DropComparison(number + 1, time, own.time, levels[number], levels[number + 1], own.is_open)
        for number, (time, own) in enumerate(zip(times, known, strict=True))
    )


def _measured_stages(
    time: FloatArray, loss: FloatArray, outcome: Outcome
) -> tuple[DropComparison, ...]:
    """Where no levels are predicted: the drops that the curve itself shows."""
    # What a diverging seed falls through on its way means nothing.
    diverged = outcome.result is Result.DIVERGED
    if diverged or loss.size < _FEWEST_FOR_STAGES or np.abs(loss).max() > LARGEST_VALUE:
        return ()
    return tuple(
        DropComparison(number, drop.time, None, drop.before, drop.after)
        for number, drop in enumerate(stages(loss, time).drops, start=1)
    )


def _crossings(trajectory: Trajectory, middles: FloatArray) -> list[list[float | None]]:
    """When each seed's loss first falls through each level, [level][seed].

    Records may lie further apart than a drop is wide. Where weights were recorded the run is
    followed again from the record before the crossing, on a finer grid: all seeds at once, in the
    shape that is compiled already.
    """
    time, loss = trajectory.time, trajectory.loss
    recorded = "effective_map" in trajectory.dataset and trajectory.setting.method.is_autonomous
    # What a diverging seed falls through on its way means nothing.
    diverged = trajectory.outcomes.are(Result.DIVERGED)
    crossings = []
    for level in middles:
        after = np.where(diverged, -1, first_record(loss, level))
        times = np.where(diverged, np.nan, first_crossing(loss, level, time))
        if recorded and (after >= 0).any():
            times = _followed_again(trajectory, level, after, times)
        crossings.append([None if np.isnan(one) else one for one in times.tolist()])
    return crossings


def _followed_again(
    trajectory: Trajectory, level: float, after: AnyArray, coarse: FloatArray
) -> FloatArray:
    setting, time = trajectory.setting, trajectory.time
    crosses = after >= 0
    before = np.where(crosses, after - 1, 0)
    clock = trajectory.dataset["step" if setting.method.counts_steps else "time"].to_numpy()
    width = (clock[after] - clock[before])[crosses].max()
    if setting.method.counts_steps and width == 1:
        return coarse
    seeds = np.arange(len(before))
    weights = {n: trajectory.dataset[n].to_numpy()[seeds, before] for n in setting.model.axes}
    again = train(
        setting.replace(
            method=setting.method.shortened(float(width)),
            init=GivenStart(weights, setting.seeds),
            record=Record(points=len(time)),
        )
    )
    inside = time[before] + first_crossing(again.loss, level, again.time)
    return np.where(crosses & np.isfinite(inside), inside, coarse)


def _flattest(time: FloatArray, loss: FloatArray, start: float, end: float) -> float | None:
    """The loss where it changes least, among the records between two crossings."""
    if time.size < 2:
        return float(loss[0]) if loss.size else None
    with np.errstate(all="ignore"):
        # Times may lie closer together than float64 can divide by.
        slope = np.nan_to_num(np.abs(np.gradient(loss, time)), nan=np.inf)
    inside = np.flatnonzero((time > start) & (time < end))
    return float(loss[inside[np.argmin(slope[inside])]]) if inside.size else None


def _conserved_drift(trajectory: Trajectory, seed_index: int) -> float | None:
    names = [name for name in trajectory.setting.model.conserved_axes if name in trajectory.dataset]
    if not names or trajectory.outcomes[seed_index].result is Result.DIVERGED:
        return None
    values = trajectory.dataset[names].isel(seed=seed_index)
    drifts = abs(values - values.isel(time=0)).max(skipna=True)
    return max(float(drifts[name]) for name in names)
