"""T19: the landscape of covariances that do not commute, and that of those that do as a case."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import AbstractTask, ContextLengths, InContextRegression, RegressionMoments
from saddlescope.theory import (
    escape_direction,
    escape_directions,
    fixed_points,
    hessian,
    hessian_index,
    minimal_norm_weights,
    minimum,
    modes,
    plateau_losses,
    saddle_graph,
    saddle_index,
    singular_modes,
)

EIGHT = ContextLengths.make(8)


@dataclass(frozen=True, eq=False)
class Whitened(AbstractTask):
    """A task of given singular values σ_d, by way of its moments."""

    singular_values: tuple[float, ...]
    context_length: ContextLengths = EIGHT

    @property
    def dimension(self) -> int:
        return len(self.singular_values)

    def moments(self) -> RegressionMoments:
        generator = np.random.default_rng(5)
        size = self.dimension
        left, right, one, other = np.linalg.qr(generator.standard_normal((4, size, size)))[0]
        roots = np.exp(generator.uniform(-0.5, 0.5, size=(2, size)))
        first, second = (one * roots[0]) @ one.T, (other * roots[1]) @ other.T
        inner = (left * np.array(self.singular_values)) @ right.T
        return RegressionMoments(9.0, first @ inner @ second, first @ first, second @ second)


@pytest.mark.parametrize(
    ("dimension", "seed", "rank"), [(2, 0, 1), (3, 1, 1), (3, 2, 2), (4, 3, 1)]
)
def test_every_fixed_point_rests_and_has_its_loss(
    flow_of: Any, crossing: Any, dimension: int, seed: int, rank: int
) -> None:
    task, model = crossing(dimension, seed), SeparateAttention(dimension, rank)
    drop = singular_modes(task).drop
    points = fixed_points(task)
    assert len(points) == 2**dimension
    for point in points:
        flow = flow_of(task, minimal_norm_weights(model, task, point))
        scale = np.abs(task.moments().drive).max() * np.abs(flow.start).max(initial=1)
        assert np.abs(flow.velocity(0.0, flow.start)).max() < 1e-12 * scale
        expected = task.moments().label_power - drop[list(point.subset)].sum()
        assert point.loss == pytest.approx(expected, abs=1e-13)
        assert flow.loss(flow.start) == pytest.approx(point.loss, abs=1e-12)
        reached = flow.effective_map(flow.unpack(flow.start))
        np.testing.assert_allclose(reached, point.effective_map, atol=1e-11)
    np.testing.assert_allclose(points[-1].effective_map, minimum(task).effective_map, atol=1e-11)
    assert (np.diff(drop) < 0).all()
    levels = task.moments().label_power - np.append(0, np.cumsum(drop))
    np.testing.assert_allclose(plateau_losses(task), levels, atol=1e-13)


def test_nothing_else_rests_where_few_heads_are(flow_of: Any, crossing: Any) -> None:
    """Flows of one head, from 8 large random starts, all end at one of the fixed points."""
    task = crossing(3, 4)
    losses = fixed_points(task, model=SeparateAttention(1)).losses
    assert losses.size == 4
    ends = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        start = {"v": generator.normal(size=1), "k": generator.normal(size=(1, 1, 3))}
        flow = flow_of(task, {**start, "q": generator.normal(size=(1, 1, 3))})
        ends.append(flow.losses(np.array([0.0, 3000.0]))[-1])
    distance = np.abs(np.array(ends)[:, None] - losses)
    assert distance.min(axis=1).max() < 1e-9


@pytest.mark.parametrize(
    ("dimension", "seed"), [*((2, seed) for seed in range(4)), *((3, s) for s in range(4)), (4, 0)]
)
def test_the_index_counts_pairs_of_larger_singular_values(
    crossing: Any, dimension: int, seed: int
) -> None:
    task, model = crossing(dimension, seed), SeparateAttention(dimension)
    for size in range(dimension + 1):
        for subset in combinations(range(dimension), size):
            # They are counted by falling σ.
            expected = sum(d < i for i in subset for d in range(dimension) if d not in subset)
            weights = minimal_norm_weights(model, task, subset)
            assert hessian_index(model, task, weights) == saddle_index(task, subset) == expected


def test_free_pairs_of_heads_in_use_add_to_the_index(crossing: Any) -> None:
    task, model = crossing(3, 2), SeparateAttention(2, rank=2)
    for point in fixed_points(task, model=model):
        weights = minimal_norm_weights(model, task, point)
        assert hessian_index(model, task, weights) == point.index


def test_the_shortest_weights_are_shorter_than_whitened_heads(crossing: Any) -> None:
    """The singular triples of W_S itself, not those of the whitened drive (T19)."""
    longer = []
    for seed in range(5):
        task = crossing(3, seed)
        for point in fixed_points(task):
            weights = minimal_norm_weights(SeparateAttention(3), task, point)
            length = sum((array**2).sum() for array in weights.values())
            # A head of a map ξ a bᵀ has the squared length 3 ξ^{2/3}.
            naive = 3 * (point.amplitudes ** (2 / 3)).sum()
            assert length <= naive * (1 + 1e-12)
            longer.append(naive / length if len(point.subset) > 1 else 1.0)
    assert max(longer) > 1.05


@pytest.mark.parametrize("seed", range(4))
def test_commuting_covariances_are_the_special_case(commuting: Any, seed: int) -> None:
    task = commuting(4, seed)
    common, singular = modes(task), singular_modes(task)
    by_drop = np.argsort(-common.drop)
    np.testing.assert_allclose(singular.drop, common.drop[by_drop], rtol=1e-12)
    np.testing.assert_allclose(singular.amplitude, common.amplitude[by_drop], rtol=1e-11)
    for count in range(5):
        here = singular.effective_map(range(count))
        there = common.effective_map(by_drop[:count].tolist())
        np.testing.assert_allclose(here, there, atol=1e-11)
    flags = common.membership([(0, 2), (1,), (3,)])
    np.testing.assert_array_equal(
        common.saddle_index(flags), singular.saddle_index(flags[:, by_drop])
    )
    # A task that has common modes keeps them, and their order.
    assert [point.subset for point in fixed_points(task)][1:5] == [(0,), (1,), (2,), (3,)]
    assert isinstance(fixed_points(task).modes, type(common))


@pytest.mark.parametrize("ranks", [(2, 3, 3), (3, 2, 3), (3, 3, 2), (2, 2, 3), (1, 3, 3)])
def test_directions_that_nothing_drives_are_inactive(
    flow_of: Any, crossing: Any, ranks: tuple[int, int, int]
) -> None:
    task, model = crossing(3, 6, ranks=ranks), SeparateAttention(3)
    found = singular_modes(task)
    assert found.active.tolist() == [d < min(ranks) for d in range(3)]
    points = fixed_points(task)
    assert len(points) == 2 ** min(ranks)
    for point in points:
        flow = flow_of(task, minimal_norm_weights(model, task, point))
        assert np.abs(flow.velocity(0.0, flow.start)).max() < 1e-11
        assert flow.loss(flow.start) == pytest.approx(point.loss, abs=1e-12)
        assert hessian_index(model, task, minimal_norm_weights(model, task, point)) == point.index
    assert points[-1].loss == pytest.approx(minimum(task).loss, abs=1e-12)
    with pytest.raises(InvalidInput, match="no drive"):
        saddle_index(task, [2])


def test_equal_singular_values_are_a_continuum() -> None:
    task, model = Whitened((1.0, 1.0, 0.5)), SeparateAttention(3)
    points = fixed_points(task)
    assert [point.subset for point in points if point.is_continuum] == [(0,), (0, 2)]
    assert len(points) == 3 * 2
    np.testing.assert_allclose(points.losses, [9, 8, 8.75, 7, 7.75, 6.75], atol=1e-13)
    for point in points:
        weights = minimal_norm_weights(model, task, point)
        assert hessian_index(model, task, weights) == point.index


def test_drives_below_zero_have_singular_modes() -> None:
    """T17 does not speak of them: a key and a query then have unlike signs (T19)."""

    @dataclass(frozen=True, eq=False)
    class Opposed(Whitened):
        def moments(self) -> RegressionMoments:
            return RegressionMoments(9.0, np.diag([-1.0, 0.5]), np.eye(2), np.eye(2))

    task = Opposed((1.0, 0.5))
    with pytest.raises(TheoryDoesNotApply, match="negative"):
        modes(task)
    np.testing.assert_allclose(plateau_losses(task), [9, 8, 7.75], atol=1e-14)
    np.testing.assert_allclose(
        fixed_points(task).at([0]).effective_map, np.diag([-1.0, 0]), atol=1e-15
    )


def test_the_graph_has_every_edge_and_claims_no_path(crossing: Any) -> None:
    graph = saddle_graph(crossing(3, 1))
    assert (len(graph.nodes), len(graph.edges), graph.path) == (8, 12, None)
    # The first modes alone have no way down at second order.
    assert [p.subset for p in graph.nodes if p.index == 0] == [(), (0,), (0, 1), (0, 1, 2)]


@pytest.mark.parametrize("normalisation", ["context", "none"])
def test_ways_out_are_the_negative_eigenvectors(crossing: Any, normalisation: str) -> None:
    base = crossing(3, 3)
    task = InContextRegression(base.spectrum, 31, task_covariance=base.task_covariance)
    model = SeparateAttention(3, 1, normalisation)
    unit = model.time_unit(model.gain(31))
    for point in fixed_points(task):
        weights = minimal_norm_weights(model, task, point)
        matrix, ways = hessian(model, task, weights), escape_directions(model, task, point.subset)
        assert len(ways) == point.index
        for way in ways:
            vector = np.concatenate([way.weights[name].ravel() for name in model.shapes(3)])
            assert np.linalg.norm(vector) == pytest.approx(1)
            scale = 1e-12 * np.abs(matrix).max()
            np.testing.assert_allclose(matrix @ vector, -2 * way.rate * unit * vector, atol=scale)
    assert escape_direction(model, task, [2]).rate == escape_directions(model, task, [2])[0].rate
    with pytest.raises(TheoryDoesNotApply, match="third order"):
        escape_direction(model, task, [0, 1])


def test_merged_attention_rests_at_zero_and_at_the_minimum(crossing: Any) -> None:
    task, model = crossing(3, 2), MergedAttention(2)
    zero, least = fixed_points(task, model=model)
    assert (zero.index, least.index) == (2, 0)
    assert least.loss == pytest.approx(minimum(task).loss, abs=1e-13)
    rates = [way.rate for way in escape_directions(model, task, [])]
    lowest = np.linalg.eigvalsh(hessian(model, task, minimal_norm_weights(model, task, [])))[:2]
    np.testing.assert_allclose(lowest, -2 * np.array(rates), rtol=1e-12)
