"""T17: the modes of a task."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import ContextLengths, InContextRegression
from saddlescope.theory import modes


@pytest.mark.parametrize("seed", range(10))
def test_formulas_are_the_moments_in_the_common_basis(commuting, seed):
    task = commuting(dimension=1 + seed % 5, seed=seed)
    found, moments = modes(task), task.moments()
    for matrix, values in (
        (moments.drive, found.drive),
        (moments.summary, found.summary),
        (moments.query, found.query_eigenvalues),
    ):
        rebuilt = (found.basis * values) @ found.basis.T
        np.testing.assert_allclose(matrix, rebuilt, atol=1e-13 * np.abs(matrix).max())
    assert found.label_power == pytest.approx(moments.label_power, rel=1e-13)


def test_the_papers_case(paper):
    found = modes(paper)
    eigenvalues = np.array([0.4, 0.3, 0.2, 0.1])
    squared = eigenvalues**2 * (1 + (1 + 1 / eigenvalues) / 31)
    np.testing.assert_allclose(found.drive, eigenvalues**2, rtol=1e-14)
    np.testing.assert_allclose(found.summary, squared, rtol=1e-14)
    np.testing.assert_allclose(found.amplitude, eigenvalues / squared, rtol=1e-14)
    assert found.order.tolist() == [0, 1, 2, 3]
    assert found.eigenspaces == found.equal_drops == ((0,), (1,), (2,), (3,))


@given(
    eigenvalues=st.lists(st.floats(1e-3, 10), min_size=1, max_size=6),
    noise=st.floats(0, 3),
    lengths=st.sampled_from([1, 31, 10**6, ContextLengths.uniform(1, 9)]),
)
def test_label_noise_and_random_lengths_keep_the_order(eigenvalues, noise, lengths):
    found = modes(InContextRegression(eigenvalues, lengths, label_noise=noise))
    assert found.orders_agree
    assert (np.diff(found.levels) < 0).all()
    assert found.levels[-1] >= -1e-12


def test_the_orders_of_drive_and_drop_can_disagree(disagreeing):
    found = modes(disagreeing)
    assert found.order.tolist() == [0, 1]
    assert found.drop[1] > found.drop[0]
    assert not found.orders_agree


def test_equal_eigenvalues_agree_in_any_order():
    found = modes(InContextRegression([0.3, 0.3, 0.2, 0.2], 31))
    assert found.orders_agree
    assert found.eigenspaces == ((0, 1), (2, 3))


def test_a_mode_without_drive_cannot_be_learned():
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    covariance = (rotation * [0.5, 0.25, 0.0]) @ rotation.T
    found = modes(InContextRegression(covariance, 31))
    assert found.active.tolist() == [True, True, False]
    assert found.levels.size == 3
    with pytest.raises(InvalidInput, match="no drive"):
        found.subset([2])


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
