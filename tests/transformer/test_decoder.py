"""The decoder: gradients, causality, a hand-built induction head, and what shapes are refused."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.errors import InvalidInput
from saddlescope.measure import circuits, copying_scores, prefix_matching
from saddlescope.transformer import Decoder, DecoderShape, RepeatedTokens
from saddlescope.transformer._decoder import rotate

KINDS = {
    "attention only": {},
    "rotary": {"positions": "rotary"},
    "mlp": {"d_mlp": 6, "activation": "gelu"},
    "normed": {"d_mlp": 6, "layer_norm": True, "tied": True},
}


def shape(**changes: Any) -> DecoderShape:
    small = {"vocabulary": 7, "context": 6, "layers": 2, "heads": 2, "d_model": 8}
    return DecoderShape(**{**small, **changes})


def start(shape: DecoderShape, dtype: Any = np.float32) -> Decoder:
    draw = np.random.default_rng(0).normal
    sizes = shape.weights.items()
    return Decoder.of(shape, {name: 0.5 * draw(size=size).astype(dtype) for name, size in sizes})


# Compiled as a whole: one operation after another would be compiled each by itself.
@eqx.filter_jit
def compute(decoder: Decoder, sequences: Any) -> Any:
    return decoder.logits(sequences), decoder.patterns(sequences)


token_losses = eqx.filter_jit(Decoder.token_losses)


def tokens(size: int, length: int, vocabulary: int = 7) -> Any:
    return jax.random.randint(jax.random.key(5), (size, length), 0, vocabulary)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    with jax.enable_x64(True):
        decoder, sequences = start(shape(**KINDS[kind]), np.float64), tokens(2, 7)

        @jax.jit
        def loss(weights: Any) -> Any:
            def mean(weights: Any) -> Any:
                return Decoder(weights, decoder.shape).token_losses(sequences).mean()

            return jax.value_and_grad(mean)(weights)

        gradient = loss(decoder.weights)[1]
        assert set(gradient) == set(decoder.shape.weights)
        rng = np.random.default_rng(1)
        for name, weight in decoder.weights.items():
            direction = rng.normal(size=weight.shape)
            # The error is of second order in the step, that of rounding 1e-16 over it.
            there, back = (
                loss({**decoder.weights, name: weight + sign * 1e-5 * direction})[0]
                for sign in (1, -1)
            )
            slope = float((np.asarray(gradient[name]) * direction).sum())
            assert (there - back) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-9), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_token_changes_nothing_earlier(kind: str) -> None:
    decoder = start(shape(**KINDS[kind]))
    before = tokens(3, 6)
    after = before.at[:, 4].set((before[:, 4] + 1) % 7)
    first, second = compute(decoder, before)[0], compute(decoder, after)[0]
    np.testing.assert_array_equal(first[:, :4], second[:, :4])
    assert not np.allclose(first[:, 4:], second[:, 4:])


@pytest.mark.parametrize("kind", KINDS)
def test_patterns_are_causal_and_sum_to_one(kind: str) -> None:
    decoder = start(shape(**KINDS[kind]))
    patterns = compute(decoder, tokens(3, 6))[1]
    assert patterns.shape == (3, 2, 2, 6, 6)
    assert not np.triu(patterns, 1).any()
    np.testing.assert_allclose(patterns.sum(-1), 1, rtol=1e-6)


def test_the_last_positions_can_be_had_alone() -> None:
    decoder, sequences = start(shape(**KINDS["normed"])), tokens(3, 6)
    whole, part = (
        compute(decoder, sequences)[0],
        eqx.filter_jit(Decoder.logits)(decoder, sequences, 4),
    )
    np.testing.assert_allclose(part, whole[:, 4:], rtol=1e-5, atol=1e-6)


def test_losses_are_those_of_the_probabilities() -> None:
    decoder, sequences = start(shape()), tokens(2, 7)
    chances = np.asarray(jax.nn.softmax(compute(decoder, sequences[:, :-1])[0], axis=-1))
    losses = np.asarray(token_losses(decoder, sequences))
    for row, column in itertools.product(range(2), range(6)):
        chance = chances[row, column, sequences[row, column + 1]]
        assert losses[row, column] == pytest.approx(-np.log(chance), rel=1e-5)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    query, key = jax.random.normal(jax.random.key(0), (2, 8))
    turned = [rotate(jnp.broadcast_to(vector, (10, 8))) for vector in (query, key)]
    scores = np.asarray(jnp.einsum("qk,sk->qs", *turned))
    for distance in range(-9, 10):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    assert np.ptp(scores[0]) > 0.1
    np.testing.assert_allclose(np.linalg.norm(turned[0], axis=1), np.linalg.norm(query), rtol=1e-5)


VOCABULARY, CONTEXT, SHARPNESS = 24, 32, 60.0


def induction_decoder() -> Decoder:
    """Two layers of one head: the first copies the token before, the second looks it up.

    The stream has three parts: the token, the position, and the token before.
    """
    wide = 2 * VOCABULARY + CONTEXT
    head = max(VOCABULARY, CONTEXT)
    token = slice(0, VOCABULARY)
    position = slice(VOCABULARY, VOCABULARY + CONTEXT)
    before = slice(VOCABULARY + CONTEXT, wide)
    made = DecoderShape(VOCABULARY, CONTEXT, layers=2, heads=1, d_model=wide, d_head=head)
    weights = {name: np.zeros(size, np.float32) for name, size in made.weights.items()}
    weights["W_E"][:, token] = np.eye(VOCABULARY)
    weights["W_P"][:, position] = np.eye(CONTEXT)
    weights["W_U"][:, token] = SHARPNESS * np.eye(VOCABULARY)
    scale = SHARPNESS * np.sqrt(head)
    # Layer 0: position t attends to t - 1 and writes its token into the third part.
    weights["W_Q"][0, 0, : CONTEXT - 1, position] = scale * np.eye(CONTEXT - 1, CONTEXT, k=1)
    weights["W_K"][0, 0, : CONTEXT - 1, position] = np.eye(CONTEXT - 1, CONTEXT)
    weights["W_V"][0, 0, :VOCABULARY, token] = np.eye(VOCABULARY)
    weights["W_O"][0, 0, before, :VOCABULARY] = np.eye(VOCABULARY)
    # Layer 1: a token attends to where it was the token before, and copies what stands there.
    weights["W_Q"][1, 0, :VOCABULARY, token] = scale * np.eye(VOCABULARY)
    weights["W_K"][1, 0, :VOCABULARY, before] = np.eye(VOCABULARY)
    # The first position has nothing before it, and in layer 0 it can attend to itself only.
    weights["W_K"][1, 0, :VOCABULARY, position.start] = -1
    weights["W_V"][1, 0, :VOCABULARY, token] = np.eye(VOCABULARY)
    # Twice, so that it outweighs the token itself, which is in the stream as well.
    weights["W_O"][1, 0, token, :VOCABULARY] = 2 * np.eye(VOCABULARY)
    return Decoder.of(made, weights)


def distinct_repeated(period: int) -> Any:
    """Sequences whose tokens are distinct within a period."""
    block = np.stack([np.random.default_rng(seed).permutation(VOCABULARY) for seed in range(8)])
    return jnp.asarray(block[:, np.arange(CONTEXT + 1) % period], dtype=jnp.int32)


@pytest.mark.parametrize("period", [9, 14])
def test_a_hand_built_induction_head_is_found_and_predicts_repetitions(period: int) -> None:
    decoder, sequences = induction_decoder(), distinct_repeated(period)
    patterns = np.moveaxis(np.asarray(compute(decoder, sequences[:, :-1])[1]), 1, 0)
    scores = prefix_matching(patterns, np.asarray(sequences[:, :-1]))[:, 0]
    assert scores[1] > 0.999
    assert scores[0] < 0.01
    # The first token of the second period has no forerunner; all that follow it have.
    losses = np.asarray(token_losses(decoder, sequences))
    assert losses[:, period:].max() < 1e-3
    assert losses[:, : period - 1].mean() > np.log(VOCABULARY)


def test_a_hand_built_induction_head_copies() -> None:
    decoder = induction_decoder()
    weights = {name: np.asarray(array) for name, array in decoder.weights.items()}
    made = circuits(weights["W_Q"], weights["W_K"], weights["W_V"], weights["W_O"])
    scores = copying_scores(made, weights["W_E"].T, weights["W_U"])
    assert scores[1, 0] == pytest.approx(1)
    assert scores[0, 0] == pytest.approx(0)


def test_it_predicts_a_sources_repetitions_too() -> None:
    # Tokens recur by chance within a period, where the head is of two minds.
    source = RepeatedTokens(VOCABULARY, CONTEXT, shortest=4, longest=6)
    losses = token_losses(induction_decoder(), source.batch(jax.random.key(0), 64))
    assert np.median(np.asarray(losses)[:, 8:]) < 1e-3


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"vocabulary": 0}, "vocabulary"),
        ({"context": 1.5}, "context"),
        ({"layers": 0}, "layers"),
        ({"heads": "two"}, "heads"),
        ({"heads": 3}, "d_model"),
        ({"d_head": 0}, "d_head"),
        ({"d_head": 3, "positions": "rotary"}, "d_head"),
        ({"d_mlp": -1}, "d_mlp"),
        ({"positions": "sinusoidal"}, "positions"),
        ({"activation": "tanh"}, "activation"),
        ({"layer_norm": 1}, "layer_norm"),
        ({"tied": None}, "tied"),
        ({"tied": True, "outputs": 3}, "outputs"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        shape(**changes)
    assert refused.value.field == field


def test_weights_that_do_not_fit_are_refused() -> None:
    good = dict(start(shape()).weights)
    assert Decoder.of(shape(), good).shape == shape()
    with pytest.raises(InvalidInput, match=r"W_Q\.shape"):
        Decoder.of(shape(), {**good, "W_Q": good["W_Q"][:1]})
    with pytest.raises(InvalidInput, match="weights"):
        Decoder.of(shape(), {name: good[name] for name in list(good)[1:]})


def test_sequences_longer_than_the_context_are_refused() -> None:
    decoder = start(shape())
    with pytest.raises(InvalidInput, match="at most 6 positions"):
        decoder.logits(tokens(1, 7))
