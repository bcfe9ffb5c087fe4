"""The exact loss on a law: its least value at few heads, and the basis it is written in."""

import numpy as np
import pytest
from scipy.optimize import minimize

from saddlescope.attention import MergedAttention
from saddlescope.risk import DenseRisk, DiagonalRisk, population_objective
from saddlescope.task import InContextRegression

AXES = InContextRegression([0.5, 0.3, 0.2], 7, [1.0, 2.0, 0.5], label_noise=0.3)
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
MODEL = MergedAttention(2)


def test_the_best_map_of_few_heads_takes_the_largest_gains() -> None:
    risk = MODEL.objective(AXES).risk
    assert isinstance(risk, DiagonalRisk)
    full = risk.best_map(3)
    assert full is not None
    # T17: learning a direction lowers the loss by Δ = c ξ.
    gains = risk.drive * np.diagonal(full)
    for capacity in (1, 2):
        best = risk.best_map(capacity)
        assert best is not None
        assert np.linalg.matrix_rank(best) == capacity
        lowered = float(risk.map_loss(np.zeros((3, 3))) - risk.map_loss(best))
        assert lowered == pytest.approx(np.sort(gains)[::-1][:capacity].sum(), rel=1e-12)


def test_directions_without_inputs_stay_unlearned() -> None:
    risk = MODEL.objective(InContextRegression([0.5, 0.0], 7)).risk
    best = risk.best_map(2)
    assert best is not None
    assert best[1, 1] == 0.0
    assert np.isfinite(best).all()


def moments(basis: np.ndarray) -> tuple[np.ndarray, ...]:
    """Drive, summary and query moments that are diagonal in a basis."""
    rows = ([0.5, 0.6, 0.1], [0.7, 0.9, 0.3], [0.4, 0.2, 0.6])
    return tuple((basis * row) @ basis.T for row in rows)


@pytest.mark.parametrize("basis", [np.eye(3), TURN], ids=["axes", "turned"])
def test_in_a_common_basis_the_loss_is_the_same_number(basis: np.ndarray) -> None:
    dense = population_objective(2.0, 0.9, *moments(basis), None)
    found = population_objective(2.0, 0.9, *moments(basis), basis)
    assert isinstance(dense.risk, DenseRisk)
    assert isinstance(found.risk, DiagonalRisk)
    assert (found.basis is None) == np.array_equal(basis, np.eye(3))
    assert float(found.risk.gain) == float(dense.risk.gain) == 2.0
    for seed in range(3):
        effective_map = np.random.default_rng(seed).standard_normal((3, 3))
        there = basis.T @ effective_map @ basis
        loss = float(dense.risk.map_loss(effective_map))
        assert float(found.risk.map_loss(there)) == pytest.approx(loss, rel=1e-12)
        force = basis @ found.risk.map_force(there) @ basis.T
        np.testing.assert_allclose(force, dense.risk.map_force(effective_map), atol=1e-13)


def test_the_best_map_of_few_heads_where_covariances_do_not_commute() -> None:
    """No map of that rank that descent finds is better, and descent finds it (T19)."""
    drive, summary, query = moments(TURN)
    risk = population_objective(1.0, 0.9, drive, summary, query, None).risk
    best = risk.best_map(3)
    assert best is not None
    np.testing.assert_allclose(summary @ best @ query, drive, atol=1e-13)
    for capacity in (1, 2):
        best = risk.best_map(capacity)
        assert best is not None
        assert np.linalg.matrix_rank(best, tol=1e-12) == capacity

        def loss(vector: np.ndarray, capacity: int = capacity) -> float:
            left, right = vector.reshape(2, capacity, 3)
            return float(risk.map_loss(left.T @ right))

        start = np.random.default_rng(0).standard_normal(6 * capacity)
        found = minimize(loss, start, method="BFGS", options={"gtol": 1e-9})
        assert float(risk.map_loss(best)) == pytest.approx(found.fun, abs=1e-9)
