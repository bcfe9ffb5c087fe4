"""Heads of separate attention in the common eigenbasis: their flow and their losses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlescope.checks import FloatArray
from saddlescope.theory.landscape._modes import Modes


class _Part(NamedTuple):
    """Heads under one force: views of values, keys and queries, and their own part of the map.

    `own_keys` and `own_queries` are whitened, $B^{1/2}k$ and $\\Lambda_q^{1/2}q$, and free of the
    directions that the winners before hold.
    """

    heads: slice
    force: Float[np.ndarray, "D D"]
    value: Float[np.ndarray, "h 1 1"]
    keys: Float[np.ndarray, "h R D"]
    queries: Float[np.ndarray, "h R D"]
    own_keys: Float[np.ndarray, "h R D"]
    own_queries: Float[np.ndarray, "h R D"]

    @property
    def overlaps(self) -> tuple[FloatArray, FloatArray]:
        r"""$k_r^\top B k_s$ and $q_r^\top\Lambda_q q_s$ of each head's own part, `[h, R, R]`."""
        return self.own_keys @ self.own_keys.mT, self.own_queries @ self.own_queries.mT


class Heads:
    r"""The flow of winners, each of which feels those before it, and of heads that feel them all.

    A row holds one head: its value, its R keys and its R queries, `[1 + 2RD]`; winners come first,
    and `learned` says how many modes each of them holds. With $C = \Lambda\Sigma_w\Lambda_q$ the
    force on head i is $G_i = C - B(P W_i P' + \sum_j W_j)\Lambda_q$ over the winners j before it.
    P and P' take out the directions that those winners hold: what head i adds there they give up,
    since they move so much faster. `standing[D, D]` is the map of winners that no longer move,
    along `held` directions.
    """

    def __init__(
        self, modes: Modes, rank: int, learned: Sequence[int], standing: FloatArray, held: int
    ) -> None:
        self._shape = (-1, rank, modes.dimension)
        self._learned = learned
        self._left, self._right = np.sqrt(modes.summary), np.sqrt(modes.query_eigenvalues)
        self._damping = np.outer(modes.summary, modes.query_eigenvalues)
        drive = np.diag(modes.drive)
        self._force = drive - self._damping * standing
        self._loss = modes.label_power - float(((drive + self._force) * standing).sum())
        left, _, right = np.linalg.svd(self._left[:, None] * standing * self._right)
        self._spans = left[:, :held], right[:held].T

    def velocity(self, rows: Float[np.ndarray, "H n"]) -> Float[np.ndarray, "H n"]:
        """The velocity of every head (T3)."""
        speeds = np.empty_like(rows)
        for part in self._parts(rows):
            on_keys, on_queries = part.overlaps
            own_pull = self._left * (on_queries @ part.own_keys)
            pull = part.queries @ part.force.T - part.value * own_pull
            own_push = self._right * (on_keys @ part.own_queries)
            push = part.keys @ part.force - part.value * own_push
            speed, key_speed, query_speed = self._split(speeds[part.heads])
            speed[:, 0, 0] = (part.keys * pull).sum((1, 2))
            key_speed[:] = part.value * pull
            query_speed[:] = part.value * push
        return speeds

    def losses(self, rows: Float[np.ndarray, "H n"]) -> tuple[float, Float[np.ndarray, " others"]]:
        """The loss of the winners together, and the loss with each one of the others added."""
        together, with_other = self._loss, np.empty(0)
        for part in self._parts(rows):
            on_keys, on_queries = part.overlaps
            linear = (part.keys * (part.queries @ part.force.T)).sum((1, 2))
            size = part.value[:, 0, 0]
            losses = together - size * (2 * linear - size * (on_keys * on_queries).sum((1, 2)))
            if part.heads.start < len(self._learned):
                together = float(losses[0])
            else:
                with_other = losses
        return together, with_other

    def own_maps(self, rows: Float[np.ndarray, "H n"]) -> Float[np.ndarray, "H D D"]:
        """$P W_i P'$ of every head."""
        scale = np.outer(self._left, self._right)
        maps = [part.value * (part.own_keys.mT @ part.own_queries) for part in self._parts(rows)]
        whitened = np.concatenate(maps)
        return np.divide(whitened, scale, out=np.zeros_like(whitened), where=scale > 0)

    def _parts(self, rows: FloatArray) -> Iterator[_Part]:
        force, spans = self._force, self._spans
        for head, count in enumerate(self._learned):
            part = self._part(rows, slice(head, head + 1), force, spans)
            yield part
            own = part.value[0] * (part.own_keys[0].T @ part.own_queries[0])
            force = force - self._left[:, None] * own * self._right
            spans = _widen(spans, part, own, count)
        if len(self._learned) < len(rows):
            yield self._part(rows, slice(len(self._learned), len(rows)), force, spans)

    def _part(
        self,
        rows: FloatArray,
        heads: slice,
        force: FloatArray,
        spans: tuple[FloatArray, FloatArray],
    ) -> _Part:
        value, keys, queries = self._split(rows[heads])
        own_keys, own_queries = keys * self._left, queries * self._right
        left, right = spans
        if left.shape[1]:
            own_keys = own_keys - (own_keys @ left) @ left.T
            own_queries = own_queries - (own_queries @ right) @ right.T
        return _Part(heads, force, value, keys, queries, own_keys, own_queries)

    def _split(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of values `[h, 1, 1]`, keys and queries `[h, R, D]`."""
        middle = (rows.shape[1] + 1) // 2
        keys, queries = rows[:, 1:middle], rows[:, middle:]
        return rows[:, :1, None], keys.reshape(self._shape), queries.reshape(self._shape)


def _widen(
    spans: tuple[FloatArray, FloatArray], part: _Part, own: FloatArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """The spans with the directions that one more winner holds."""
    keys, queries = part.own_keys[0], part.own_queries[0]
    if len(keys) == 1:
        left, right = (pair.T / math.sqrt(pair[0] @ pair[0]) for pair in (keys, queries))
    else:
        vectors, _, others = np.linalg.svd(own)
        left, right = vectors[:, :count], others[:count].T
    return np.hstack([spans[0], left]), np.hstack([spans[1], right])
