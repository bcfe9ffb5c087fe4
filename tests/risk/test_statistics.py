"""The loss by way of sufficient statistics (T6)."""

import numpy as np
import pytest

from saddlescope.attention import MergedAttention
from saddlescope.risk import StatisticsRisk
from saddlescope.task import InContextRegression

LAW = InContextRegression([0.5, 0.3], context_length=7, label_noise=0.3)
PROMPTS = LAW.sample(60, seed=1)


def risk_of(blocks: str) -> StatisticsRisk:
    risk = PROMPTS.statistics(blocks).linear_objective(blocks, gain=1.0).risk
    assert isinstance(risk, StatisticsRisk)
    return risk


def test_a_matrix_is_its_stacked_columns() -> None:
    """T4: W and vec(W) have one loss, and forces that are the same numbers."""
    risk, effective_map = risk_of("reduced"), np.array([[0.3, -0.1], [0.7, 0.2]])
    vector = effective_map.ravel(order="F")
    assert float(risk.map_loss(effective_map)) == float(risk.map_loss(vector))
    force = risk.map_force(effective_map)
    assert force.shape == (2, 2)
    np.testing.assert_array_equal(force.ravel(order="F"), risk.map_force(vector))


@pytest.mark.parametrize("blocks", ["reduced", "full"])
def test_it_is_the_mean_square_of_what_is_linear_in_the_features(blocks: str) -> None:
    risk, features = risk_of(blocks), PROMPTS.features(blocks)
    theta = np.random.default_rng(0).standard_normal(features.shape[1])
    residual = PROMPTS.target - features @ theta
    assert float(risk.map_loss(theta)) == pytest.approx(np.mean(residual**2), rel=1e-11)
    force = (residual[:, None] * features).mean(axis=0)
    np.testing.assert_allclose(risk.map_force(theta), force, atol=1e-11 * np.abs(force).max())


def test_the_best_map_is_least_squares_and_is_known_at_full_rank_only() -> None:
    risk = risk_of("reduced")
    wanted, *_ = np.linalg.lstsq(PROMPTS.cubic_features, PROMPTS.target, rcond=None)
    best = risk.best_map(2)
    assert best is not None
    np.testing.assert_allclose(best.ravel(order="F"), wanted, rtol=1e-9)
    assert risk.best_map(1) is None
    assert risk_of("full").best_map(2) is None


def test_a_models_loss_is_that_of_its_predictions() -> None:
    model = MergedAttention(2)
    weights = {
        name: np.random.default_rng(2).standard_normal(shape)
        for name, shape in model.shapes(2).items()
    }
    residual = PROMPTS.target - model.predict(weights, PROMPTS)
    loss = float(risk_of("reduced").loss(model, weights))
    assert loss == pytest.approx(np.mean(residual**2), rel=1e-11)


def test_dimensions_without_power_change_nothing() -> None:
    risk, effective_map = risk_of("reduced"), np.array([[0.3, -0.1], [0.7, 0.2]])
    larger = risk.padded(4)
    assert larger is not None
    padded = np.pad(effective_map, (0, 2))
    assert float(larger.map_loss(padded)) == pytest.approx(float(risk.map_loss(effective_map)))
    np.testing.assert_allclose(larger.map_force(padded)[:2, :2], risk.map_force(effective_map))


def test_all_blocks_in_more_dimensions() -> None:
    """θ of T5 from heads that are zero there has the loss that it had."""
    model, generator = MergedAttention(heads=2, blocks="full"), np.random.default_rng(3)
    weights = {name: generator.normal(size=shape) for name, shape in model.shapes(2).items()}
    larger = {name: np.zeros(shape) for name, shape in model.shapes(3).items()}
    for name, array in weights.items():
        larger[name][tuple(slice(size) for size in array.shape)] = array
    risk = risk_of("full")
    padded = risk.padded(3)
    assert padded is not None
    loss = float(padded.map_loss(model.coefficients(larger)))
    assert loss == pytest.approx(float(risk.map_loss(model.coefficients(weights))))
    assert risk.padded(9) is None, "819 features: another program is cheaper"
