"""When a run is recorded, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saddlescope.checks import AnyArray, FloatArray, is_single, one_of, real_array, whole_number
from saddlescope.errors import InvalidInput
from saddlescope.setting.kinds import kind, part

# A logarithmic grid begins at this share of its span.
_FIRST_LOGARITHMIC = 1e-5
# The most losses held at once by a run that keeps quantiles, and the limits on its seeds at once.
_NUMBERS_TOGETHER = 2**24
_FEWEST_TOGETHER, _MOST_TOGETHER = 2**12, 2**16


@part("record")
@kind("record", "record")
@dataclass(frozen=True, eq=False)
class Record:
    """A recording grid: a number of points and a spacing, or given times or steps.

    - `points`: how many points are recorded.
    - `spacing`: `linear` or `log`.
    - `at`: the times or steps at which to record, in place of `points`.
    - `weights`: `false` keeps only the loss (and the final weights), for large models.
    - `keep`: `trajectory`; or `drops`: only a few numbers of each seed, found during training (when
      it drops, the levels between, the order in which it learns), and the loss at both ends; or
      `quantiles` over all seeds of these numbers and of the loss at every point.

    >>> Record(points=3).grid(0, 10, whole=True).tolist()
    [0, 5, 10]
    """

    points: int = 1000
    spacing: str = "linear"
    at: Sequence[float] | FloatArray | None = None
    weights: bool = True
    keep: str = "trajectory"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", whole_number("record.points", self.points, at_least=2))
        one_of("record.spacing", self.spacing, ("linear", "log"))
        one_of("record.keep", self.keep, ("trajectory", "drops", "quantiles"))
        if not isinstance(self.weights, bool):
            raise InvalidInput("record.weights", self.weights, "must be True or False")
        if self.keep != "trajectory":
            object.__setattr__(self, "weights", False)
        if self.keep == "drops":
            # Only the two ends are recorded, whatever was asked for.
            for field, value in (("points", 2), ("spacing", "linear")):
                object.__setattr__(self, field, value)
        if self.at is not None:
            at = real_array("record.at", self.at, (None,))
            if at.size == 0 or at[0] < 0 or (np.diff(at) <= 0).any():
                raise InvalidInput("record.at", self.at, "must increase strictly from 0 or above")
            if self.keep == "drops":
                raise InvalidInput("record.at", self.at, "only drops are kept")
            object.__setattr__(self, "at", at)

    @classmethod
    def make(cls, value: object) -> Record:
        """A record from a record, a number of points, a spacing, or times or steps."""
        if value is None:
            return cls()
        if isinstance(value, Record):
            return value
        if isinstance(value, str):
            return cls(spacing=value)
        if is_single("record", value):
            return cls(points=whole_number("record", value, at_least=2))
        return cls(at=real_array("record", value, (None,)))

    @property
    def most_points(self) -> int:
        """The most points that there can be."""
        return self.points if self.at is None else len(self.at) + 2

    def together(self, seeds: int) -> int:
        """How many of so many seeds run at once; quantiles take them in chunks."""
        if self.keep != "quantiles":
            return seeds
        most = min(max(_NUMBERS_TOGETHER // self.most_points, _FEWEST_TOGETHER), _MOST_TOGETHER)
        return -(-seeds // -(-seeds // most))

    def grid(self, start: float, end: float, *, whole: bool) -> AnyArray:
        """Times (or whole steps) from `start` to `end`; both ends are always recorded."""
        if self.at is not None:
            at = np.asarray(self.at)
            inside = at[(at > start) & (at < end)]
            if at[-1] > end:
                raise InvalidInput("record.at", float(at[-1]), f"the run ends at {end:g}")
            if whole and (inside != np.round(inside)).any():
                raise InvalidInput("record.at", self.at, "must be whole steps")
        elif self.spacing == "linear":
            inside = np.linspace(start, end, self.points)[1:-1]
        else:
            first = max((end - start) * _FIRST_LOGARITHMIC, 1.0 if whole else 0.0)
            inside = start + np.geomspace(first, end - start, self.points - 1)[:-1]
        grid = np.concatenate([[start], inside, [end]])
        return np.unique(np.round(grid)).astype(np.int64) if whole else grid
