"""Heads of separate attention in the common eigenbasis, of many seeds at once: their flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.landscape._modes import Modes


@dataclass(frozen=True, eq=False)
class Order:
    """Who has won what so far, in every seed; seeds come last, where NumPy is fastest."""

    place: Int[np.ndarray, "H S"]
    """The place of each head among the winners, −1 of those that have won nothing."""
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
        return Order(self.place[:, seeds], self.held[:, :, seeds], self.settled[:, seeds])

    def awarded(self, seeds: AnyArray, heads: AnyArray, modes: AnyArray) -> Order:
        """After a head has won a mode in each of some seeds."""
        place, held = self.place.copy(), self.held.copy()
        held[heads, modes, seeds] = True
        fresh = place[heads, seeds] < 0
        place[heads[fresh], seeds[fresh]] = place[:, seeds[fresh]].max(0) + 1
        return Order(place, held, self.settled)

    @property
    def racing(self) -> Bool[np.ndarray, "H S"]:
        """The heads that have won nothing."""
        return self.place < 0

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
        first, second = self.place[:, None], self.place[None]
        return (second >= 0) & ((first < 0) | (second < first))


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
        force[every, every] = modes.drive[:, None] - np.diagonal(self._damping).T * standing
        self._force = force
        fallen: FloatArray = (standing * modes.drive[:, None]).sum(0)
        self.settled_fall = fallen
        """By how much those that stand still lower the loss, [S]."""
        feels = order.before & order.moving[None]
        self._feels = feels.astype(float) if feels.any() else None
        self._open = np.where(settled, 0.0, 1.0)
        self._open_maps = self._open[:, None] * self._open
        self._roots = np.sqrt(modes.summary), np.sqrt(modes.query_eigenvalues)
        self._outside: tuple[FloatArray, FloatArray] | None = None
        if self._feels is not None and pairs == 1:
            self._winners = _in_turn(order)
        elif self._feels is not None:
            self._outside = (
                _without(self._feels, spans.left, self._roots[0]),
                _without(self._feels, spans.right, self._roots[1]),
            )

    def parts(self, rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of values `[H, S]`, keys and queries `[H, R, D, S]`."""
        return split_rows(rows, self._pairs)

    def felt(self, rows: Float[np.ndarray, "H n S"]) -> Felt:
        """The velocity of every head (T3), and what it lowers the loss by."""
        maps, own = self._maps(rows)
        force = self._felt_force(own)
        damped = self._damping * own
        falls = np.einsum("hdes,hdes->hs", maps, force + force)
        falls -= np.einsum("hdes,hdes->hs", damped, own)
        return Felt(self._velocity(rows, force - damped), own, falls)

    def velocity(self, rows: Float[np.ndarray, "H n S"]) -> Float[np.ndarray, "H n S"]:
        """The velocity alone."""
        own = self._maps(rows)[1]
        return self._velocity(rows, self._felt_force(own) - self._damping * own)

    def _maps(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The map of each head, and what of it lies outside of what others hold."""
        value, keys, queries = self.parts(rows)
        maps = np.einsum("hrds,hres->hdes", keys, queries)
        maps *= value[:, None, None]
        if self._feels is None:
            return maps, maps * self._open_maps
        if self._outside is None:
            kept = [
                self._beside_winners(part[:, 0], root)[:, None]
                for part, root in zip((keys, queries), self._roots, strict=True)
            ]
        else:
            kept = [
                np.einsum("hdes,hres->hrds", outside, part)
                for outside, part in zip(self._outside, (keys, queries), strict=True)
            ]
        own = np.einsum("hrds,hres->hdes", *kept)
        own *= value[:, None, None]
        own *= self._open_maps
        return maps, own

    def _beside_winners(self, vectors: FloatArray, root: FloatArray) -> FloatArray:
        """Keys or queries of one pair without what the winners before have, one after another."""
        kept = vectors * (root[:, None] * self._open)
        for winner, after in self._winners:
            own = np.take_along_axis(kept, winner[None, None], axis=0)[0]
            size = np.sqrt((own**2).sum(0))
            own = np.divide(own, size, out=np.zeros_like(own), where=size > 0)
            kept -= (np.einsum("hds,ds->hs", kept, own) * after)[:, None] * own
        kept *= np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)[:, None]
        return kept

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


def _in_turn(order: Order) -> list[tuple[AnyArray, FloatArray]]:
    """The winners that move, first those that won first: who, [S], and who comes after, [H, S]."""
    place = np.where(order.moving, order.place, -1)
    winners = []
    for turn in range(int(place.max()) + 1):
        is_it = place == turn
        later = order.racing | (order.place > turn)
        after = (later & is_it.any(0)).astype(float)
        winners.append((is_it.argmax(0), after))
    return winners


def _without(feels: FloatArray, span: FloatArray, root: FloatArray) -> Float[np.ndarray, "H D D S"]:
    """What takes out of each head what the winners that it feels hold."""
    outside: FloatArray = -np.einsum("ijs,jdes->ides", feels, span)
    every = np.arange(root.size)
    outside[:, every, every] += 1.0
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    whitened: FloatArray = outside * (inverse[:, None] * root)[:, :, None]
    return whitened
