"""Where the race stands in every seed: who feels whom, how far it is, who is ahead (T13)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._felt import Felt
from saddlescope.theory.staircase._heads import Heads, Spans
from saddlescope.theory.staircase._order import Order

# A winner whose map is this close to what it learns stands still from then on.
SETTLED = 3e-4


@dataclass(frozen=True, eq=False)
class Standing:
    """Who has won what, and what that means for heads in any state."""

    modes: Modes
    pairs: int
    order: Order
    spans: Spans

    @cached_property
    def heads(self) -> Heads:
        """The flow under this order."""
        return Heads(self.modes, self.pairs, self.order, self.spans)

    def of(self, seeds: AnyArray) -> Standing:
        """A copy of some seeds."""
        return Standing(self.modes, self.pairs, self.order.of(seeds), self.spans.at(seeds))

    @property
    def is_complete(self) -> Bool[np.ndarray, " S"]:
        """Whether every mode is learned, or every head is full."""
        return self.order.count >= min(len(self.modes.order), self.pairs * len(self.order.position))

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """The level of the last plateau, and that of the next one."""
        count, levels = self.order.count, self.modes.levels
        return levels[count], levels[np.minimum(count + 1, len(levels) - 1)]

    def depth(self) -> FloatArray:
        """How far apart they are."""
        level, after = self.levels()
        return level - after

    def falls(self, felt: Felt) -> tuple[FloatArray, FloatArray]:
        """How far below the last plateau the winners are, and how far each other takes them."""
        winners = np.where(self.order.moving, felt.falls, 0.0).sum(0) + self.heads.settled_fall
        level = self.levels()[0]
        together = self.modes.label_power - winners
        return level - together, np.where(self.order.racing, felt.falls, -np.inf)

    def again(self) -> Bool[np.ndarray, " S"]:
        """Whether a winner has room for one more mode."""
        return (self.order.moving & self.has_room()).any(0)

    def has_room(self) -> Bool[np.ndarray, "H S"]:
        """The heads that can learn one more mode."""
        return self.order.held.sum(1) < self.pairs

    def to_go(self, felt: Felt) -> FloatArray:
        """How far the loss is from half-way down the next drop; infinite where there is none."""
        winners, others = self.falls(felt)
        furthest = np.maximum(others.max(0), np.where(self.again(), 0.0, -np.inf))
        left = self.depth() / 2 - winners - furthest
        return np.where(self.is_complete, np.inf, left)

    def most_grown(
        self, felt: Felt, candidates: Bool[np.ndarray, "H S"]
    ) -> tuple[AnyArray, AnyArray]:
        """Among candidates, the one that has grown the most along a free mode; that mode."""
        grown = felt.diagonal * self.modes.drive[:, None]
        grown = np.einsum("de,hes->hds", self.modes.same_eigenspace, grown)
        held = np.einsum("de,hes->hds", self.modes.same_eigenspace, self.order.held.astype(float))
        grown -= held * self.modes.drop[:, None]
        active = self.modes.active[:, None]
        allowed = candidates[:, None] & ~self.order.given[None] & active
        grown = np.where(allowed, grown, -np.inf)
        best = grown.reshape(-1, grown.shape[2]).argmax(0)
        return np.divmod(best, self.modes.dimension)

    def distance(self, felt: Felt) -> Float[np.ndarray, "H S"]:
        """How far each head's own map is from what it holds, as a share of it, as the loss sees it.

        The distance is ‖B^½ W Λ_q^½‖: along weak modes a map arrives late, and nobody feels it.
        """
        holds = self.order.held.astype(float)
        held = np.einsum("hds,d->hs", holds, self.modes.drop)
        common = np.einsum("hds,hds,d->hs", holds, felt.diagonal, self.modes.drive)
        # Δ = c ξ = b κ ξ² of each mode.
        return np.sqrt(np.maximum(felt.size - 2 * common + held, 0.0) / held)

    def at_rest(self, felt: Felt) -> Bool[np.ndarray, " S"]:
        """Whether every winner that moves only waits for its next mode."""
        waits = self.has_room() & (self.distance(felt) < 10 * SETTLED)
        return ~np.asarray((self.order.moving & ~waits).any(0))
