"""Several layers of attention: one is the single-layer model, more are as written out."""

from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

from saddlescope.attention import (
    AbstractAttention,
    BalancedStart,
    DeepAttention,
    EigenvectorStart,
    FixedPointStart,
    MergedAttention,
    RandomStart,
    SeparateAttention,
    Weights,
)
from saddlescope.dynamics import GradientDescent, GradientFlow, Optimiser, train
from saddlescope.errors import InvalidInput
from saddlescope.precision import in_float64
from saddlescope.task import InContextRegression, Prompts

D, H, R = 3, 2, 2
TASK = InContextRegression([0.9, 0.6, 0.3], 7)
ONE_LENGTH = TASK.sample(6, seed=0)
RANDOM_LENGTHS = InContextRegression([0.9, 0.6, 0.3], {2: 0.5, 7: 0.5}).sample(6, seed=0)
each_rank = pytest.mark.parametrize("rank", [None, R], ids=["merged", "separate"])
# Un-normalised linear attention has one fixed length.
each_form = pytest.mark.parametrize(
    ("activation", "normalisation", "prompts"),
    [
        (activation, normalisation, prompts)
        for activation, normalisation, prompts in product(
            ("linear", "softmax"), ("context", "none"), (ONE_LENGTH, RANDOM_LENGTHS)
        )
        if (activation, normalisation, prompts) != ("linear", "none", RANDOM_LENGTHS)
    ],
)


def random_weights(model: AbstractAttention, seed: int = 1) -> Weights:
    random = np.random.default_rng(seed)
    return {n: 0.4 * random.standard_normal(shape) for n, shape in model.shapes(D).items()}


def scale_of(activation: str) -> float:
    """A scale of the scores, where there is a softmax to scale them for."""
    return 0.7 if activation == "softmax" else 1.0


def single_layer(deep: DeepAttention) -> Any:
    options: dict[str, Any] = {
        "normalisation": deep.normalisation,
        "blocks": "full",
        "activation": deep.activation,
        "softmax_scale": deep.softmax_scale,
    }
    if deep.rank is None:
        return MergedAttention(deep.heads, **options)
    return SeparateAttention(deep.heads, deep.rank, **options)


def to_single(weights: Weights) -> Weights:
    """What the single-layer model has of the weights of one layer."""
    row = weights["value"][..., 0, :, -1, :]
    parts = {"v": row[..., -1], "nu": row[..., :-1]}
    if "key_query" in weights:
        matrix = weights["key_query"][..., 0, :, :, :]
        return parts | {"U": matrix[..., :-1, :-1], "u": matrix[..., -1, :-1]}
    key, query = weights["key"][..., 0, :, :, :], weights["query"][..., 0, :, :, :]
    return parts | {"k": key[..., :-1], "kappa": key[..., -1], "q": query[..., :-1]}


def gain_on(model: AbstractAttention, prompts: Prompts) -> float:
    return model.gain(prompts.fixed_length)


@each_form
@each_rank
def test_one_layer_is_the_single_layer_model(rank, activation, normalisation, prompts) -> None:
    deep = DeepAttention(1, H, rank, activation, normalisation, scale_of(activation))
    weights, gain = random_weights(deep), gain_on(deep, prompts)
    single = single_layer(deep)
    expected = in_float64(single.predict)(to_single(weights), prompts, gain)
    predicted = in_float64(deep.predict)(weights, prompts, gain)
    np.testing.assert_allclose(predicted, expected, atol=1e-12)


def written_out(model: DeepAttention, weights: Weights, prompts: Prompts) -> np.ndarray:
    """Every token of a prompt attends to every other one in every layer."""
    if model.rank is None:
        matrices = weights["key_query"]
    else:
        matrices = np.einsum("lhra,lhrb->lhab", weights["key"], weights["query"])
    predictions = []
    for x, y, length in zip(prompts.x, prompts.y, prompts.lengths.astype(int), strict=True):
        inside = [*range(length), len(x) - 1]
        tokens = np.column_stack([x[inside], y[inside]]).T
        tokens[-1, -1] = 0.0
        for values, key_queries in zip(weights["value"], matrices, strict=True):
            change = np.zeros_like(tokens)
            for value, key_query in zip(values, key_queries, strict=True):
                scores = tokens.T @ key_query @ tokens
                if model.activation == "linear":
                    attention = scores / (length if model.normalisation == "context" else 1)
                else:
                    weight = np.exp(model.softmax_scale * scores)
                    if model.normalisation == "context":
                        weight[-1] = 0.0
                    attention = weight / weight.sum(0)
                change += value @ tokens @ attention
            tokens = tokens + change
        predictions.append(tokens[-1, -1])
    return np.array(predictions)


@each_form
@each_rank
def test_three_layers_as_written_out(rank, activation, normalisation, prompts) -> None:
    model = DeepAttention(3, H, rank, activation, normalisation, scale_of(activation))
    weights, gain = random_weights(model), gain_on(model, prompts)
    expected = written_out(model, weights, prompts)
    predicted = in_float64(model.predict)(weights, prompts, gain)
    np.testing.assert_allclose(predicted, expected, atol=1e-12 * max(1, np.abs(expected).max()))


