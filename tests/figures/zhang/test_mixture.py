"""The optimum and the one head that the figures of pooled tasks are judged by."""

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.attention.formulas.blocks import block_coefficients
from saddlescope.figures.zhang.mixture import drive_matrix, loss_at, mixture, one_head, optimum

MODEL = ss.MergedAttention(heads=3, blocks="full")


def _weights(dimension: int, seeds: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = MODEL.shapes(dimension)
    return {name: generator.standard_normal((seeds, *shape)) for name, shape in shapes.items()}


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_drive_is_the_slope_of_the_loss_along_one_head(share):
    """−½ of the loss's slope in a head's scale, at zero, is aᵀ M b (T5)."""
    statistics = mixture(3, 7, share).block_statistics()
    head = {name: values[0, :1] for name, values in _weights(3, 1).items()}
    row = np.append(head["nu"][0], head["v"][0])
    column = np.append(head["U"][0].ravel(), head["u"][0])
    theta = block_coefficients(head, np)
    step = 1e-6
    slope = (loss_at(statistics, step * theta) - loss_at(statistics, -step * theta)) / (2 * step)
    assert row @ drive_matrix(statistics) @ column == pytest.approx(-slope / 2, rel=1e-6)


def test_the_optimum_has_no_slope_and_the_loss_of_theory():
    """At share 0 the best linear predictor is the pure task's (T7)."""
    task = mixture(3, 7, 0.0)
    statistics = task.block_statistics()
    best = optimum(statistics)
    slope = statistics.second_moment @ best.coefficients - statistics.cross_moment
    np.testing.assert_allclose(slope, 0, atol=1e-12)
    assert best.loss == pytest.approx(ss.theory.plateau_losses(task.law)[-1], rel=1e-9)


def test_one_head_has_the_length_of_the_growing_part():
    """Its value and its column are equally long, and of a start on the drive it keeps all."""
    statistics = mixture(3, 7, 0.4).block_statistics()
    alone = one_head(statistics, _weights(3, 2))
    assert not any(values[:, 1:].any() for values in alone.values())
    row = np.concatenate([alone["nu"][:, 0], alone["v"][:, :1]], axis=1)
    column = np.concatenate([alone["U"][:, 0].reshape(2, -1), alone["u"][:, 0]], axis=1)
    np.testing.assert_allclose(np.linalg.norm(row, axis=1), np.linalg.norm(column, axis=1))
    again = one_head(statistics, alone)
    for name, values in alone.items():
        np.testing.assert_allclose(again[name], values, atol=1e-14)
