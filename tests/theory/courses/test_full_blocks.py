"""T5, T6, T10 for all blocks: the optimum, the drive and the one head that small weights become."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saddlescope.attention import MergedAttention, RandomStart
from saddlescope.errors import InvalidInput
from saddlescope.task import InContextRegression, Statistics, TaskPool
from saddlescope.theory import (
    block_loss,
    block_optimum,
    drive_matrix,
    minimum,
    one_head,
    plateau_losses,
)

MODEL = MergedAttention(heads=3, blocks="full")


def mixture(dimension, context_length, share):
    return TaskPool.draw([1 / dimension] * dimension, context_length, count=1, share=share)


def random_weights(dimension, seeds):
    generator = np.random.default_rng(0)
    shapes = MODEL.shapes(dimension)
    return {name: generator.standard_normal((seeds, *shape)) for name, shape in shapes.items()}


def block_matrix(weights):
    """Of each head the value row (ν, v) and the column (U; u)."""
    row = np.concatenate([weights["nu"], weights["v"][:, None]], axis=1)
    column = np.concatenate([weights["U"].reshape(len(row), -1), weights["u"]], axis=1)
    return row, column


def coefficients(row, column):
    """θ of T5, entry by entry."""
    size = row.shape[1] - 1
    matrices, last = column[:, : size**2].reshape(-1, size, size), column[:, size**2 :]
    cubic = np.einsum("ha,hbc->abc", row[:, :-1], matrices)
    square = np.einsum("h,hab->ab", row[:, -1], matrices)
    square = square + np.einsum("ha,hb->ab", row[:, :-1], last)
    return np.concatenate([cubic.ravel(), square.ravel(), row[:, -1] @ last])


def flow_losses(statistics, weights, times):
    """The loss of the whole flow, by the chain rule on the bilinear form."""
    row, column = block_matrix(weights)

    def unpack(state):
        split = np.split(state, [row.size])
        return split[0].reshape(row.shape), split[1].reshape(column.shape)

    def velocity(_, state):
        a, b = unpack(state)
        left = statistics.cross_moment - statistics.second_moment @ coefficients(a, b)
        force = drive_matrix(
            Statistics(statistics.second_moment, left, 1.0, None, None, blocks="full")
        )
        return np.concatenate([(b @ force.T).ravel(), (a @ force).ravel()])

    solved = solve_ivp(
        velocity,
        (0, times[-1]),
        np.concatenate([row.ravel(), column.ravel()]),
        method="LSODA",
        rtol=1e-9,
        atol=1e-12,
        t_eval=times,
    )
    return np.array([block_loss(statistics, coefficients(*unpack(one))) for one in solved.y.T])


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_drive_is_the_slope_of_the_loss_along_one_head(share):
    """−½ of the loss's slope in a head's scale, at zero, is aᵀ M b (T5)."""
    statistics = mixture(3, 7, share).block_statistics()
    head = {name: values[0, :1] for name, values in random_weights(3, 1).items()}
    row, column = block_matrix(head)
    theta, step = coefficients(row, column), 1e-6
    rise = block_loss(statistics, step * theta) - block_loss(statistics, -step * theta)
    slope = rise / (2 * step)
    assert row[0] @ drive_matrix(statistics) @ column[0] == pytest.approx(-slope / 2, rel=1e-6)


def test_the_optimum_has_no_slope_and_the_loss_of_theory():
    """At share 0 the best linear predictor is the pure task's (T7)."""
    task = mixture(3, 7, 0.0)
    statistics, best = task.block_statistics(), block_optimum(task)
    slope = statistics.second_moment @ best.coefficients - statistics.cross_moment
    np.testing.assert_allclose(slope, 0, atol=1e-12)
    assert best.loss == pytest.approx(plateau_losses(task.law)[-1], rel=1e-9)
    assert best.loss == pytest.approx(minimum(task.law).loss, rel=1e-9)


def test_the_optimum_of_prompts_is_their_least_squares():
    prompts = mixture(2, 7, 0.4).sample(300, seed=1)
    best = block_optimum(prompts.statistics("full"))
    features = prompts.block_features
    expected = np.linalg.lstsq(features, prompts.target, rcond=1e-10)[0]
    np.testing.assert_allclose(features @ best.coefficients, features @ expected, atol=1e-8)
    assert best.loss == pytest.approx(((prompts.target - features @ expected) ** 2).mean())


def test_one_head_has_the_length_of_the_growing_part():
    """Its value and its column are equally long, and of a start on the drive it keeps all."""
    task = mixture(3, 7, 0.4)
    alone = one_head(task, random_weights(3, 2))
    assert not any(values[:, 1:].any() for values in alone.values())
    for seed in range(2):
        row, column = block_matrix({name: values[seed] for name, values in alone.items()})
        assert np.linalg.norm(row) == pytest.approx(np.linalg.norm(column))
    again = one_head(task, alone)
    for name, values in alone.items():
        np.testing.assert_allclose(again[name], values, atol=1e-14)


def test_the_one_head_of_a_seed_is_that_of_the_ensemble():
    task, weights = mixture(3, 7, 0.4), random_weights(3, 2)
    together = one_head(task, weights)
    first = one_head(task, {name: values[0] for name, values in weights.items()})
    for name, values in first.items():
        np.testing.assert_allclose(values, together[name][0], atol=1e-14)


def test_small_heads_move_as_the_one_head():
    """Its error falls with the scale of the start."""
    task = mixture(2, 7, 0.4)
    statistics, times = task.block_statistics(), np.linspace(0, 60, 61)
    errors = []
    for scale in (1e-2, 1e-4):
        weights = RandomStart(scale).weights(MODEL, task, seed=0)
        whole = flow_losses(statistics, weights, times)
        alone = flow_losses(statistics, one_head(task, weights), times)
        assert whole[-1] < 0.8 * whole[0]
        errors.append(np.abs(whole - alone).max())
    assert errors[0] < 0.05
    assert errors[1] < errors[0] / 10


def test_bad_input_is_named():
    task = InContextRegression([0.4, 0.1], 5)
    with pytest.raises(InvalidInput, match="blocks"):
        block_optimum(task.sample(5).statistics())
    with pytest.raises(InvalidInput, match="coefficients"):
        block_loss(task, np.zeros(3))
    with pytest.raises(InvalidInput, match="weights"):
        one_head(task, {"v": np.zeros(2)})
