"""What the theory says of a run before it is run: levels, fixed points, drop times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from saddlescope import theory
from saddlescope.attention import AbstractAttention, AbstractStart, Weights
from saddlescope.attention.starts import check_weights_fit
from saddlescope.checks import AnyArray, FloatArray, one_of
from saddlescope.comparison._results import PredictedPoint, PredictedSeed, Prediction
from saddlescope.dynamics import AbstractMethod, GradientFlow, make_setting
from saddlescope.dynamics._evaluate import evaluate_path
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.running.progress_bar import shown
from saddlescope.setting import Setting
from saddlescope.task import AbstractData
from saddlescope.theory.parametrisation import is_merged, linear_model, population_law

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Time predictions are for small starts: the initial loss within this share of the whole descent
# of the first level.
_SMALL_START = 0.01
# More seeds than these are left to the quadratures where nobody says by what.
_MANY_SEEDS = 1000
# How far drops are looked for where no method says when the run ends.
_DEFAULT_UNTIL = 100_000.0
# Beyond this dimension the fixed points are too many to list.
_LISTED_DIMENSIONS = 16


def predict(
    model: AbstractAttention | Setting,
    task: AbstractData | None = None,
    *,
    method: AbstractMethod | None = None,
    init_scale: float | None = None,
    init: AbstractStart | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    seeds: ArrayLike | None = None,
    by: str | None = None,
) -> Prediction:
    """What the theory says of a run: levels, fixed points, and each seed's drop times.

    Besides, the learning rate below which gradient descent rests on every plateau (T21).

    The arguments are those of `train`, or one `Setting`; without a `method` drops are looked for
    up to time 100 000. Those of separate attention are predicted `by` the `race` of its heads
    (T13), or by `quadrature` (T18; coarser, and hundreds of times faster), which more than a
    thousand seeds are left to; the prediction says by which. Where covariances do not commute
    there is no race: the first drop is predicted by quadrature, and the levels are those of T19.

    >>> from saddlescope.attention import MergedAttention
    >>> from saddlescope.task import InContextRegression
    >>> task = InContextRegression([.4, .3, .2, .1], context_length=31)
    >>> [round(level, 3) for level in predict(MergedAttention(heads=8), task).plateau_losses]
    [1.0, 0.136]
    """
    if method is None and not isinstance(model, Setting):
        method = GradientFlow(until=_DEFAULT_UNTIL)
    start = {"init_scale": init_scale, "init": init, "weights": weights}
    setting = make_setting(model, task, method=method, seeds=seeds, **start)  # type: ignore[arg-type]
    model, task, end = setting.model, setting.task, _end(setting)
    least = theory.minimum(task).loss
    notes: list[str] = []
    levels: FloatArray | None = None
    points: tuple[PredictedPoint, ...] = ()
    try:
        levels = theory.plateau_losses(task, model=model)
        if is_merged(model) or task.dimension <= _LISTED_DIMENSIONS:
            fixed_points = theory.fixed_points(task, model=model)
            points = tuple(PredictedPoint(p.subset, p.loss, p.index) for p in fixed_points)
        else:
            notes.append(f"the 2^D fixed points are listed up to D = {_LISTED_DIMENSIONS}")
    except TheoryDoesNotApply as reason:
        notes.append(str(reason))
    rate = _stable_rate(setting, notes)
    chosen = _predictor(setting, by)
    times: list[PredictedSeed] = []
    if levels is not None and not setting.method.has_flow_time:
        notes.append("under this optimiser the unit of time is the step")
    elif levels is not None and chosen == "quadrature":
        try:
            times = by_quadrature(setting, levels, end, notes)
        except TheoryDoesNotApply as reason:
            notes.append(str(reason))
    elif levels is not None:
        for seed in shown(setting.seeds, "predicting"):
            try:
                first = setting.init.weights(model, task, seed)
                times.append(PredictedSeed(seed, predicted_drop_times(model, task, first, end)))
            except TheoryDoesNotApply as reason:
                notes.append(str(reason))
    plateaus = None if levels is None else tuple(float(level) for level in levels)
    told = tuple(dict.fromkeys(notes))
    predictor = chosen if times else None
    return Prediction(plateaus, least, points, tuple(times), end, told, predictor, rate)


def _stable_rate(setting: Setting, notes: list[str]) -> float | None:
    """Below which gradient descent rests on every plateau, where that has a closed form (T21).

    Lanczos' iteration, which has it elsewhere, would take longer than all else here.
    """
    method = setting.method
    descends = method.counts_steps and method.has_flow_time
    try:
        found = theory.staircase_sharpness(setting.model, setting.task, numerical=False)
    except TheoryDoesNotApply as reason:
        if descends and not notes:
            notes.append(f"no stable learning rate: {reason}")
        return None
    # A step is 2η of flow time.
    rate = float(method.flow_time(np.ones(1), 1.0)[0]) / 2 if descends else 0.0
    above = np.flatnonzero(rate >= found.stable_learning_rates)
    if above.size:
        plateaus = ", ".join(str(level) for level in above)
        notes.append(
            f"at learning_rate {rate:g} gradient descent is not stable at the minimal-norm weights "
            f"of {'plateau' if above.size == 1 else 'plateaus'} {plateaus}: below "
            f"{found.stable_learning_rate:.4g} it rests on all of them (T21)"
        )
    return found.stable_learning_rate


def _predictor(setting: Setting, by: str | None) -> str:
    """By what the drop times are predicted."""
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
    return "quadrature" if many or not has_race(setting) else "race"


def has_race(setting: Setting) -> bool:
    """Whether there are modes that heads race for (T13, T17)."""
    try:
        theory.modes(setting.task)
    except TheoryDoesNotApply:
        return False
    return True


def by_quadrature(
    setting: Setting, levels: FloatArray, end: float, notes: list[str]
) -> list[PredictedSeed]:
    """The drop times of all seeds at once (T18); the first alone where covariances do not commute."""
    model, task, seeds = setting.model, setting.task, np.array(setting.seeds)
    check_weights_fit(model, task, len(seeds))
    weights = setting.init.ensemble(model, task, seeds)
    first = {name: array[:, None] for name, array in weights.items()}
    small = _is_small(evaluate_path(model, task, first)[:, 0], levels)
    if not small.all():
        notes.append(
            f"drop times are predicted for small starts: {(~small).sum()} seeds begin further than "
            f"{_SMALL_START:.0%} of the descent from the first plateau {levels[0]:.4g}"
        )
    times = np.full((len(seeds), len(levels) - 1), np.inf)
    margins = np.full(times.shape, np.inf)
    try:
        staircase = theory.dormant_staircase(model, task, weights)
        times[:, : staircase.time.shape[1]] = staircase.time
        margins[:, : staircase.time.shape[1]] = staircase.margin
    except TheoryDoesNotApply as reason:
        notes.append(f"of every seed the first drop alone is predicted: {reason}")
        runaways = np.sort(theory.runaway_times(model, task, weights), axis=-1)
        times[:, 0] = runaways[:, 0] - first_drop_delay(model, task)
        margins[:, 0] = runaways[:, 1] - runaways[:, 0] if runaways.shape[1] > 1 else np.inf
    came = (times <= end) & small[:, None]
    return [
        PredictedSeed(
            seed,
            tuple(time if sees else None for time, sees in zip(own, seen, strict=True)),
            tuple(
                margin if sees and np.isfinite(margin) else None
                for margin, sees in zip(behind, seen, strict=True)
            ),
        )
        for seed, own, behind, seen in zip(
            setting.seeds, times.tolist(), margins.tolist(), came.tolist(), strict=True
        )
    ]


def _is_small(loss: FloatArray | float, levels: FloatArray) -> AnyArray:
    """Whether an initial loss is as near the first level as predictions of times need it."""
    return np.asarray(np.abs(loss - levels[0]) <= _SMALL_START * (levels[0] - levels[-1]))


def _end(setting: Setting) -> float:
    """The flow time at which a run ends."""
    unit = setting.model.time_unit(setting.model.gain(setting.task.fixed_length))
    return float(setting.method.flow_time(np.array([setting.method.end]), unit)[0])


def predicted_drop_times(
    model: AbstractAttention, task: AbstractData, weights: Weights, until: float
) -> tuple[float | None, ...]:
    """When each drop comes, from initial weights alone (T10, T13); None: not by `until`."""
    levels = theory.plateau_losses(task, model=model)
    start = linear_model(model).effective_map(weights, model.gain(task.fixed_length))
    loss = population_law(task).moments().loss(np.asarray(start))
    if not _is_small(loss, levels):
        raise TheoryDoesNotApply(
            f"drop times are predicted for small starts: the initial loss {loss:.4g} is not within "
            f"{_SMALL_START:.0%} of the descent from the first plateau {levels[0]:.4g}"
        )
    if is_merged(model):
        drop = theory.time_course(task, weights=weights, model=model).drop_time
        return (drop if drop is not None and drop <= until else None,)
    staircase = theory.predict_staircase(model, task, weights, until=until)
    times = [drop.time for drop in staircase.drops]
    return (*times, *[None] * (len(levels) - 1 - len(times)))
