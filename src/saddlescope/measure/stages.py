"""Plateaus and drops of a scalar curve.

The curve is read through the non-increasing curve closest to it (isotonic regression), once
spikes of up to three points are cut off (never the first or the last point). That fit needs no
window: it follows a drop of three points and averages over a plateau of a million, so narrow early
drops and wide late ones are measured in one pass. A rise is no drop, and neither is the return
from a rise, nor a dip that is made good.

*Plateau.* Between two drops the curve slows down and speeds up again; merely slowing down makes no
plateau. Had it gone on at the speed of the slower of the two drops (in the middle half of that
drop's height), the curve would have fallen at least `CONTRAST` times as far as it did. Speeds are
compared with one another only: neither the unit nor the origin of time matters. The first and the
last plateau hold the ends of the curve and may be as short as one point.

*Drop.* The fall from one plateau's level to the next. It counts from `SMALLEST_DROP` of the whole
fall (or `smoothing`) and from `SIGNIFICANCE` times the uncertainty of its height.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter
from scipy.optimize import isotonic_regression

from saddlescope.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
Spans = tuple[FloatArray, FloatArray]

SMALLEST_DROP = 0.02
"""The smallest default of `smoothing`: a share of the whole fall."""
CONTRAST = 3.0
"""Two equal logistic drops part where their centres are 6.5 of their time constants apart."""
SIGNIFICANCE = 5.0
"""At 4, none of 600 curves of pure noise had a drop; noise that is correlated asks for more."""
EDGE = 0.05
"""A plateau ends when this share of the next drop is done (more where noise hides so little)."""

_QUARTER = 0.25
_BATCHES = 8
_NOISE_WINDOW = 31  # points; half of them may lie in drops or beside spikes
_SPIKE = 5.0  # standard deviations
_ROUNDING = 1e-12  # a smaller share of the values than this is no fall
_GAUSSIAN = 0.6745  # median of |x| for a standard normal x
_MEDIAN_COST = 1.2533  # the median's standard error over the mean's, for normal noise


@dataclass(frozen=True)
class Plateau:
    """A stretch of time at one level."""

    start: float
    end: float
    level: float
    """The median of eight medians, one for each eighth of the plateau's time."""
    uncertainty: float
    """One standard error of the level: from the noise, or from the spread of the eight medians
    (which sees drift and correlated noise) where that is larger."""


@dataclass(frozen=True)
class Drop:
    """A fall from one plateau to the next."""

    start: float
    """When a twentieth of the height is done (up to a quarter where noise hides less)."""
    end: float
    """When the same share is still to come."""
    time: float
    """When the curve crosses midway between the two plateau levels."""
    before: float
    after: float
    uncertainty: float
    """One standard error of the height, the two levels' uncertainties combined."""

    @property
    def height(self) -> float:
        """How far the curve falls: `before - after`."""
        return self.before - self.after


@dataclass(frozen=True)
class Stages:
    """The stages of a curve, in order of time: n drops separate n + 1 plateaus."""

    plateaus: tuple[Plateau, ...]
    drops: tuple[Drop, ...]
    noise: float
    """Standard deviation of the noise from point to point."""
    smoothing: float
    """The share of the whole fall that was used as the resolution in height."""

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers, fit for JSON."""
        return {
            "plateaus": [asdict(plateau) for plateau in self.plateaus],
            "drops": [{**asdict(drop), "height": drop.height} for drop in self.drops],
            "noise": self.noise,
            "smoothing": self.smoothing,
        }


def stages(curve: object, time: object = None, *, smoothing: float | None = None) -> Stages:
    """The plateaus and drops of `curve[T]`, usually a loss.

    `time[T]` increases strictly, in any spacing (by default 0, 1, 2, ...). `smoothing` is the
    resolution in height, as a share of the whole fall of the curve: whatever is smaller counts as
    noise, be it short or long. By default .02, or more where a plateau that holds a twentieth of
    the points is known less well. The cost is linear in T.

    >>> steps = np.arange(1000.0)
    >>> loss = 1 - 0.6 / (1 + np.exp(300 - steps)) - 0.3 / (1 + np.exp(700 - steps))
    >>> found = stages(loss)
    >>> [round(drop.time) for drop in found.drops]
    [300, 700]
    >>> [round(plateau.level, 3) for plateau in found.plateaus]
    [1.0, 0.4, 0.1]
    """
    values, times = _checked(curve, time)
    if smoothing is not None and not 1e-4 <= smoothing <= 0.5:
        raise InvalidInput("smoothing", smoothing, "must be a share of the fall, 0.0001 to 0.5")
    descent = _Descent.of(values, times)
    fall = float(descent.fit[0] - descent.fit[-1])
    if fall <= _ROUNDING * np.abs(values).max():
        share = SMALLEST_DROP if smoothing is None else float(smoothing)
        return _described(descent, descent.measured(times[:1], times[-1:]), share)
    hidden = min(2 * descent.noise * np.sqrt(20 / values.size) / fall, 0.5)
    share = float(max(SMALLEST_DROP, hidden) if smoothing is None else smoothing)
    finest = min(share, SMALLEST_DROP)
    candidates = _slow_levels(descent, finest)
    _established(descent, candidates, finest * fall, CONTRAST)
    # Only then, and with no second look at the pauses: two plateaus that a small drop parts would
    # make one slow drop of whatever is beside them.
    found = _established(descent, candidates, share * fall, 0.0)
    return _described(descent, found, share)


def _checked(curve: object, time: object) -> tuple[FloatArray, FloatArray]:
    arrays: list[FloatArray] = []
    for name, given in (("curve", curve), ("time", time)):
        if name == "time" and given is None:
            given = np.arange(arrays[0].size)
        try:
            array = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(name, given, "must be an array of numbers") from None
        if array.ndim != 1 or array.size < 3:
            raise InvalidInput(f"{name}.shape", array.shape, "must be one axis of 3 points or more")
        if not np.isfinite(array).all():
            raise InvalidInput(name, given, "must hold finite numbers only")
        arrays.append(array)
    values, times = arrays
    if times.size != values.size:
        raise InvalidInput("time.shape", times.shape, f"must be {values.shape}, as curve has")
    if not (np.diff(times) > 0).all():
        raise InvalidInput("time", time, "must increase strictly")
    return values, times


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


@dataclass(frozen=True, eq=False)
class _Levels:
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
        """The share of each drop, at either end, that cannot be told from its plateaus."""
        hidden = 2 * np.hypot(self.noise_error[1:], self.noise_error[:-1])
        return np.clip(hidden / self.heights, EDGE, _QUARTER)


@dataclass(frozen=True, eq=False)
class _Descent:
    """A curve without its spikes, beside the non-increasing curve closest to it."""

    time: FloatArray
    curve: FloatArray
    fit: FloatArray
    noise: float
    local_noise: FloatArray
    known: dict[tuple[float, float], tuple[float, float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, curve: FloatArray, time: FloatArray) -> _Descent:
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
        """Start and end of each level's plateau, which leave the middle of each drop out."""
        margin = shares * -np.diff(levels)
        starts = np.append(self.time[0], self.when(levels[1:] + margin))
        return starts, np.append(self.when(levels[:-1] - margin), self.time[-1])

    def measured(self, starts: FloatArray, ends: FloatArray) -> _Levels:
        """What the curve itself says of each span."""
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        return _Levels(*np.array([self._level(*span) for span in spans]).T)

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


