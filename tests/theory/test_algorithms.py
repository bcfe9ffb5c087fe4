"""Section 5: the algorithms themselves, against the formulas that define them."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, Prompts, Spectrum, TaskPool
from saddlescope.theory import (
    algorithms,
    bayes_optimal,
    in_context_predictor,
    least_squares,
    ridge,
)

SKEWED = [[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.2]]
NOISY = InContextRegression(
    [0.9, 0.6, 0.3], {2: 0.5, 9: 0.5}, task_covariance=SKEWED, label_noise=0.7
)


def alone(prompts: Prompts, place: int) -> Prompts:
    """One prompt without its padding."""
    inside = [*range(int(prompts.lengths[place])), -1]
    return Prompts(prompts.x[[place]][:, inside], prompts.y[[place]][:, inside])


@pytest.mark.parametrize("noise", [0.7, 0.0])
def test_bayes_is_the_conditional_mean_of_gaussians(noise):
    # With two pairs and three dimensions the context leaves a direction open.
    task = InContextRegression([0.9, 0.6, 0.3], 2, task_covariance=SKEWED, label_noise=noise)
    prompts, prior = task.sample(20, seed=0), np.array(SKEWED)
    context = prompts.x[:, :-1]
    labels = context @ prior @ context.mT + noise**2 * np.eye(2)
    cross = np.einsum("pd,de,pne->pn", prompts.query, prior, context)
    expected = (np.linalg.solve(labels, prompts.y[:, :-1, None])[:, :, 0] * cross).sum(1)
    np.testing.assert_allclose(bayes_optimal(prompts, task), expected, rtol=1e-9, atol=1e-11)


def test_bayes_has_the_least_error():
    # Contexts long enough for the error of least squares to have a variance.
    task = InContextRegression(
        [0.9, 0.6, 0.3], {8: 0.5, 12: 0.5}, task_covariance=SKEWED, label_noise=0.7
    )
    prompts = task.sample(20_000, seed=1)
    best = (bayes_optimal(prompts, task) - prompts.target) ** 2
    others = [one for one in algorithms(task) if one.name != "bayes_optimal"]
    assert len(others) == 3 + 4
    for one in others:
        excess = (one(prompts) - prompts.target) ** 2 - best
        assert excess.mean() > 3 * excess.std() / np.sqrt(prompts.count), one.name


def test_a_task_covariance_without_full_rank_is_known_to_bayes():
    tasks = Spectrum([1.0, 0.0], basis=[[0.6, -0.8], [0.8, 0.6]])
    task = InContextRegression([0.5, 0.4], 1, task_covariance=tasks)
    prompts = task.sample(20, seed=2)
    # One pair tells the one number that is not known.
    np.testing.assert_allclose(bayes_optimal(prompts, task), prompts.target, rtol=1e-9)
    assert not np.allclose(least_squares(prompts), prompts.target, rtol=1e-2)


def test_ridge_against_its_normal_equations():
    prompts = NOISY.sample(20, seed=3)
    for place in range(prompts.count):
        one = alone(prompts, place)
        x, y = one.x[0, :-1], one.y[0, :-1]
        expected = one.query[0] @ np.linalg.inv(x.T @ x + 0.3 * np.eye(3)) @ x.T @ y
        assert ridge(prompts, 0.3)[place] == pytest.approx(expected, rel=1e-10)


def test_where_algorithms_meet():
    white = InContextRegression([0.9, 0.6, 0.3], 9, label_noise=0.7)
    prompts = white.sample(20, seed=4)
    named = {one.name: one(prompts) for one in algorithms(white)}
    np.testing.assert_allclose(named["ridge"], named["bayes_optimal"], rtol=1e-10)
    np.testing.assert_allclose(named["principal_components_3"], named["least_squares"], rtol=1e-9)
    np.testing.assert_array_equal(
        named["preconditioned_step"], in_context_predictor(white)(prompts)
    )
    assert not named["principal_components_0"].any()
    chosen = {one.name: one(prompts) for one in algorithms(white, penalty=0)}
    np.testing.assert_array_equal(chosen["ridge"], named["least_squares"])


@pytest.mark.parametrize("variance", [0.25, 4.0])
def test_ridge_knows_how_large_the_tasks_are(variance):
    # σ²D/tr Σ_w is Bayes-optimal wherever Σ_w is a multiple of the identity.
    task = InContextRegression([0.9, 0.6, 0.3], 5, task_covariance=[variance] * 3, label_noise=0.7)
    prompts = task.sample(20, seed=4)
    named = {one.name: one(prompts) for one in algorithms(task)}
    np.testing.assert_allclose(named["ridge"], named["bayes_optimal"], rtol=1e-10)


@pytest.mark.parametrize("name", [one.name for one in algorithms(NOISY)])
def test_each_prompts_own_length_counts(name):
    prompts = NOISY.sample(12, seed=5)
    assert set(prompts.lengths) == {2, 9}
    (algorithm,) = (one for one in algorithms(NOISY) if one.name == name)
    together = algorithm(prompts)
    for place in range(prompts.count):
        np.testing.assert_allclose(together[place], algorithm(alone(prompts, place)), rtol=1e-9)


def test_bad_input_is_named():
    prompts = NOISY.sample(2)
    with pytest.raises(InvalidInput, match="penalty"):
        ridge(prompts, -1.0)
    with pytest.raises(InvalidInput, match="dimension"):
        bayes_optimal(prompts, InContextRegression([0.5, 0.5], 9))
    with pytest.raises(InvalidInput, match="task"):
        algorithms(prompts)
    with pytest.raises(TheoryDoesNotApply, match=r"task\.law"):
        algorithms(TaskPool.draw([0.5, 0.5], 9, count=2))
