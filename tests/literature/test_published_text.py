"""Equations of the published text of the first paper (ICML 2025), written out and compared.

Numbers in brackets are those of the published version. Where a formula does not hold as it is
printed, a test says by which one it is replaced (docs/papers.md lists them).
"""

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.theory import minimal_norm_weights

EIGENVALUES = np.array([0.4, 0.3, 0.2, 0.1])
TASK = ss.InContextRegression(spectrum=EIGENVALUES, context_length=31)
COVARIANCE = np.diag(EIGENVALUES)
# (15)
MEAN_SQUARE = COVARIANCE @ COVARIANCE + (COVARIANCE + np.eye(4)) @ COVARIANCE / 31
# (18), of each eigenvector by itself
AMPLITUDES = 1 / EIGENVALUES / (1 + (1 + 1 / EIGENVALUES) / 31)

# Weights and moments are of order one, and what is compared is a sum of some twenty products.
ROUNDING = 1e-14


def velocity(model, task, weights):
    """The velocity of gradient flow with τ = 1."""
    return model.objective(task).risk.velocity(model, weights, 1.0)


def random_weights(model, seed=0):
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape) for name, shape in model.shapes(4).items()}


def separate_map(weights):
    """Σᵢ vᵢ kᵢ qᵢᵀ of rank one."""
    return np.einsum("h,ha,hb->ab", weights["v"], weights["k"][:, 0], weights["q"][:, 0])


def test_the_network_of_merged_attention_moves_as_8_says():
    prompts = TASK.sample(60, seed=1)
    model = ss.TwoLayerNetwork(heads=3)
    weights = random_weights(model)
    w2, w1 = weights["output"], weights["hidden"]
    z = prompts.cubic_features
    residual = (prompts.target @ z - w2 @ w1 @ z.T @ z) / 60
    moving = velocity(model, prompts, weights)
    np.testing.assert_allclose(moving["hidden"], np.outer(w2, residual), rtol=0, atol=1e-13)
    np.testing.assert_allclose(moving["output"], w1 @ residual, rtol=0, atol=1e-13)


