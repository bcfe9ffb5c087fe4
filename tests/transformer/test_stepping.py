"""Segments of steps: their borders leave no trace, and each step is what it should be."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saddlescope.transformer import AdamW, Decoder, DecoderShape, LanguageEvaluation, RepeatedTokens
from saddlescope.transformer._stepping import (
    Problem,
    State,
    advance,
    batch_keys,
    begin,
    evaluate,
)

SOURCE = RepeatedTokens(4, context=8, shortest=2, longest=4)
# Few weights, which compile fast.
SHAPE = DecoderShape(4, 8, layers=1, heads=1, d_model=4, positions="rotary", tied=True)
SEEDS = (3, 5)


def problem() -> Problem:
    return Problem(
        source=SOURCE,
        evaluation=LanguageEvaluation.of(SOURCE, jax.random.key(0), 2),
        optimiser=AdamW(learning_rate=0.01, warmup=2).traced(),
        steps=jnp.asarray(100),
        shape=SHAPE,
        batch_size=2,
        together=False,
    )


@pytest.fixture(scope="module")
def fresh() -> State:
    return begin(problem(), SEEDS)


@pytest.fixture(scope="module")
def moved(fresh: State) -> State:
    return advance(problem(), batch_keys(SEEDS), fresh, 5)


def same(first: Any, second: Any) -> None:
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_segments_equal_one_segment(fresh: State, moved: State) -> None:
    state = fresh
    for count in (2, 0, 3):
        state = advance(problem(), batch_keys(SEEDS), state, count)
    assert int(state.step) == 5
    same(state, moved)


def test_a_step_is_that_of_the_optimiser_on_the_seeds_own_batch(fresh: State) -> None:
    once = advance(problem(), batch_keys(SEEDS), fresh, 1)
    made = problem()
    weights = {name: array[1] for name, array in fresh.weights.items()}
    # The batches of a seed are drawn from its second key, that of the first step from its own.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(SEEDS[1]), 1), 0)
    slope = jax.jit(jax.grad(made.loss))(weights, SOURCE.batch(key, 2))
    begun = made.optimiser.begin(weights)
    expected, _ = made.optimiser.update(slope, begun, weights, fresh.step, made.steps)
    for name, array in expected.items():
        np.testing.assert_allclose(once.weights[name][1], array, rtol=1e-5, atol=1e-7)


def test_a_start_is_drawn_from_the_seeds_first_key(fresh: State) -> None:
    assert int(fresh.step) == 0
    for place, seed in enumerate(SEEDS):
        alone = Decoder.start(SHAPE, jax.random.fold_in(jax.random.key(seed), 0))
        for name, array in alone.weights.items():
            np.testing.assert_allclose(fresh.weights[name][place], array, rtol=1e-6)


def test_norms_are_in_the_order_of_the_shape(moved: State) -> None:
    computed, norms = evaluate(problem(), moved)
    assert computed["token_loss"].shape == (2, 8)
    for place, name in enumerate(SHAPE.weights):
        for seed in range(2):
            expected = np.linalg.norm(np.asarray(moved.weights[name][seed]))
            assert norms[seed, place] == pytest.approx(expected, rel=1e-6)
