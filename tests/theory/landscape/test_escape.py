"""T16, T17: the ways out of a saddle are the eigenvectors of the Hessian that lead down."""

import numpy as np
import pytest

from saddlescope.attention import ConvolutionalNetwork, MergedAttention, SeparateAttention
from saddlescope.errors import TheoryDoesNotApply
from saddlescope.task import InContextRegression
from saddlescope.theory import (
    escape_direction,
    escape_directions,
    fixed_points,
    hessian,
    hessian_index,
    minimal_norm_weights,
)


def flattened(model, weights, dimension):
    return np.concatenate([weights[name].ravel() for name in model.shapes(dimension)])


def test_merged_leaves_zero_at_the_norm_of_the_drive(paper):
    model = MergedAttention(3)
    zero = minimal_norm_weights(model, paper, [])
    eigenvalues = np.linalg.eigvalsh(hessian(model, paper, zero))
    rate = np.linalg.norm([0.16, 0.09, 0.04, 0.01])
    np.testing.assert_allclose(eigenvalues[:3], -2 * rate, rtol=1e-13)
    assert hessian_index(model, paper, zero) == 3
    assert [way.rate for way in escape_directions(model, paper, [])] == pytest.approx([rate] * 3)


@pytest.mark.parametrize("normalisation", ["context", "none"])
def test_ways_out_are_the_negative_eigenvectors(commuting, normalisation):
    task = InContextRegression(
        commuting(4, 1).spectrum, 31, task_covariance=commuting(4, 1).task_covariance
    )
    for model in (
        SeparateAttention(4, 1, normalisation),
        SeparateAttention(2, 3, normalisation),
        ConvolutionalNetwork(4, normalisation),
    ):
        time_unit = model.time_unit(31.0 if normalisation == "none" else 1.0)
        for point in fixed_points(task):
            subset = point.subset
            weights = minimal_norm_weights(model, task, subset)
            matrix = hessian(model, task, weights)
            ways = escape_directions(model, task, subset)
            assert len(ways) == hessian_index(model, task, weights)
            scale = np.abs(matrix).max(initial=1e-300)
            for way in ways:
                vector = flattened(model, way.weights, 4)
                assert np.linalg.norm(vector) == pytest.approx(1)
                # Flow is −½∇L, so its rate is −½ of the loss's curvature.
                expected = -2 * way.rate * time_unit * vector
                np.testing.assert_allclose(matrix @ vector, expected, atol=1e-12 * scale)
            assert [way.rate for way in ways] == sorted((way.rate for way in ways), reverse=True)


def test_a_head_turns_to_the_stronger_eigenvector(paper):
    way = escape_direction(SeparateAttention(4), paper, [1])
    assert (way.learned, way.towards, way.head) == (1, 0, 0)


@pytest.mark.parametrize("subset", [(), (0,), (0, 1, 2, 3)])
def test_in_order_points_have_no_way_out_at_second_order(paper, subset):
    assert escape_directions(SeparateAttention(4), paper, subset) == ()
    with pytest.raises(TheoryDoesNotApply, match="third order"):
        escape_direction(SeparateAttention(4), paper, subset)
