"""Predictions from theory before a run: levels, fixed points, drop times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from saddlescope import theory
from saddlescope.attention import AbstractAttention, AbstractStart
from saddlescope.checks import FloatArray
from saddlescope.comparison._prediction import PredictedPoint, PredictedSeed, Prediction
from saddlescope.comparison.drop_times import flow_end, predicted_drops, predictor
from saddlescope.dynamics import AbstractMethod, GradientFlow, make_setting
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.setting import Setting
from saddlescope.task import AbstractData
from saddlescope.theory.parametrisation import is_merged

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# The end of the prediction where no method says when the run ends.
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
    """Predict a run from theory: its levels, fixed points and each seed's drop times.

    The prediction also has the learning rate below which gradient descent is stable on every
    plateau (T21).

    The arguments are those of `train`, or one `Setting`; without a `method`, drops are predicted up
    to time 100 000. For separate attention they are predicted `by` the `race` of its heads (T13)
    or by `quadrature` (T18; coarser and dozens of times faster, the default above a thousand
    seeds); `Prediction.by` says which. Where covariances do not commute there is no race: the first
    drop is predicted by quadrature, and the levels are those of T19.

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
    return predict_on(find_landscape(setting), setting, by)


@dataclass(frozen=True)
class Landscape:
    """What theory says of a setting, whatever its start."""

    plateau_losses: FloatArray | None
    least_loss: float
    fixed_points: tuple[PredictedPoint, ...]
    stable_learning_rate: float | None
    notes: tuple[str, ...]


def find_landscape(setting: Setting) -> Landscape:
    """The levels, the fixed points and the stable learning rate of a setting."""
    model, task = setting.model, setting.task
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
    return Landscape(levels, least, points, rate, tuple(notes))


def predict_on(landscape: Landscape, setting: Setting, by: str | None = None) -> Prediction:
    """The prediction of a setting whose landscape is known (`predict`)."""
    levels, notes, end = landscape.plateau_losses, list(landscape.notes), flow_end(setting)
    chosen = predictor(setting, by)
    times: tuple[PredictedSeed, ...] = ()
    if levels is not None and not setting.method.has_flow_time:
        notes.append("under this optimiser the unit of time is the step")
    elif levels is not None:
        try:
            times = predicted_drops(setting, levels, end, chosen, notes)
        except TheoryDoesNotApply as reason:
            notes.append(str(reason))
    plateaus = None if levels is None else tuple(float(level) for level in levels)
    return Prediction(
        plateaus,
        landscape.least_loss,
        landscape.fixed_points,
        times,
        end,
        tuple(dict.fromkeys(notes)),
        chosen if times else None,
        landscape.stable_learning_rate,
    )


def _stable_rate(setting: Setting, notes: list[str]) -> float | None:
    """The largest stable learning rate, where it has a closed form (T21).

    Elsewhere it takes Lanczos' iteration, longer than everything else here.
    """
    method = setting.method
    descends = method.counts_steps and method.has_flow_time
    try:
        sharpness = theory.staircase_sharpness(setting.model, setting.task, numerical=False)
    except TheoryDoesNotApply as reason:
        if descends and not notes:
            notes.append(f"no stable learning rate: {reason}")
        return None
    # A step is 2η of flow time.
    rate = float(method.flow_time(np.ones(1), 1.0)[0]) / 2 if descends else 0.0
    above = np.flatnonzero(rate >= sharpness.stable_learning_rates)
    if above.size:
        plateaus = ", ".join(str(level) for level in above)
        notes.append(
            f"at learning_rate {rate:g} gradient descent is not stable at the minimal-norm weights "
            f"of {'plateau' if above.size == 1 else 'plateaus'} {plateaus}: below "
            f"{sharpness.stable_learning_rate:.4g} it rests on all of them (T21)"
        )
    return sharpness.stable_learning_rate
