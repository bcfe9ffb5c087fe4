"""Gradient flow against SciPy's LSODA: an ensemble, long rests, and stiff extremes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import saddlescope as ss
from benchmarks.settings import (
    CONTEXT_LENGTH,
    INIT_SCALE,
    LOSS_ONLY,
    SEEDS,
    initial_weights,
    staircase_task,
)
from benchmarks.table import Findings, Row
from benchmarks.timing import alternate, repeat

UNTIL = 60_000.0
# Rests last as 1/w.
SCALES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
REST = 600.0
MOST_FOR_A_REST = 2.5
MODEL = ss.SeparateAttention(heads=5, rank=1)
# Many more weights than entries of the effective map.
WIDE = ss.SeparateAttention(heads=17)
WIDE_TASK = ss.InContextRegression(np.arange(8, 0, -1) / 36, CONTEXT_LENGTH)


def measure(quick: bool) -> Findings:
    """The ensemble to t = 60 000 and the rests at the same tolerances, then the extremes."""
    times = 2 if quick else 7
    return Findings(
        "Gradient flow (D = 4, H = 5, R = 1)",
        rows=(_ensemble(times), *_rests(times), *_extremes(times)),
    )


def _ensemble(times: int) -> Row:
    task = staircase_task()
    method = ss.GradientFlow(until=UNTIL)
    runs: list[ss.Trajectory] = []
    losses: list[float] = []

    def run_ours() -> None:
        runs[:] = [ss.train(MODEL, task, method=method, init_scale=INIT_SCALE, seeds=SEEDS)]

    def run_baseline() -> None:
        starts = initial_weights(MODEL, task, SEEDS)
        losses[:] = [lsoda(task, start, method) for start in starts]

    ours, baseline = alternate(run_ours, run_baseline, times)
    _check_end(losses[0], runs[0])
    return Row(
        what=f"{SEEDS} seeds to t = 60 000, 1000 records",
        ours=ours.best,
        baseline=baseline.best,
        against="SciPy LSODA, seed by seed",
        # All seeds in the time that LSODA takes for one.
        ratio_above=float(SEEDS),
        note=f"rtol {method.rtol:g}, atol {method.atol:g} in both",
    )


def _rests(times: int) -> list[Row]:
    """One seed to t = 600/w: the cost of longer rests, and of many heads."""
    rows = [
        _rest(MODEL, staircase_task(), scale, times, f"one seed to t = 600/w, w = {scale:g}")
        for scale in SCALES
    ]
    shortest, longest = rows[0], rows[-1]
    rows.append(
        Row(
            what=f"the rest at w = {SCALES[-1]:g}",
            ours=longest.ours,
            baseline=shortest.ours,
            against=f"that at w = {SCALES[0]:g}",
            ratio_above=1 / MOST_FOR_A_REST,
        )
    )
    rows.append(_rest(WIDE, WIDE_TASK, 1e-4, times, "D = 8, H = 17 to t = 600/w, w = 1e-4"))
    return rows


def _rest(
    model: ss.SeparateAttention,
    task: ss.InContextRegression,
    scale: float,
    times: int,
    what: str,
) -> Row:
    method = ss.GradientFlow(until=REST / scale)
    start = ss.RandomStart(scale).weights(model, task, 0)
    runs: list[ss.Trajectory] = []
    losses: list[float] = []

    def run_ours() -> None:
        runs[:] = [ss.train(model, task, method=method, init_scale=scale, record=LOSS_ONLY)]

    def run_baseline() -> None:
        losses[:] = [lsoda(task, start, method)]

    ours, baseline = alternate(run_ours, run_baseline, times)
    _check_end(losses[0], runs[0])
    return Row(
        what=what,
        ours=ours.best,
        baseline=baseline.best,
        against="SciPy LSODA",
        ratio_above=1.0,
        note=runs[0].dataset.attrs["solver"],
    )


def _extremes(times: int) -> list[Row]:
    """Very large weights and very different eigenvalues, to long times."""
    far_apart = ss.InContextRegression([1e8, 1.0], CONTEXT_LENGTH)
    method = ss.GradientFlow(until=1e9)
    settings = {
        "init_scale 100, until 1e9": (MODEL, staircase_task(), 100.0),
        "condition number 1e8, until 1e9": (ss.SeparateAttention(2), far_apart, 0.1),
        "both": (ss.SeparateAttention(2), far_apart, 100.0),
    }
    rows = []
    for what, (model, task, scale) in settings.items():
        run = partial(ss.train, model, task, method=method, init_scale=scale, record=LOSS_ONLY)
        seconds = repeat(run, times).best
        rows.append(Row(what, seconds, baseline=None, against="none", seconds_below=5.0))
    return rows


def _check_end(loss: float, run: ss.Trajectory) -> None:
    if not np.isclose(loss, run.loss[0, -1], rtol=1e-6):
        raise RuntimeError(f"LSODA ends at {loss}, ours at {run.loss[0, -1]}")


def lsoda(task: ss.InContextRegression, weights: dict[str, Any], method: ss.GradientFlow) -> float:
    """The loss at the end of T3's flow in the eigenbasis, R = 1."""
    moments = task.moments()
    drive = moments.drive
    curvature = np.outer(np.diagonal(moments.summary), np.diagonal(moments.query))
    heads, _, dimension = weights["k"].shape

    def split(vector: Any) -> tuple[Any, Any, Any]:
        matrices = vector[heads:].reshape(2, heads, dimension)
        return vector[:heads], matrices[0], matrices[1]

    def velocity(_: float, vector: Any) -> Any:
        v, k, q = split(vector)
        keys = v[:, None] * k
        force = drive - curvature * (keys.T @ q)
        on_query, on_key = q @ force.T, k @ force
        return np.concatenate(
            [(k * on_query).sum(1), (v[:, None] * on_query).ravel(), (v[:, None] * on_key).ravel()]
        )

    start = np.concatenate([weights[name].ravel() for name in "vkq"])
    solution = solve_ivp(
        velocity, (0.0, method.until), start, method="LSODA", rtol=method.rtol, atol=method.atol
    )
    v, k, q = split(solution.y[:, -1])
    effective_map = (v[:, None] * k).T @ q
    response = curvature * effective_map - 2 * drive
    return float(moments.label_power + (effective_map * response).sum())
