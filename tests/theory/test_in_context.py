"""Section 5: what the model computes in context."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, Prompts
from saddlescope.theory import (
    in_context_predictor,
    least_squares,
    minimum,
    plateau_losses,
    principal_component_regression,
)


@pytest.mark.parametrize("learned", [1, 2, 4])
def test_a_long_context_makes_it_principal_component_regression(learned):
    means, spreads = [], []
    for length in (200, 2000):
        task = InContextRegression([0.4, 0.3, 0.2, 0.1], length)
        prompts = task.sample(1000, seed=1)
        ours = in_context_predictor(task, learned)(prompts)
        theirs = principal_component_regression(prompts, task.spectrum, learned)
        squares = (ours - theirs) ** 2
        means.append(squares.mean())
        spreads.append(squares.std() / squares.mean() / np.sqrt(prompts.count))
    # The mean square distance is of order 1/N, known to four standard errors; the next order of a
    # context of 200 is D/N.
    tolerance = 4 * np.hypot(*spreads) + 4 / 200
    assert np.log(means[0] / means[1]) == pytest.approx(np.log(10), abs=tolerance)


@pytest.mark.parametrize("learned", range(5))
def test_its_error_is_the_plateau(paper, learned):
    prompts = paper.sample(20_000, seed=0)
    error = (in_context_predictor(paper, learned)(prompts) - prompts.target) ** 2
    spread = error.std() / np.sqrt(prompts.count)
    assert error.mean() == pytest.approx(plateau_losses(paper)[learned], abs=4 * spread)


def test_any_subset_and_the_minimum(paper, skewed):
    prompts = paper.sample(3)
    np.testing.assert_allclose(
        in_context_predictor(paper, [3, 0, 2, 1])(prompts),
        in_context_predictor(paper)(prompts),
        rtol=1e-12,
    )
    assert in_context_predictor(paper, 0)(prompts).tolist() == [0.0] * 3
    best = in_context_predictor(skewed).effective_map
    np.testing.assert_array_equal(best, minimum(skewed).effective_map)


def test_all_components_are_least_squares(paper):
    prompts = paper.sample(10, seed=2)
    expected = least_squares(prompts)
    np.testing.assert_allclose(
        principal_component_regression(prompts, paper.spectrum, 4), expected, rtol=1e-10
    )
    # Without noise and with N ≥ D it finds the task.
    np.testing.assert_allclose(expected, prompts.target, atol=1e-12)
    assert not principal_component_regression(prompts, paper.spectrum, 0).any()


def test_least_squares_of_each_prompts_own_length():
    task = InContextRegression([0.6, 0.4], {2: 0.5, 9: 0.5}, label_noise=0.5)
    prompts = task.sample(20, seed=0)
    for p, length in enumerate(prompts.lengths.astype(int)):
        alone = Prompts(
            prompts.x[p : p + 1, [*range(length), -1]], prompts.y[p : p + 1, [*range(length), -1]]
        )
        np.testing.assert_allclose(least_squares(alone), least_squares(prompts)[p], rtol=1e-10)


def test_at_a_point_of_covariances_that_do_not_commute(skewed):
    """The loss of what it predicts, on drawn prompts, is that of the level (T19)."""
    prompts = skewed.sample(20_000, seed=0)
    for count, level in enumerate(plateau_losses(skewed)):
        error = (in_context_predictor(skewed, count)(prompts) - prompts.target) ** 2
        assert error.mean() == pytest.approx(level, abs=4 * error.std() / np.sqrt(len(error)))


def test_bad_input_is_named(paper, disagreeing):
    prompts = paper.sample(2)
    with pytest.raises(InvalidInput, match="learned"):
        in_context_predictor(paper, 5)
    with pytest.raises(TheoryDoesNotApply, match="agree"):
        in_context_predictor(disagreeing, 1)
    assert in_context_predictor(disagreeing, [1]).effective_map.any()
    with pytest.raises(InvalidInput, match="dimension"):
        in_context_predictor(disagreeing, [1])(prompts)
    with pytest.raises(InvalidInput, match="components"):
        principal_component_regression(prompts, paper.spectrum, 5)
    with pytest.raises(InvalidInput, match="dimension"):
        principal_component_regression(prompts, [0.5, 0.5], 1)
