"""A curve beside the non-increasing curve closest to it, and what each of its spans says.

All that `stages` reads from a curve: noise, spikes, the times of levels and the levels of spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.ndimage import median_filter
from scipy.optimize import isotonic_regression

from saddlescope.checks import FloatArray

Spans = tuple[FloatArray, FloatArray]

EDGE = 0.05
"""A plateau ends when this share of the next drop is done (more where noise hides so little)."""

QUARTER = 0.25
"""The share of a drop, at either end, that is left out when its plateaus are looked for."""

_BATCHES = 8
_NOISE_WINDOW = 31  # points; half of them may lie in drops or beside spikes
_SPIKE = 5.0  # standard deviations
_GAUSSIAN = 0.6745  # median of |x| for a standard normal x
_MEDIAN_COST = 1.2533  # the median's standard error over the mean's, for normal noise


@dataclass(frozen=True, eq=False)
class Levels:
    """Levels of successive spans, each with its error from noise alone and from all causes."""

    level: FloatArray
    noise_error: FloatArray
    uncertainty: FloatArray

    @property
    def heights(self) -> FloatArray:
        return -np.diff(self.level)

    @property
    def height_uncertainty(self) -> FloatArray:
        return np.hypot(self.uncertainty[1:], self.uncertainty[:-1])

    @property
    def edges(self) -> FloatArray:
        """The share of each drop, at either end, that is indistinguishable from its plateaus."""
        hidden = 2 * np.hypot(self.noise_error[1:], self.noise_error[:-1])
        return np.clip(hidden / self.heights, EDGE, QUARTER)


@dataclass(frozen=True, eq=False)
class Descent:
    """A curve without its spikes, with the non-increasing curve closest to it."""

    time: FloatArray
    curve: FloatArray
    fit: FloatArray
    noise: float
    local_noise: FloatArray
    known: dict[tuple[float, float], tuple[float, float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, curve: FloatArray, time: FloatArray) -> Descent:
        roughness = _roughness(time, curve)
        local = np.pad(median_filter(roughness, _NOISE_WINDOW, mode="mirror"), 1, mode="edge")
        clean = _without_spikes(curve, local)
        fit = np.asarray(isotonic_regression(clean, increasing=False).x)
        local = np.maximum(local, _slow_noise(time, clean))
        return cls(time, clean, fit, float(np.median(roughness)), local)

    def when(self, level: FloatArray) -> FloatArray:
        """The time at which the fit comes down to each level; the ends for levels beyond them."""
        index = np.clip(np.searchsorted(-self.fit, -level), 1, self.fit.size - 1)
        above, below = self.fit[index - 1], self.fit[index]
        step = np.where(above > below, above - below, 1.0)
        part = np.clip((above - level) / step, 0.0, 1.0)
        inside = self.time[index - 1] + part * (self.time[index] - self.time[index - 1])
        inside = np.where(level >= self.fit[0], self.time[0], inside)
        return np.where(level <= self.fit[-1], self.time[-1], inside)

    def spans(self, levels: FloatArray, shares: FloatArray | float) -> Spans:
        """Start and end of each level's plateau; the middle of each drop belongs to none."""
        margin = shares * -np.diff(levels)
        starts = np.append(self.time[0], self.when(levels[1:] + margin))
        return starts, np.append(self.when(levels[:-1] - margin), self.time[-1])

    def measured(self, starts: FloatArray, ends: FloatArray) -> Levels:
        """The level of the curve itself over each span."""
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        return Levels(*np.array([self._level(*span) for span in spans]).T)

    def _level(self, start: float, end: float) -> tuple[float, float, float]:
        if (start, end) not in self.known:
            first = int(np.searchsorted(self.time, start))
            stop = int(np.searchsorted(self.time, end, side="right"))
            if stop <= first:  # between two points: take the nearer
                nearer = first > 0 and start - self.time[first - 1] < self.time[first] - end
                first, stop = first - nearer, first - nearer + 1
            # Equal shares of time, not of points: solvers and logarithmic steps crowd somewhere.
            # A hair early, so that rounding moves no point across a border.
            shares = np.arange(1, _BATCHES) / _BATCHES - 1e-6
            borders = self.time[first] + shares * (self.time[stop - 1] - self.time[first])
            cuts = np.unique([first, *np.searchsorted(self.time, borders), stop])
            medians = np.array([np.median(part) for part in np.split(self.curve, cuts)[1:-1]])
            noise = np.median(self.local_noise[first:stop])
            expected = _MEDIAN_COST * noise * np.sqrt(np.mean(1 / np.diff(cuts)))
            observed = medians.std(ddof=1) if medians.size > 1 else 0.0
            cost = (_MEDIAN_COST if medians.size > 2 else 1.0) / np.sqrt(medians.size)
            level = float(np.median(medians))
            self.known[start, end] = level, cost * expected, cost * max(expected, observed)
        return self.known[start, end]


def slow_levels(descent: Descent, share: float) -> list[float]:
    """Levels, from the top, at which the fit lingers twice as long as on the way to the next."""
    top, bottom = descent.fit[0], descent.fit[-1]
    half = share * (top - bottom) / 2
    levels = np.linspace(top, bottom, int(np.ceil(4 / share)) + 1)
    high, low = np.minimum(levels + half, top), np.maximum(levels - half, bottom)
    tiny = np.finfo(np.float64).tiny
    elapsed = np.log(np.maximum(descent.when(low) - descent.when(high), tiny))
    slowness = elapsed - np.log(np.maximum(high - low, tiny))

    slow, extreme, lingering = [float(top)], 0, False
    for index, value in enumerate(slowness):
        if (value > slowness[extreme]) == lingering:
            extreme = index
        elif abs(value - slowness[extreme]) > np.log(2):
            if lingering:
                slow.append(float(levels[extreme]))
            extreme, lingering = index, not lingering
    return [*slow, float(bottom)]


def _roughness(time: FloatArray, curve: FloatArray) -> FloatArray:
    """How far each inner point lies from the line through its neighbours, in units of the noise."""
    weight = (time[2:] - time[1:-1]) / (time[2:] - time[:-2])
    distance = curve[1:-1] - weight * curve[:-2] - (1 - weight) * curve[2:]
    return np.abs(distance) / np.sqrt(1 + weight**2 + (1 - weight) ** 2) / _GAUSSIAN


def _slow_noise(time: FloatArray, curve: FloatArray) -> float:
    """The noise that averages over 4, 16, ... points leave, times the root of their number.

    It equals the noise where that is independent from point to point and exceeds it where not.
    """
    largest, block = 0.0, 4
    while curve.size // block >= 64:
        whole = curve.size // block * block
        means = [array[:whole].reshape(-1, block).mean(axis=1) for array in (time, curve)]
        largest = max(largest, float(np.sqrt(block) * np.median(_roughness(*means))))
        block *= 4
    return largest


def _without_spikes(curve: FloatArray, local_noise: FloatArray) -> FloatArray:
    """Cut off what stands out from the five points before and the five after, up to 3 in a row.

    A monotone curve is left as it is, however steep; the first and the last point always are.
    """
    medians, index = median_filter(curve, 5, mode="nearest"), np.arange(curve.size)
    before, after = medians[np.maximum(index - 3, 0)], medians[np.minimum(index + 3, index[-1])]
    lowest, highest = np.minimum(before, after), np.maximum(before, after)
    return np.clip(curve, lowest - _SPIKE * local_noise, highest + _SPIKE * local_noise)
