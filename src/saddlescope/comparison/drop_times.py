"""The drop times of a setting's seeds, from their initial weights alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope import theory
from saddlescope.attention import AbstractAttention, Weights
from saddlescope.attention.starts import check_weights_fit
from saddlescope.checks import AnyArray, FloatArray, one_of
from saddlescope.comparison._prediction import PredictedSeed
from saddlescope.dynamics._evaluate import evaluate_path
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.setting import Setting
from saddlescope.task import AbstractData
from saddlescope.theory.courses.merged import merged_drop_times
from saddlescope.theory.parametrisation import (
    effective_maps,
    is_merged,
    linear_model,
    population_law,
)
from saddlescope.theory.staircase.dormant import first_drop_delay

# Time predictions are for small starts: the initial loss within this share of the whole descent
# of the first level.
_SMALL_START = 0.01
# Above this many seeds the quadratures are the default.
_MANY_SEEDS = 1000


def predictor(setting: Setting, by: str | None = None) -> str:
    """How the drop times of a setting are predicted: `race`, `quadrature` or `time course`."""
    if by is not None:
        one_of("by", by, ("race", "quadrature"))
    try:
        if is_merged(setting.model):
            return "time course"
    except TheoryDoesNotApply:
        # Nothing is predicted of it.
        return "race"
    if by is not None:
        return by
    many = len(setting.seeds) > _MANY_SEEDS
    return "quadrature" if many or not _has_race(setting) else "race"


def _has_race(setting: Setting) -> bool:
    """Whether there are modes that heads race for (T13, T17)."""
    try:
        theory.modes(setting.task)
    except TheoryDoesNotApply:
        return False
    return True


def flow_end(setting: Setting) -> float:
    """The flow time at which a run ends."""
    unit = setting.model.time_unit(setting.model.gain(setting.task.fixed_length))
    return float(setting.method.flow_time(np.array([setting.method.end]), unit)[0])


@dataclass(eq=False)
class _Times:
    """The predicted drops of all seeds; infinite where there is none."""

    time: Float[np.ndarray, "S M"]
    margin: Float[np.ndarray, "S M"]
    is_open: Bool[np.ndarray, "S M"]
    next_time: Float[np.ndarray, " S"]
    head: Int[np.ndarray, "S M"]
    direction: Int[np.ndarray, "S M"]
    """−1 where no head by itself, or no eigenvector, is named."""

    @classmethod
    def none(cls, seeds: int, drops: int) -> _Times:
        shape = (seeds, drops)
        infinite, unnamed = np.full(shape, np.inf), np.full(shape, -1)
        return cls(
            time=infinite,
            margin=infinite.copy(),
            is_open=np.full(shape, False),
            next_time=np.full(seeds, np.inf),
            head=unnamed,
            direction=unnamed.copy(),
        )

    def take(self, predicted: theory.Staircases | theory.DormantStaircase) -> None:
        """Take over a prediction of separate attention, which may have fewer drops than levels."""
        own = slice(predicted.time.shape[1])
        self.time[:, own], self.margin[:, own] = predicted.time, predicted.margin
        self.is_open[:, own] = predicted.is_open
        self.head[:, own], self.direction[:, own] = predicted.head, predicted.direction

    def put(self, rows: AnyArray, part: _Times) -> None:
        """Set the predictions of some seeds."""
        for name, own in vars(self).items():
            own[rows] = getattr(part, name)

    def at(self, rows: AnyArray) -> _Times:
        """The predictions of some seeds."""
        return _Times(**{name: own[rows] for name, own in vars(self).items()})


def predicted_drops(
    setting: Setting, levels: FloatArray, until: float, by: str, notes: list[str]
) -> tuple[PredictedSeed, ...]:
    """Every seed's drops up to `until`; a note says what is not predicted for some seeds.

    Raises `TheoryDoesNotApply` where nothing is predicted for any of them.
    """
    seeds = np.array(setting.seeds)
    check_weights_fit(setting.model, setting.task, len(seeds))
    weights = setting.init.ensemble(setting.model, setting.task, seeds)
    model, task = setting.model, setting.task
    predicted = _Times.none(len(seeds), len(levels) - 1)
    small = are_small_starts(model, task, weights, levels)
    if not small.all():
        notes.append(_said_of_large(int((~small).sum()), levels))
    if by == "time course":
        _by_time_course(model, task, weights, small, predicted)
    elif by == "race":
        _by_race(setting, weights, until, small, predicted, notes)
    else:
        _by_quadrature(model, task, weights, predicted, notes)
        predicted.next_time = np.where(predicted.time > until, predicted.time, np.inf).min(
            1, initial=np.inf
        )
    came = (predicted.time <= until) & small[:, None]
    columns = zip(
        setting.seeds,
        map(tuple, _or_none(predicted.time, came)),  # type: ignore[arg-type]
        map(tuple, _or_none(predicted.margin, came & np.isfinite(predicted.margin))),  # type: ignore[arg-type]
        map(tuple, (predicted.is_open & came).tolist()),
        _or_none(predicted.next_time, np.isfinite(predicted.next_time) & small),
        map(tuple, _or_none(predicted.head, came & (predicted.head >= 0))),  # type: ignore[arg-type]
        map(tuple, _or_none(predicted.direction, came & (predicted.direction >= 0))),  # type: ignore[arg-type]
        strict=True,
    )
    return tuple(PredictedSeed(*own) for own in columns)


def _or_none(values: AnyArray, known: Bool[np.ndarray, "*S"]) -> list[object]:
    """As plain numbers, None where one is not known."""
    plain = values.astype(object)
    plain[~known] = None
    listed: list[object] = plain.tolist()
    return listed


def predicted_times(
    model: AbstractAttention,
    task: AbstractData,
    weights: Weights,
    initial_loss: Float[np.ndarray, " S"],
    until: Float[np.ndarray, " S"],
) -> Float[np.ndarray, "S M"]:
    """When each of many seeds drops by its own `until`, NaN where that is not said.

    By the quadratures of separate attention (T18), or by merged attention's time courses;
    `initial_loss` is that of the weights. `TheoryDoesNotApply` where nothing is said of any.
    """
    levels = theory.plateau_losses(task, model=model)
    predicted = _Times.none(len(until), len(levels) - 1)
    small = _are_small(initial_loss, levels)
    # Large starts may overflow; nothing is said of them.
    with np.errstate(over="ignore", invalid="ignore"):
        if is_merged(model):
            _by_time_course(model, task, weights, small, predicted)
        else:
            _by_quadrature(model, task, weights, predicted, [])
    return np.where((predicted.time <= until[:, None]) & small[:, None], predicted.time, np.nan)


def are_small_starts(
    model: AbstractAttention, task: AbstractData, weights: Weights, levels: FloatArray
) -> Bool[np.ndarray, " S"]:
    """Which starts are so near the first of the levels that times are predicted of them."""
    return _are_small(_initial_losses(model, task, weights), levels)


def _are_small(loss: FloatArray, levels: FloatArray) -> Bool[np.ndarray, " S"]:
    """Which initial losses are as near the first level as predictions of times need it."""
    small = np.abs(loss - levels[0]) <= _SMALL_START * (levels[0] - levels[-1])
    return np.asarray(small)


def _initial_losses(
    model: AbstractAttention, task: AbstractData, weights: Weights
) -> Float[np.ndarray, " S"]:
    """The loss of every start; of effective maps without a program that is compiled for it."""
    if not linear_model(model).is_summarised:
        first = {name: array[:, None] for name, array in weights.items()}
        return evaluate_path(model, task, first)[:, 0]
    maps = effective_maps(model, task, weights)
    moments = population_law(task).moments()
    response = moments.summary @ maps @ moments.query
    return moments.label_power + (maps * (response - 2 * moments.drive)).sum((-2, -1))


def _said_of_large(count: int, levels: FloatArray) -> str:
    return (
        f"drop times are predicted for small starts: {count} "
        f"{'seed begins' if count == 1 else 'seeds begin'} further than {_SMALL_START:.0%} of "
        f"the descent from the first plateau {levels[0]:.4g}"
    )


def _by_time_course(
    model: AbstractAttention,
    task: AbstractData,
    weights: Weights,
    small: Bool[np.ndarray, " S"],
    predicted: _Times,
) -> None:
    if small.any():
        own = {name: array[small] for name, array in weights.items()}
        times = merged_drop_times(model, task, own)
        predicted.time[small, 0] = np.where(np.isnan(times), np.inf, times)


def _by_race(
    setting: Setting,
    weights: Weights,
    until: float,
    small: Bool[np.ndarray, " S"],
    predicted: _Times,
    notes: list[str],
) -> None:
    rows = np.flatnonzero(small)
    if not rows.size:
        return
    own = {name: array[rows] for name, array in weights.items()}
    race = theory.predict_staircases(setting.model, setting.task, own, until)
    part = _Times.none(len(rows), predicted.time.shape[1])
    part.take(race)
    part.next_time = race.next_time
    reasons = [race.reason(row) for row in range(len(rows))]
    known = np.array([reason is None for reason in reasons])
    predicted.put(rows[known], part.at(known))
    notes += [
        f"seed {setting.seeds[row]}: {reason}"
        for row, reason in zip(rows.tolist(), reasons, strict=True)
        if reason is not None
    ]


def _by_quadrature(
    model: AbstractAttention,
    task: AbstractData,
    weights: Weights,
    predicted: _Times,
    notes: list[str],
) -> None:
    """The first drop alone where covariances do not commute."""
    try:
        predicted.take(theory.dormant_staircase(model, task, weights))
    except TheoryDoesNotApply as reason:
        notes.append(f"of every seed the first drop alone is predicted: {reason}")
        runaways = np.sort(theory.runaway_times(model, task, weights), axis=-1)
        predicted.time[:, 0] = runaways[:, 0] - first_drop_delay(model, task)
        if runaways.shape[1] > 1:
            predicted.margin[:, 0] = runaways[:, 1] - runaways[:, 0]
