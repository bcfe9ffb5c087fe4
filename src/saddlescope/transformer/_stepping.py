"""Whole segments of training steps in one compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree, Shaped

from saddlescope.running.programs import compiled
from saddlescope.transformer._decoder import Decoder, DecoderShape, Weights
from saddlescope.transformer._evaluation import AbstractEvaluation, Computed
from saddlescope.transformer._optimiser import AdamW, Moments
from saddlescope.transformer.sources.base import AbstractSource

# The random streams of a seed: its initial weights, and its batches.
_WEIGHTS, _BATCHES = 0, 1

Result = TypeVar("Result")
Measured = tuple[Computed, Float[Array, "... weight"]]
"""What an evaluation computes, and the norm of every weight."""


class Problem(eqx.Module):
    """All that a step depends on."""

    source: AbstractSource
    evaluation: AbstractEvaluation
    optimiser: AdamW
    steps: Int[Array, ""]
    """How many are taken in all."""
    shape: DecoderShape = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    together: bool = eqx.field(static=True)
    """Whether seeds are computed in one batch or one after another."""

    def loss(self, weights: Weights, tokens: Int[Array, "S T"]) -> Float[Array, ""]:
        """The mean loss over the predicted tokens."""
        decoder = Decoder(weights, self.shape)
        return decoder.token_losses(tokens, self.source.scored_from).mean()

    def over_seeds(
        self, function: Callable[..., Result], *arguments: PyTree[Shaped[Array, "..."]]
    ) -> Result:
        """A function of each seed's arguments, [seed, …]."""
        if self.together:
            return jax.vmap(function)(*arguments)
        return jax.lax.map(lambda one: function(*one), arguments)


class State(eqx.Module):
    """A training between two segments."""

    weights: Weights
    """By name, [seed, …]."""
    moments: Moments
    """The optimiser's, [seed, …]."""
    step: Int[Array, ""]
    """Steps taken."""


@compiled
def begin(problem: Problem, seeds: Sequence[int]) -> State:
    """Initial weights, each seed's drawn from it alone."""

    def one(key: PRNGKeyArray) -> tuple[Weights, Moments]:
        weights = Decoder.start(problem.shape, key).weights
        return weights, problem.optimiser.begin(weights)

    # Not compiled for all seeds at once, so that a seed's start does not depend on the others.
    starts = [one(_key(seed, _WEIGHTS)) for seed in seeds]
    weights, moments = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    return State(weights, moments, jnp.asarray(0))


def batch_keys(seeds: Sequence[int]) -> Key[Array, " seed"]:
    """The keys from which the batches of each seed are drawn, [seed]."""
    return jnp.stack([_key(seed, _BATCHES) for seed in seeds])


def advance(problem: Problem, keys: Key[Array, " seed"], state: State, count: int) -> State:
    """Take `count` steps; another count needs no recompilation."""
    # Full single precision on a GPU too, where the default rounds factors to ten bits.
    with jax.default_matmul_precision("highest"):
        return _advance(problem, keys, state, jnp.asarray(count))


@compiled
def _advance(
    problem: Problem, keys: Key[Array, " seed"], state: State, count: Int[Array, ""]
) -> State:
    def one(key: PRNGKeyArray, weights: Weights, moments: Moments) -> tuple[Weights, Moments]:
        def move(done: Int[Array, ""], carried: tuple[Weights, Moments]) -> tuple[Weights, Moments]:
            weights, moments = carried
            step = state.step + done
            tokens = problem.source.batch(jax.random.fold_in(key, step), problem.batch_size)
            gradient = jax.grad(problem.loss)(weights, tokens)
            return problem.optimiser.update(gradient, moments, weights, step, problem.steps)

        return jax.lax.fori_loop(0, count, move, (weights, moments))

    weights, moments = problem.over_seeds(one, keys, state.weights, state.moments)
    return State(weights, moments, state.step + count)


def evaluate(problem: Problem, state: State) -> Measured:
    """The evaluated quantities, and the norm of every weight, [seed, …]."""
    with jax.default_matmul_precision("highest"):
        return _evaluate(problem, state)


@compiled
def _evaluate(problem: Problem, state: State) -> Measured:
    def one(weights: Weights) -> Measured:
        # In the order of the shape: compiled code sees a dictionary sorted by name.
        norms = [jnp.sqrt((weights[name] ** 2).sum()) for name in problem.shape.weights]
        return problem.evaluation.compute(Decoder(weights, problem.shape)), jnp.stack(norms)

    return problem.over_seeds(one, state.weights)


def _key(seed: int, purpose: int) -> PRNGKeyArray:
    return jax.random.fold_in(jax.random.key(seed), purpose)
