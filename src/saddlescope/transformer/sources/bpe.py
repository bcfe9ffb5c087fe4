"""Byte-pair encoding of any bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Integer
from numpy.typing import ArrayLike

from saddlescope.checks import whole_number
from saddlescope.errors import InvalidInput

BYTES = 256
_MOST_TOKENS = 2**15


@dataclass(frozen=True)
class BytePairs:
    r"""Tokens made of bytes by merging the most frequent neighbours, one pair after another.

    Tokens below 256 are the bytes; token 256 + i is the pair `merges[i]` of earlier tokens. There
    is no splitting into words beforehand, so that any bytes are encoded and decoded unchanged.

    >>> pairs = BytePairs.train(b"banana bandana", vocabulary=259)
    >>> [pairs.decode([token]) for token in pairs.encode(b"banana")]
    [b'ban', b'ana']
    """

    merges: tuple[tuple[int, int], ...]

    @staticmethod
    def train(data: bytes, vocabulary: object) -> BytePairs:
        """Merge the most frequent pair (the lowest in a tie) until there are enough tokens.

        It stops early where no pair occurs twice.
        """
        size = whole_number("vocabulary", vocabulary, at_least=BYTES)
        if size > _MOST_TOKENS:
            raise InvalidInput("vocabulary", vocabulary, f"must be at most {_MOST_TOKENS}")
        tokens = np.frombuffer(data, np.uint8).astype(np.int32)
        merges: list[tuple[int, int]] = []
        for new in range(BYTES, size):
            if len(tokens) < 2:
                break
            counts = np.bincount(tokens[:-1] * new + tokens[1:])
            best = int(counts.argmax())
            if counts[best] < 2:
                break
            pair = divmod(best, new)
            merges.append(pair)
            tokens = _merge(tokens, pair, new)
        return BytePairs(tuple(merges))

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return BYTES + len(self.merges)

    def encode(self, data: bytes) -> Int[np.ndarray, " T"]:
        """The tokens of some bytes: every merge in its turn."""
        tokens = np.frombuffer(data, np.uint8).astype(np.uint16)
        for index, pair in enumerate(self.merges):
            tokens = _merge(tokens, pair, BYTES + index)
        return tokens.astype(np.int32)

    def decode(self, tokens: ArrayLike) -> bytes:
        """The bytes of some tokens."""
        spelled = [bytes([byte]) for byte in range(BYTES)]
        for first, second in self.merges:
            spelled.append(spelled[first] + spelled[second])
        return b"".join(spelled[token] for token in np.asarray(tokens, dtype=np.int64).tolist())


def _merge(
    tokens: Integer[np.ndarray, " T"], pair: tuple[int, int], new: int
) -> Integer[np.ndarray, " merged"]:
    """Replace every occurrence of a pair by `new`, from the left."""
    first, second = pair
    starts = np.flatnonzero((tokens[:-1] == first) & (tokens[1:] == second))
    if first == second and len(starts):
        # In a run of equal tokens every second start overlaps the one before.
        begins = np.flatnonzero(np.diff(starts, prepend=-2) != 1)
        run = np.repeat(begins, np.diff(begins, append=len(starts)))
        starts = starts[(np.arange(len(starts)) - run) % 2 == 0]
    if not len(starts):
        return tokens
    merged = tokens.copy()
    merged[starts] = new
    return np.delete(merged, starts + 1)
