"""AdamW beside optax's own and beside its formula, step by step."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from saddlescope.transformer import AdamW

RATE, DECAY, BETAS = 0.01, 0.3, (0.8, 0.95)
STEPS = 4


def start() -> dict[str, Any]:
    return {"W": jnp.asarray([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.asarray([0.25])}


def gradient(step: int) -> dict[str, Any]:
    draw = np.random.default_rng(step).normal
    return {name: jnp.asarray(draw(size=w.shape), jnp.float32) for name, w in start().items()}


def course(warmup: int = 0, cooldown: int = 0) -> list[dict[str, Any]]:
    """The weights before the first step and after each."""
    optimiser = AdamW(RATE, DECAY, BETAS, warmup, cooldown).traced()
    steps = jnp.asarray(STEPS)
    weights = start()
    moments, found = optimiser.begin(weights), [weights]
    for step in range(STEPS):
        now = jnp.asarray(step)
        weights, moments = optimiser.update(gradient(step), moments, weights, now, steps)
        found.append(weights)
    return found


def test_without_a_warm_up_it_is_that_of_optax() -> None:
    theirs = optax.adamw(RATE, *BETAS, weight_decay=DECAY)
    weights = start()
    state = theirs.init(weights)
    with jax.numpy_dtype_promotion("standard"):
        for step, ours in enumerate(course()[1:]):
            changes, state = theirs.update(gradient(step), state, weights)
            weights = optax.apply_updates(weights, changes)
            for name, array in weights.items():
                np.testing.assert_allclose(ours[name], array, rtol=1e-6)


@pytest.mark.parametrize(("warmup", "cooldown"), [(0, 0), (3, 0), (0, 3), (2, 2), (3, 4)])
def test_it_follows_its_formula(warmup: int, cooldown: int) -> None:
    first, second = BETAS
    for name, initial in start().items():
        weight = np.asarray(initial, np.float64)
        mean, square = np.zeros_like(weight), np.zeros_like(weight)
        for step, ours in enumerate(course(warmup, cooldown)[1:]):
            slope = np.asarray(gradient(step)[name], np.float64)
            mean = first * mean + (1 - first) * slope
            square = second * square + (1 - second) * slope**2
            sound = mean / (1 - first ** (step + 1))
            spread = np.sqrt(square / (1 - second ** (step + 1))) + 1e-8
            risen = (step + 1) / warmup if warmup else 1
            left = (STEPS - step) / cooldown if cooldown else 1
            rate = RATE * min(risen, left, 1)
            weight = weight - rate * (sound / spread + DECAY * weight)
            np.testing.assert_allclose(ours[name], weight, rtol=1e-5)


def test_plain_numbers_are_kept_and_traced_ones_are_arrays() -> None:
    plain = AdamW(1, 0, [0.5, 0.75], 10.0)
    assert (plain.learning_rate, plain.weight_decay, plain.betas) == (1.0, 0.0, (0.5, 0.75))
    assert type(plain.warmup) is int
    leaves = jax.tree.leaves(plain.traced())
    assert [float(leaf) for leaf in leaves] == [1, 0, 0.5, 0.75, 10, 0]
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
