"""Predictions of drop times against training the same seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import saddlescope as ss
from benchmarks.settings import INIT_SCALE, staircase_task
from benchmarks.table import Findings, Row
from benchmarks.timing import repeat

MODEL = ss.SeparateAttention(heads=5, rank=1)
UNTIL = 60_000.0
# Targets in seconds per seed: 2 s for 100 000 first drops, 5 s for 1 000 races.
FIRST_DROP, STAIRCASE, RACE = 20e-6, 100e-6, 5e-3


def measure(quick: bool) -> Findings:
    """First drops and staircases by quadrature (T18), and the race of the heads (T13)."""
    task = staircase_task()
    few, some, many, trained = (64, 1000, 1000, 64) if quick else (1000, 10**4, 10**5, 512)
    explicit = ss.GradientFlow(until=UNTIL, solver="explicit")

    def starts(count: int) -> ss.attention.Weights:
        return ss.RandomStart(INIT_SCALE).ensemble(MODEL, task, np.arange(count))

    def train() -> None:
        ss.train(MODEL, task, method=explicit, init_scale=INIT_SCALE, seeds=trained, keep="drops")

    def race() -> None:
        ss.predict(
            MODEL, task, method=explicit, init_scale=INIT_SCALE, seeds=list(range(few)), by="race"
        )

    baseline = repeat(train, times=1).best / trained
    for_drop, for_staircase = starts(many), starts(some)

    def row(what: str, call: Callable[[], object], count: int, most: float) -> Row:
        return Row(
            what=f"{what}, a seed of {count}",
            ours=repeat(call, times=2).best / count,
            baseline=baseline,
            against="training it by explicit steps",
            seconds_below=most,
        )

    return Findings(
        "Predicted drop times (D = 4, H = 5, R = 1, w = .01, to t = 60 000)",
        rows=(
            row(
                "first drop (T18)",
                lambda: ss.theory.first_drop_times(MODEL, task, for_drop),
                many,
                FIRST_DROP,
            ),
            row(
                "staircase (T18)",
                lambda: ss.theory.dormant_staircase(MODEL, task, for_staircase),
                some,
                STAIRCASE,
            ),
            row("race of the heads (T13)", race, few, RACE),
        ),
    )
