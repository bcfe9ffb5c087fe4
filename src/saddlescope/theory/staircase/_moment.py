"""Moments of a race, and those within a step of it (T13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.staircase._standing import Standing
from saddlescope.theory.staircase._tableau import hermite


@dataclass(frozen=True, eq=False)
class Moment:
    """All heads of every seed, each seed at its own time."""

    time: Float[np.ndarray, " S"]
    rows: Float[np.ndarray, "H n S"]

    def of(self, seeds: AnyArray) -> Moment:
        """A copy of some seeds."""
        return Moment(self.time[seeds], np.take(self.rows, seeds, axis=2))

    def where(self, mask: Bool[np.ndarray, " S"], other: Moment) -> Moment:
        """This one in the seeds of a mask, the other one elsewhere."""
        return Moment(np.where(mask, self.time, other.time), np.where(mask, self.rows, other.rows))


@dataclass(frozen=True, eq=False)
class LastStep:
    """Seeds within their last step."""

    standing: Standing
    begin: Moment
    end: Moment
    first: Float[np.ndarray, "H n S"]
    """The velocity where it begins."""
    last: Float[np.ndarray, "H n S"]

    def at(self, share: FloatArray) -> Moment:
        """The moment at a share of the step."""
        width = self.end.time - self.begin.time
        rows = hermite(self.begin.rows, self.end.rows, self.first, self.last, width, share)
        return Moment(self.begin.time + share * width, rows)

    def to_go(self, share: FloatArray) -> FloatArray:
        """How far it is to the crossing there."""
        return self.standing.to_go(self.standing.heads.felt(self.at(share).rows))
