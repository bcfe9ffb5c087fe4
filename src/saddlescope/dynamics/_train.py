"""`train` and the other entry points of training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from saddlescope.attention import AbstractAttention, AbstractStart, GivenStart, RandomStart
from saddlescope.checks import FloatArray, listed
from saddlescope.dynamics.methods.base import AbstractMethod
from saddlescope.dynamics.methods.flow import GradientFlow
from saddlescope.dynamics.record import Record
from saddlescope.errors import InvalidInput
from saddlescope.running import Snapshot
from saddlescope.setting import Setting
from saddlescope.setting.kinds import check_part
from saddlescope.task import AbstractData
from saddlescope.trajectory import Trajectory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from saddlescope.dynamics._frame import Frame
    from saddlescope.dynamics._padded_shape import PaddedShape
    from saddlescope.dynamics._summary import RunSummary

State = TypeVar("State")
Result = TypeVar("Result")


def train(
    model: AbstractAttention | Setting,
    task: AbstractData | None = None,
    *,
    method: AbstractMethod | None = None,
    init_scale: float | None = None,
    init: AbstractStart | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    start: Trajectory | None = None,
    seeds: ArrayLike | None = None,
    record: Record | ArrayLike | None = None,
    keep: str | None = None,
    observers: object = (),
) -> Trajectory:
    r"""Train a model on a task, or run a `Setting`, and return the whole trajectory.

    - `method`: `GradientFlow(until=…)` or `GradientDescent(learning_rate=…, steps=…)`.
    - The start is one of: `init_scale` (the papers' random start; .01 by default), `init` (any
      start of `saddlescope.attention`), `weights` (arrays, with or without a seed axis), or `start`
      (continue from the end of another run; times continue, steps begin at 0).
    - `seeds`: how many, or which.
    - `record`: a number of points, `"linear"` or `"log"`, times or steps, or a `Record`.
    - `keep`: `"drops"` keeps a few numbers per seed in place of records, `"quantiles"` their
      quantiles over all seeds, in little memory (`Trajectory.summary`).
    - `observers`: called between segments: `ProgressBar()`, `Checkpoint(path)`,
      `StopWhen(condition)`, a function of a `Snapshot`, or an `AbstractObserver`.

    A seed that diverges is marked in `outcomes`, with a cure; the others finish. Ctrl-C or an
    observer's request raises `Interrupted`, whose `snapshot` holds what was computed; `resume`
    finishes it.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression(spectrum=[.4, .3, .2, .1], context_length=31)
    >>> run = ss.train(ss.MergedAttention(heads=8), task, method=ss.GradientFlow(until=400))
    >>> round(float(run.loss[0, -1]), 3)
    0.136
    """
    from saddlescope.dynamics._job import run_setting

    if start is not None:
        _check_trajectory("start", start)
    setting = make_setting(
        model,
        task,
        method=method,
        init_scale=init_scale,
        init=init,
        weights=weights,
        start=start,
        seeds=seeds,
        record=record,
        keep=keep,
    )
    return run_setting(setting, start, observers)


def train_many(
    settings: Iterable[Setting],
    *,
    padded_to: PaddedShape | Frame | None = None,
    observers: object = (),
) -> tuple[Trajectory, ...]:
    """Run many settings at once and return a trajectory for each, as `train` would.

    An ensemble has a row for each seed of each setting. Whatever does not change array shapes
    (spectrum, length, noise, scale, end, learning rate, …) can differ from row to row of one
    compiled program. Gradient flow and descent of linear attention, and elementwise optimisers
    (`sgd`, `adam`, `adamw`, `nadam`, `rmsprop`, `adagrad`, `lion`), are padded and can differ in
    heads, rank and dimension too; other settings share a program only with those of the same shape.

    With `padded_to`, whatever can be padded is padded to that shape, and successive calls share one
    program whatever the sizes of their settings, with the same bits in every row. For a seed that
    diverges in a `PaddedShape`, the message names no step and no rate to try, since finding them
    would take further programs.

    `observers` are as in `train`, with the latest loss of every row as data. The `snapshot` of an
    `Interrupted` holds a trajectory for every setting; `resume` finishes any incomplete one, or all
    together.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression(spectrum=[.6, .3], context_length=31)
    >>> flow = ss.GradientFlow(until=200)
    >>> runs = ss.train_many(
    ...     ss.Setting(ss.MergedAttention(heads=2), task, flow, init=ss.RandomStart(scale))
    ...     for scale in (.1, .2)
    ... )
    >>> [round(float(run.loss[0, -1]), 3) for run in runs]
    [0.079, 0.079]
    """
    from saddlescope.dynamics._many import ManyJob, padded_job
    from saddlescope.dynamics._padded_shape import PaddedShape
    from saddlescope.running.loop import run_job

    checked = _checked(settings, padded_to)
    if not checked:
        return ()
    if len(checked) == 1 and isinstance(padded_to, PaddedShape):
        return run_job(padded_job(checked[0], padded_to), observers)
    return run_job(ManyJob(checked, padded_to), observers)


def summarise_many(
    settings: Iterable[Setting],
    *,
    padded_to: PaddedShape | Frame | None = None,
    observers: object = (),
) -> tuple[RunSummary, ...]:
    """Run many settings as `train_many` does, and return only a few numbers for each seed.

    For settings that keep drops these are the summary (`Trajectory.summary`), for others the first
    and last losses.

    `padded_to` is one shape for all settings, so that they share a compiled program.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression(spectrum=[.6, .3], context_length=31)
    >>> setting = ss.Setting(ss.MergedAttention(heads=2), task, ss.GradientFlow(until=200),
    ...                      init=ss.RandomStart(.1), record=ss.Record(keep="drops"))
    >>> [brief] = summarise_many([setting])
    >>> brief.final_loss.round(3), brief.summary.drop_time.round(1)
    (array([0.079]), array([[10.3]]))
    """
    from saddlescope.dynamics._many import SummariesJob
    from saddlescope.running.loop import run_job

    checked = _checked(settings, padded_to)
    return run_job(SummariesJob(checked, padded_to), observers) if checked else ()


def _checked(settings: Iterable[Setting], padded_to: object) -> list[Setting]:
    """The settings as a list, after checking them and the shape that they are padded to."""
    from saddlescope.dynamics._frame import Frame
    from saddlescope.dynamics._padded_shape import PaddedShape

    if not isinstance(padded_to, PaddedShape | Frame | None):
        raise InvalidInput("padded_to", padded_to, "must be a PaddedShape")
    items = listed("settings", settings, "must be a list of settings")
    for index, setting in enumerate(items):
        if not isinstance(setting, Setting):
            raise InvalidInput(f"settings[{index}]", setting, "must be a Setting")
    return items


def make_setting(
    model: AbstractAttention | Setting,
    task: AbstractData | None = None,
    *,
    method: AbstractMethod | None = None,
    init_scale: float | None = None,
    init: AbstractStart | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    start: Trajectory | None = None,
    seeds: ArrayLike | None = None,
    record: Record | ArrayLike | None = None,
    keep: str | None = None,
) -> Setting:
    """The setting that the arguments of `train` describe; a `Setting` takes no other arguments.

    `start` is a run to continue from, in place of `init`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> ss.make_setting(model, task, method=method, seeds=2).seeds
    (0, 1)
    """
    starts = {"init_scale": init_scale, "init": init, "weights": weights, "start": start}
    if isinstance(model, Setting):
        others = {"method": method, "seeds": seeds, "record": record, "keep": keep}
        rest = {**starts, "task": task, **others}
        given = [name for name, value in rest.items() if value is not None and name != "start"]
        if given:
            raise InvalidInput(given[0], rest[given[0]], "is part of the setting already")
        return model
    names = [name for name, value in starts.items() if value is not None]
    if len(names) > 1:
        raise InvalidInput("start", names, "give one of init_scale, init, weights and start")
    if start is not None:
        _check_trajectory("start", start)
        init = GivenStart(start.weights(), start.setting.seeds)
    elif weights is not None:
        init = GivenStart(weights)
    elif init is None:
        init = RandomStart(0.01 if init_scale is None else init_scale)
    check_part("model", model)
    check_part("init", init)
    if task is None:
        raise InvalidInput("task", task, "must be given beside the model")
    check_part("task", task)
    labels, recorded = init.labels(model, task), Record.make(record)
    return Setting(
        model=model,
        task=task,
        method=method,  # type: ignore[arg-type]
        init=init,
        record=recorded if keep is None else replace(recorded, keep=keep),
        seeds=(1 if labels is None else labels) if seeds is None else seeds,
    )


def resume(
    interrupted: Snapshot[State, Result] | Trajectory, *, observers: object = ()
) -> Result | Trajectory:
    """Finish an interrupted run; the result equals that of an uninterrupted one.

    `interrupted` is the snapshot of an `Interrupted`, from a run or a transformer's training, or an
    incomplete `Trajectory`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> stop = ss.StopWhen(lambda snapshot: True)
    >>> try:
    ...     ss.train(model, task, method=method, observers=[stop])
    ... except ss.Interrupted as stopped:
    ...     run = ss.resume(stopped.snapshot)
    >>> run.outcomes[0].result
    <Result.FINISHED: 'finished'>
    """
    if isinstance(interrupted, Snapshot):
        from saddlescope.running.loop import run_job

        return run_job(interrupted.job, observers, interrupted.state)
    from saddlescope.dynamics._job import finish

    _check_trajectory("interrupted", interrupted)
    if interrupted.is_complete:
        raise InvalidInput("interrupted", interrupted, "is complete; train(start=…) continues it")
    return finish(interrupted, observers)


def solver_error(trajectory: Trajectory) -> float:
    """The largest difference of a flow's recorded losses from those at a tenth of its tolerances.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientFlow(until=50)
    >>> ss.solver_error(ss.train(model, task, method=method, record=3)) < 1e-7
    True
    """
    _check_trajectory("trajectory", trajectory)
    setting = trajectory.setting
    if not isinstance(setting.method, GradientFlow) or trajectory.time_start > 0:
        raise InvalidInput(
            "trajectory", trajectory, "must be a gradient flow that does not continue another run"
        )
    if setting.record.keep == "quantiles":
        raise InvalidInput("trajectory", trajectory, "kept quantiles, and no seed's losses")
    finer = setting.replace(
        method=setting.method.tightened(10), record=Record(at=trajectory.time, weights=False)
    )
    return float(np.nanmax(np.abs(train(finer).loss - trajectory.loss)))


def evaluate(trajectory: Trajectory, task: AbstractData) -> FloatArray:
    """The loss on a task at every record of a run, [S, T].

    Exact on a law (linear attention), the mean square on `Prompts`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> run = ss.train(model, task, method=method, record=3)
    >>> longer = ss.InContextRegression([.4, .3], context_length=100)
    >>> ss.evaluate(run, longer).shape
    (1, 3)
    """
    from saddlescope.dynamics._evaluate import evaluate_path

    _check_trajectory("trajectory", trajectory)
    check_part("task", task)
    model = trajectory.setting.model
    if not set(model.axes) <= set(trajectory.dataset):
        raise InvalidInput("record.weights", False, "only recorded weights can be evaluated")
    dimension = trajectory.setting.task.dimension
    if task.dimension != dimension:
        raise InvalidInput("task.dimension", task.dimension, f"the run has D = {dimension}")
    weights = {name: trajectory.dataset[name].to_numpy() for name in model.axes}
    return evaluate_path(model, task, weights)


def _check_trajectory(field: str, value: object) -> None:
    if not isinstance(value, Trajectory):
        raise InvalidInput(field, value, "must be a Trajectory")
