"""T19 and T18 against training where covariances do not commute."""

import numpy as np
import pytest

import saddlescope as ss

# One shape for all: it is compiled once.
MODEL = ss.SeparateAttention(heads=4)
SEEDS = 6


def crossing(seed: int) -> ss.InContextRegression:
    generator = np.random.default_rng(seed)

    def covariance() -> np.ndarray:
        basis = np.linalg.qr(generator.standard_normal((3, 3)))[0]
        return (basis * np.exp(generator.uniform(-1.5, 0.5, 3))) @ basis.T

    return ss.InContextRegression(
        covariance=covariance(),
        context_length=20,
        task_covariance=covariance(),
        query_covariance=covariance(),
    )


def train(task: ss.InContextRegression, scale: float, until: float) -> ss.Trajectory:
    record = ss.Record(points=1500, spacing="log")
    flow = ss.GradientFlow(until=until)
    return ss.train(MODEL, task, init_scale=scale, seeds=SEEDS, method=flow, record=record)


def test_plateaus_lie_at_the_levels_of_the_largest_drops() -> None:
    task = crossing(5)
    levels = ss.theory.plateau_losses(task)
    for seed in train(task, 3e-3, 100_000.0).compare().seeds:
        rests = [seed.drops[0].loss_before, *(drop.loss_after for drop in seed.drops)]
        np.testing.assert_allclose(rests, levels, atol=2e-4 * levels[0])


@pytest.mark.parametrize(("scale", "worst", "median"), [(0.01, 3e-4, 1e-4), (0.001, 2e-5, 4e-6)])
def test_the_first_drop_comes_when_one_run_of_one_head_says(
    scale: float, worst: float, median: float
) -> None:
    """At w → 0 with the square of w, where c_2 is well below c_1."""
    for task in (crossing(0), crossing(1)):
        drives = np.linalg.svd(task.moments().drive)[1]
        assert drives[1] < 0.7 * drives[0]
        comparison = train(task, scale, 60 / scale / drives[0]).compare()
        errors = np.abs([seed.drops[0].error for seed in comparison.seeds])
        assert errors.max() < worst
        assert np.median(errors) < median
