"""T14: what flow keeps and how descent loses it."""

import numpy as np
import pytest

from saddlescope.attention import (
    ConvolutionalNetwork,
    MergedAttention,
    RandomStart,
    SeparateAttention,
    TwoLayerNetwork,
)
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.theory import conserved_quantities, descent_drift


def descend(flow, steps, rate):
    state = flow.start
    for _ in range(steps):
        state = state + 2 * rate * flow.velocity(0.0, state)
    return flow.unpack(state)


@pytest.fixture
def start(paper, model):
    return RandomStart(1.0).weights(model, paper, seed=3)


def test_one_step_of_descent_changes_them_as_predicted(paper, model, start, flow_of):
    before = conserved_quantities(model, start)
    after = conserved_quantities(model, descend(flow_of(paper, start), 1, rate=0.1))
    drift = descent_drift(model, paper, start, learning_rate=0.1)
    for name, change in drift.per_step.items():
        np.testing.assert_allclose(after[name] - before[name], change, atol=1e-14)
        np.testing.assert_allclose(drift.per_time[name] * 0.2, change, rtol=1e-14)


def test_the_drift_over_a_time_is_of_first_order_in_the_rate(paper, model, start, flow_of):
    before = conserved_quantities(model, start)
    rates = 0.1 * 0.5 ** np.arange(5)
    drifts = []
    for rate in rates:
        after = conserved_quantities(model, descend(flow_of(paper, start), round(2 / rate), rate))
        drifts.append(max(np.abs(after[name] - before[name]).max() for name in before))
    slope = np.polyfit(np.log(rates), np.log(drifts), 1)[0]
    # The next order is 2ηλ ≈ a tenth of the first at the largest rate.
    assert slope == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("attention", [MergedAttention, SeparateAttention])
def test_without_normalisation_time_runs_faster(paper, attention):
    ours, theirs = attention(2), attention(2, normalisation="none")
    weights = RandomStart(1.0).weights(ours, paper, seed=0)
    scale = 31 ** (1 / ours.degree)
    smaller = {name: array / scale for name, array in weights.items()}
    unit = theirs.time_unit(31.0)
    slow = descent_drift(ours, paper, weights, learning_rate=0.01 * unit)
    fast = descent_drift(theirs, paper, smaller, learning_rate=0.01)
    for name in slow.per_time:
        expected = slow.per_time[name] / scale**2
        np.testing.assert_allclose(fast.per_time[name], expected, rtol=1e-12)


@pytest.mark.parametrize("network", [TwoLayerNetwork(2), ConvolutionalNetwork(2)])
def test_equivalent_networks_conserve_the_same(paper, network):
    attention = MergedAttention(2) if isinstance(network, TwoLayerNetwork) else SeparateAttention(2)
    weights = RandomStart(1.0).weights(attention, paper, seed=0)
    theirs = descent_drift(network, paper, network.from_attention(weights), 0.1)
    for name, change in descent_drift(attention, paper, weights, 0.1).per_step.items():
        np.testing.assert_allclose(theirs.per_step[name], change, atol=1e-14)


def test_bad_weights_and_given_data(paper, model, start):
    with pytest.raises(InvalidInput, match="must name"):
        conserved_quantities(model, {"v": start["v"]})
    with pytest.raises(InvalidInput, match="shape"):
        conserved_quantities(model, {**start, "v": np.ones(3)})
    with pytest.raises(InvalidInput, match="learning_rate"):
        descent_drift(model, paper, start, learning_rate=0.0)
    with pytest.raises(TheoryDoesNotApply, match="conserves"):
        descent_drift(model, paper.sample(3), start, learning_rate=0.1)
