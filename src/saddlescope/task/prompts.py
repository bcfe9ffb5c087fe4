r"""Given data, and the sufficient statistics streamed from it (T6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlescope.checks import FloatArray, number, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput

# Prompts whose features are held at once while statistics are accumulated.
_CHUNK = 4096


@dataclass(frozen=True, eq=False, init=False)
class Prompts:
    """Prompts as data: `x[P, N+1, D]` with the query last, `y[P, N+1]` with its target last.

    `lengths[P]` gives each prompt's own context length where they differ; the context pairs beyond
    it (positions `lengths[p]` to N−1) must be zero. Attention is divided by a prompt's own length.

    >>> Prompts(np.ones((3, 5, 2)), np.ones((3, 5)))
    Prompts(3 prompts, context_length=4, dimension=2)
    """

    x: FloatArray
    y: FloatArray
    lengths: FloatArray

    def __init__(self, x: object, y: object, lengths: object = None) -> None:
        inputs = real_array("x", x, (None, None, None))
        count, tokens, dimension = inputs.shape
        if count == 0 or tokens < 2 or dimension == 0:
            raise InvalidInput(
                "x.shape", inputs.shape, "must be (P, N+1, D) with P, N and D at least 1"
            )
        labels = real_array("y", y, (count, tokens))
        own = real_array(
            "lengths", np.full(count, tokens - 1) if lengths is None else lengths, (count,)
        )
        if ((own < 1) | (own > tokens - 1) | (own != np.round(own))).any():
            raise InvalidInput("lengths", lengths, f"must be whole numbers from 1 to {tokens - 1}")
        if lengths is not None:
            beyond = np.arange(tokens - 1) >= own[:, None]
            if inputs[:, :-1][beyond].any() or labels[:, :-1][beyond].any():
                raise InvalidInput("lengths", lengths, "context pairs beyond them must be zero")
        object.__setattr__(self, "x", inputs)
        object.__setattr__(self, "y", labels)
        object.__setattr__(self, "lengths", own)

    @property
    def count(self) -> int:
        """P, the number of prompts."""
        return self.x.shape[0]

    @property
    def context_length(self) -> int:
        """N, the largest number of context pairs in a prompt."""
        return self.x.shape[1] - 1

    @property
    def dimension(self) -> int:
        """D."""
        return self.x.shape[2]

    @property
    def fixed_length(self) -> int | None:
        """N where every prompt has all N context pairs, else None."""
        return self.context_length if (self.lengths == self.context_length).all() else None

    @property
    def summary(self) -> FloatArray:
        r"""$\beta = \frac{1}{N}\sum_n y_n x_n$ of every prompt, [P, D]."""
        summed = np.matmul(self.y[:, None, :-1], self.x[:, :-1])[:, 0]
        return summed / self.lengths[:, None]

    @property
    def query(self) -> FloatArray:
        """The query of every prompt, [P, D]."""
        return self.x[:, -1]

    @property
    def target(self) -> FloatArray:
        """The query's target of every prompt, [P]."""
        return self.y[:, -1]

    @property
    def cubic_features(self) -> FloatArray:
        r"""$z = \mathrm{vec}(\beta x_q^\top) = x_q \otimes \beta$ (T4), [P, D²]."""
        return cubic_features(self.summary, self.query)

    @property
    def block_features(self) -> FloatArray:
        r"""$\phi = (T_{ab}x_c, \beta_a x_b, s x_a)$, which all blocks see (T5), [P, D³+D²+D]."""
        context, query, lengths = self.x[:, :-1], self.query, self.lengths
        second = np.matmul(context.mT, context) + query[:, :, None] * query[:, None, :]
        second /= lengths[:, None, None]
        power = (self.y[:, :-1] ** 2).sum(1) / lengths
        parts = [
            (second[:, :, :, None] * query[:, None, None, :]).reshape(self.count, -1),
            (self.summary[:, :, None] * query[:, None, :]).reshape(self.count, -1),
            power[:, None] * query,
        ]
        return np.concatenate(parts, axis=1)

    def features(self, blocks: str) -> FloatArray:
        """What a linear attention with these blocks is linear in: reduced (T4) or full (T5)."""
        return self.cubic_features if blocks == "reduced" else self.block_features

    def statistics(self, blocks: str = "reduced") -> Statistics:
        """All that full-batch training of a linear attention sees of these prompts (T6)."""
        return Statistics.from_batches([self], blocks)

    def __repr__(self) -> str:
        return (
            f"Prompts({self.count} prompts, context_length={self.context_length}, "
            f"dimension={self.dimension})"
        )


def cubic_features(summary: Any, query: Any) -> Any:
    r"""$z = x_q \otimes \beta$ of each prompt, [P, D²], from `summary[P, D]` and `query[P, D]`."""
    return (query[:, :, None] * summary[:, None, :]).reshape(summary.shape[0], -1)


