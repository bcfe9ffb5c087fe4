"""The interface of training data: sequences of tokens, drawn inside compiled code."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Int, PRNGKeyArray

Description = dict[str, str | int | float]


class AbstractSource(eqx.Module):
    """A law of token sequences.

    A sequence has `context` tokens that are read and one more that is only predicted. A source is
    passed to compiled code as it is: its arrays may change without recompilation, and all else is
    static. `batch` and `held_out` are pure functions of the key.

    >>> import jax
    >>> from saddlescope.transformer import RepeatedTokens
    >>> source = RepeatedTokens(8, context=16, shortest=2, longest=8)
    >>> source.batch(jax.random.key(0), 3).shape  # 16 tokens that are read and one more
    (3, 17)
    """

    vocabulary: eqx.AbstractVar[int]
    """How many tokens there are; tokens are the whole numbers below it."""
    context: eqx.AbstractVar[int]
    """How many tokens are read."""

    scored_from: ClassVar[int] = 1
    """The first position in a sequence whose token is to be predicted."""

    @property
    def outputs(self) -> int:
        """How many tokens can be predicted."""
        return self.vocabulary

    @abc.abstractmethod
    def batch(self, key: PRNGKeyArray, size: int) -> Int[Array, "S T"]:
        """Sequences to train on."""

    def held_out(self, key: PRNGKeyArray, size: int) -> Int[Array, "S T"]:
        """Sequences that are not trained on; fresh ones, if the source never repeats itself."""
        return self.batch(key, size)

    def written(self) -> Description:
        """Identifies the source in a result and in a checkpoint: all of its static parts."""
        static = [field.name for field in dataclasses.fields(self) if field.metadata.get("static")]
        return {name: getattr(self, name) for name in static}
