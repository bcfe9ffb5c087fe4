"""What theory says about a setting: shown at once, before the run."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from saddlescope import theory
from saddlescope.attention import AbstractAttention, RandomStart
from saddlescope.checks import AnyArray, FloatArray
from saddlescope.comparison._predict import Landscape, find_landscape, predict_on
from saddlescope.comparison.drop_times import are_small_starts
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.lab._copying import as_address, as_command, as_python
from saddlescope.setting import Setting
from saddlescope.setting.plain import read
from saddlescope.task import AbstractTask, InContextRegression
from saddlescope.theory.landscape.graph import visited_in_turn
from saddlescope.theory.parametrisation import is_merged

# Heads sampled for the law of the first drop: the curve is accurate to a few per cent.
_LAW_HEADS = 4096
_LAW_POINTS = 160
_LAW_ENDS = (0.002, 0.98)
_SHARES = 200
# Prompts on which the model is compared with the algorithms.
_PROBES = 256
# The curve of one head: where it begins, and times that are denser half-way down the drop.
_COURSE_BEGIN = 1e-3
_COURSE_TIMES = 4 * np.sinh(np.linspace(-6.2, 2.4, 160))

Values = dict[str, object]
Arrays = dict[str, AnyArray]


def predicted(setting: Setting) -> tuple[Values, Arrays]:
    """Levels, fixed points, drop times and modes; notes say where the theory is silent."""
    separate = not is_merged(setting.model)
    found = predict_on(
        _landscape(setting.without_start), setting, "quadrature" if separate else None
    )
    values: Values = {
        "plateau_losses": found.plateau_losses,
        "least_loss": found.least_loss,
        "stable_learning_rate": found.stable_learning_rate,
        "notes": list(found.notes),
        "by": found.by,
        "until": found.until,
        "drops": [
            {
                "seed": one.seed,
                "times": one.drop_times,
                "is_open": one.is_open,
                "heads": one.heads,
                "modes": one.directions,
            }
            for one in found.seeds
        ],
        "points": [
            {"subset": point.subset, "loss": point.loss, "index": point.index}
            for point in found.fixed_points
        ],
        "is_merged": not separate,
        "address": as_address(setting),
        "python": as_python(setting),
        "command": as_command(setting),
    }
    arrays: Arrays = {}
    try:
        modes = theory.modes(setting.task)
        arrays |= {
            "drive": modes.drive,
            "amplitude": modes.amplitude,
            "drop": modes.drop,
            "rise_time": modes.rise_time,
            "basis": modes.basis,
            # The mean squares of what W multiplies: it answers βᵀW x_q.
            "summary_power": modes.summary,
            "query_power": modes.query_eigenvalues,
        }
        values["path"] = visited_in_turn(modes) if separate else None
    except TheoryDoesNotApply as reason:
        values["notes"] = [*found.notes, str(reason)]
    return values, arrays


@lru_cache(maxsize=64)
def _landscape(setting: Setting) -> Landscape:
    """What does not depend on the start, and stays while its scale is dragged."""
    return find_landscape(setting)


def law_of_first_drop(setting: Setting) -> tuple[Values, Arrays]:
    """The density of the first drop's time over random starts, or the reason why there is none."""
    try:
        law = _law(setting)
    except TheoryDoesNotApply as reason:
        return {"reason": str(reason)}, {}
    median = float(law.quantiles([0.5])[0])
    if median <= 0:
        return {"reason": "for starts as large as these the law puts the drop before t = 0"}, {}
    ends = law.quantiles(list(_LAW_ENDS))
    times = np.linspace(max(float(ends[0]), 0.0), float(ends[1]), _LAW_POINTS)
    arrays = {"time": times, "density": _density(law, times), "survival": law.survival(times)}
    model, task = setting.model, setting.task
    starts = setting.init.ensemble(model, task, np.array(setting.seeds))
    levels = theory.plateau_losses(task, model=model)
    # The law is exact as the scale falls to zero.
    applies = bool(are_small_starts(model, task, starts, levels).all())
    return {"median": median, "reason": None, "applies": applies}, arrays


def _density(law: theory.DropTimeLaw, times: FloatArray) -> FloatArray:
    """A curve without the noise of so few heads: a sum of bells, one for each of 200 quantiles."""
    shares = (np.arange(_SHARES) + 0.5) / _SHARES
    centres = law.quantiles(shares)
    low, high = np.quantile(centres, [0.25, 0.75])
    # Silverman's rule, with a spread that a long tail does not widen.
    width = 0.9 * float(high - low) / 1.34 * _SHARES**-0.2
    bells = np.exp(-(((times[:, None] - centres) / width) ** 2) / 2)
    density: FloatArray = bells.sum(1) / (_SHARES * width * np.sqrt(2 * np.pi))
    return density


def _law(setting: Setting) -> theory.DropTimeLaw:
    """The law at the scale of a setting; all scales share the same sampled heads."""
    if is_merged(setting.model):
        raise TheoryDoesNotApply("this law is known for separate keys and queries only")
    if not isinstance(setting.task, InContextRegression):
        raise TheoryDoesNotApply("no such law is known when a fixed task comes back")
    if not setting.method.has_flow_time:
        raise TheoryDoesNotApply("drop times are not predicted under this optimiser")
    assert isinstance(setting.init, RandomStart)
    plain = setting.to_dict()
    unit = _unit_law(json.dumps(plain["model"]), json.dumps(plain["task"]))
    return replace(unit, init_scale=setting.init.init_scale)


@lru_cache(maxsize=64)
def _unit_law(model: str, task: str) -> theory.DropTimeLaw:
    """The law at scale one of a model and a task, given as JSON."""
    own_model, own_task = read("model", json.loads(model)), read("task", json.loads(task))
    assert isinstance(own_model, AbstractAttention)
    assert isinstance(own_task, AbstractTask)
    return theory.drop_time_law(own_model, own_task, 1.0, sampled_heads=_LAW_HEADS)


def prompts_and_algorithms(setting: Setting, seed: int) -> tuple[Values, Arrays]:
    """Fresh prompts, and the answers of every algorithm of section 5.

    The page computes the model's answer, βᵀW x_q, from its weights. It shows the first prompt.
    """
    task = setting.task
    if not isinstance(task, InContextRegression):
        raise TheoryDoesNotApply("the algorithms are known for fresh tasks only")
    drawn = task.sample(_PROBES, seed=seed)
    known = theory.algorithms(task)
    arrays = {
        "x": drawn.x[0],
        "y": drawn.y[0],
        "summary": np.asarray(drawn.summary),
        "query": np.asarray(drawn.query),
        "target": np.asarray(drawn.target),
        "answers": np.stack([algorithm(drawn) for algorithm in known]),
    }
    return {"names": [algorithm.name for algorithm in known], "seed": seed}, arrays


@cache
def course_of_a_head() -> Arrays:
    r"""A head's value as it learns an eigenvector (T12): the one curve that all of them follow.

    Time is counted from half-way down the drop in units of $1/(c\xi^{1/3})$, the value in units of
    $\xi^{1/3}$.
    """
    task = InContextRegression([1.0], context_length=1000)
    unit = float(theory.modes(task).rise_time[0])
    first = theory.head_time_course(task, 0, _COURSE_BEGIN, [0.0])
    assert first.drop_time is not None
    times = unit * _COURSE_TIMES + first.drop_time
    course = theory.head_time_course(task, 0, _COURSE_BEGIN, times[times >= 0])
    return {
        "course_time": (course.time - first.drop_time) / unit,
        "course_value": course.value / course.saturation,
    }
