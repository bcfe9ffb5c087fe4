"""Bigrams with trigger tokens (Bietti et al. 2023, "Birth of a transformer")."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from saddlescope.checks import number, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.transformer.sources.base import AbstractSource


@kind("value", "bigram_triggers")
class BigramTriggers(AbstractSource):
    """A Markov chain in which what follows a trigger token is drawn once for each sequence.

    The `triggers` tokens 0 … triggers − 1 are triggers q_k. For each sequence an output o_k of
    each trigger is drawn uniformly from all tokens; then z_1 is drawn from the unigram law and
    z_{t+1} = o_k where z_t = q_k, and from the bigram law π_b(· | z_t) elsewhere. Bigram statistics
    can be learned by one layer; the output of a trigger can be known only from its earlier
    occurrence in the sequence, which takes an induction head.

    Bietti et al. take bigrams of characters from a text. Here the bigram law is drawn once from
    `seed`: each token is followed by a trigger with probability `trigger_share`, so that triggers
    recur in a short context, and otherwise by a token whose law is a Dirichlet draw with the given
    `concentration` (small: few likely successors).

    >>> source = BigramTriggers(vocabulary=16, context=32, triggers=2)
    >>> source.batch(jax.random.key(0), 4).shape
    (4, 33)
    """

    bigram: Float[Array, "V V"]
    """π_b, the law of the next token (last axis) given this one."""
    unigram: Float[Array, " V"]
    """The stationary law of π_b."""
    vocabulary: int = eqx.field(static=True)
    context: int = eqx.field(static=True)
    triggers: int = eqx.field(static=True)
    concentration: float = eqx.field(static=True)
    trigger_share: float = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    def __init__(
        self,
        vocabulary: object = 64,
        context: object = 128,
        triggers: object = 4,
        concentration: object = 0.1,
        trigger_share: object = 0.2,
        seed: object = 0,
    ) -> None:
        self.vocabulary = whole_number("vocabulary", vocabulary, at_least=2)
        self.context = whole_number("context", context, at_least=4)
        self.triggers = whole_number("triggers", triggers)
        if self.triggers >= self.vocabulary:
            raise InvalidInput("triggers", triggers, f"must be below vocabulary = {vocabulary}")
        self.concentration = number("concentration", concentration, above=0)
        self.trigger_share = number("trigger_share", trigger_share, above=0)
        if self.trigger_share >= 1:
            raise InvalidInput("trigger_share", trigger_share, "must be a share below 1")
        self.seed = whole_number("seed", seed, at_least=0)
        others = self.vocabulary - self.triggers
        rows = jax.random.dirichlet(
            jax.random.key(self.seed), jnp.full(others, self.concentration), (self.vocabulary,)
        )
        to_triggers = jnp.full((self.vocabulary, self.triggers), self.trigger_share / self.triggers)
        self.bigram = jnp.concatenate([to_triggers, (1 - self.trigger_share) * rows], axis=1)
        law = jnp.full(self.vocabulary, 1 / self.vocabulary)
        for _ in range(_STATIONARY_STEPS):
            law = law @ self.bigram
        self.unigram = law / law.sum()

    def batch(self, key: PRNGKeyArray, size: int) -> Int[Array, "S T"]:
        """Fresh sequences."""
        return self.batch_with_outputs(key, size)[0]

    def batch_with_outputs(
        self, key: PRNGKeyArray, size: int
    ) -> tuple[Int[Array, "S T"], Int[Array, "S K"]]:
        """Fresh sequences, and the output o_k that each trigger has in each."""
        for_outputs, for_first, for_rest = jax.random.split(key, 3)
        outputs = jax.random.randint(for_outputs, (size, self.triggers), 0, self.vocabulary)
        first = jax.random.categorical(for_first, jnp.log(self.unigram), shape=(size,))
        cumulative = jnp.cumsum(self.bigram, axis=1)
        draws = jax.random.uniform(for_rest, (self.context, size))

        def follow(
            token: Int[Array, " S"], draw: Float[Array, " S"]
        ) -> tuple[Int[Array, " S"], Int[Array, " S"]]:
            below = cumulative[token] < draw[:, None]
            bigram = jnp.minimum(below.sum(1), self.vocabulary - 1).astype(token.dtype)
            trigger = jnp.minimum(token, self.triggers - 1)
            output = jnp.take_along_axis(outputs, trigger[:, None], axis=1)[:, 0]
            then = jnp.where(token < self.triggers, output, bigram)
            return then, then

        first = first.astype(outputs.dtype)
        _, rest = jax.lax.scan(follow, first, draws)
        return jnp.concatenate([first[:, None], rest.T], axis=1), outputs


# A gap of .2 or more (trigger_share) is closed to rounding by then.
_STATIONARY_STEPS = 100
