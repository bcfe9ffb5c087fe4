r"""Heads of one key and one query: their velocity without a matrix (T3, T13).

A map is $v\,k q^\top$, so that the force on a head, along its query and along its key, is a sum of
few vectors: its own, and one of each winner before it that still moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from saddlescope.checks import FloatArray
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._order import Order


@dataclass(frozen=True, eq=False)
class _Winner:
    """In every seed one winner that moves, where there is one left."""

    head: Int[np.ndarray, " S"]
    place: Int[np.ndarray, "D S"]
    """Where its components are among those of all heads, `[H, D, S]`, in a row."""
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
        self._force, self._open = force, open_modes
        # Vectors are whitened: then B and Λ_q are one.
        self._roots = [np.sqrt(own)[:, None] for own in (modes.summary, modes.query_eigenvalues)]
        self._inverses = [
            np.divide(1.0, root, out=np.zeros_like(root), where=root > 0) for root in self._roots
        ]
        self._winners = _in_turn(order, modes.dimension)

    def beside(self, *pair: Float[np.ndarray, "H D S"]) -> list[FloatArray]:
        """Keys and queries without what the winners before have, one after another."""
        return [
            whitened * inverse
            for whitened, inverse in zip(self._whitened(*pair), self._inverses, strict=True)
        ]

    def _whitened(self, *pair: FloatArray) -> list[FloatArray]:
        kept = [own * (root * self._open) for own, root in zip(pair, self._roots, strict=True)]
        for winner in self._winners:
            for own in kept:
                direction = np.take(own, winner.place)
                size = np.sqrt((direction**2).sum(0))
                direction *= np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
                share = np.einsum("hds,ds->hs", own, direction)
                share *= winner.after
                own -= share[:, None] * direction
        return kept

    def velocity(self, rows: Float[np.ndarray, "H n S"]) -> Float[np.ndarray, "H n S"]:
        """The velocity of every head (T3)."""
        middle = (rows.shape[1] + 1) // 2
        value, keys, queries = rows[:, 0], rows[:, 1:middle], rows[:, middle:]
        # b k̂ and κ q̂ of T3's damping.
        strong = [
            own * root for own, root in zip(self._whitened(keys, queries), self._roots, strict=True)
        ]
        pull, push = self._force * queries, self._force * keys
        across, along = (
            np.einsum("hds,hds->hs", own, part) * value
            for own, part in ((queries, strong[1]), (keys, strong[0]))
        )
        pull -= across[:, None] * strong[0]
        push -= along[:, None] * strong[1]
        for winner in self._winners:
            key, query = (np.take(own, winner.place) for own in strong)
            felt = winner.after * value[winner.head, np.arange(winner.head.size)]
            pull -= (np.einsum("hds,ds->hs", queries, query) * felt)[:, None] * key
            push -= (np.einsum("hds,ds->hs", keys, key) * felt)[:, None] * query
        velocity = np.empty_like(rows)
        np.einsum("hds,hds->hs", keys, pull, out=velocity[:, 0])
        np.multiply(value[:, None], pull, out=velocity[:, 1:middle])
        np.multiply(value[:, None], push, out=velocity[:, middle:])
        return velocity


def _in_turn(order: Order, dimension: int) -> list[_Winner]:
    """The winners that move, first those that won first."""
    heads, seeds = order.place.shape
    turn = np.where(order.moving, order.place, heads)
    first = np.argsort(turn, axis=0)[: int(order.moving.sum(0).max(initial=0))]
    every, mode = np.arange(seeds), np.arange(dimension)[:, None]
    winners = []
    for head in first:
        own = turn[head, every]
        after = (order.racing | (order.place > own)) & (own < heads)
        place = (head * dimension + mode) * seeds + every
        winners.append(_Winner(head, place, after.astype(float)))
    return winners
