"""What the theory says of a run before it is run: levels, fixed points, drop times."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddlescope import theory
from saddlescope.attention import AbstractAttention, PaperStart, Weights
from saddlescope.checks import FloatArray, number, whole_number
from saddlescope.comparison._results import PredictedPoint, PredictedSeed, Prediction
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.theory.parametrisation import is_merged, linear_model

# Time predictions are for small starts: the initial loss within this share of the whole descent
# of the first level.
_SMALL_START = 0.01
# Beyond this dimension the fixed points are too many to list.
_LISTED_DIMENSIONS = 16


def predict(
    task: Any,
    model: AbstractAttention,
    *,
    init_scale: float = 0.01,
    seeds: Any = 1,
    until: float = 100_000.0,
) -> Prediction:
    """Levels, fixed points, and each seed's drop times from the papers' random start.

    >>> from saddlescope.attention import MergedAttention
    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> [round(level, 3) for level in predict(task, MergedAttention(heads=8)).plateau_losses]
    [1.0, 0.136]
    """
    start, end = PaperStart(init_scale), number("until", until, above=0.0)
    chosen = _chosen(seeds)
    least = theory.minimum(task).loss
    notes: list[str] = []
    levels: FloatArray | None = None
    points: tuple[PredictedPoint, ...] = ()
    try:
        levels = predicted_levels(task, model)
        if is_merged(model) or task.dimension <= _LISTED_DIMENSIONS:
            found = theory.fixed_points(task, model)
            points = tuple(PredictedPoint(p.subset, p.loss, p.index) for p in found)
        else:
            notes.append(f"the 2^D fixed points are listed up to D = {_LISTED_DIMENSIONS}")
    except TheoryDoesNotApply as reason:
        notes.append(str(reason))
    times = []
    for seed in chosen if levels is not None else ():
        try:
            weights = start.weights(model, task, seed)
            times.append(PredictedSeed(seed, predicted_drop_times(task, model, weights, end)))
        except TheoryDoesNotApply as reason:
            notes.append(str(reason))
    plateaus = None if levels is None else tuple(float(level) for level in levels)
    unique = tuple(dict.fromkeys(notes))
    return Prediction(plateaus, least, points, tuple(times), end, unique)


def _chosen(seeds: Any) -> list[int]:
    if isinstance(seeds, str) or np.ndim(seeds) == 0:
        return list(range(whole_number("seeds", seeds)))
    if len(seeds) == 0:
        raise InvalidInput("seeds", seeds, "must hold at least one seed")
    return [whole_number("seeds", seed, at_least=0) for seed in np.ravel(seeds).tolist()]


def predicted_levels(task: Any, model: AbstractAttention) -> FloatArray:
    """The plateaus that training visits in turn: two if merged, else those of T7 within reach."""
    if is_merged(model):
        return np.array([point.loss for point in theory.fixed_points(task, model)])
    return theory.plateau_losses(task)[: linear_model(model).capacity(task.dimension) + 1]


def predicted_drop_times(
    task: Any, model: AbstractAttention, weights: Weights, until: float
) -> tuple[float | None, ...]:
    """When each drop comes, from initial weights alone (T10, T13); None: not by `until`."""
    levels = predicted_levels(task, model)
    gain = model.gain(task.fixed_length)
    loss = _population_loss(task, np.asarray(linear_model(model).effective_map(weights, gain)))
    if abs(loss - levels[0]) > _SMALL_START * (levels[0] - levels[-1]):
        raise TheoryDoesNotApply(
            f"drop times are predicted for small starts: the initial loss {loss:.4g} is not within "
            f"{_SMALL_START:.0%} of the descent from the first plateau {levels[0]:.4g}"
        )
    if is_merged(model):
        drop = theory.time_course(task, weights=weights, model=model).drop_time
        return (drop if drop is not None and drop <= until else None,)
    staircase = theory.predict_staircase(task, model, weights, until=until)
    times = [drop.time for drop in staircase.drops]
    return (*times, *[None] * (len(levels) - 1 - len(times)))


def _population_loss(task: Any, effective_map: FloatArray) -> float:
    """T3."""
    moments = task.moments()
    response = moments.summary @ effective_map @ moments.query
    return float(moments.label_power + (effective_map * (response - 2 * moments.drive)).sum())
