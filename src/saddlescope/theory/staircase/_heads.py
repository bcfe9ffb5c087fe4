"""Heads of separate attention in the common eigenbasis, of many seeds at once: their flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.landscape._modes import Modes
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
        return Spans(self.left[..., seeds], self.right[..., seeds])

    def where(self, mask: Bool[np.ndarray, " S"], other: Spans) -> Spans:
        """These in the seeds of a mask, the others elsewhere."""
        return Spans(np.where(mask, self.left, other.left), np.where(mask, self.right, other.right))


@dataclass(frozen=True, eq=False)
class Felt:
    """What the heads of one moment feel."""

    velocity: Float[np.ndarray, "H n S"]
    own: Float[np.ndarray, "H D D S"]
    """$P W_i P'$ of every head."""
    falls: Float[np.ndarray, "H S"]
    """By how much each lowers the loss, given those that it feels."""


class Heads:
    r"""The flow of winners, each of which feels those before it, and of heads that feel them all.

    A head is a row of its value, its R keys and its R queries, `[1 + 2RD]`. With
    $C = \Lambda\Sigma_w\Lambda_q$ the force on head i is
    $G_i = C - B(P W_i P' + \sum_j W_j)\Lambda_q$ over the winners j before it. P and P' take out
    what those winners hold: what head i adds there they give up, since they move so much faster.
    Of heads of one pair that is the pair itself; of others, `spans` are the projectors on it.
    """

    def __init__(self, modes: Modes, pairs: int, order: Order, spans: Spans) -> None:
        self._modes, self._pairs = modes, pairs
        self.damping = np.outer(modes.summary, modes.query_eigenvalues)
        r"""$b_d\kappa_e$."""
        self._damping = self.damping[:, :, None]
        settled = (order.held & order.settled[:, None]).any(0)
        dimension = modes.dimension
        standing = np.where(settled, modes.amplitude[:, None], 0.0)
        force = np.zeros((dimension, dimension, settled.shape[1]))
        every = np.arange(dimension)
        self._diagonal = modes.drive[:, None] - np.diagonal(self.damping)[:, None] * standing
        force[every, every] = self._diagonal
        self._force = force
        fallen: FloatArray = (standing * modes.drive[:, None]).sum(0)
        self.settled_fall = fallen
        """By how much those that stand still lower the loss, [S]."""
        feels = order.before & order.moving[None]
        self._feels = feels.astype(float) if feels.any() else None
        self._open = np.where(settled, 0.0, 1.0)
        self._open_maps = self._open[:, None] * self._open
        self._outside: tuple[FloatArray, ...] = ()
        self._single = SinglePairs(modes, order, self._open, self._diagonal) if pairs == 1 else None
        if self._feels is not None and pairs > 1:
            self._outside = (
                _without(self._feels, spans.left, np.sqrt(modes.summary)),
                _without(self._feels, spans.right, np.sqrt(modes.query_eigenvalues)),
            )

    def parts(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of values `[H, S]`, keys and queries `[H, R, D, S]`."""
        return split_rows(rows, self._pairs)

    def felt(self, rows: Float[np.ndarray, "H n S"]) -> Felt:
        """The velocity of every head (T3), and what it lowers the loss by."""
        own = self._own(rows)
        force = self._felt_force(own)
        damped = self._damping * own
        falls = np.einsum("hdes,hdes->hs", self._maps(rows), force + force)
        falls -= np.einsum("hdes,hdes->hs", damped, own)
        single = self._single
        velocity = self._velocity(rows, force - damped) if single is None else single.velocity(rows)
        return Felt(velocity, own, falls)

    def velocity(self, rows: Float[np.ndarray, "H n S"]) -> Float[np.ndarray, "H n S"]:
        """The velocity alone."""
        if self._single is not None:
            return self._single.velocity(rows)
        own = self._own(rows)
        return self._velocity(rows, self._felt_force(own) - self._damping * own)

    def _maps(self, rows: FloatArray) -> FloatArray:
        """The map of each head."""
        value, keys, queries = self.parts(rows)
        maps: FloatArray = np.einsum("hrds,hres->hdes", keys, queries)
        maps *= value[:, None, None]
        return maps

    def _own(self, rows: FloatArray) -> FloatArray:
        """What of the map of each lies outside of what others hold."""
        if self._feels is None:
            return self._maps(rows) * self._open_maps
        value, keys, queries = self.parts(rows)
        kept = (
            [part[:, None] for part in self._single.beside(keys[:, 0], queries[:, 0])]
            if self._single is not None
            else [
                np.einsum("hdes,hres->hrds", outside, part)
                for outside, part in zip(self._outside, (keys, queries), strict=True)
            ]
        )
        own: FloatArray = np.einsum("hrds,hres->hdes", *kept)
        own *= value[:, None, None]
        own *= self._open_maps
        return own

    def _felt_force(self, own: FloatArray) -> FloatArray:
        """The force of what each head feels besides itself."""
        if self._feels is None:
            return self._force[None]
        others = np.einsum("ijs,jdes->ides", self._feels, own)
        others *= self._damping
        return np.subtract(self._force, others, out=others)

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
