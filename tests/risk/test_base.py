"""Losses of the effective map, and their forces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.attention import MergedAttention, SeparateAttention
from saddlescope.errors import InvalidInput
from saddlescope.precision import in_float64
from saddlescope.risk import AbstractRisk, DenseRisk, DiagonalRisk, StatisticsRisk
from saddlescope.task import InContextRegression

TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
AXES = InContextRegression([0.5, 0.3, 0.2], 7, [1.0, 2.0, 0.5], label_noise=0.3)
ROTATED = InContextRegression(TURN @ np.diag([0.5, 0.3, 0.2]) @ TURN.T, 7)
CROSSED = InContextRegression(ROTATED.covariance, 7, [1.0, 2.0, 0.5], [0.4, 0.4, 0.1])
DATA = AXES.sample(40, seed=1)
MODEL = MergedAttention(2)
TASKS = {"axes": AXES, "rotated": ROTATED, "crossed": CROSSED, "data": DATA}
MAPS = np.random.default_rng(2).standard_normal((4, 3, 3))


def risk_of(name: str) -> tuple[AbstractRisk, np.ndarray]:
    """The risk and the basis of its coordinates, spelt out."""
    found = MODEL.objective(TASKS[name])
    return found.risk, np.eye(3) if found.basis is None else found.basis


def true_loss(task, effective_map: np.ndarray) -> float:
    """The mean square on the data, or T3."""
    if task is DATA:
        predicted = np.einsum("pa,ab,pb->p", DATA.summary, effective_map, DATA.query)
        return float(np.mean((DATA.target - predicted) ** 2))
    moments = task.moments()
    gained = 2 * np.sum(effective_map * moments.drive)
    spread = np.trace(effective_map.T @ moments.summary @ effective_map @ moments.query)
    return float(moments.label_power - gained + spread)


@pytest.mark.parametrize(
    ("task", "kind", "in_own_coordinates"),
    [
        (AXES, DiagonalRisk, True),
        (ROTATED, DiagonalRisk, False),
        (CROSSED, DenseRisk, True),
        (DATA, StatisticsRisk, True),
        (DATA.statistics(), StatisticsRisk, True),
    ],
)
def test_each_task_has_its_cheapest_risk(task, kind: type, in_own_coordinates: bool) -> None:
    found = MODEL.objective(task)
    assert isinstance(found.risk, kind)
    assert (found.basis is None) == in_own_coordinates


@pytest.mark.parametrize("name", TASKS)
def test_the_loss_is_that_of_the_task(name: str) -> None:
    risk, basis = risk_of(name)
    for effective_map in MAPS:
        there = basis.T @ effective_map @ basis
        expected = true_loss(TASKS[name], effective_map)
        assert float(risk.map_loss(there)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", TASKS)
def test_the_force_is_minus_half_the_gradient(name: str) -> None:
    risk, _ = risk_of(name)

    @in_float64
    def gradient(effective_map: np.ndarray) -> np.ndarray:
        held = jax.tree.map(jnp.asarray, risk)
        return jax.grad(held.map_loss)(jnp.asarray(effective_map))  # type: ignore

    for effective_map in MAPS[:2]:
        expected = -gradient(effective_map) / 2
        np.testing.assert_allclose(risk.map_force(effective_map), expected, atol=1e-13)


@pytest.mark.parametrize("name", TASKS)
def test_the_best_map_is_the_least_loss(name: str) -> None:
    risk, _ = risk_of(name)
    best = risk.best_map(3)
    assert best is not None
    np.testing.assert_allclose(risk.map_force(best), 0, atol=1e-13)
    assert all(risk.map_loss(best + 0.01 * change) > risk.map_loss(best) for change in MAPS)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("normalisation", ["context", "none"])
def test_the_velocity_is_minus_half_the_gradient_of_the_weights(
    name: str, normalisation: str
) -> None:
    model = SeparateAttention(2, 1, normalisation)
    risk = model.objective(TASKS[name]).risk
    random = np.random.default_rng(3)
    weights = {n: random.standard_normal(shape) for n, shape in model.shapes(3).items()}

    @in_float64
    def both() -> tuple:
        held, at = jax.tree.map(jnp.asarray, (risk, weights))
        slope = jax.grad(lambda w: held.loss(model, w))(at)
        return held.velocity(model, at, jnp.asarray(0.5)), slope

    velocity, slope = both()
    for part, array in velocity.items():
        scale = np.abs(slope[part]).max()
        np.testing.assert_allclose(array, -slope[part] / 4, atol=1e-13 * scale)


def test_unnormalised_attention_needs_one_length() -> None:
    model = MergedAttention(2, "none")
    assert model.objective(AXES).risk.gain == 7.0
    assert model.objective(DATA).risk.gain == 7.0
    for task in (
        InContextRegression([0.5, 0.3], [3, 5]),
        InContextRegression([0.5, 0.3], [3, 5]).sample(30),
    ):
        with pytest.raises(InvalidInput, match="normalisation = 'none': needs one fixed context"):
            model.objective(task)


def test_where_the_best_low_rank_map_is_not_known_none_is_given() -> None:
    risk, _ = risk_of("data")
    assert risk.best_map(2) is None
