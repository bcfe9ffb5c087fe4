"""T7, T8 and the fixed points of both parametrisations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saddlescope.attention import MergedAttention, SeparateAttention, TwoLayerNetwork
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, Spectrum
from saddlescope.theory import (
    fixed_points,
    minimal_norm_weights,
    minimum,
    modes,
    plateau_losses,
)

LEVELS = [1.0, 0.64058, 0.37737, 0.20980, 0.13600]


def test_plateaus_of_the_paper(paper):
    # Printed with five digits in the theory, for N = 31.
    np.testing.assert_allclose(plateau_losses(paper), LEVELS, atol=5e-6)


@pytest.mark.parametrize("dimension", range(1, 7))
def test_all_fixed_points_rest_and_have_the_loss_of_t7(flow_of, dimension):
    task = InContextRegression(Spectrum.power_law(dimension, 0.7), 31)
    eigenvalues = task.spectrum.eigenvalues
    drops = eigenvalues / (1 + (1 + eigenvalues.sum() / eigenvalues) / 31)
    model = SeparateAttention(dimension)
    points = fixed_points(task)
    assert len(points) == 2**dimension
    for point in points:
        flow = flow_of(task, minimal_norm_weights(model, task, point))
        # Weights are of order one; a matrix product of this size rounds at 1e-15.
        assert np.abs(flow.velocity(0.0, flow.start)).max() < 1e-14
        assert point.loss == pytest.approx(1 - drops[list(point.subset)].sum(), abs=1e-14)
        assert flow.loss(flow.start) == pytest.approx(point.loss, abs=1e-14)
        np.testing.assert_allclose(
            flow.effective_map(flow.unpack(flow.start)), point.effective_map, atol=1e-13
        )


@settings(max_examples=25)
@given(dimension=st.integers(1, 4), seed=st.integers(0, 10**6), rank=st.integers(1, 3))
def test_commuting_tasks_rest_too(flow_of, commuting, dimension, seed, rank):
    task = commuting(dimension, seed)
    model = SeparateAttention(dimension, rank)
    for point in fixed_points(task, model=model):
        flow = flow_of(task, minimal_norm_weights(model, task, point))
        scale = np.abs(task.moments().drive).max() * np.abs(flow.start).max(initial=1)
        assert np.abs(flow.velocity(0.0, flow.start)).max() < 1e-12 * scale
        assert flow.loss(flow.start) == pytest.approx(point.loss, rel=1e-12, abs=1e-12)


def test_points_are_found_by_subset_and_in_order(paper):
    points = fixed_points(paper)
    assert points[0].subset == ()
    assert points[-1].subset == (0, 1, 2, 3)
    assert points.at([3, 1]).subset == (1, 3)
    np.testing.assert_allclose(points.losses, [point.loss for point in points])
    assert points.losses.argmin() == len(points) - 1
    assert points.indices.tolist() == [point.index for point in points]


def test_heads_that_cannot_carry_more_have_fewer_fixed_points(paper):
    assert len(fixed_points(paper, model=SeparateAttention(heads=1, rank=2))) == 1 + 4 + 6


def test_equal_eigenvalues_are_counted_not_named(flow_of):
    task = InContextRegression([0.3, 0.3, 0.2], 31)
    points = fixed_points(task)
    assert len(points) == 3 * 2
    assert [point.subset for point in points if point.is_continuum] == [(0,), (0, 2)]
    assert points.at([1]) is points.at([0])
    # Any unit vector of the eigenspace is as good as the two that are named.
    vector = np.array([np.cos(0.7), np.sin(0.7), 0.0])
    value = np.cbrt(modes(task).amplitude[0])
    key = value * vector[None, None]
    flow = flow_of(task, {"v": np.array([value]), "k": key, "q": key})
    assert np.abs(flow.velocity(0.0, flow.start)).max() < 1e-15
    assert flow.loss(flow.start) == pytest.approx(points.at([0]).loss, abs=1e-15)


@pytest.mark.parametrize("model", [MergedAttention(3), TwoLayerNetwork(3)])
def test_merged_attention_rests_at_zero_and_at_the_minimum(paper, model):
    zero, least = fixed_points(paper, model=model)
    assert zero.loss == pytest.approx(1.0, abs=1e-15)
    assert (zero.index, least.index) == (3, 0)
    assert least.loss == pytest.approx(minimum(paper).loss, abs=1e-14)
    np.testing.assert_allclose(least.effective_map, minimum(paper).effective_map, atol=1e-12)
    with pytest.raises(InvalidInput, match="none or all"):
        minimal_norm_weights(model, paper, [0])


def test_minimum_in_the_papers_case(paper):
    covariance = paper.covariance
    expected = np.linalg.inv(covariance + (covariance + np.eye(4)) / 31)
    np.testing.assert_allclose(minimum(paper).effective_map, expected, rtol=1e-13)


def test_minimum_without_commuting_covariances(flow_of, skewed):
    best = minimum(skewed)
    weights = {"v": np.ones(1), "U": best.effective_map[None]}
    flow = flow_of(skewed, weights)
    assert np.abs(flow.velocity(0.0, flow.start)).max() < 1e-15
    assert flow.loss(flow.start) == pytest.approx(best.loss, abs=1e-15)
    assert plateau_losses(skewed)[-1] == pytest.approx(best.loss, abs=1e-14)


def test_a_direction_without_input_gets_no_weight():
    best = minimum(InContextRegression([0.5, 0.0], 31))
    assert best.effective_map[1, 1] == 0


def test_the_path_is_not_claimed_where_the_orders_disagree(disagreeing):
    with pytest.raises(TheoryDoesNotApply, match=r"order \[0, 1\] .* order \[1, 0\]"):
        plateau_losses(disagreeing)
    assert len(fixed_points(disagreeing)) == 4


def test_minimal_norm_of_rank_one(paper):
    weights = minimal_norm_weights(SeparateAttention(5), paper, [0, 2])
    values = np.sort(weights["v"])[::-1]
    expected = np.cbrt(modes(paper).amplitude[[2, 0]])
    np.testing.assert_allclose(values, [*expected, 0, 0, 0], rtol=1e-13)
    for name in ("k", "q"):
        np.testing.assert_allclose(np.linalg.norm(weights[name], axis=(1, 2)), weights["v"])


def test_minimal_norm_without_normalisation_is_shorter_by_a_cube_root(paper):
    ours, theirs = (
        minimal_norm_weights(SeparateAttention(4, normalisation=how), paper, [0, 1])
        for how in ("context", "none")
    )
    np.testing.assert_allclose(theirs["v"] * 31 ** (1 / 3), ours["v"], rtol=1e-13)


def test_many_modes_are_not_listed_but_still_realised():
    task = InContextRegression(Spectrum.power_law(20), 31)
    with pytest.raises(InvalidInput, match="D = 16"):
        fixed_points(task)
    assert plateau_losses(task).size == 21
    assert np.count_nonzero(minimal_norm_weights(SeparateAttention(20), task, [17])["v"]) == 1
