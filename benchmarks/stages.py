"""Stages of loss curves: precision, recall and speed of finding drops.

The curves are random staircases of one to five logistic drops, on linear or logarithmic time grids.
The signal-to-noise ratio is the height of the smallest drop over the standard deviation of the
noise at a point, which is white or follows x' = .8 x + white.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from benchmarks.table import Findings, Row, Scaling, Score
from benchmarks.timing import repeat
from saddlescope.measure import stages

RATIOS = (50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
CORRELATIONS = (0.0, 0.8)


@dataclass(frozen=True, eq=False)
class Staircase:
    """A curve without noise, and its drops."""

    time: np.ndarray
    curve: np.ndarray
    drops: np.ndarray
    """The time at which each drop is half done."""
    smallest: float
    """The height of the smallest drop."""


def draw_staircase(seed: int, points: int) -> Staircase:
    """One to five drops of heights .2 to 1, each a twentieth as wide as the pauses or less."""
    rng = np.random.default_rng([seed, 0])
    count = int(rng.integers(1, 6))
    heights = rng.uniform(0.2, 1.0, count)
    pauses = rng.uniform(1.0, 3.0, count + 1)
    positions = np.cumsum(pauses)
    widths = rng.uniform(0.005, 0.05, count)
    axis = np.linspace(0.0, positions[-1], points)
    steps = 1 / (1 + np.exp(np.clip((positions[:-1] - axis[:, None]) / widths, -500, 500)))
    # A logarithmic axis covers about three decades.
    logarithmic = bool(rng.integers(2))
    time, drops = (np.exp(axis), np.exp(positions[:-1])) if logarithmic else (axis, positions[:-1])
    return Staircase(time, heights.sum() - steps @ heights, drops, float(heights.min()))


def draw_noise(seed: int, points: int, correlation: float) -> np.ndarray:
    """Noise of standard deviation 1 at every point."""
    white = np.random.default_rng([seed, 1]).standard_normal(points + 1)
    start = [correlation * white[0]]
    return lfilter([np.sqrt(1 - correlation**2)], [1, -correlation], white[1:], zi=start)[0]


def score(ratio: float, correlation: float, curves: int, points: int) -> Score:
    """Precision and recall of the drops that `stages` finds on random staircases.

    A drop is found if a measured time is within a quarter of the gap to its neighbours.
    """
    hits = found = existing = 0
    for seed in range(curves):
        case = draw_staircase(seed, points)
        noise = draw_noise(seed, points, correlation)
        curve = case.curve + case.smallest / ratio * noise
        measured = np.array([drop.time for drop in stages(curve, case.time).drops])
        borders = np.concatenate([case.time[:1], case.drops, case.time[-1:]])
        gaps = np.diff(borders)
        near = (measured[:, None] > case.drops - gaps[:-1] / 4) & (
            measured[:, None] < case.drops + gaps[1:] / 4
        )
        hits += int(near.any(axis=0).sum())
        found += measured.size
        existing += case.drops.size
    noise_name = f"AR({correlation:g})" if correlation else "white"
    return Score(noise_name, ratio, hits / max(found, 1), hits / existing)


def measure(quick: bool) -> Findings:
    """The table of scores, and the cost of curves of up to a million points."""
    curves = 20 if quick else 300
    scores = tuple(
        score(ratio, correlation, curves, points=2000)
        for correlation in CORRELATIONS
        for ratio in RATIOS
    )
    sizes = (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000)
    seconds = []
    for points in sizes:
        case = draw_staircase(0, points)
        curve = case.curve + 0.1 * case.smallest * np.random.default_rng(0).standard_normal(points)
        seconds.append(repeat(lambda c=curve, t=case.time: stages(c, t), times=3).best)
    exponent, logarithm = np.polyfit(np.log(sizes[-2:]), np.log(seconds[-2:]), 1)
    scaling = Scaling(
        what="stages",
        axis="points",
        sizes=sizes,
        seconds=tuple(seconds),
        fitted_from=sizes[-2],
        exponent=float(exponent),
        prefactor=float(np.exp(logarithm)),
        expected=1.0,
        why="isotonic regression and medians are linear",
    )
    row = Row(f"stages of {sizes[-1]:,} points", seconds[-1], None, "—", seconds_below=5.0)
    return Findings("Stages", (row,), (scaling,), scores)
