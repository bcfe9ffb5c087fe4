r"""Heads of one key and one query: their velocity without a matrix (T3, T13).

A map is $v\,k q^\top$, so that the force on a head, along its query and along its key, is a sum of
few vectors: its own, and one of each winner before it that still moves. Keys and queries are worked
on together, `[H, 2, D, S]`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from saddlescope.checks import FloatArray
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._felt import Felt
from saddlescope.theory.staircase._order import Order


@dataclass(frozen=True, eq=False)
class _Winner:
    """The next moving winner of every seed that has one left."""

    head: Int[np.ndarray, " S"]
    indices: Int[np.ndarray, "2 D S"]
    """The flat indices of its components among those of all heads, `[H, 2, D, S]`."""
    after: Float[np.ndarray, "H S"]
    """One of the heads that feel it, else zero."""


class SinglePairs:
    """Heads of one pair under an order; `rows` are their values, keys and queries `[H, 1+2D, S]`.

    `open_modes` `[D, S]` are the modes that none holds that stands still, and `force` `[D, S]` is
    the diagonal of the force with no head but those.
    """

    def __init__(
        self, modes: Modes, order: Order, open_modes: FloatArray, force: FloatArray
    ) -> None:
        self._force = force
        # Vectors are whitened: then B and Λ_q are one.
        self._roots = np.sqrt(np.stack([modes.summary, modes.query_eigenvalues]))[:, :, None]
        self._inverses = np.divide(
            1.0, self._roots, out=np.zeros_like(self._roots), where=self._roots > 0
        )
        self._open_roots = self._roots * open_modes
        self._winners = _in_turn(order, modes.dimension)

    def _whitened(self, pair: Float[np.ndarray, "H 2 D S"]) -> Float[np.ndarray, "H 2 D S"]:
        """Keys and queries without what the winners before have, one after another."""
        kept: FloatArray = pair * self._open_roots
        for winner in self._winners:
            direction = np.take(kept, winner.indices)
            square = np.einsum("pds,pds->ps", direction, direction)
            direction /= np.sqrt(np.maximum(square, np.finfo(float).tiny))[:, None]
            share = np.einsum("hpds,pds->hps", kept, direction)
            share *= winner.after[:, None]
            kept -= share[:, :, None] * direction
        return kept

    def velocity(self, rows: Float[np.ndarray, "H n S"]) -> Float[np.ndarray, "H n S"]:
        """The velocity of every head (T3)."""
        return self._move(rows, self._whitened(_pair(rows)))[0]

    def felt(self, rows: Float[np.ndarray, "H n S"]) -> Felt:
        r"""The same, and what each head lowers the loss by: $2v\dot v$, and its size once more."""
        whitened = self._whitened(_pair(rows))
        velocity, along = self._move(rows, whitened)
        value = rows[:, 0]
        size = value**2 * along[:, 0] * along[:, 1]
        falls = 2 * value * velocity[:, 0] + size
        return Felt(velocity, falls, size, value, (whitened * self._inverses)[:, :, None])

    def _move(self, rows: FloatArray, whitened: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The velocity, and the squares of whitened keys and queries, `[H, 2, S]`."""
        value, pair = rows[:, 0], _pair(rows)
        # b k̂ and κ q̂ of T3's damping.
        strong = whitened * self._roots
        force = self._force * pair[:, ::-1]
        along = np.einsum("hpds,hpds->hps", pair, strong)
        force -= (along[:, ::-1] * value[:, None])[:, :, None] * strong
        for winner in self._winners:
            own = np.take(strong, winner.indices)
            share = np.einsum("hpds,pds->hps", pair, own)[:, ::-1]
            share *= (winner.after * value[winner.head, np.arange(winner.head.size)])[:, None]
            force -= share[:, :, None] * own
        velocity = np.empty_like(rows)
        np.einsum("hds,hds->hs", pair[:, 0], force[:, 0], out=velocity[:, 0])
        np.multiply(value[:, None, None], force, out=_pair(velocity))
        return velocity, along


def _pair(rows: FloatArray) -> FloatArray:
    """A view of keys and queries."""
    heads, size, seeds = rows.shape
    return rows[:, 1:].reshape(heads, 2, size // 2, seeds)


def _in_turn(order: Order, dimension: int) -> list[_Winner]:
    """The moving winners, in the order in which they won."""
    heads, seeds = order.position.shape
    turn = np.where(order.moving, order.position, heads)
    first = np.argsort(turn, axis=0)[: int(order.moving.sum(0).max(initial=0))]
    every = np.arange(seeds)
    components = np.arange(2 * dimension).reshape(2, dimension, 1) * seeds + every
    winners = []
    for head in first:
        own = turn[head, every]
        after = (order.racing | (order.position > own)) & (own < heads)
        indices = head * (2 * dimension * seeds) + components
        winners.append(_Winner(head, indices, after.astype(float)))
    return winners
