"""Quantiles of numbers over rows that arrive in batches, in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from jaxtyping import Float

from saddlescope.checks import AnyArray, FloatArray, real_array
from saddlescope.errors import CannotRead, InvalidInput

# Rows of one weight that are held before every second one is let go.
_MOST_HELD = 8192


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution of each of M numbers over rows; NaN counts as larger than any number.

    Up to 8191 rows are held as they are. Of more, every second one of a sorted share stands for two
    from then on, and so on (the compaction of Manku, Rajagopalan and Lindsay): memory grows with
    the logarithm of the number of rows, and a quantile's rank is off by `rank_error` at most, less
    than 5e-4 for a million rows. `added` and `merged` give new ones.

    >>> seen = Distribution.empty(1).added(np.arange(60_000.0)[:, None])
    >>> seen.added(np.arange(60_000.0, 100_000.0)[:, None]).quantiles([0.0, 0.5, 1.0])[:, 0]
    array([    0., 49989., 99999.])
    """

    held: tuple[FloatArray, ...]
    """Rows of weight 1, 2, 4, …, each [m, M]."""
    ends: FloatArray
    """The least and the greatest of each number, [2, M]."""
    slack: tuple[int, int] = (0, 0)
    """By how many rows a rank may be too low and too high."""

    @classmethod
    def empty(cls, numbers: int) -> Distribution:
        """The distribution of no rows yet."""
        ends = np.repeat([[np.nan], [-np.inf]], numbers, axis=1)
        return cls((np.empty((0, numbers)),), ends)

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(len(rows) << level for level, rows in enumerate(self.held))

    @property
    def rank_error(self) -> float:
        """How far a quantile's rank may be off, as a share of the rows."""
        return max(self.slack) / max(self.count, 1)

    def added(self, rows: Float[AnyArray, "R M"]) -> Distribution:
        """The distribution with further rows."""
        numbers = self.ends.shape[1]
        given = np.asarray(rows, dtype=float)
        if given.ndim != 2 or given.shape[1] != numbers:
            raise InvalidInput("rows", rows, f"must be [R, {numbers}]")
        if not len(given):
            return self
        ends = np.stack([np.fmin.reduce(given), given.max(axis=0)])
        return self.merged(Distribution((given,), ends))

    def merged(self, other: Distribution) -> Distribution:
        """The distribution of the rows of both."""
        none = np.empty((0, self.ends.shape[1]))
        held = [np.vstack(pair) for pair in zip_longest(self.held, other.held, fillvalue=none)]
        slack = [own + its for own, its in zip(self.slack, other.slack, strict=True)]
        level = 0
        while level < len(held):
            if len(held[level]) >= _MOST_HELD:
                if level + 1 == len(held):
                    held.append(none)
                # The first of two makes a rank too high by up to their weight, the second too low.
                second = int(slack[0] <= slack[1])
                ordered = np.sort(held[level], axis=0)
                pairs = len(ordered) // 2 * 2
                held[level + 1] = np.vstack([held[level + 1], ordered[second:pairs:2]])
                held[level] = ordered[pairs:]
                slack[1 - second] += 1 << level
            level += 1
        # A maximum of NaN and another is NaN, which is greater than all.
        least, greatest = zip(self.ends, other.ends, strict=True)
        ends = np.stack([np.fmin(*least), np.maximum(*greatest)])
        return Distribution(tuple(held), ends, (slack[0], slack[1]))

    def quantiles(self, shares: Sequence[float] | FloatArray) -> Float[AnyArray, "Q M"]:
        """The least value that a share of the rows does not exceed: at 0 and 1 the two ends."""
        wanted = check_shares("shares", shares)
        ranks = np.clip(np.ceil(wanted * self.count - 0.5e-6), 1, None)
        rows = np.vstack(self.held)
        weights = np.concatenate([np.full(len(own), 1 << lv) for lv, own in enumerate(self.held)])
        quantiles = np.full((len(wanted), rows.shape[1]), np.nan)
        if not self.count:
            return quantiles
        for number, column in enumerate(rows.T):
            order = np.argsort(column, kind="stable")
            reached = np.searchsorted(np.cumsum(weights[order]), ranks)
            quantiles[:, number] = column[order[reached]]
        quantiles[wanted == 0] = self.ends[0]
        quantiles[wanted == 1] = self.ends[1]
        return quantiles

    def arrays(self) -> tuple[AnyArray, ...]:
        """Everything as arrays, for files; `of_arrays` is the inverse."""
        return (np.array(self.slack), self.ends, *self.held)

    @classmethod
    def of_arrays(cls, arrays: Sequence[AnyArray]) -> Distribution:
        """The inverse of `arrays`; raises `CannotRead` for anything else."""
        slack, ends, *held = map(np.asarray, arrays)
        fits = slack.shape == (2,) and ends.ndim == 2 and held
        if not fits or any(own.shape != (len(own), ends.shape[1]) for own in held):
            raise CannotRead("it holds no distribution")
        return cls(tuple(held), ends, (int(slack[0]), int(slack[1])))


def check_shares(field: str, shares: object) -> FloatArray:
    """Shares from 0 to 1, [Q]."""
    given = np.atleast_1d(real_array(field, shares, None))
    if given.ndim != 1 or not given.size or given.min() < 0 or given.max() > 1:
        raise InvalidInput(field, shares, "must be shares from 0 to 1")
    return given
