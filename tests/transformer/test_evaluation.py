"""Evaluations of decoders whose losses, accuracies and patterns are known."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.transformer import (
    ArithmeticEvaluation,
    Decoder,
    DecoderShape,
    LanguageEvaluation,
    ModularArithmetic,
    RepeatedTokens,
)
from saddlescope.transformer._evaluation import windows

P = 5


def blank(shape: DecoderShape) -> dict[str, Any]:
    return {name: np.zeros(size, np.float32) for name, size in shape.weights.items()}


def compute(evaluation: Any, decoder: Decoder) -> dict[str, Any]:
    found = eqx.filter_jit(type(evaluation).compute)(evaluation, decoder)
    return evaluation.finish({name: np.asarray(array) for name, array in found.items()})


@pytest.fixture(scope="module")
def arithmetic() -> tuple[ModularArithmetic, dict[str, Any]]:
    """A decoder that gives 3/4 to the result 2 and 1/16 to every other, whatever it is asked."""
    source = ModularArithmetic(P, share=0.6)
    shape = DecoderShape(P + 1, 3, layers=1, heads=1, d_model=4, outputs=P)
    weights = blank(shape)
    weights["W_P"][2, 0] = 1
    weights["W_U"][:, 0] = np.log([1 / 16, 1 / 16, 3 / 4, 1 / 16, 1 / 16])
    weights["W_E"][:P, 1] = np.cos(2 * np.pi * 2 * np.arange(P) / P)
    # A number's mean is no frequency of its own.
    weights["W_E"][:P, 2] = 7
    return source, compute(ArithmeticEvaluation.of(source), Decoder.of(shape, weights))


@pytest.mark.parametrize("part", ["train", "test"])
def test_losses_and_accuracies_are_those_of_the_pairs(arithmetic: Any, part: str) -> None:
    source, answers = arithmetic
    right = np.asarray(getattr(source, part))[:, -1] == 2
    assert 0 < right.mean() < 1
    expected = np.where(right, -np.log(3 / 4), np.log(16)).mean()
    assert answers[f"{part}_loss"] == pytest.approx(expected, rel=1e-5)
    assert answers[f"{part}_accuracy"] == pytest.approx(right.mean())


def test_a_wave_has_all_of_its_power_in_one_frequency(arithmetic: Any) -> None:
    np.testing.assert_allclose(arithmetic[1]["embedding_power"], [0, 1], atol=1e-6)


def test_answers_have_the_axes_that_are_told(arithmetic: Any) -> None:
    source, answers = arithmetic
    axes = ArithmeticEvaluation.of(source).axes()
    assert {name: array.ndim for name, array in answers.items()} == {
        name: len(of_it) for name, of_it in axes.items()
    }


def test_a_decoder_that_knows_nothing() -> None:
    """Without weights every token is as likely as another, and attention is even."""
    source = RepeatedTokens(4, context=16, shortest=2, longest=8)
    evaluation = LanguageEvaluation.of(source, jax.random.key(0), 3)
    assert evaluation.sequences.shape == (3, 17)
    np.testing.assert_array_equal(evaluation.sequences, source.held_out(jax.random.key(0), 3))
    assert evaluation.probes.shape[1] == 16
    shape = DecoderShape(4, 16, layers=1, heads=2, d_model=4)
    answers = compute(evaluation, Decoder.of(shape, blank(shape)))
    np.testing.assert_allclose(answers["token_loss"], np.log(4), rtol=1e-6)
    assert answers["loss"] == pytest.approx(np.log(4))
    assert answers["early_loss"] == pytest.approx(np.log(4))
    assert answers["in_context_score"] == pytest.approx(0, abs=1e-6)
    matching = answers["prefix_matching"]
    assert matching.shape == (1, 2)
    assert matching[0, 0] == matching[0, 1]
    assert 0 < matching[0, 0] < 0.5
    assert set(answers) == set(evaluation.axes())


def finished(losses: list[float], patterns: Any) -> dict[str, Any]:
    """Of one sequence `0 1 0 1`, with one layer of one head."""
    probes = jnp.asarray([[0, 1, 0, 1]])
    evaluation = LanguageEvaluation(jnp.zeros((1, 9), int), probes)
    computed = {"token_loss": np.array(losses), "patterns": np.array(patterns)[None, None, None]}
    return evaluation.finish(computed)


INDUCTION = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_scores_are_of_their_windows() -> None:
    losses = [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    answers = finished(losses, INDUCTION)
    # Of eight positions the first is early, the last two are late.
    assert answers["early_loss"] == 8
    assert answers["in_context_score"] == 1.5 - 8
    assert answers["loss"] == 4.5
    np.testing.assert_allclose(answers["prefix_matching"], [[1]])


def test_what_is_not_finite_is_told_as_nan() -> None:
    answers = finished([np.nan] * 8, INDUCTION)
    assert np.isnan(answers["in_context_score"])
    assert answers["prefix_matching"].shape == (1, 1)
    assert np.isnan(answers["prefix_matching"]).all()


@pytest.mark.parametrize("length", range(1, 40))
def test_windows_hold_something_and_early_is_not_late(length: int) -> None:
    positions, where = np.arange(length), windows(length)
    early, late = positions[where["early"]], positions[where["late"]]
    assert len(early) > 0
    assert len(late) > 0
    assert length < 2 or early.max() < late.min()
