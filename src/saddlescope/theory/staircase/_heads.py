"""Heads of separate attention in the common eigenbasis, of many seeds at once: their flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._felt import Felt
from saddlescope.theory.staircase._order import Order
from saddlescope.theory.staircase._single_pairs import SinglePairs


@dataclass(frozen=True, eq=False)
class Spans:
    """Projectors on the directions that each winner that moves holds, whitened; zero of others."""

    left: Float[np.ndarray, "H D D S"]
    right: Float[np.ndarray, "H D D S"]

    @classmethod
    def none(cls, heads: int, dimension: int, seeds: int) -> Spans:
        """Of nobody."""
        return cls(*(np.zeros((heads, dimension, dimension, seeds)) for _ in range(2)))

    @classmethod
    def of(cls, modes: Modes, order: Order, own: Float[np.ndarray, "H D D S"]) -> Spans:
        """Those of maps: of as many leading singular directions as a head holds modes."""
        spans = cls.none(*order.held.shape)
        moving = order.moving
        if not moving.any():
            return spans
        roots = np.sqrt(np.outer(modes.summary, modes.query_eigenvalues))
        whitened = np.moveaxis(own, 3, 1)[moving] * roots
        left, _, right = np.linalg.svd(whitened)
        count = order.held.sum(1)[moving]
        first = (np.arange(roots.shape[0]) < count[:, None]).astype(float)
        for span, vectors in ((spans.left, left.mT), (spans.right, right)):
            taken = vectors * first[:, :, None]
            np.moveaxis(span, 3, 1)[moving] = taken.mT @ taken
        return spans

    def at(self, seeds: AnyArray) -> Spans:
        """Those of some seeds."""
        return Spans(*(np.take(span, seeds, axis=3) for span in (self.left, self.right)))

    def where(self, mask: Bool[np.ndarray, " S"], other: Spans) -> Spans:
        """These in the seeds of a mask, the others elsewhere."""
        return Spans(np.where(mask, self.left, other.left), np.where(mask, self.right, other.right))


class Heads:
    r"""The flow of winners, each of which feels those before it, and of heads that feel them all.

    A head is a row of its value, its R keys and its R queries, `[1 + 2RD]`. With
    $C = \Lambda\Sigma_w\Lambda_q$ the force on head i is
    $G_i = C - B(P W_i P' + \sum_j W_j)\Lambda_q$ over the winners j before it. P and P' take out
    what those winners hold: what head i adds there they give up, since they move so much faster.
    Of heads of one pair that is the pair itself; of others, `spans` are the projectors on it.
    """

    def __init__(self, modes: Modes, pairs: int, order: Order, spans: Spans) -> None:
        self._pairs = pairs
        settled = (order.held & order.settled[:, None]).any(0)
        standing = np.where(settled, modes.amplitude[:, None], 0.0)
        fallen: FloatArray = (standing * modes.drive[:, None]).sum(0)
        self.settled_fall = fallen
        """By how much those that stand still lower the loss, [S]."""
        self._open = np.where(settled, 0.0, 1.0)
        damping = modes.summary * modes.query_eigenvalues
        diagonal = modes.drive[:, None] - damping[:, None] * standing
        self._single = SinglePairs(modes, order, self._open, diagonal) if pairs == 1 else None
        if pairs == 1:
            return
        self._damping = np.outer(modes.summary, modes.query_eigenvalues)[:, :, None]
        every = np.arange(modes.dimension)
        self._force = np.zeros((modes.dimension, *diagonal.shape))
        self._force[every, every] = diagonal
        feels = order.before & order.moving[None]
        self._feels = feels.astype(float) if feels.any() else None
        self._outside: tuple[FloatArray, ...] = ()
        if self._feels is not None:
            self._outside = (
                _without(self._feels, spans.left, np.sqrt(modes.summary)),
                _without(self._feels, spans.right, np.sqrt(modes.query_eigenvalues)),
            )

    def parts(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of values `[H, S]`, keys and queries `[H, R, D, S]`."""
        return split_rows(rows, self._pairs)

    def felt(self, rows: Float[np.ndarray, "H n S"]) -> Felt:
        """The velocity of every head (T3), and what it lowers the loss by."""
        if self._single is not None:
            return self._single.felt(rows)
        value, keys, queries = self.parts(rows)
        beside = self._beside(keys, queries)
        own, force = self._forces(value, beside)
        damped = self._damping * own
        size = np.einsum("hdes,hdes->hs", damped, own)
        maps = np.einsum("hrds,hres->hdes", keys, queries)
        maps *= value[:, None, None]
        falls = np.einsum("hdes,hdes->hs", maps, force + force) - size
        return Felt(self._velocity(rows, force - damped), falls, size, value, beside)

    def velocity(self, rows: Float[np.ndarray, "H n S"]) -> Float[np.ndarray, "H n S"]:
        """The velocity alone."""
        if self._single is not None:
            return self._single.velocity(rows)
        value, keys, queries = self.parts(rows)
        own, force = self._forces(value, self._beside(keys, queries))
        return self._velocity(rows, force - self._damping * own)

    def _beside(self, *pairs: FloatArray) -> Float[np.ndarray, "H 2 R D S"]:
        """What of keys and queries lies outside of what others hold."""
        kept = np.stack(
            [
                np.einsum("hdes,hres->hrds", outside, part)
                for outside, part in zip(self._outside, pairs, strict=True)
            ]
            if self._outside
            else pairs,
            axis=1,
        )
        kept *= self._open
        return kept

    def _forces(self, value: FloatArray, beside: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The own map of each head, and the force of what it feels besides itself."""
        own = np.einsum("hrds,hres->hdes", beside[:, 0], beside[:, 1])
        own *= value[:, None, None]
        if self._feels is None:
            return own, self._force[None]
        others = np.einsum("ijs,jdes->ides", self._feels, own)
        others *= self._damping
        return own, np.subtract(self._force, others, out=others)

    def _velocity(self, rows: FloatArray, force: FloatArray) -> FloatArray:
        value, keys, queries = self.parts(rows)
        pull = np.einsum("hdes,hres->hrds", force, queries)
        push = np.einsum("hdes,hrds->hres", force, keys)
        velocity = np.empty_like(rows)
        speed, key_speed, query_speed = self.parts(velocity)
        np.einsum("hrds,hrds->hs", keys, pull, out=speed)
        np.multiply(value[:, None, None], pull, out=key_speed)
        np.multiply(value[:, None, None], push, out=query_speed)
        return velocity


def split_rows(rows: FloatArray, pairs: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Views of values `[H, S]`, keys and queries `[H, R, D, S]` of heads that are rows."""
    heads, size, seeds = rows.shape
    middle = (size + 1) // 2
    shape = (heads, pairs, size // 2 // pairs, seeds)
    return rows[:, 0], rows[:, 1:middle].reshape(shape), rows[:, middle:].reshape(shape)


def _without(feels: FloatArray, span: FloatArray, root: FloatArray) -> Float[np.ndarray, "H D D S"]:
    """What takes out of each head what the winners that it feels hold."""
    outside: FloatArray = -np.einsum("ijs,jdes->ides", feels, span)
    every = np.arange(root.size)
    outside[:, every, every] += 1.0
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    whitened: FloatArray = outside * (inverse[:, None] * root)[:, :, None]
    return whitened
