"""One GPU: kernels against plain `vmap` and a hand-written kernel, and a whole run of a million."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

import saddlescope as ss
from benchmarks.baselines import check_same, constants, hand_kernel, vmap_descent, vmap_flow
from benchmarks.settings import INIT_SCALE, LOSS_ONLY, power_law_task, staircase_task
from benchmarks.table import Findings, Row
from benchmarks.timing import clock, repeat, seconds_per_step
from saddlescope.dynamics._job import Job
from saddlescope.precision import within

RATE = 0.5
UNTIL = 20_000.0
STARTS = 2**18
# Under plain `vmap` all wait for the slowest, so a few suffice.
FEW_STARTS = 2**12
STEPS = 1000
# Targets.
OF_HAND_KERNEL, OF_VMAP = 0.5, 10.0
STARTS_A_SECOND = {"float64": 1e5, "float32": 3e5}
MOST_SECONDS_TO_COMPILE = {"descent": 10.0, "flow": 25.0}
MOST_SECONDS_OF_A_MILLION = 3.0
# The order of the arithmetic differs; rounding errors grow along a drop.
TOLERANCES = {"float64": 1e-9, "float32": 1e-2}


def measure(quick: bool) -> Findings:
    """Descent and flow in both precisions, then a million starts from call to result."""
    if jax.default_backend() != "gpu":
        raise SystemExit("benchmarks: --gpu needs a GPU that JAX sees")
    precisions = ("float64",) if quick else ("float64", "float32")
    sizes = ((4, 5),) if quick else ((4, 5), (8, 9))
    rows = [row for precision in precisions for row in _flow(precision)]
    for dimension, heads in sizes:
        for precision in precisions:
            rows += _descent(dimension, heads, precision)
    return Findings("One GPU", rows=(*rows, _million()))


def _descent(dimension: int, heads: int, precision: str) -> list[Row]:
    """Per trajectory and step."""
    task = staircase_task() if dimension == 4 else power_law_task(dimension)
    model, dtype = ss.SeparateAttention(heads=heads, rank=1), np.dtype(precision)
    runs: list[ss.Trajectory] = []

    def run_ours(steps: int) -> None:
        method = ss.GradientDescent(learning_rate=RATE, steps=steps, precision=precision)
        runs[:] = [
            ss.train(
                model, task, method=method, init_scale=INIT_SCALE, seeds=STARTS, record=LOSS_ONLY
            )
        ]

    first = clock(lambda: run_ours(STEPS))
    compiling = first - clock(lambda: run_ours(STEPS))
    ends = {name: np.asarray(array) for name, array in runs[0].weights().items()}
    solver = runs[0].dataset.attrs.get("solver", "XLA")
    ours = seconds_per_step(run_ours, times=3) / STARTS
    start = ss.RandomStart(INIT_SCALE).ensemble(model, task, np.arange(STARTS))
    drive_and_curvature = constants(task, dtype)

    def plain(steps: int) -> Any:
        with within(precision):
            weights = {name: array.astype(dtype) for name, array in start.items()}
            rate = dtype.type(RATE)
            moved = vmap_descent(weights, drive_and_curvature, rate, steps)
            return jax.block_until_ready(moved)

    check_same(ends, plain(STEPS), TOLERANCES[precision])
    what = f"descent, D = {dimension}, H = {heads}, {precision}"
    rows = [
        Row(
            what=what,
            ours=ours,
            baseline=seconds_per_step(plain, times=3) / STARTS,
            against="plain vmap",
            note=f"per trajectory and step, {STARTS:,} starts, 2 records; by {solver}",
        )
    ]
    kernel = hand_kernel(dimension, heads, dtype)
    by_hand = None
    if kernel is not None:
        by_hand = _by_hand(kernel, start, drive_and_curvature, ends, precision)
    rows.append(
        Row(
            what=what,
            ours=ours,
            baseline=by_hand,
            against="a CUDA kernel written by hand",
            ratio_above=OF_HAND_KERNEL,
            note="no nvcc on this machine" if by_hand is None else "",
        )
    )
    most = MOST_SECONDS_TO_COMPILE["descent"]
    return [*rows, Row(f"compiling the {what}", compiling, None, "none", seconds_below=most)]


def _by_hand(kernel: Any, start: Any, drive_and_curvature: Any, ends: Any, precision: str) -> float:
    """Seconds per trajectory and step of the hand-written kernel."""
    rows = [start[name].reshape(STARTS, -1).T for name in "vkq"]
    initial = np.ascontiguousarray(np.concatenate(rows), precision)
    seconds = []
    for _ in range(4):
        weights = initial.copy()
        seconds.append(kernel(weights, drive_and_curvature, RATE, STEPS))
    parts = np.split(weights, np.cumsum([len(row) for row in rows])[:-1])
    moved = {
        name: part.T.reshape(start[name].shape) for name, part in zip("vkq", parts, strict=True)
    }
    check_same(ends, moved, TOLERANCES[precision])
    return min(seconds) / (STEPS * STARTS)


def _flow(precision: str) -> list[Row]:
    """Per start, from the first step until all starts have ended."""
    task, model = staircase_task(), ss.SeparateAttention(heads=5, rank=1)
    tolerances = {"rtol": 1e-5, "atol": 1e-8} if precision == "float32" else {}
    method = ss.GradientFlow(until=UNTIL, precision=precision, **tolerances)
    start = ss.RandomStart(INIT_SCALE)
    record = ss.Record(keep="drops")
    job = Job(ss.Setting(model, task, method, init=start, seeds=STARTS, record=record))

    def begin() -> Any:
        return jax.block_until_ready(job.begin())

    def run_ours(state: Any) -> None:
        while not job.is_finished(state):
            state, _ = job.advance(state, 10**6)
        jax.block_until_ready(state)

    first = clock(partial(run_ours, begin()))
    ours = min(clock(partial(run_ours, begin())) for _ in range(2))
    dtype = np.dtype(precision)
    few = start.ensemble(model, task, np.arange(FEW_STARTS))
    drive_and_curvature = constants(task, dtype)

    def plain() -> None:
        with within(precision):
            weights = {name: array.astype(dtype) for name, array in few.items()}
            numbers = (dtype.type(number) for number in (UNTIL, method.rtol, method.atol))
            jax.block_until_ready(vmap_flow(weights, drive_and_curvature, *numbers))

    what = f"flow to t = {UNTIL:,.0f}, {precision}"
    return [
        Row(
            what=what,
            ours=ours / STARTS,
            baseline=repeat(plain, 1).best / FEW_STARTS,
            against="plain vmap of diffrax",
            ratio_above=OF_VMAP,
            seconds_below=1 / STARTS_A_SECOND[precision],
            note=f"per start, {STARTS:,} starts, {FEW_STARTS:,} of vmap; rtol {method.rtol:g}, "
            "drops found on the way, no records",
        ),
        Row(
            f"compiling the {what}",
            first - ours,
            None,
            "none",
            seconds_below=MOST_SECONDS_TO_COMPILE["flow"],
        ),
    ]


def _million() -> Row:
    task, model = staircase_task(), ss.SeparateAttention(heads=5, rank=1)

    def run_ours() -> None:
        ss.train(
            model,
            task,
            method=ss.GradientDescent(learning_rate=RATE, steps=STEPS),
            init_scale=INIT_SCALE,
            seeds=10**6,
            record=ss.Record(points=11, weights=False),
        )

    return Row(
        what=f"a million starts, {STEPS} steps, 11 records, from call to labelled result",
        ours=repeat(run_ours, 3).best,
        baseline=None,
        against="none",
        seconds_below=MOST_SECONDS_OF_A_MILLION,
        note="once compiled",
    )
