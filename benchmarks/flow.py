"""Gradient flow of an ensemble, against SciPy's LSODA on one of its seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import saddlescope as ss
from benchmarks.settings import INIT_SCALE, SEEDS, initial_weights, staircase_task
from benchmarks.table import Findings, Row
from benchmarks.timing import alternate

UNTIL = 60_000.0
MODEL = ss.SeparateAttention(heads=5, rank=1)


def measure(quick: bool) -> Findings:
    """To t = 60 000 at the same tolerances."""
    task = staircase_task()
    method = ss.GradientFlow(until=UNTIL)
    runs: list[ss.Trajectory] = []
    losses: list[float] = []

    def ours() -> None:
        runs[:] = [ss.train(MODEL, task, method=method, init_scale=INIT_SCALE, seeds=SEEDS)]

    def baseline() -> None:
        losses[:] = [lsoda(task, initial_weights(MODEL, task, 1)[0], method)]

    mine, theirs = alternate(ours, baseline, times=2 if quick else 7)
    if not np.isclose(losses[0], runs[0].loss[0, -1], rtol=1e-6):
        raise RuntimeError(f"LSODA ends at {losses[0]}, ours at {runs[0].loss[0, -1]}")
    return Findings(
        "Gradient flow to t = 60 000 (D = 4, H = 5, R = 1)",
        rows=(
            Row(
                what="flow of 6 seeds, 1000 records",
                ours=mine.best,
                baseline=theirs.best,
                against="SciPy LSODA, one seed",
                ratio_above=1.0,
                note=f"rtol {method.rtol:g}, atol {method.atol:g} in both",
            ),
        ),
    )


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
