"""`train`: one entry, one immutable result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from saddlescope.attention.base import AbstractAttention
from saddlescope.attention.starts import AbstractStart, GivenStart, PaperStart, Task
from saddlescope.checks import whole_number
from saddlescope.dynamics.checkpoint import read_checkpoint
from saddlescope.dynamics.job import Job
from saddlescope.dynamics.methods.base import AbstractMethod
from saddlescope.dynamics.methods.flow import GradientFlow
from saddlescope.dynamics.record import Record
from saddlescope.errors import InvalidInput
from saddlescope.running.progress import Report
from saddlescope.setting import Setting
from saddlescope.task.aligned import VectorPrompts
from saddlescope.task.base import AbstractTask
from saddlescope.task.prompts import Prompts, Statistics
from saddlescope.trajectory import Trajectory

_MOST_SEEDS = 10_000_000


def train(
    model: AbstractAttention,
    task: Task,
    *,
    method: AbstractMethod,
    init_scale: float | None = None,
    init: AbstractStart | None = None,
    weights: Mapping[str, Any] | None = None,
    start: Trajectory | None = None,
    seeds: int | Sequence[int] | None = None,
    record: Any = None,
    progress: Report | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory:
    r"""Train a model on a task and return the whole path.

    - `method`: `GradientFlow(until=…)` or `GradientDescent(learning_rate=…, steps=…)`.
    - The start is one of: `init_scale` (the papers' random start; .01 where none is given), `init`
      (any start of `saddlescope.attention`), `weights` (given arrays, with or without a seed axis),
      or `start` (go on from where another run ended; times go on, steps begin at 0).
    - `seeds`: how many, or which.
    - `record`: a number of points, `"linear"` or `"log"`, times or steps, or a `Record`.
    - `progress`: called with a `Progress` at every segment border.
    - `checkpoint`: a file in which an unfinished run survives; the same call goes on from it.

    A seed that diverges is marked in `outcomes`, with the cure; the others finish. Ctrl-C raises
    `Interrupted`, whose `trajectory` holds what was computed; `resume` finishes it.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression(spectrum=[.4, .3, .2, .1], context_length=31)
    >>> run = ss.train(ss.MergedAttention(heads=8), task, method=ss.GradientFlow(until=400))
    >>> round(float(run.loss[0, -1]), 3)
    0.136
    """
    given = {"init_scale": init_scale, "init": init, "weights": weights, "start": start}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InvalidInput("start", names, "give one of init_scale, init, weights and start")
    _check_type("model", model, AbstractAttention)
    _check_type("task", task, (AbstractTask, Prompts, Statistics, VectorPrompts))
    _check_type("method", method, AbstractMethod)
    if start is not None:
        _check_type("start", start, Trajectory)
        init = GivenStart(start.weights())
    elif weights is not None:
        init = GivenStart(weights)
    elif init is None:
        init = PaperStart(0.01 if init_scale is None else init_scale)
    _check_type("init", init, AbstractStart)
    setting = Setting(
        task=task,
        model=model,
        method=method,
        init=init,
        record=Record.make(record),
        seeds=_seeds(init, model, task, seeds),
    )
    return run(setting, start=start, progress=progress, checkpoint=checkpoint)


def run(
    setting: Setting,
    *,
    start: Trajectory | None = None,
    progress: Report | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory:
    """Carry out a setting; `start`, `progress` and `checkpoint` as in `train`."""
    with jax.enable_x64(True):
        job = Job(setting, 0.0 if start is None else float(start.time[-1]))
        saved = None if checkpoint is None else read_checkpoint(checkpoint, job.digest)
        if saved is not None:
            state = job.restore(saved)
        else:
            state = job.begin() if start is None else job.continue_from(start)
        return job.carry_out(state, progress, checkpoint)


def resume(interrupted: Trajectory, *, progress: Report | None = None) -> Trajectory:
    """Finish an interrupted run; the result equals that of a run that was never interrupted."""
    _check_type("interrupted", interrupted, Trajectory)
    if interrupted.is_complete:
        raise InvalidInput(
            "interrupted", interrupted, "is complete; train(start=…) goes on from it"
        )
    with jax.enable_x64(True):
        job = Job(interrupted.setting, interrupted.time_start)
        return job.carry_out(job.restore(interrupted.state), progress)


def solver_error(trajectory: Trajectory) -> float:
    """The largest distance of a flow's recorded losses to those at a tenth of its tolerances."""
    _check_type("trajectory", trajectory, Trajectory)
    setting = trajectory.setting
    if not isinstance(setting.method, GradientFlow) or trajectory.time_start > 0:
        raise InvalidInput("trajectory", trajectory, "must be a gradient flow from its own start")
    finer = Setting(
        task=setting.task,
        model=setting.model,
        method=setting.method.tightened(10),
        init=setting.init,
        record=Record(at=trajectory.time, weights=False),
        seeds=setting.seeds,
    )
    return float(np.nanmax(np.abs(run(finer).loss - trajectory.loss)))


def _seeds(
    init: AbstractStart, model: AbstractAttention, task: Task, seeds: int | Sequence[int] | None
) -> tuple[int, ...]:
    """The seeds that a number (0 to n−1), a sequence or given weights name."""
    provided = init.count(model, task) if isinstance(init, GivenStart) else None
    if seeds is None:
        return tuple(range(provided or 1))
    if np.ndim(seeds) == 0:
        count = whole_number("seeds", seeds)
        if count > _MOST_SEEDS:
            raise InvalidInput("seeds", seeds, f"must be at most {_MOST_SEEDS} in one ensemble")
        chosen = tuple(range(count))
    else:
        chosen = tuple(whole_number("seeds", seed, at_least=0) for seed in np.ravel(seeds).tolist())
    if provided is not None and max(chosen, default=0) >= provided:
        raise InvalidInput("seeds", seeds, f"weights are given for {provided} seeds")
    return chosen


def _check_type(field: str, value: object, kinds: type | tuple[type, ...]) -> None:
    if not isinstance(value, kinds):
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        names = " or ".join(kind.__name__.removeprefix("Abstract") for kind in allowed)
        raise InvalidInput(field, value, f"must be a {names}")
