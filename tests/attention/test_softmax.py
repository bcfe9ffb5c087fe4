"""Softmax and full blocks on prompts: against attention written out, and its gradients."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from saddlescope.attention import AbstractAttention, MergedAttention, SeparateAttention, Weights
from saddlescope.attention.formulas.softmax_row import softmax_row
from saddlescope.precision import in_float64
from saddlescope.risk import PromptRisk
from saddlescope.task import InContextRegression
from saddlescope.task.tree import Prompts

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
    scale = 0.7 if activation == "softmax" else 1.0
    if kind == "merged":
        return MergedAttention(H, softmax_scale=scale, **options)  # type: ignore[arg-type]
    return SeparateAttention(H, R, softmax_scale=scale, **options)  # type: ignore[arg-type]


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


def test_its_own_gradient_is_autodiffs_of_the_plain_formula() -> None:
    random = np.random.default_rng(4)
    tokens, directions = random.standard_normal((5, 7, 3)), random.standard_normal((5, 3, 2))
    values, target = random.standard_normal((2, 3)), random.standard_normal(5)
    present = np.arange(7)[None] < np.array([7, 4, 1, 6, 2])[:, None]

    def plain(tokens: Any, directions: Any, values: Any) -> Any:
        scores = jnp.where(present[:, :, None], tokens @ directions, -jnp.inf)
        attention = jax.nn.softmax(scores, axis=1)
        return jnp.einsum("pmh,pmt,ht->p", attention, tokens, values)

    def own(tokens: Any, directions: Any, values: Any) -> Any:
        return softmax_row(tokens, present, directions, values)

    def slopes(row: Any) -> Any:
        return jax.grad(lambda at: ((row(*at) - target) ** 2).sum())

    with jax.enable_x64(True):
        at = tuple(jnp.asarray(array) for array in (tokens, directions, values))
        along = tuple(
            jnp.cos(jnp.arange(array.size, dtype=float)).reshape(array.shape) for array in at
        )
        first, second = (jax.jvp(slopes(row), (at,), (along,)) for row in (own, plain))
    # The gradient and its own derivative; both are sums of some hundred terms of order 1 to 100.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), first, second
    )


def test_scores_far_apart_leave_the_largest_alone() -> None:
    # Differences of 10⁴ are far beyond what exp reaches: weights are 1 and 0, and no slope is left.
    tokens = np.array([[[1.0, 5.0], [2.0, 7.0], [3.0, 9.0]]])
    present = np.array([[True, True, False]])
    with jax.enable_x64(True):
        for sign, label in ((1e4, 7.0), (-1e4, 5.0)):
            directions, values = jnp.array([[[sign], [0.0]]]), jnp.array([[0.0, 1.0]])
            row, pull = jax.vjp(softmax_row, tokens, present, directions, values)
            assert row.tolist() == [label]
            on_directions, on_values = pull(jnp.ones(1))[2:]
            assert on_directions.tolist() == [[[0.0], [0.0]]]
            assert on_values[0, 1] == label


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0, 1000.0])
def test_scores_of_any_size_are_summed_up_without_overflow(precision: type, size: float) -> None:
    random = np.random.default_rng(0)
    tokens, directions, values = (
        random.standard_normal(shape).astype(precision) for shape in ((5, 7, 3), (5, 3, 2), (2, 3))
    )
    directions *= size
    present = np.ones((5, 7), bool)
    scores = (tokens @ directions).astype(float)
    attention = scipy.special.softmax(scores, axis=1)
    exact = np.einsum("pmh,pmt,ht->p", attention, tokens.astype(float), values.astype(float))
    with jax.enable_x64(precision is np.float64):
        row = softmax_row(tokens, present, directions, values)
    largest = float(np.abs(scores).max())
    np.testing.assert_allclose(
        row, exact, rtol=0, atol=40 * np.finfo(precision).eps * largest + 1e-6
    )


def test_a_batch_takes_one_branch_for_all() -> None:
    random = np.random.default_rng(1)
    tokens, present = jnp.asarray(random.standard_normal((5, 7, 3))), np.ones((5, 7), bool)
    values = jnp.asarray(random.standard_normal((2, 3)))
    sizes = jnp.asarray([[[[0.1]]], [[[1e4]]]])
    directions = sizes * jnp.asarray(random.standard_normal((2, 5, 3, 2)))

    def row(own: Any) -> Any:
        return softmax_row(tokens, present, own, values)

    program = str(jax.make_jaxpr(jax.vmap(row))(directions))
    assert "cond[" in program
    together = jax.vmap(row)(directions)
    np.testing.assert_allclose(together, [row(own) for own in directions], rtol=2e-6)
