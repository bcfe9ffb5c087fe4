"""Ensembles: a million seeds, all cores, and the cost of drawing starts."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

import saddlescope as ss
from benchmarks.settings import CONTEXT_LENGTH, EIGENVALUES, INIT_SCALE, LOSS_ONLY, staircase_task
from benchmarks.table import Findings, Row
from benchmarks.timing import alternate, fresh_process
from saddlescope.dynamics import _shards

MODEL = ss.SeparateAttention(heads=5, rank=1)
STEPS = 10
# As long as the staircase takes: a run of about a second on two cores.
_DESCENT = ss.GradientDescent(learning_rate=0.02, steps=20_000)
MOST_SECONDS, MOST_GIGABYTES = 6.0, 3.0
TWO_CORES = 1.8
MOST_FOR_ROWS = 1.1

_ONCE_COMPILED = """
import resource, time
from benchmarks.ensembles import ten_steps
ten_steps({seeds})
began = time.perf_counter()
ten_steps({seeds})
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def measure(quick: bool) -> Findings:
    """Gradient descent on the staircase's task."""
    times = 2 if quick else 7
    rows = (
        _million(10**5 if quick else 10**6),
        _on_cores(times),
        _rows(2 if quick else 9, _DESCENT, f"{_DESCENT.steps} steps"),
        _rows(2 if quick else 9, ss.GradientFlow(until=2000), "flow to t = 2000"),
        _starts(times),
    )
    return Findings("Ensembles (D = 4, H = 5, R = 1)", rows=rows)


def ten_steps(seeds: int) -> None:
    """Ten steps of many seeds, recording the loss at every step."""
    ss.train(
        MODEL,
        staircase_task(),
        method=ss.GradientDescent(learning_rate=0.02, steps=STEPS),
        init_scale=INIT_SCALE,
        seeds=seeds,
        record=ss.Record(points=STEPS + 1, weights=False),
    )


def _million(seeds: int) -> Row:
    _, printed = fresh_process(_ONCE_COMPILED.format(seeds=seeds), times=1)
    seconds, gigabytes = map(float, printed.split())
    return Row(
        what=f"{seeds:.0e} seeds, {STEPS} steps, loss at {STEPS + 1} points, once compiled",
        ours=seconds,
        baseline=None,
        against="none",
        seconds_below=MOST_SECONDS,
        note=f"at most {MOST_GIGABYTES:g} GB: {gigabytes:.2f}",
        holds=gigabytes < MOST_GIGABYTES,
    )


def _on_cores(times: int) -> Row:
    """Shards on all cores, against a single one."""
    task = staircase_task()

    def on_all() -> None:
        ss.train(MODEL, task, method=_DESCENT, seeds=2000, record=LOSS_ONLY)

    def on_one() -> None:
        with mock.patch.object(_shards, "_devices", return_value=[None]):
            on_all()

    ours, single = alternate(on_all, on_one, times)
    return Row(
        what=f"2000 seeds, {_DESCENT.steps} steps, on all cores",
        ours=ours.best,
        baseline=single.best,
        against="one core",
        ratio_above=TWO_CORES,
        note=f"{len(_shards._devices())} cores",
    )


def _rows(times: int, method: ss.AbstractMethod, what: str) -> Row:
    """Ten settings of two hundred seeds each, against two thousand seeds of one setting."""

    def setting(scale: float, seeds: Any) -> ss.Setting:
        task = ss.InContextRegression(scale * np.array(EIGENVALUES), CONTEXT_LENGTH)
        start = ss.RandomStart(INIT_SCALE)
        return ss.Setting(MODEL, task, method, init=start, seeds=seeds, record=LOSS_ONLY)

    many = [setting(1 + i / 1000, range(200 * i, 200 * (i + 1))) for i in range(10)]
    one = setting(1.0, 2000)
    ours, single = alternate(lambda: ss.train_many(many), lambda: ss.train(one), times)
    return Row(
        what=f"2000 rows of 10 settings, {what}",
        ours=ours.median,
        baseline=single.median,
        against="2000 seeds of one setting",
        ratio_above=1 / MOST_FOR_ROWS,
    )


def _starts(times: int) -> Row:
    task, seeds = staircase_task(), 20_000

    def run_ours() -> None:
        ss.RandomStart(INIT_SCALE).ensemble(MODEL, task, np.arange(seeds))

    def run_baseline() -> None:
        numbers = MODEL.heads * 9
        np.stack([np.random.default_rng(seed).standard_normal(numbers) for seed in range(seeds)])

    ours, baseline = alternate(run_ours, run_baseline, times)
    return Row(
        what=f"starts of {seeds} seeds",
        ours=ours.best,
        baseline=baseline.best,
        against="a NumPy generator a seed",
        ratio_above=1.0,
    )
