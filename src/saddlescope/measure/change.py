"""Where a curve changes from one level to another, and how abruptly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from saddlescope.checks import FloatArray
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Numbers
from saddlescope.measure._curves import checked_curves


@dataclass(frozen=True)
class ChangePoint:
    """Two levels, and the way from one to the other.

    >>> ChangePoint(onset=100.0, end=400.0, before=0.0, after=-3.0, explained=0.98).middle
    200.0
    """

    onset: float
    """When the curve leaves its first level."""
    end: float
    """When it has reached its second."""
    before: float
    """The first level."""
    after: float
    """The second."""
    explained: float
    """The share of the curve's variance that the two levels and the way between account for."""

    @property
    def middle(self) -> float:
        """Half-way in the logarithm of time, where the fitted curve is midway."""
        return float(np.sqrt(self.onset * self.end))

    def is_abrupt(self, factor: float = math.e, explained: float = 0.9) -> bool:
        """Whether the change takes at most a given factor of time, and the fit explains the curve.

        >>> slow = ChangePoint(onset=100.0, end=400.0, before=0.0, after=-3.0, explained=0.98)
        >>> slow.is_abrupt(), slow.is_abrupt(factor=5.0)
        (False, True)
        """
        return bool(self.explained >= explained and self.end <= factor * self.onset)


def change_point(curve: Numbers, time: Numbers) -> ChangePoint:
    """The level, straight way in the logarithm of time, and level that fit a curve best.

    By least squares over every pair of records for the ends of the way (a broken line: Hinkley
    1971 for one break). Records at times of 0 and below, and those that are not finite, are left
    out. Every curve has a best fit: `explained` and `is_abrupt` tell what it is worth. One that
    stays as it is has none, and is NaN with nothing explained.

    >>> time = np.arange(0, 1001, 10)
    >>> found = change_point(np.interp(np.log(time + 1e-9), np.log([200, 300]), [2.0, -1.0]), time)
    >>> round(found.onset), round(found.end), round(found.before, 9), round(found.after, 9)
    (200, 300, 2.0, -1.0)
    """
    values, times = checked_curves("curve", curve, time)
    if values.ndim != 1:
        raise InvalidInput("curve.shape", values.shape, "must be one axis")
    kept = np.isfinite(values) & (times > 0)
    if kept.sum() < 3:
        raise InvalidInput("curve", curve, "must have 3 finite points or more at times above 0")
    y, x = values[kept], np.log(times[kept])
    mean = float(y.mean())
    whole = float(((y - mean) ** 2).sum())
    if whole <= (np.finfo(float).eps * np.abs(y).max()) ** 2 * y.size:
        return ChangePoint(np.nan, np.nan, mean, mean, 0.0)
    gained, first, last = _best_way(x - x.mean(), y - mean)
    way = np.clip((x - x[first]) / (x[last] - x[first]), 0, 1)
    slope, before = np.polyfit(way, y, 1)
    onset, end = times[kept][[first, last]].tolist()
    return ChangePoint(onset, end, float(before), float(before + slope), gained / whole)


def _best_way(x: FloatArray, y: FloatArray) -> tuple[float, int, int]:
    """What the best way takes off the sum of squares of a centred y, and the records of its ends.

    The way z is 0 up to a record, 1 from another on, straight between, and
    (Σ zy)² / (Σ z² − (Σ z)²/n) is what a level plus a multiple of it explains. Sums between two
    records are differences of sums from the first.
    """
    count = y.size
    ones, sum_x, sum_xx, sum_y, sum_xy = (
        np.concatenate([[0.0], np.cumsum(part)]) for part in (np.ones(count), x, x * x, y, x * y)
    )
    best = (-np.inf, 0, 1)
    for first in range(count - 1):
        last = np.arange(first + 1, count)
        length, start = x[last] - x[first], x[first]
        beyond, inside = ones[-1] - ones[last], ones[last] - ones[first]
        between_x, between_y = sum_x[last] - sum_x[first], sum_y[last] - sum_y[first]
        z = beyond + (between_x - start * inside) / length
        squares = sum_xx[last] - sum_xx[first] - 2 * start * between_x + start**2 * inside
        zz = beyond + squares / length**2
        zy = sum_y[-1] - sum_y[last] + (sum_xy[last] - sum_xy[first] - start * between_y) / length
        gained = zy**2 / (zz - z**2 / count)
        at = int(np.argmax(gained))
        best = max(best, (float(gained[at]), first, int(last[at])))
    return best