def _slow_levels(descent: _Descent, share: float) -> list[float]:
    """Levels, from the top, at which the fit lingers twice as long as on the way to the next."""
    top, bottom = descent.fit[0], descent.fit[-1]
    half = share * (top - bottom) / 2
    levels = np.linspace(top, bottom, int(np.ceil(4 / share)) + 1)
    high, low = np.minimum(levels + half, top), np.maximum(levels - half, bottom)
    tiny = np.finfo(np.float64).tiny
    elapsed = np.log(np.maximum(descent.when(low) - descent.when(high), tiny))
    slowness = elapsed - np.log(np.maximum(high - low, tiny))

    found, extreme, lingering = [float(top)], 0, False
    for index, value in enumerate(slowness):
        if (value > slowness[extreme]) == lingering:
            extreme = index
        elif abs(value - slowness[extreme]) > np.log(2):
            if lingering:
                found.append(float(levels[extreme]))
            extreme, lingering = index, not lingering
    return [*found, float(bottom)]


def _established(
    descent: _Descent, candidates: list[float], resolution: float, contrast: float
) -> _Levels:
    """The candidates that are plateaus: the least convincing goes until all convince."""
    while True:
        spans = descent.spans(np.array(candidates), _QUARTER)
        found = descent.measured(*spans)
        if len(candidates) == 1:
            return found
        drops = found.heights / np.maximum(resolution, SIGNIFICANCE * found.height_uncertainty)
        if drops.min() < 1:
            weakest, lasted = int(np.argmin(drops)), spans[1] - spans[0]
            del candidates[weakest + int(lasted[weakest] >= lasted[weakest + 1])]
            continue
        pauses = _pauses(descent, found)
        if pauses.min(initial=np.inf) >= contrast:
            return found
        del candidates[int(np.argmin(pauses)) + 1]


def _pauses(descent: _Descent, found: _Levels) -> FloatArray:
    """How many times as far each inner plateau would have fallen, as fast as its slower drop."""
    starts, ends = descent.spans(found.level, _QUARTER)
    slowness = (starts[1:] - ends[:-1]) / (found.heights * (1 - 2 * _QUARTER))
    starts, ends = descent.spans(found.level, found.edges)
    fallen = found.edges * found.heights
    as_a_drop = (fallen[1:] + fallen[:-1]) * np.maximum(slowness[1:], slowness[:-1])
    pauses = np.full(as_a_drop.shape, np.inf)
    np.divide((ends - starts)[1:-1], as_a_drop, out=pauses, where=as_a_drop > 0)
    return pauses


def _described(descent: _Descent, found: _Levels, smoothing: float) -> Stages:
    # A fall that never rests has no level at its ends; each round comes nearer to the end itself.
    for _ in range(4):
        finer = descent.measured(*descent.spans(found.level, found.edges))
        found = finer if (finer.heights > 0).all() else found
    starts, ends = descent.spans(found.level, found.edges)
    before, after = found.level[:-1], found.level[1:]
    middles = descent.when((before + after) / 2)
    plateaus = np.stack([starts, ends, found.level, found.uncertainty], axis=1)
    drops = np.stack(
        [ends[:-1], starts[1:], middles, before, after, found.height_uncertainty], axis=1
    )
    return Stages(
        plateaus=tuple(Plateau(*plateau) for plateau in plateaus.tolist()),
        drops=tuple(Drop(*drop) for drop in drops.tolist()),
        noise=descent.noise,
        smoothing=smoothing,
    )
