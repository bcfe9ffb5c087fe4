"""What the landscape needs to know of a task, whether or not its covariances commute (T19)."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.checks import FloatArray, listed, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.task.spectrum import SAME_EIGENVALUE

# Numbers below this share of the largest are rounding.
ROUNDING = 1e-14


class AbstractModes(abc.ABC):
    r"""Rank-one maps $\xi_d a_d b_d^\top$ that are learned one by one, and what each is worth.

    Every fixed point is a sum of some of them, $W_S = \sum_{d\in S}\xi_d a_d b_d^\top$, and each
    takes its own $\Delta_d$ off the loss, whatever the others do (T7, T17, T19).
    """

    label_power: float

    @property
    @abc.abstractmethod
    def key_directions(self) -> Float[np.ndarray, "D D"]:
        """The unit vectors $a_d$ on the side of the keys, as columns."""

    @property
    @abc.abstractmethod
    def query_directions(self) -> Float[np.ndarray, "D D"]:
        """The unit vectors $b_d$ on the side of the queries, as columns."""

    @property
    @abc.abstractmethod
    def amplitude(self) -> Float[np.ndarray, " D"]:
        r"""$\xi_d$; 0 for what cannot be learned."""

    @property
    @abc.abstractmethod
    def drop(self) -> Float[np.ndarray, " D"]:
        r"""$\Delta_d$, by how much the loss falls: who is stable once learned."""

    @property
    @abc.abstractmethod
    def active(self) -> Bool[np.ndarray, " D"]:
        """Which modes can be learned."""

    @property
    @abc.abstractmethod
    def order(self) -> Int[np.ndarray, " M"]:
        """The modes that can be learned, in the order in which the levels count them."""

    @property
    @abc.abstractmethod
    def claims_path(self) -> bool:
        """Whether training is known to learn them in this order."""

    @abc.abstractmethod
    def require_order(self, claim: str) -> None:
        """Raise where the first modes in this order are not the ones of index zero."""

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.key_directions)

    def effective_map(self, subset: Iterable[int]) -> Float[np.ndarray, "D D"]:
        """$W_S$, in the task's own coordinates."""
        members = list(subset)
        keys, queries = (side[:, members] for side in (self.key_directions, self.query_directions))
        return (keys * self.amplitude[members]) @ queries.T

    @cached_property
    def levels(self) -> Float[np.ndarray, " levels"]:
        """The losses after 0, 1, 2, … modes are learned in order (T7, T17, T19)."""
        return self.label_power - np.concatenate([[0.0], np.cumsum(self.drop[self.order])])

    @cached_property
    def drop_ranks(self) -> Int[np.ndarray, " D"]:
        """The rank of each mode's drop among the distinct ones, 0 for the largest."""
        return distinct_ranks(self.drop)

    @cached_property
    def equal_drops(self) -> tuple[tuple[int, ...], ...]:
        """The modes that can be learned, those of one drop together: there the fixed points form
        a continuum (THEORY section 3)."""
        return self.grouped(self.drop_ranks)

    def grouped(self, *ranks: Int[np.ndarray, " D"]) -> tuple[tuple[int, ...], ...]:
        """The modes that can be learned, those of the same ranks together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for mode in np.flatnonzero(self.active):
            groups.setdefault(tuple(int(rank[mode]) for rank in ranks), []).append(int(mode))
        return tuple(tuple(group) for group in groups.values())

    def subset(self, members: object) -> tuple[int, ...]:
        """A valid set of modes: each one once, in rising order, all of them learnable."""
        given = listed("subset", members, "must be eigenvectors, counted from 0")
        modes = [whole_number("subset", member, at_least=0) for member in given]
        if len(set(modes)) != len(modes) or (modes and max(modes) >= self.dimension):
            raise InvalidInput(
                "subset", members, f"must name eigenvectors 0 to {self.dimension - 1}, each once"
            )
        if not self.active[modes].all():
            raise InvalidInput("subset", members, "names an eigenvector that has no drive")
        return tuple(sorted(modes))

    def membership(self, subsets: Iterable[tuple[int, ...]]) -> Bool[np.ndarray, "S D"]:
        """Sets of modes as rows of flags."""
        listed = list(subsets)
        flags = np.zeros((len(listed), self.dimension), dtype=bool)
        for row, subset in zip(flags, listed, strict=True):
            row[list(subset)] = True
        return flags

    def saddle_index(
        self, membership: Bool[np.ndarray, "S D"], rank: int = 1
    ) -> Int[np.ndarray, " S"]:
        """The index of each set of modes, given as rows of flags (T16; see `saddle_index`)."""
        larger = (self.drop_ranks[None, :] < self.drop_ranks[:, None]).astype(int)
        inside = membership.astype(int)
        outside = (self.active & ~membership).astype(int)
        spare = -inside.sum(1) % rank
        return ((inside @ larger) * outside).sum(1) + spare * outside.sum(1)


def distinct_ranks(values: FloatArray) -> Int[np.ndarray, " D"]:
    """The rank of each value among the distinct ones, 0 for the largest."""
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    steps = -np.diff(falling) > SAME_EIGENVALUE * falling[:-1] + ROUNDING * falling[0]
    ranks = np.empty(values.size, dtype=int)
    ranks[order] = np.concatenate([[0], np.cumsum(steps)])
    return ranks
