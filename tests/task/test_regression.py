"""The law of in-context regression and its sampler."""

import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.task import ContextLengths, InContextRegression, Spectrum, regression

TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
ROTATED = TURN @ np.diag([0.5, 0.3, 0.2]) @ TURN.T


def test_what_is_not_given_is_the_papers() -> None:
    task = InContextRegression([0.5, 0.3, 0.2], 31)
    np.testing.assert_array_equal(task.task_matrix, np.eye(3))
    np.testing.assert_array_equal(task.query_matrix, task.covariance)
    assert task.label_noise == 0.0
    assert task.dimension == 3
    assert repr(task) == "InContextRegression(Spectrum([0.5, 0.3, 0.2]), context_length=31)"


def test_every_convention_shows_in_the_repr() -> None:
    task = InContextRegression([1.0], 3, [2.0], [3.0], 0.5)
    for part in ("task_covariance", "query_covariance", "label_noise=0.5"):
        assert part in repr(task)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"spectrum": [0.4, -0.1]}, "spectrum"),
        ({"spectrum": "white:x"}, "spectrum"),
        ({"context_length": 0}, "context_length"),
        ({"task_covariance": [1.0]}, "task_covariance.dimension"),
        ({"query_covariance": [1.0, 1.0, 1.0]}, "query_covariance.dimension"),
        ({"task_covariance": [1.0, -1.0]}, "task_covariance"),
        ({"query_covariance": [np.nan, 1.0]}, "query_covariance"),
        ({"task_covariance": "word"}, "task_covariance"),
        ({"query_covariance": [[1.0, 2.0], [0.0, 1.0]]}, "query_covariance"),
        ({"label_noise": -1.0}, "label_noise"),
        ({"label_noise": float("nan")}, "label_noise"),
    ],
)
def test_a_refusal_names_the_field_that_is_wrong(arguments: dict, field: str) -> None:
    good = {"spectrum": [0.4, 0.1], "context_length": 5}
    with pytest.raises(InvalidInput) as refusal:
        InContextRegression(**{**good, **arguments})
    assert refusal.value.field == field
    assert "\n" not in str(refusal.value)


def test_an_isotropic_task_and_the_inputs_own_queries_commute() -> None:
    task = InContextRegression(ROTATED, 5)
    np.testing.assert_array_equal(task.common_basis, Spectrum.make(ROTATED).basis)


def test_the_common_basis_diagonalises_all_three() -> None:
    task = InContextRegression(
        ROTATED, 5, TURN @ np.diag([1.0, 3.0, 2.0]) @ TURN.T, TURN @ np.diag([1.0, 1, 2]) @ TURN.T
    )
    basis = task.common_basis
    assert basis is not None
    for matrix in (task.covariance, task.task_matrix, task.query_matrix):
        turned = basis.T @ matrix @ basis
        np.testing.assert_allclose(turned, np.diag(np.diagonal(turned)), atol=1e-14)


def test_covariances_that_do_not_commute_have_no_common_basis() -> None:
    assert InContextRegression(ROTATED, 5, task_covariance=[3.0, 2.0, 1.0]).common_basis is None
    assert InContextRegression(ROTATED, 5, query_covariance=[3.0, 2.0, 1.0]).common_basis is None


def test_the_same_seed_draws_the_same_prompts() -> None:
    task = InContextRegression(ROTATED, 5, label_noise=0.1)
    first, again, other = task.sample(7, seed=3), task.sample(7, seed=3), task.sample(7, seed=4)
    np.testing.assert_array_equal(first.x, again.x)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.x, other.x)


def test_labels_are_linear_in_the_inputs_and_the_target_has_no_noise() -> None:
    # As many pairs as dimensions determine the task: without noise it predicts the target.
    clean = InContextRegression(ROTATED, 3).sample(5, seed=0)
    for x, y in zip(clean.x, clean.y, strict=True):
        task_vector = np.linalg.solve(x[:-1], y[:-1])
        # The condition number of three random inputs stays below 1e4 for these keys.
        assert x[-1] @ task_vector == pytest.approx(y[-1], abs=1e-10)
    noisy = InContextRegression(ROTATED, 2000, label_noise=2.0).sample(1, seed=0)
    x, y = noisy.x[0], noisy.y[0]
    task_vector, *_ = np.linalg.lstsq(x[:-1], y[:-1], rcond=None)
    spread = np.std(y[:-1] - x[:-1] @ task_vector)
    # A standard deviation from 2000 values is known to 1/√4000 = 1.6 %.
    assert spread == pytest.approx(2.0, rel=0.05)


def test_random_lengths_follow_their_distribution_and_leave_zeros() -> None:
    lengths = ContextLengths([2, 5], [0.25, 0.75])
    data = InContextRegression(ROTATED, lengths, label_noise=1.0).sample(4000, seed=1)
    assert set(data.lengths) == {2.0, 5.0}
    # The share of a draw has a standard deviation of √(p(1−p)/n) = .007.
    assert np.mean(data.lengths == 2) == pytest.approx(0.25, abs=0.03)
    short = data.lengths == 2
    assert not data.x[short, 2:-1].any()
    assert not data.y[short, 2:-1].any()
    assert data.x[short, :2].all()
    assert data.y[short, -1].all()


def test_batches_hold_all_prompts_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "_BATCH", 4)
    task = InContextRegression(ROTATED, 5)
    batches = list(task.sample_batches(10, seed=2))
    assert [batch.count for batch in batches] == [4, 4, 2]
    assert not np.array_equal(batches[0].x, batches[1].x)
    statistics = task.statistics(10, seed=2)
    np.testing.assert_allclose(
        statistics.label_power,
        np.mean(np.concatenate([batch.target for batch in batches]) ** 2),
        rtol=1e-14,
    )


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (-1, 0), (3, -1)])
def test_counts_and_seeds_are_whole_numbers(count, seed) -> None:
    task = InContextRegression([1.0], 3)
    for draw in (task.sample, task.statistics):
        with pytest.raises(InvalidInput, match="must be a whole number"):
            draw(count, seed)
