"""Softmax and full blocks on prompts: against attention written out, and its gradients."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.attention import AbstractAttention, MergedAttention, SeparateAttention, Weights
from saddlescope.precision import in_float64
from saddlescope.risk import PromptRisk
from saddlescope.task import InContextRegression, Prompts

D, H, R = 3, 2, 2


def sample(lengths: Any, prompts: int = 6) -> Prompts:
    return InContextRegression([0.9, 0.6, 0.3], lengths, label_noise=0.3).sample(prompts, seed=0)


RANDOM_LENGTHS = sample({2: 0.5, 5: 0.5})
ONE_LENGTH = sample(5)


def random_weights(model: AbstractAttention, seed: int = 1) -> Weights:
    random = np.random.default_rng(seed)
    return {n: random.standard_normal(shape) for n, shape in model.shapes(D).items()}


def token_matrices(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Value and key–query matrices over tokens, [H, D+1, D+1], arbitrary where nothing depends."""
    random = np.random.default_rng(9)
    value, key_query = random.standard_normal((2, H, D + 1, D + 1))
    value[:, -1] = 0.0
    value[:, -1, :-1] = weights.get("nu", 0.0)
    value[:, -1, -1] = weights["v"]
    key_query[:, :, :-1] = 0.0
    if "U" in weights:
        key_query[:, :-1, :-1] = weights["U"]
        key_query[:, -1, :-1] = weights.get("u", 0.0)
    else:
        key_query[:, :-1, :-1] = np.einsum("hra,hrb->hab", weights["k"], weights["q"])
        if "kappa" in weights:
            key_query[:, -1, :-1] = np.einsum("hr,hrb->hb", weights["kappa"], weights["q"])
    return value, key_query


def written_out(model: AbstractAttention, weights: Weights, prompts: Prompts) -> np.ndarray:
    """Every token attends to every token of its own prompt; the query's label slot is read."""
    values, key_queries = token_matrices(weights)
    predictions = []
    for x, y, length in zip(prompts.x, prompts.y, prompts.lengths.astype(int), strict=True):
        inside = [*range(length), len(x) - 1]
        tokens = np.column_stack([x[inside], y[inside]]).T
        tokens[-1, -1] = 0.0
        written = tokens.copy()
        for value, key_query in zip(values, key_queries, strict=True):
            scores = tokens.T @ key_query @ tokens
            if model.activation == "linear":
                attention = scores / (length if model.normalisation == "context" else 1)
            else:
                weight = np.exp(model.softmax_scale * scores)
                if model.normalisation == "context":
                    weight[-1] = 0.0
                attention = weight / weight.sum(0)
            written += value @ tokens @ attention
        predictions.append(written[-1, -1])
    return np.array(predictions)


def make(kind: str, blocks: str, activation: str, normalisation: str) -> AbstractAttention:
    options = {"blocks": blocks, "activation": activation, "normalisation": normalisation}
    if kind == "merged":
        return MergedAttention(H, softmax_scale=0.7, **options)  # type: ignore[arg-type]
    return SeparateAttention(H, R, softmax_scale=0.7, **options)  # type: ignore[arg-type]


ALL = [
    pytest.param(make(*case), id="-".join(case))
    for case in product(
        ("merged", "separate"), ("reduced", "full"), ("linear", "softmax"), ("context", "none")
    )
]


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("prompts", [ONE_LENGTH, RANDOM_LENGTHS], ids=["one length", "lengths"])
def test_the_querys_row_is_all_of_attention_that_is_read(
    model: AbstractAttention, prompts: Prompts
) -> None:
    if model.is_linear and model.normalisation == "none":
        prompts = ONE_LENGTH  # The only kind that it takes.
    weights = random_weights(model)
    gain = model.gain(prompts.fixed_length)
    predicted = in_float64(model.predict)(weights, prompts, gain)
    expected = written_out(model, weights, prompts)
    np.testing.assert_allclose(predicted, expected, atol=1e-12 * np.abs(expected).max())


SOFTMAX = [case for case in ALL if not case.values[0].is_linear]


@pytest.mark.parametrize("model", SOFTMAX)
def test_gradients_are_those_of_finite_differences(model: AbstractAttention) -> None:
    weights = random_weights(model, seed=2)
    objective = model.objective(RANDOM_LENGTHS)
    risk = objective.risk
    assert isinstance(risk, PromptRisk)
    assert objective.basis is None
    with jax.enable_x64(True):
        arrays = jax.tree.map(jnp.asarray, risk)
        loss = jax.jit(lambda at: arrays.loss(model, at))
        velocity = arrays.velocity(model, jax.tree.map(jnp.asarray, weights), 1.0)
        # Central differences: an error of h² and of rounding over h.
        h = 1e-5
        for name, array in weights.items():
            for place in np.ndindex(array.shape):
                ends = []
                for sign in (1, -1):
                    moved = array.copy()
                    moved[place] += sign * h
                    ends.append(float(loss({**weights, name: moved})))
                slope = (ends[0] - ends[1]) / (2 * h)
                assert float(velocity[name][place]) == pytest.approx(
                    -slope / 2, abs=1e-8 * max(ends)
                )


def test_equal_scores_average_the_context() -> None:
    # With U = 0 every token has the same weight: ŷ is v times the mean label.
    for normalisation, extra in (("context", 0), ("none", 1)):
        model = MergedAttention(1, activation="softmax", normalisation=normalisation)
        weights = {"v": np.ones(1), "U": np.zeros((1, D, D))}
        predicted = in_float64(model.predict)(weights, RANDOM_LENGTHS)
        total = RANDOM_LENGTHS.y[:, :-1].sum(1)
        np.testing.assert_allclose(predicted, total / (RANDOM_LENGTHS.lengths + extra), atol=1e-14)