def test_layers_take_steps_of_gradient_descent() -> None:
    # V writes −η times the label, K compares inputs: each layer takes one step of descent on the
    # context, and the labels become residuals (von Oswald et al. 2023). The query attends to
    # itself too, which adds an error of order 1/N.
    layers, rate, gaps = 3, 0.8, []
    model = DeepAttention(layers, 1)
    weights = {name: np.zeros(shape) for name, shape in model.shapes(D).items()}
    weights["value"][:, 0, -1, -1] = -rate
    weights["key_query"][:, 0, :-1, :-1] = np.eye(D)
    for length in (100, 1000):
        prompts = InContextRegression([0.9, 0.6, 0.3], length).sample(400, seed=3)
        context, labels = prompts.x[:, :-1], prompts.y[:, :-1]
        estimate = np.zeros((prompts.count, D))
        for _ in range(layers):
            residual = labels - np.einsum("pnd,pd->pn", context, estimate)
            estimate += rate * np.einsum("pn,pnd->pd", residual, context) / length
        steps = (estimate * prompts.query).sum(1)
        gap = in_float64(model.predict)(weights, prompts) + steps
        gaps.append(np.sqrt((gap**2).mean() / (steps**2).mean()))
    assert gaps[1] < 0.02
    # Sixth moments of 400 prompts are known to some 20 per cent.
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.4)


@pytest.mark.parametrize(("rank", "activation"), [(None, "linear"), (R, "softmax")])
def test_one_layer_trains_step_by_step_as_the_single_layer_model(rank, activation) -> None:
    prompts = TASK.sample(50, seed=4)
    deep = DeepAttention(1, H, rank, activation)
    weights = random_weights(deep)
    method = GradientDescent(learning_rate=0.01, steps=200)
    ours = train(deep, prompts, method=method, weights=weights, record=5)
    single = single_layer(deep)
    theirs = train(single, prompts, method=method, weights=to_single(weights), record=5)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-10)
    assert ours.loss[0, -1] < 0.9 * ours.loss[0, 0]
    for name, array in to_single(ours.weights(0)).items():
        np.testing.assert_allclose(array, theirs.weights(0)[name], atol=1e-9, err_msg=name)


@each_rank
def test_flow_of_two_linear_layers_conserves_each_ones_balance(rank) -> None:
    prompts = TASK.sample(20, seed=5)
    model = DeepAttention(2, H, rank)
    run = train(model, prompts, method=GradientFlow(until=10), init_scale=0.5, seeds=2, record=4)
    assert (run.loss[:, -1] < 0.8 * run.loss[:, 0]).all()
    assert model.conserved_axes
    for name in model.conserved_axes:
        kept = run.dataset[name]
        assert kept.dims[2] == "layer"
        # The solver's tolerance is 1e-10 a step.
        assert float(np.abs(kept - kept.isel(time=0)).max()) < 1e-6, name
    assert run.dataset["value"].dims[2:] == ("layer", "head", "written_dim", "token_dim")


def test_softmax_layers_train_with_adam_and_are_compared() -> None:
    prompts = TASK.sample(20, seed=6)
    model = DeepAttention(2, H, activation="softmax")
    with jax.numpy_dtype_promotion("standard"):
        method = Optimiser("adam", steps=60, learning_rate=0.01)
        run = train(model, prompts, method=method, init_scale=0.5, seeds=2, record=4)
    assert (run.loss[:, -1] < 0.9 * run.loss[:, 0]).all()
    assert model.conserved_axes == {}
    compared = run.compare()
    assert compared.plateau_losses is None
    assert compared.seeds[0].conserved_drift is None


@each_rank
def test_without_normalisation_time_runs_faster(rank) -> None:
    # Section 0, at any depth: weights w / g^(1/degree) with gain g compute what w do with gain 1,
    # and their gradient is g^(1/degree) times larger.
    model = DeepAttention(3, H, rank, normalisation="none")
    gain = gain_on(model, ONE_LENGTH)
    assert gain == ONE_LENGTH.context_length
    share = gain ** (1 / model.degree)
    assert model.time_unit(gain) == pytest.approx(share**2)
    weights = random_weights(model)
    scaled = {name: array / share for name, array in weights.items()}

    @in_float64
    def moved(at: Weights, gain: float) -> Any:
        return jax.value_and_grad(lambda w: (model.predict(w, ONE_LENGTH, gain) ** 2).sum())(at)

    (ours, slopes), (theirs, their_slopes) = moved(scaled, gain), moved(weights, 1.0)
    assert ours == pytest.approx(float(theirs), rel=1e-12)
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, share * their_slopes[name], rtol=1e-10, atol=1e-10)


def test_the_papers_entries_start_as_in_the_papers() -> None:
    for rank, single in ((None, MergedAttention(H)), (R, SeparateAttention(H, R))):
        ours, theirs = DeepAttention(3, H, rank).deviations(D), single.deviations(D)
        names = {"value": "v", "key_query": "U", "key": "k", "query": "q"}
        assert ours == {name: theirs[names[name]] for name in ours}
    drawn = RandomStart(0.5).weights(DeepAttention(2, H), ONE_LENGTH, seed=0)
    assert {name: array.shape for name, array in drawn.items()} == DeepAttention(2, H).shapes(D)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="layers"):
        DeepAttention(0, 2)
    with pytest.raises(InvalidInput, match="rank"):
        DeepAttention(1, 2, rank=0)
    with pytest.raises(InvalidInput, match="activation"):
        DeepAttention(1, 2, activation="relu")
    with pytest.raises(InvalidInput, match="train it on prompts"):
        train(DeepAttention(2, 2), TASK, method=GradientFlow(until=1))
    for start in (BalancedStart(), FixedPointStart((0,)), EigenvectorStart()):
        with pytest.raises(InvalidInput, match="needs an effective map"):
            start.weights(DeepAttention(2, 2), TASK, seed=0)
    unnormalised, method = DeepAttention(2, 2, normalisation="none"), GradientFlow(until=1)
    with pytest.raises(InvalidInput, match="one fixed context length"):
        train(unnormalised, RANDOM_LENGTHS, method=method)