@dataclass(frozen=True, eq=False, init=False)
class Statistics:
    r"""Sufficient statistics of prompts for a linear attention (T6).

    A linear attention is linear in fixed features $\phi$ of a prompt: the $D^2$ cubic ones
    (`blocks="reduced"`, T4) or the $D^3+D^2+D$ of all blocks (`blocks="full"`, T5). Full-batch
    training on the squared loss sees data of any size only through $E[\phi\phi^\top]$
    (`second_moment[F, F]`), $E[y\phi]$ (`cross_moment[F]`) and $E[y^2]$ (`label_power`).
    """

    second_moment: FloatArray
    cross_moment: FloatArray
    label_power: float
    count: int | None
    """How many prompts they are of, None for the exact ones of a law."""
    context_length: int | None
    """N where every prompt has the same one, else None."""
    blocks: str

    def __init__(
        self,
        second_moment: object,
        cross_moment: object,
        label_power: float,
        count: int | None,
        context_length: int | None,
        blocks: str = "reduced",
    ) -> None:
        one_of("blocks", blocks, ("reduced", "full"))
        cross = real_array("cross_moment", cross_moment, (None,))
        if cross.size == 0 or _feature_count(_dimension(cross.size, blocks), blocks) != cross.size:
            wanted = "(D²,)" if blocks == "reduced" else "(D³+D²+D,)"
            raise InvalidInput("cross_moment.shape", cross.shape, f"must be {wanted}")
        second = real_array("second_moment", second_moment, (cross.size, cross.size))
        object.__setattr__(self, "second_moment", second)
        object.__setattr__(self, "cross_moment", cross)
        power = number("label_power", label_power, at_least=0.0)
        if context_length is not None:
            context_length = whole_number("context_length", context_length)
        object.__setattr__(self, "label_power", power)
        object.__setattr__(self, "count", None if count is None else whole_number("count", count))
        object.__setattr__(self, "context_length", context_length)
        object.__setattr__(self, "blocks", blocks)

    @classmethod
    def from_batches(cls, batches: Iterable[Prompts], blocks: str = "reduced") -> Statistics:
        """Accumulate over batches of prompts in float64; only one chunk is held at a time."""
        one_of("blocks", blocks, ("reduced", "full"))
        second = cross = None
        power, count = 0.0, 0
        lengths: set[int | None] = set()
        for batch in batches:
            if second is None or cross is None:
                size = _feature_count(batch.dimension, blocks)
                second, cross = np.zeros((size, size)), np.zeros(size)
            elif cross.size != _feature_count(batch.dimension, blocks):
                before = _dimension(cross.size, blocks)
                raise InvalidInput(
                    "dimension", batch.dimension, f"earlier batches have D = {before}"
                )
            for start in range(0, batch.count, _CHUNK):
                part = slice(start, start + _CHUNK)
                chunk = Prompts(batch.x[part], batch.y[part], batch.lengths[part])
                features = chunk.features(blocks)
                second += features.T @ features
                cross += features.T @ chunk.target
                power += float(chunk.target @ chunk.target)
            count += batch.count
            lengths.add(batch.fixed_length)
        if second is None or cross is None:
            raise InvalidInput("batches", [], "must hold at least one batch of prompts")
        length = lengths.pop() if len(lengths) == 1 else None
        return cls(second / count, cross / count, power / count, count, length, blocks)

    def mixed(self, share: float, other: Statistics) -> Statistics:
        """The statistics of a `share` of these prompts and the rest of others."""
        rest = 1 - share
        length = self.context_length if self.context_length == other.context_length else None
        return Statistics(
            second_moment=share * self.second_moment + rest * other.second_moment,
            cross_moment=share * self.cross_moment + rest * other.cross_moment,
            label_power=share * self.label_power + rest * other.label_power,
            count=None if self.count is None or other.count is None else self.count + other.count,
            context_length=length,
            blocks=self.blocks,
        )

    @property
    def fixed_length(self) -> int | None:
        """N where every prompt has the same one, else None."""
        return self.context_length

    @property
    def dimension(self) -> int:
        """D."""
        return _dimension(self.cross_moment.size, self.blocks)

    def __repr__(self) -> str:
        source = "exact" if self.count is None else f"{self.count} prompts"
        return f"Statistics({source}, dimension={self.dimension})"


def _feature_count(dimension: int, blocks: str) -> int:
    return dimension**2 if blocks == "reduced" else dimension**3 + dimension**2 + dimension


def _dimension(features: int, blocks: str) -> int:
    return round(features**0.5) if blocks == "reduced" else int(features ** (1 / 3))
