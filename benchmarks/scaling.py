"""How the cost scales with D, H, R, seeds and prompts, and the exponents expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import saddlescope as ss
from benchmarks.settings import (
    CONTEXT_LENGTH,
    INIT_SCALE,
    LOSS_ONLY,
    power_law_task,
    staircase_task,
)
from benchmarks.table import Findings, Scaling
from benchmarks.timing import repeat, seconds_per_step
from saddlescope.dynamics._job import Job

LEARNING_RATE = 0.02
_DIMENSIONS = (4, 16, 64, 128, 256, 512, 1024)
# Below this, fixed costs dominate on a GPU.
_LARGE_ON_A_GPU = 512
_ON_A_GPU = (256, _LARGE_ON_A_GPU, 1024, 2048, 4096)
_RANK = 16
_PROMPTS = (2_000, 8_000, 32_000, 128_000)


@dataclass(frozen=True)
class Sweep:
    """A cost measured at several sizes."""

    what: str
    axis: str
    sizes: tuple[int, ...]
    fit_from: int
    expected: float
    why: str
    cost: Callable[[int, int], float]
    """Seconds, given a size and how often to time it."""
    in_quick: bool = True

    def measure(self, quick: bool) -> Scaling:
        """Time every size and fit the exponent to those from `fit_from` on."""
        # A quick run fits two sizes and leaves out the largest, which costs most.
        inner = [size for size in self.sizes[:-1] if size >= self.fit_from]
        sizes = (inner[0], inner[-1]) if quick else self.sizes
        seconds = tuple(self.cost(size, 2 if quick else 3) for size in sizes)
        kept = np.asarray(sizes) >= self.fit_from
        exponent, offset = np.polyfit(
            np.log(np.asarray(sizes)[kept]), np.log(np.asarray(seconds)[kept]), 1
        )
        return Scaling(
            what=self.what,
            axis=self.axis,
            sizes=sizes,
            seconds=seconds,
            fitted_from=self.fit_from,
            exponent=float(exponent),
            prefactor=float(np.exp(offset)),
            expected=self.expected,
            why=self.why,
        )


def measure(quick: bool) -> Findings:
    """Every sweep; a step is one of gradient descent on all seeds, recording only the loss."""
    return Findings(
        "How the cost grows",
        scalings=tuple(sweep.measure(quick) for sweep in _sweeps() if sweep.in_quick or not quick),
    )


def _sweeps() -> tuple[Sweep, ...]:
    prompts = staircase_task().sample(max(_PROMPTS))
    is_gpu = jax.default_backend() == "gpu"
    dimensions, large = (_ON_A_GPU, _LARGE_ON_A_GPU) if is_gpu else (_DIMENSIONS, 64)
    by_dimension = (
        Sweep(
            "a step, H = D",
            "D",
            dimensions,
            large,
            3,
            "HRD² (eigenbasis)",
            lambda size, times: _step(power_law_task(size), size, 1, 1, times),
        ),
        Sweep(
            "a step, H = 8",
            "D",
            dimensions,
            large,
            2,
            "HRD²",
            lambda size, times: _step(power_law_task(size), 8, 1, 1, times),
            in_quick=False,
        ),
        Sweep(
            "a step, H = 8, nothing commutes",
            "D",
            dimensions,
            large,
            3,
            "HRD² + D³",
            lambda size, times: _step(_noncommuting_task(size), 8, 1, 1, times),
            in_quick=False,
        ),
        Sweep(
            f"a step, H = 8, covariance of rank {_RANK}",
            "D",
            dimensions[dimensions.index(64) if 64 in dimensions else 0 :],
            large,
            0,
            "HRr²: what no weight feels is left out",
            lambda size, times: _step(_low_rank_task(size), 8, 1, 1, times),
            in_quick=False,
        ),
    )
    if is_gpu:
        return by_dimension
    return (
        *by_dimension,
        Sweep(
            "a step, D = 32",
            "H",
            (2, 8, 32, 64, 128, 256, 512),
            32,
            1,
            "HRD²",
            lambda size, times: _step(power_law_task(32), size, 1, 1, times),
        ),
        Sweep(
            "a step, D = 32, H = 8",
            "R",
            (1, 4, 8, 16, 32, 64),
            4,
            1,
            "HRD²",
            lambda size, times: _step(power_law_task(32), 8, size, 1, times),
        ),
        Sweep(
            "a step, D = 4, H = 5",
            "seeds",
            (1, 4, 16, 64, 256, 1024),
            16,
            1,
            "each seed on its own",
            lambda size, times: _step(staircase_task(), 5, 1, size, times),
        ),
        Sweep(
            "statistics, D = 4, N = 31",
            "P",
            _PROMPTS,
            _PROMPTS[1],
            1,
            "one pass over the prompts",
            lambda size, times: repeat(_first(prompts, size).statistics, times).best,
        ),
        Sweep(
            "a step on statistics, D = 4, H = 5",
            "P",
            _PROMPTS,
            _PROMPTS[0],
            0,
            "a step sees no prompts",
            lambda size, times: _step(_first(prompts, size).statistics(), 5, 1, 1, times),
        ),
    )


def _step(task: Any, heads: int, rank: int, seeds: int, times: int) -> float:
    model = ss.SeparateAttention(heads=heads, rank=rank)
    method = ss.GradientDescent(learning_rate=LEARNING_RATE, steps=10**8)
    start = ss.RandomStart(INIT_SCALE)
    job = Job(ss.Setting(model, task, method, init=start, seeds=seeds, record=LOSS_ONLY))
    begun = job.begin()

    def run(steps: int) -> None:
        jax.block_until_ready(job.advance(begun, steps)[0])

    return seconds_per_step(run, times)


def _noncommuting_task(dimension: int) -> ss.InContextRegression:
    """The covariance of queries shares no eigenvector with that of the context."""
    generator = np.random.default_rng(0)
    basis, _ = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    spectrum = ss.Spectrum.power_law(dimension)
    return ss.InContextRegression(
        spectrum,
        context_length=CONTEXT_LENGTH,
        query_covariance=ss.Spectrum(spectrum.eigenvalues, basis),
    )


def _low_rank_task(dimension: int) -> ss.InContextRegression:
    """Inputs in a random subspace."""
    generator = np.random.default_rng(0)
    basis, _ = np.linalg.qr(generator.standard_normal((dimension, dimension)))
    eigenvalues = np.zeros(dimension)
    eigenvalues[:_RANK] = ss.Spectrum.power_law(_RANK).eigenvalues
    return ss.InContextRegression(ss.Spectrum(eigenvalues, basis), context_length=CONTEXT_LENGTH)


def _first(prompts: ss.Prompts, count: int) -> ss.Prompts:
    return ss.Prompts(prompts.x[:count], prompts.y[:count])
