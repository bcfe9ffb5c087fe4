"""Random tokens, repeated with a random period."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from saddlescope.checks import whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.transformer.sources.base import AbstractSource


@kind("value", "repeated_tokens")
class RepeatedTokens(AbstractSource):
    """Uniform random tokens, repeated with a period drawn for every sequence.

    The first period cannot be predicted (ln vocabulary nats a token); all that follows can be
    copied by an induction head. With a fixed period one layer would copy from a fixed distance, by
    positions alone; with a random one it cannot know how far back to look.

    Periods are drawn from `shortest` to `longest`.

    >>> tokens = RepeatedTokens(8, context=12, shortest=3, longest=5).batch(jax.random.key(0), 2)
    >>> tokens.shape
    (2, 13)
    """

    vocabulary: int = eqx.field(static=True)
    context: int = eqx.field(static=True)
    shortest: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    def __init__(
        self,
        vocabulary: object = 64,
        context: object = 128,
        shortest: object = 16,
        longest: object = 64,
    ) -> None:
        self.vocabulary = whole_number("vocabulary", vocabulary, at_least=2)
        self.context = whole_number("context", context, at_least=4)
        self.shortest = whole_number("shortest", shortest)
        self.longest = whole_number("longest", longest)
        if self.shortest > self.longest:
            raise InvalidInput("shortest", shortest, f"must be at most longest = {longest}")
        if self.longest > self.context // 2:
            raise InvalidInput(
                "longest", longest, f"must be at most half of context = {context}, to repeat once"
            )

    def batch(self, key: PRNGKeyArray, size: int) -> Int[Array, "S T"]:
        """Fresh sequences."""
        return self.batch_with_periods(key, size)[0]

    def batch_with_periods(
        self, key: PRNGKeyArray, size: int
    ) -> tuple[Int[Array, "S T"], Int[Array, " S"]]:
        """Fresh sequences and the period of each."""
        for_tokens, for_periods = jax.random.split(key)
        block = jax.random.randint(for_tokens, (size, self.longest), 0, self.vocabulary)
        period = jax.random.randint(for_periods, (size,), self.shortest, self.longest + 1)
        index = jnp.arange(self.context + 1, dtype=period.dtype)[None, :] % period[:, None]
        return jnp.take_along_axis(block, index, axis=1), period
