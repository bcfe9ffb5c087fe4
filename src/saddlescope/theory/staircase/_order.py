"""Who has won what in the race of the heads (T13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from saddlescope.checks import AnyArray


@dataclass(frozen=True, eq=False)
class Order:
    """Who has won what so far, in every seed; seeds come last, where NumPy is fastest."""

    position: Int[np.ndarray, "H S"]
    """The position of each head among the winners, −1 for heads that have won nothing."""
    held: Bool[np.ndarray, "H D S"]
    """The modes that each holds."""
    settled: Bool[np.ndarray, "H S"]
    """Which of the winners stand still: their maps are what they have learned."""

    @classmethod
    def empty(cls, heads: int, dimension: int, seeds: int) -> Order:
        """Nobody has won."""
        return cls(
            np.full((heads, seeds), -1),
            np.full((heads, dimension, seeds), False),
            np.full((heads, seeds), False),
        )

    def of(self, seeds: AnyArray) -> Order:
        """A copy of some seeds."""
        return Order(*(np.take(own, seeds, axis=-1) for own in vars(self).values()))

    def awarded(self, seeds: AnyArray, heads: AnyArray, modes: AnyArray) -> Order:
        """After a head has won a mode in each of some seeds."""
        position, held = self.position.copy(), self.held.copy()
        held[heads, modes, seeds] = True
        fresh = position[heads, seeds] < 0
        position[heads[fresh], seeds[fresh]] = position[:, seeds[fresh]].max(0) + 1
        return Order(position, held, self.settled)

    @property
    def racing(self) -> Bool[np.ndarray, "H S"]:
        """The heads that have won nothing."""
        return self.position < 0

    @property
    def moving(self) -> Bool[np.ndarray, "H S"]:
        """The winners that do not stand still."""
        return ~self.racing & ~self.settled

    @property
    def given(self) -> Bool[np.ndarray, "D S"]:
        """The modes that somebody holds."""
        return np.asarray(self.held.any(0))

    @property
    def count(self) -> Int[np.ndarray, " S"]:
        """How many modes are learned."""
        return self.held.sum((0, 1))

    @property
    def before(self) -> Bool[np.ndarray, "H H S"]:
        """Whether the first head feels the second: a winner that has won before it has."""
        first, second = self.position[:, None], self.position[None]
        return (second >= 0) & ((first < 0) | (second < first))
