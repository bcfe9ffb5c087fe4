"""The loss of a model's own predictions on prompts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.attention import LinearTransformer, MergedAttention
from saddlescope.risk import PromptRisk
from saddlescope.task import AlignedRegression, InContextRegression
from saddlescope.task.tree import Prompts

PROMPTS = InContextRegression([0.5, 0.3], context_length=7).sample(20, seed=1)
VECTORS: Prompts = AlignedRegression([0.5, 0.3], context_length=7).sample(20, seed=1)


def weights_of(model: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape) for name, shape in model.shapes(2).items()}


def test_it_is_the_mean_square_over_prompts() -> None:
    model = MergedAttention(2)
    weights = weights_of(model)
    residual = PROMPTS.target - model.predict(weights, PROMPTS, 7.0)
    loss = float(PromptRisk(np.float64(7.0), PROMPTS).loss(model, weights))
    assert loss == pytest.approx(np.mean(residual**2), rel=1e-13)


def test_the_entries_of_a_vector_label_are_summed() -> None:
    model = LinearTransformer()
    weights = weights_of(model)
    residual = VECTORS.target - model.predict(weights, VECTORS, 1.0)
    assert residual.shape == (20, 2)
    loss = float(PromptRisk(np.float64(1.0), VECTORS).loss(model, weights))
    assert loss == pytest.approx((residual**2).sum() / 20, rel=1e-12)


def test_its_velocity_is_that_of_the_sufficient_statistics() -> None:
    """By autodiff through every prompt, or by three moments: one number."""
    model = MergedAttention(2)
    exact = model.objective(PROMPTS).risk
    with jax.enable_x64(True):
        by_prompts = jax.tree.map(jnp.asarray, PromptRisk(np.float64(1.0), PROMPTS))
        weights = jax.tree.map(jnp.asarray, weights_of(model))
        velocity = by_prompts.velocity(model, weights, 0.3)
        wanted = jax.tree.map(jnp.asarray, exact).velocity(model, weights, jnp.asarray(0.3))
    for name, array in velocity.items():
        np.testing.assert_allclose(array, wanted[name], rtol=1e-10, atol=1e-13)


def test_no_best_map_is_known() -> None:
    assert PromptRisk(np.float64(1.0), PROMPTS).best_map(2) is None
