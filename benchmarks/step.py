"""A step of gradient descent on the population, against a hand-written loop compiled by numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import njit

import saddlescope as ss
from benchmarks.baselines import check_same, constants
from benchmarks.settings import (
    INIT_SCALE,
    LOSS_ONLY,
    SEEDS,
    initial_weights,
    power_law_task,
    staircase_task,
)
from benchmarks.table import Findings, Row
from benchmarks.timing import alternate

LEARNING_RATE = 0.02

# D → steps in one timed call (about a tenth of a second), and the target ratio.
_SIZES = {4: (100_000, 1 / 1.5), 16: (6_000, 1.0), 32: (1_200, 1.0), 64: (300, 1.0)}


def descend(v: Any, k: Any, q: Any, drive: Any, curvature: Any, rate: float, steps: int) -> None:
    """Move `v[S, H]`, `k, q[S, H, R, D]` in place by steps of T3 in the eigenbasis."""
    seeds, heads, rank, dimension = k.shape
    force = np.empty((dimension, dimension))
    on_query = np.empty(dimension)
    on_key = np.empty(dimension)
    for s in range(seeds):
        for _ in range(steps):
            force[:] = 0.0
            for i in range(heads):
                for r in range(rank):
                    for a in range(dimension):
                        scaled = v[s, i] * k[s, i, r, a]
                        for b in range(dimension):
                            force[a, b] += scaled * q[s, i, r, b]
            for a in range(dimension):
                for b in range(dimension):
                    force[a, b] = rate * (drive[a, b] - curvature[a, b] * force[a, b])
            for i in range(heads):
                change = 0.0
                for r in range(rank):
                    on_key[:] = 0.0
                    for a in range(dimension):
                        total = 0.0
                        key = k[s, i, r, a]
                        for b in range(dimension):
                            total += force[a, b] * q[s, i, r, b]
                            on_key[b] += force[a, b] * key
                        on_query[a] = total
                        change += key * total
                    for a in range(dimension):
                        k[s, i, r, a] += v[s, i] * on_query[a]
                        q[s, i, r, a] += v[s, i] * on_key[a]
                v[s, i] += change


# With fastmath, numba may reorder sums and so vectorise them.
_LOOPS = {"numba": njit(descend), "numba, fastmath": njit(fastmath=True)(descend)}


def measure(quick: bool) -> Findings:
    """Per seed and step, at several D with H = D + 1, R = 1."""
    sizes = {size: _SIZES[size] for size in ((4, 16) if quick else _SIZES)}
    return Findings(
        "Gradient descent on the population, per seed and step (H = D + 1, R = 1, 6 seeds)",
        rows=tuple(
            row
            for size, (steps, ratio) in sizes.items()
            for row in _compare(size, steps, ratio, times=5 if quick else 15)
        ),
    )


def _compare(dimension: int, steps: int, ratio: float, times: int) -> list[Row]:
    task = staircase_task() if dimension == 4 else power_law_task(dimension)
    model = ss.SeparateAttention(heads=dimension + 1, rank=1)
    method = ss.GradientDescent(learning_rate=LEARNING_RATE, steps=steps)
    starts = initial_weights(model, task, SEEDS)
    start = {name: np.stack([weights[name] for weights in starts]) for name in "vkq"}
    drive, curvature = constants(task, np.float64)
    runs: list[ss.Trajectory] = []
    ends: list[dict[str, Any]] = []

    def run_ours() -> None:
        runs[:] = [
            ss.train(
                model, task, method=method, init_scale=INIT_SCALE, seeds=SEEDS, record=LOSS_ONLY
            )
        ]

    def run_baseline(loop: Callable[..., None]) -> None:
        weights = {name: array.copy() for name, array in start.items()}
        loop(*weights.values(), drive, curvature, 2 * LEARNING_RATE, steps)
        ends[:] = [weights]

    rows = []
    work = SEEDS * steps
    for name, loop in _LOOPS.items():
        ours, baseline = alternate(run_ours, partial(run_baseline, loop), times)
        # The order of the arithmetic differs; rounding errors grow along a drop.
        check_same(runs[0].weights(), ends[0], 1e-6)
        rows.append(
            Row(
                what=f"population step, D = {dimension}",
                ours=ours.best / work,
                baseline=baseline.best / work,
                against=f"{name}, one thread",
                ratio_above=ratio if name == "numba" else None,
            )
        )
    return rows
