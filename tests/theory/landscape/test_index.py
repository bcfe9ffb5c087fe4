"""T16: the index, by counting and by the Hessian."""

from itertools import combinations

import numpy as np
import pytest

from saddlescope.attention import SeparateAttention
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, Spectrum
from saddlescope.theory import (
    fixed_points,
    hessian,
    hessian_index,
    minimal_norm_weights,
    modes,
    saddle_index,
)


def subsets(dimension):
    return [s for size in range(dimension + 1) for s in combinations(range(dimension), size)]


@pytest.mark.parametrize("length", [1, 31, 10**6])
@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_index_counts_inversions(dimension, length):
    task = InContextRegression(Spectrum.power_law(dimension), length)
    model = SeparateAttention(dimension)
    for subset in subsets(dimension):
        inversions = sum(d < i for i in subset for d in range(dimension) if d not in subset)
        weights = minimal_norm_weights(model, task, subset)
        assert hessian_index(model, task, weights) == saddle_index(task, subset) == inversions


@pytest.mark.parametrize("seed", range(6))
def test_index_of_commuting_tasks_counts_larger_drops(commuting, seed):
    task = commuting(3, seed)
    drop, model = modes(task).drop, SeparateAttention(3)
    for point in fixed_points(task):
        outside = set(range(3)) - set(point.subset)
        expected = sum(drop[d] > drop[i] for i in point.subset for d in outside)
        weights = minimal_norm_weights(model, task, point)
        assert hessian_index(model, task, weights) == point.index == expected


@pytest.mark.parametrize("rank", [2, 3])
def test_a_free_pair_of_a_head_in_use_adds_to_the_index(paper, rank):
    model = SeparateAttention(2, rank)
    for point in fixed_points(paper, model=model):
        weights = minimal_norm_weights(model, paper, point)
        assert hessian_index(model, paper, weights) == point.index
        assert saddle_index(paper, point.subset, rank) == point.index
    # Only multiples of the rank have no way down at second order.
    in_order = [tuple(range(count)) for count in range(4)]
    indices = [saddle_index(paper, subset, rank) > 0 for subset in in_order]
    assert indices == [count % rank > 0 for count in range(4)]


def test_equal_eigenvalues_turn_negative_modes_into_zero_modes():
    task, model = InContextRegression([0.3, 0.3], 31), SeparateAttention(2)
    assert saddle_index(task, [1]) == 0
    assert hessian_index(model, task, minimal_norm_weights(model, task, [1])) == 0


def test_hessians_stop_at_eight_dimensions(model):
    task = InContextRegression(Spectrum.power_law(9), 31)
    with pytest.raises(InvalidInput, match="D = 8"):
        hessian(model, task, {})


def test_a_hessian_is_that_of_the_effective_map(paper):
    full = SeparateAttention(2, blocks="full")
    with pytest.raises(TheoryDoesNotApply, match="all blocks"):
        hessian(full, paper, minimal_norm_weights(full, paper, []))


def test_a_hessian_needs_the_weights_of_one_seed(paper, model):
    weights = minimal_norm_weights(model, paper, [])
    stacked = {name: np.stack([array, array]) for name, array in weights.items()}
    with pytest.raises(InvalidInput, match="one seed"):
        hessian(model, paper, stacked)


def test_the_hessian_holds_without_commuting_covariances(skewed, model, flow_of):
    generator = np.random.default_rng(0)
    weights = {name: generator.standard_normal(shape) for name, shape in model.shapes(2).items()}
    flow, matrix = flow_of(skewed, weights), hessian(model, skewed, weights)
    step = 1e-5 * generator.standard_normal(flow.start.size)
    change = flow.velocity(0.0, flow.start + step) - flow.velocity(0.0, flow.start - step)
    # A central difference is right to the square of the step.
    np.testing.assert_allclose(-change, matrix @ step, atol=1e-8 * np.linalg.norm(step))