def test_separate_attention_moves_as_14_says_with_the_map_of_14c_transposed():
    model = ss.SeparateAttention(heads=3)
    weights = random_weights(model)
    value, key, query = weights["v"], weights["k"][:, 0], weights["q"][:, 0]
    square, learned = COVARIANCE @ COVARIANCE, separate_map(weights)
    force = square - MEAN_SQUARE @ learned @ COVARIANCE
    moving = velocity(model, TASK, weights)
    expected = np.einsum("ha,ab,hb->h", key, force, query)
    np.testing.assert_allclose(moving["v"], expected, rtol=0, atol=ROUNDING)
    expected = value[:, None] * (query @ force.T)
    np.testing.assert_allclose(moving["k"][:, 0], expected, rtol=0, atol=ROUNDING)

    # Printed: Σ v k qᵀ. The gradient has Σ v q kᵀ.
    printed, right = (
        value[:, None] * (key @ (square - COVARIANCE @ matrix @ MEAN_SQUARE).T)
        for matrix in (learned, learned.T)
    )
    np.testing.assert_allclose(moving["q"][:, 0], right, rtol=0, atol=ROUNDING)
    assert np.abs(moving["q"][:, 0] - printed).max() > 0.01
    # Where the map is symmetric, as on the ansatz (20), they are the same.
    alike = velocity(model, TASK, {**weights, "q": weights["k"]})
    symmetric = separate_map({**weights, "q": weights["k"]})
    printed = value[:, None] * (key @ (square - COVARIANCE @ symmetric @ MEAN_SQUARE).T)
    np.testing.assert_allclose(alike["q"][:, 0], printed, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("inside", ["k", "q"])
def test_whatever_satisfies_the_three_conditions_rests(inside):
    """(C1) to (C3) for the second and fourth eigenvector, with as many heads as one likes."""
    learned, random = [1, 3], np.random.default_rng(2)
    keys, queries = np.zeros((2, 5, 4))
    values = np.array([1.0, -0.7, 0.4, 0.0, 0.0])
    # (C2): in the span. The last two of these make the sum of (C1), whatever the first is.
    keys[:3, learned], queries[:3, learned] = random.standard_normal((2, 3, 2))
    wanted = np.diag(AMPLITUDES[learned]) - values[0] * np.outer(
        keys[0, learned], queries[0, learned]
    )
    columns = values[1:3, None] * keys[1:3, learned]
    queries[1:3, learned] = np.linalg.solve(columns.T, wanted)
    # (C3): one of the two is anything.
    keys[3:], queries[3:] = random.standard_normal((2, 2, 4))
    (keys if inside == "k" else queries)[3:, [0, 2]] = 0
    weights = {"v": values, "k": keys[:, None], "q": queries[:, None]}
    point = ss.theory.fixed_points(TASK).at(learned)
    np.testing.assert_allclose(separate_map(weights), point.effective_map, rtol=0, atol=1e-12)
    for name, moving in velocity(ss.SeparateAttention(heads=5), TASK, weights).items():
        np.testing.assert_allclose(moving, 0, atol=1e-12, err_msg=name)


def test_heads_without_value_rest_on_less_than_c3_asks_for():
    """Neither key nor query in the span: it is enough that they do not drive the value."""
    model = ss.SeparateAttention(heads=2)
    weights = minimal_norm_weights(model, TASK, [0])
    idle = int(np.abs(weights["v"]).argmin())
    assert weights["v"][idle] == 0
    # kᵀ(Λ² outside the span) q = 0 with unlike unlearned eigenvectors, or with two of them each.
    for key, query in [
        ([0.0, 1, 0, 0], [0.0, 0, 1, 0]),
        ([0, 1, 1, 0], [0, 1 / 0.09, -1 / 0.04, 0]),
    ]:
        weights["k"][idle, 0], weights["q"][idle, 0] = key, query
        for name, moving in velocity(model, TASK, weights).items():
            np.testing.assert_allclose(moving, 0, atol=ROUNDING, err_msg=name)
    # With the same one they do drive it.
    weights["k"][idle, 0] = weights["q"][idle, 0] = [0, 1, 0, 0]
    assert velocity(model, TASK, weights)["v"][idle] == pytest.approx(0.09)


def test_merged_attention_rests_at_more_zeros_than_9a_has():
    """The values are zero, the key–query matrices any that are orthogonal to Λ²."""
    model = ss.MergedAttention(heads=2)
    matrices = np.random.default_rng(3).standard_normal((2, 4, 4))
    square = COVARIANCE @ COVARIANCE
    along = np.einsum("hab,ab->h", matrices, square) / (square**2).sum()
    orthogonal = matrices - along[:, None, None] * square
    still = velocity(model, TASK, {"v": np.zeros(2), "U": orthogonal})
    for name, moving in still.items():
        np.testing.assert_allclose(moving, 0, atol=ROUNDING, err_msg=name)
    driven = velocity(model, TASK, {"v": np.zeros(2), "U": matrices})
    assert np.abs(driven["v"]).min() > 0.01


def test_the_ansatz_of_20_moves_along_21_alone():
    """On the second plateau: the first head rests, the second moves as a scalar, the third not."""
    model, value = ss.SeparateAttention(heads=3), 0.3
    values = np.array([np.cbrt(AMPLITUDES[0]), value, 0.0])
    directions = values[:, None] * np.eye(4)[:3]
    moving = velocity(
        model, TASK, {"v": values, "k": directions[:, None], "q": directions[:, None]}
    )
    rate = 0.3**2 * value**2 - 0.3**3 * (1 + (1 + 1 / 0.3) / 31) * value**5
    np.testing.assert_allclose(moving["v"], [0, rate, 0], rtol=0, atol=ROUNDING)
    for name in ("k", "q"):
        expected = np.zeros((3, 4))
        expected[1, 1] = rate
        np.testing.assert_allclose(moving[name][:, 0], expected, rtol=0, atol=ROUNDING)
