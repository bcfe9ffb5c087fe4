"""How long the contexts are: one length, or a distribution of lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from saddlescope.checks import FloatArray, is_single, listed, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind

_MOST_LENGTHS = 1_000_000
_ALLOWED = "must be a whole number, at least 1, or lengths with their probabilities"


@kind("value", "context_lengths")
@dataclass(frozen=True, eq=False, init=False)
class ContextLengths:
    """A distribution of the context length N; each prompt is normalised by its own N.

    `lengths` are the values of N, `probabilities` how often each comes: equally often by default.
    A mapping of lengths to probabilities gives both.

    >>> ContextLengths.uniform(1, 2).mean_inverse
    0.75
    """

    lengths: tuple[int, ...]
    probabilities: FloatArray

    def __init__(self, lengths: object, probabilities: object = None) -> None:
        if isinstance(lengths, Mapping) and probabilities is None:
            probabilities, lengths = list(lengths.values()), list(lengths)
        given = listed("context_length", lengths, _ALLOWED)
        values = [whole_number("context_length", length) for length in given]
        if not values or len(set(values)) != len(values):
            raise InvalidInput("context_length", lengths, "must hold a length or more, each once")
        shares = real_array(
            "probabilities",
            np.full(len(values), 1 / len(values)) if probabilities is None else probabilities,
            (len(values),),
        )
        if (shares < 0).any() or abs(shares.sum() - 1) > 1e-9:
            raise InvalidInput("probabilities", probabilities, "must not be negative and sum to 1")
        vars(self).update(lengths=tuple(values), probabilities=shares)

    @classmethod
    def make(cls, value: object) -> ContextLengths:
        """From a number, lengths, a mapping of lengths to probabilities, or `uniform:LOW:HIGH`."""
        if isinstance(value, ContextLengths):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if is_single("context_length", value) and not isinstance(value, Mapping):
            return cls([whole_number("context_length", value)])
        return cls(value)

    @classmethod
    def uniform(cls, low: int, high: int) -> ContextLengths:
        """Every length from `low` to `high`, both included, equally likely."""
        if whole_number("low", low) > whole_number("high", high):
            raise InvalidInput(
                "context_length", (low, high), "the low end must not exceed the high"
            )
        if high - low >= _MOST_LENGTHS:
            raise InvalidInput(
                "context_length", (low, high), f"must be at most {_MOST_LENGTHS} lengths"
            )
        return cls(range(int(low), int(high) + 1))

    @classmethod
    def parse(cls, text: str) -> ContextLengths:
        """Read `31` or `uniform:8:32`."""
        name, *numbers = text.strip().split(":")
        try:
            if name == "uniform" and len(numbers) == 2:
                return cls.uniform(int(numbers[0]), int(numbers[1]))
            return cls([int(text)])
        except InvalidInput:
            raise
        except ValueError:
            raise InvalidInput("context_length", text, "must be like 31 or uniform:8:32") from None

    def written(self) -> object:
        """The one length alone, where there is one."""
        return self if self.fixed is None else self.fixed

    @property
    def is_fixed(self) -> bool:
        """Whether every prompt has the same length."""
        return len(self.lengths) == 1

    @property
    def longest(self) -> int:
        """The largest length that can occur."""
        return max(self.lengths)

    @property
    def mean_inverse(self) -> float:
        """E[1/N], which stands for 1/N in T1 to T3."""
        return float((self.probabilities / self._values).sum())

    @property
    def mean_inverse_square(self) -> float:
        """E[1/N²], which stands for 1/N² in T6."""
        return float((self.probabilities / self._values**2).sum())

    @property
    def _values(self) -> FloatArray:
        # Their squares may not be whole numbers of 64 bits.
        return np.asarray(self.lengths, dtype=np.float64)

    @property
    def fixed(self) -> int | None:
        """N where every prompt has the same one, else None."""
        return self.lengths[0] if self.is_fixed else None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContextLengths)
            and self.lengths == other.lengths
            and np.array_equal(self.probabilities, other.probabilities)
        )

    def __hash__(self) -> int:
        return hash((self.lengths, self.probabilities.tobytes()))

    def __repr__(self) -> str:
        if self.is_fixed:
            return str(self.lengths[0])
        return f"ContextLengths({min(self.lengths)}…{self.longest}, E[1/N]={self.mean_inverse:.4g})"
