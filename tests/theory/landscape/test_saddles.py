"""T16: index, Hessian, ways out and the graph of saddles."""

from itertools import combinations

import numpy as np
import pytest

from saddlescope.attention import ConvolutionalNetwork, MergedAttention, SeparateAttention
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression, Spectrum
from saddlescope.theory import (
    escape_direction,
    escape_directions,
    fixed_points,
    hessian,
    hessian_index,
    minimal_norm_weights,
    modes,
    saddle_graph,
    saddle_index,
)


def flattened(model, weights, dimension):
    return np.concatenate([weights[name].ravel() for name in model.shapes(dimension)])


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
    found = [saddle_index(paper, subset, rank) > 0 for subset in in_order]
    assert found == [count % rank > 0 for count in range(4)]


def test_equal_eigenvalues_turn_negative_modes_into_zero_modes():
    task, model = InContextRegression([0.3, 0.3], 31), SeparateAttention(2)
    assert saddle_index(task, [1]) == 0
    assert hessian_index(model, task, minimal_norm_weights(model, task, [1])) == 0


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
        for subset in subsets(4):
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


def test_the_graph_joins_what_differs_by_one(paper):
    graph = saddle_graph(paper)
    assert len(graph.nodes) == 16
    assert len(set(graph.edges)) == 4 * 2**3
    assert all(set(a) < set(b) and len(b) == len(a) + 1 for a, b in graph.edges)
    assert graph.path == ((), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))
    assert [graph.nodes.at(subset).index for subset in graph.path] == [0] * 5


def test_the_graph_of_equal_eigenvalues():
    graph = saddle_graph(InContextRegression([0.3, 0.3, 0.2], 31))
    assert len(graph.nodes) == 6
    assert len(graph.edges) == 2 * 2 + 3
    assert graph.path == ((), (0,), (0, 1), (0, 1, 2))


def test_the_graph_claims_no_path_where_the_orders_disagree(disagreeing):
    graph = saddle_graph(disagreeing)
    assert graph.path is None
    # The first head learns mode 0 and then turns to mode 1.
    assert (graph.nodes.at([0]).index, graph.nodes.at([1]).index) == (1, 0)


def test_hessians_stop_at_eight_dimensions(model):
    task = InContextRegression(Spectrum.power_law(9), 31)
    with pytest.raises(InvalidInput, match="D = 8"):
        hessian(model, task, {})


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
