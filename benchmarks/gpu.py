"""One GPU: kernels beside plain `vmap` and a kernel written by hand, and a million starts whole."""

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
# Those of a plain `vmap` all wait for the slowest, however many they are.
FEW_STARTS = 2**12
STEPS = 1000
# The least of what was aimed at.
OF_HAND_KERNEL, OF_VMAP = 0.5, 10.0
STARTS_A_SECOND = {"float64": 1e5, "float32": 3e5}
MOST_SECONDS_TO_COMPILE = {"descent": 10.0, "flow": 25.0}
MOST_SECONDS_OF_A_MILLION = 3.0
# The same arithmetic in another order: rounding differs, and grows along a drop.
MOST_APART = {"float64": 1e-9, "float32": 1e-2}


def measure(quick: bool) -> Findings:
    """Descent and flow in both precisions, then a million starts from the call to the result."""
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

    def ours(steps: int) -> None:
        method = ss.GradientDescent(learning_rate=RATE, steps=steps, precision=precision)
        runs[:] = [
            ss.train(
                model, task, method=method, init_scale=INIT_SCALE, seeds=STARTS, record=LOSS_ONLY
            )
        ]

    first = clock(lambda: ours(STEPS))
    compiling = first - clock(lambda: ours(STEPS))
    ends = {name: np.asarray(array) for name, array in runs[0].weights().items()}
    solver = runs[0].dataset.attrs.get("solver", "XLA")
    mine = seconds_per_step(ours, times=3) / STARTS
    start = ss.RandomStart(INIT_SCALE).ensemble(model, task, np.arange(STARTS))
    given = constants(task, dtype)

    def plain(steps: int) -> Any:
        with within(precision):
            own = {name: array.astype(dtype) for name, array in start.items()}
            return jax.block_until_ready(vmap_descent(own, given, dtype.type(RATE), steps))

    check_same(ends, plain(STEPS), MOST_APART[precision])
    what = f"descent, D = {dimension}, H = {heads}, {precision}"
    rows = [
        Row(
            what=what,
            ours=mine,
            baseline=seconds_per_step(plain, times=3) / STARTS,
            against="plain vmap",
            note=f"per trajectory and step, {STARTS:,} starts, 2 records; by {solver}",
        )
    ]
    by_hand = hand_kernel(dimension, heads, dtype)
    rows.append(
        Row(
            what=what,
            ours=mine,
            baseline=None if by_hand is None else _by_hand(by_hand, start, given, ends, precision),
            against="a CUDA kernel written by hand",
            ratio_above=OF_HAND_KERNEL,
            note="no nvcc on this machine" if by_hand is None else "",
        )
    )
    most = MOST_SECONDS_TO_COMPILE["descent"]
    return [*rows, Row(f"compiling the {what}", compiling, None, "none", seconds_below=most)]


def _by_hand(by_hand: Any, start: Any, given: Any, ends: Any, precision: str) -> float:
    rows = [start[name].reshape(STARTS, -1).T for name in "vkq"]
    begun = np.ascontiguousarray(np.concatenate(rows), precision)
    taken = []
    for _ in range(4):
        weights = begun.copy()
        taken.append(by_hand(weights, given, RATE, STEPS))
    parts = np.split(weights, np.cumsum([len(row) for row in rows])[:-1])
    moved = {
        name: part.T.reshape(start[name].shape) for name, part in zip("vkq", parts, strict=True)
    }
    check_same(ends, moved, MOST_APART[precision])
    return min(taken) / (STEPS * STARTS)


def _flow(precision: str) -> list[Row]:
    """Per start, from the first step until all have ended."""
    task, model = staircase_task(), ss.SeparateAttention(heads=5, rank=1)
    tolerances = {"rtol": 1e-5, "atol": 1e-8} if precision == "float32" else {}
    method = ss.GradientFlow(until=UNTIL, precision=precision, **tolerances)
    start = ss.RandomStart(INIT_SCALE)
    record = ss.Record(keep="drops")
    job = Job(ss.Setting(model, task, method, init=start, seeds=STARTS, record=record))

    def begin() -> Any:
        return jax.block_until_ready(job.begin())

    def ours(state: Any) -> None:
        while not job.is_finished(state):
            state, _ = job.advance(state, 10**6)
        jax.block_until_ready(state)

    first = clock(partial(ours, begin()))
    mine = min(clock(partial(ours, begin())) for _ in range(2))
    dtype = np.dtype(precision)
    own = start.ensemble(model, task, np.arange(FEW_STARTS))
    given = constants(task, dtype)

    def plain() -> None:
        with within(precision):
            weights = {name: array.astype(dtype) for name, array in own.items()}
            numbers = (dtype.type(one) for one in (UNTIL, method.rtol, method.atol))
            jax.block_until_ready(vmap_flow(weights, given, *numbers))

    what = f"flow to t = {UNTIL:,.0f}, {precision}"
    return [
        Row(
            what=what,
            ours=mine / STARTS,
            baseline=repeat(plain, 1).best / FEW_STARTS,
            against="plain vmap of diffrax",
            ratio_above=OF_VMAP,
            seconds_below=1 / STARTS_A_SECOND[precision],
            note=f"per start, {STARTS:,} starts, {FEW_STARTS:,} of vmap; rtol {method.rtol:g}, "
            "drops found on the way, no records",
        ),
        Row(
            f"compiling the {what}",
            first - mine,
            None,
            "none",
            seconds_below=MOST_SECONDS_TO_COMPILE["flow"],
        ),
    ]


def _million() -> Row:
    task, model = staircase_task(), ss.SeparateAttention(heads=5, rank=1)

    def ours() -> None:
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
        ours=repeat(ours, 3).best,
        baseline=None,
        against="none",
        seconds_below=MOST_SECONDS_OF_A_MILLION,
        note="once compiled",
    )
