"""Settings shared by several benchmarks."""

from __future__ import annotations

from typing import Any

import saddlescope as ss

EIGENVALUES = (0.4, 0.3, 0.2, 0.1)
CONTEXT_LENGTH = 31
SEEDS = 6
INIT_SCALE = 0.01

LOSS_ONLY = ss.Record(points=2, weights=False)


def staircase_task() -> ss.InContextRegression:
    """The papers' staircase task: D = 4, N = 31."""
    return ss.InContextRegression(EIGENVALUES, context_length=CONTEXT_LENGTH)


def power_law_task(dimension: int) -> ss.InContextRegression:
    """A task of any dimension, with eigenvalues proportional to 1/d and of sum 1."""
    return ss.InContextRegression(ss.Spectrum.power_law(dimension), context_length=CONTEXT_LENGTH)


def initial_weights(model: ss.SeparateAttention, task: Any, seeds: int) -> list[dict[str, Any]]:
    """The weights that `train` starts its seeds with."""
    start = ss.RandomStart(INIT_SCALE)
    return [start.weights(model, task, seed) for seed in range(seeds)]
