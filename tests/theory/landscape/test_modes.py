"""T17: the modes of a task."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.attention import RandomStart, SeparateAttention
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import (
    AbstractTask,
    AlignedRegression,
    ContextLengths,
    InContextRegression,
    RegressionMoments,
    TaskPool,
)
from saddlescope.theory import modes, predict_staircase


@dataclass(frozen=True, eq=False)
class CoinFlips(AbstractTask):
    """Inputs ±√λ along the axes, excess kurtosis −2: B loses 2Λ²/N against Gaussian ones (T20)."""

    eigenvalues: tuple[float, ...]
    context_length: ContextLengths
    sign: float = 1.0

    @property
    def dimension(self):
        return len(self.eigenvalues)

    @property
    def common_basis(self):
        return np.eye(self.dimension)

    def moments(self):
        gaussian = InContextRegression(self.eigenvalues, self.context_length)
        drive = gaussian.moments().drive
        return RegressionMoments(
            label_power=sum(self.eigenvalues),
            drive=self.sign * drive,
            summary=gaussian.moments().summary - 2 * drive * self.context_length.mean_inverse,
            query=gaussian.covariance,
        )


COINS = CoinFlips((0.4, 0.3), ContextLengths.make(8))


@pytest.mark.parametrize("seed", range(10))
def test_the_moments_are_t17_written_from_eigenvalues(commuting, seed):
    task = commuting(dimension=1 + seed % 5, seed=seed)
    task_modes = modes(task)
    inputs, tasks, queries = (
        np.diagonal(task_modes.basis.T @ matrix @ task_modes.basis)
        for matrix in (task.covariance, task.task_matrix, task.query_matrix)
    )
    inverse = sum(p / n for n, p in zip(*_lengths(task), strict=True))
    power_and_noise = tasks @ inputs + task.label_noise**2
    summary = (1 + inverse) * inputs**2 * tasks + inverse * power_and_noise * inputs
    np.testing.assert_allclose(task_modes.drive, inputs * tasks * queries, rtol=1e-12)
    np.testing.assert_allclose(task_modes.summary, summary, rtol=1e-12)
    np.testing.assert_allclose(task_modes.query_eigenvalues, queries, rtol=1e-12)
    assert task_modes.label_power == pytest.approx(tasks @ queries, rel=1e-13)


def _lengths(task):
    return task.context_length.lengths, task.context_length.probabilities


def test_a_task_of_ones_own_has_the_modes_of_its_moments():
    # T20: a_d = λ_d² (1 + (1 + γ + tr Λ/λ_d)/N).
    values = np.array(COINS.eigenvalues)
    squared = values**2 * (1 + (1 - 2 + 0.7 / values) / 8)
    task_modes = modes(COINS)
    np.testing.assert_allclose(task_modes.amplitude, values / squared, rtol=1e-14)
    np.testing.assert_allclose(np.diff(task_modes.levels), -(values**3) / squared, rtol=1e-14)


def test_a_task_of_ones_own_climbs_the_predicted_stairs(flow_of):
    model = SeparateAttention(3)
    weights = RandomStart(0.01).weights(model, COINS, seed=0)
    drops = predict_staircase(model, COINS, weights, 1e4).drops
    measured = flow_of(COINS, weights).drop_times(modes(COINS).levels, 1e4)
    assert len(measured) == 2
    np.testing.assert_allclose([drop.time for drop in drops], measured, rtol=1e-3)


def test_a_drive_below_zero_is_not_the_theorys():
    with pytest.raises(TheoryDoesNotApply, match="negative"):
        modes(CoinFlips((0.4, 0.3), ContextLengths.make(8), sign=-1.0))


def test_a_pool_whose_tasks_lie_along_the_eigenvectors_has_modes():
    pool = TaskPool([0.4, 0.3, 0.2], 31, [[2, 0, 0], [0, 1, 0]], share=0.5)
    second = np.diag([0.5 * 2 + 0.5, 0.5 * 0.5 + 0.5, 0.5])
    same = modes(InContextRegression([0.4, 0.3, 0.2], 31, task_covariance=second))
    np.testing.assert_allclose(modes(pool).levels, same.levels, rtol=1e-14)
    tilted = TaskPool([0.4, 0.3, 0.2], 31, [[1, 1, 0]], share=0.5)
    with pytest.raises(TheoryDoesNotApply, match="commute"):
        modes(tilted)


def test_vector_labels_have_other_modes():
    with pytest.raises(TheoryDoesNotApply, match="vectors"):
        modes(AlignedRegression([0.4, 0.3], 31))


def test_along_the_axes_the_smallest_eigenvalue_is_meant():
    assert modes(InContextRegression([1.0, 1e-9], 31)).active.all()


def test_the_papers_case(paper):
    task_modes = modes(paper)
    eigenvalues = np.array([0.4, 0.3, 0.2, 0.1])
    squared = eigenvalues**2 * (1 + (1 + 1 / eigenvalues) / 31)
    np.testing.assert_allclose(task_modes.drive, eigenvalues**2, rtol=1e-14)
    np.testing.assert_allclose(task_modes.summary, squared, rtol=1e-14)
    np.testing.assert_allclose(task_modes.amplitude, eigenvalues / squared, rtol=1e-14)
    assert task_modes.order.tolist() == [0, 1, 2, 3]
    assert task_modes.eigenspaces == task_modes.equal_drops == ((0,), (1,), (2,), (3,))


@given(
    eigenvalues=st.lists(st.floats(1e-3, 10), min_size=1, max_size=6),
    noise=st.floats(0, 3),
    lengths=st.sampled_from([1, 31, 10**6, ContextLengths.uniform(1, 9)]),
)
def test_label_noise_and_random_lengths_keep_the_order(eigenvalues, noise, lengths):
    task_modes = modes(InContextRegression(eigenvalues, lengths, label_noise=noise))
    assert task_modes.orders_agree
    assert (np.diff(task_modes.levels) < 0).all()
    assert task_modes.levels[-1] >= -1e-12


def test_the_orders_of_drive_and_drop_can_disagree(disagreeing):
    task_modes = modes(disagreeing)
    assert task_modes.order.tolist() == [0, 1]
    assert task_modes.drop[1] > task_modes.drop[0]
    assert not task_modes.orders_agree


def test_equal_eigenvalues_agree_in_any_order():
    task_modes = modes(InContextRegression([0.3, 0.3, 0.2, 0.2], 31))
    assert task_modes.orders_agree
    assert task_modes.eigenspaces == ((0, 1), (2, 3))


def test_a_mode_without_drive_cannot_be_learned():
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    covariance = (rotation * [0.5, 0.25, 0.0]) @ rotation.T
    task_modes = modes(InContextRegression(covariance, 31))
    assert task_modes.active.tolist() == [True, True, False]
    assert task_modes.levels.size == 3
    with pytest.raises(InvalidInput, match="no drive"):
        task_modes.subset([2])


def test_padding_with_zero_eigenvalues_changes_nothing(paper):
    padded = modes(InContextRegression([0.4, 0.3, 0.2, 0.1, 0.0, 0.0], 31))
    np.testing.assert_allclose(padded.levels, modes(paper).levels, rtol=1e-15)


def test_given_data_have_no_modes(paper):
    prompts = paper.sample(5)
    for data in (prompts, prompts.statistics()):
        with pytest.raises(TheoryDoesNotApply, match="given data"):
            modes(data)


def test_covariances_that_do_not_commute_have_no_modes(skewed):
    with pytest.raises(TheoryDoesNotApply, match="minimum"):
        modes(skewed)


@pytest.mark.parametrize("wrong", [None, 3, [0.4, 0.3]])
def test_what_is_no_task_is_bad_input(wrong):
    with pytest.raises(InvalidInput, match="task"):
        modes(wrong)


@pytest.mark.parametrize("wrong", [[4], [-1], [0, 0], [0.5], 3, ["a"]])
def test_a_subset_names_each_eigenvector_once(paper, wrong):
    with pytest.raises(InvalidInput, match="subset"):
        modes(paper).subset(wrong)
