"""The lazy course: a frozen kernel, against SciPy's solution of the flow."""

import numpy as np
import pytest

from saddlescope.attention import (
    MergedAttention,
    RandomStart,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.task import InContextRegression
from saddlescope.theory import lazy_course, minimum


def test_it_begins_at_the_loss_and_with_its_slope(skewed, model, flow_of):
    weights = RandomStart(2.0).weights(model, skewed, seed=1)
    course, flow = lazy_course(model, skewed, weights), flow_of(skewed, weights)
    begin, least = flow.loss(flow.start), minimum(skewed).loss
    assert course.loss([0.0])[0] == pytest.approx(begin, rel=1e-12)
    assert course.least_loss == least
    step = 1e-5 * flow.velocity(0.0, flow.start)
    # A central difference is right to the square of the step.
    slope = (flow.loss(flow.start + step) - flow.loss(flow.start - step)) / 2e-5
    assert course.initial_rate == pytest.approx(-slope / (begin - least), rel=1e-6)


@pytest.mark.parametrize("kind", [MergedAttention, SeparateAttention])
def test_large_starts_follow_it_the_closer_the_larger(kind, flow_of):
    task, errors = InContextRegression([0.4, 0.3], 31), []
    for scale in (5.0, 20.0):
        half = RandomStart(scale).weights(kind(6), task, seed=0)
        # Every head stands beside its opposite, so that large weights begin at the zero function.
        weights = {name: np.concatenate([array, array]) for name, array in half.items()}
        weights["v"][6:] *= -1
        course = lazy_course(kind(12), task, weights)
        times = np.linspace(0, 5 / course.initial_rate, 20)
        measured = flow_of(task, weights).losses(times)
        assert measured[-1] < 0.4 * measured[0]
        errors.append(np.abs(measured - course.loss(times)).max())
    # How far the kernel moves falls with the square of the scale at least.
    assert errors[1] < errors[0] / 14 < 0.01


@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_what_too_few_heads_cannot_move_stays(paper, scale):
    model = SeparateAttention(heads=1)
    course = lazy_course(model, paper, RandomStart(scale).weights(model, paper, seed=0))
    # A head of rank one has 2D + 1 weights and two rescalings that leave its map as it is.
    assert (course.rates == 0).sum() == 4**2 - (2 * 4 - 1)
    left, later = course.loss([1e6, 1e12])
    assert left == later == pytest.approx(course.least_loss + course.parts[course.rates == 0].sum())


def test_networks_and_unnormalised_attention_decay_alike(paper):
    times = [0.0, 0.1, 1.0]
    merged, separate = MergedAttention(3), SeparateAttention(3)
    weights = RandomStart(5.0).weights(merged, paper, seed=0)
    expected = lazy_course(merged, paper, weights).loss(times)
    network = TwoLayerNetwork(3)
    same = lazy_course(network, paper, network.from_attention(weights)).loss(times)
    np.testing.assert_allclose(same, expected, rtol=1e-9)
    weights = RandomStart(5.0).weights(separate, paper, seed=0)
    expected = lazy_course(separate, paper, weights).loss(times)
    smaller = {name: array / np.cbrt(31) for name, array in weights.items()}
    theirs = SeparateAttention(3, normalisation="none")
    np.testing.assert_allclose(lazy_course(theirs, paper, smaller).loss(times), expected, rtol=1e-9)


def test_where_it_does_not_apply(paper):
    model = MergedAttention(2, blocks="full")
    weights = RandomStart(1.0).weights(model, paper, seed=0)
    with pytest.raises(TheoryDoesNotApply, match="all blocks"):
        lazy_course(model, paper, weights)
    with pytest.raises(TheoryDoesNotApply, match="given data"):
        lazy_course(MergedAttention(2), paper.sample(3), {})
    with pytest.raises(InvalidInput, match="weights"):
        lazy_course(MergedAttention(2), InContextRegression([0.4, 0.1], 5), {"v": [1.0]})
