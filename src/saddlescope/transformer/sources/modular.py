"""Modular arithmetic: every pair once, a share of them to train on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from saddlescope.checks import number, validated, whole_number, word_of
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind
from saddlescope.transformer.sources.base import AbstractSource, Description


class Operation(StrEnum):
    """The operation on two numbers, modulo p.

    >>> [operation.value for operation in Operation]
    ['add', 'subtract', 'multiply', 'divide']
    """

    add = "add"
    subtract = "subtract"
    multiply = "multiply"
    divide = "divide"


@validated
@dataclass(frozen=True)
class PairSplit:
    """Which pairs there are, and the share of them to train on: checked, but not drawn yet."""

    p: int
    share: float
    operation: Operation = Operation.add
    seed: int = 0

    def __post_init__(self) -> None:
        p = whole_number("p", self.p, at_least=3)
        if any(p % divisor == 0 for divisor in range(2, int(p**0.5) + 1)):
            raise InvalidInput("p", self.p, "must be a prime, at least 3")
        share = self.share
        vars(self).update(
            p=p,
            share=number("share", share, above=0),
            operation=word_of("operation", self.operation, Operation),
            seed=whole_number("seed", self.seed, at_least=0),
        )
        if not 0 < self.trained < self.count:
            raise InvalidInput("share", share, "must leave pairs to train on and to test on")

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.p * (self.p - _lowest_second(self.operation))

    @property
    def trained(self) -> int:
        """How many of them are trained on."""
        return int(self.share * self.count)

    def draw(self) -> tuple[Int[Array, "train 4"], Int[Array, "test 4"]]:
        """The sequences to train on, and the others."""
        order = np.asarray(jax.random.permutation(jax.random.key(self.seed), self.count))
        sequences = jnp.asarray(table(self.p, self.operation)[order])
        return sequences[: self.trained], sequences[self.trained :]


@kind("value", "modular_arithmetic")
class ModularArithmetic(AbstractSource):
    """All pairs (a, b) modulo a prime p as sequences `a b = result`.

    Tokens 0 … p − 1 are the numbers and p is `=`; only the result is predicted. Division leaves out
    b = 0. A share of the pairs, drawn with `seed` and rounded down, is trained on, all of it at
    every step; the others are held out.

    `operation` is what is done with the two numbers.

    >>> pairs = ModularArithmetic(5, share=.5, operation="divide")
    >>> pairs.train.shape, pairs.test.shape
    ((10, 4), (10, 4))
    >>> bool((pairs.train[:, 3] * pairs.train[:, 1] % 5 == pairs.train[:, 0]).all())
    True
    """

    train: Int[Array, "train 4"]
    test: Int[Array, "test 4"]
    p: int = eqx.field(static=True)
    share: float = eqx.field(static=True)
    operation: Operation = eqx.field(static=True)
    seed: int = eqx.field(static=True)
    vocabulary: int = eqx.field(static=True)
    context: int = eqx.field(static=True)

    # The result alone.
    scored_from = 3

    def __init__(
        self,
        p: object = 53,
        share: object = 0.5,
        operation: object = Operation.add,
        seed: object = 0,
    ) -> None:
        split = PairSplit(p, share, operation, seed)  # type: ignore[arg-type]
        vars(self).update(vars(split))
        self.vocabulary, self.context = self.p + 1, 3
        self.train, self.test = split.draw()

    @property
    def outputs(self) -> int:
        """The numbers."""
        return self.p

    def batch(self, key: PRNGKeyArray, size: int) -> Int[Array, "train 4"]:
        """All pairs that are trained on."""
        return self.train

    def held_out(self, key: PRNGKeyArray, size: int) -> Int[Array, "test 4"]:
        """All pairs that are not."""
        return self.test

    def written(self) -> Description:
        """Identifies the source."""
        return {"p": self.p, "share": self.share, "operation": self.operation, "seed": self.seed}


def table(p: int, operation: Operation) -> Int[np.ndarray, "pair 4"]:
    """Every pair and its result as a sequence `a b = result`, [pair, 4]."""
    grid = np.meshgrid(np.arange(p), np.arange(_lowest_second(operation), p), indexing="ij")
    first, second = (operand.ravel() for operand in grid)
    if operation is Operation.divide:
        inverse = np.array([0, *(pow(b, -1, p) for b in range(1, p))])
        result = first * inverse[second]
    else:
        compute = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
        result = compute[operation](first, second)
    return np.stack([first, second, np.full_like(first, p), result % p], axis=1).astype(np.int32)


def _lowest_second(operation: Operation) -> int:
    """The lowest second number: nothing can be divided by 0."""
    return 1 if operation is Operation.divide else 0
