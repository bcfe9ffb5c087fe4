r"""Stages from the curvature of the loss autocorrelation and of parameter norms.

*The axis.* Derivatives are taken along u, which is the time or, where the steps are closer to
logarithmic than to even, its logarithm (a first point at 0 is then left out). The curve is put on
as many even steps of u as it has points, spikes of one or two points are cut off by a median over
five, and a Gaussian smooths it; its standard deviation `smoothing` is a share of the whole axis.

*The stages.* A stretch between two moments of rest, where the smoothed curve moves at most a third
(`CONTRAST`) as fast as in the middle of the stages beside it. A stretch counts as a stage if the
curve changes by `SMALLEST_CHANGE` of its whole range, and by `SIGNIFICANCE` times the noise that is
left after smoothing. Its mark is where the curve moves fastest.

*The default of* `smoothing` is the narrowest of 1, 2, 4, ... points at which the stages account
for `EXPLAINED` of the whole change of the curve (where none does, the one that comes nearest):
noise breaks slow stages into pieces that do not count, and a wider Gaussian joins them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.ndimage import gaussian_filter1d, median_filter

from saddlescope.checks import FloatArray, number
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Numbers
from saddlescope.measure._curves import checked_curve

SMALLEST_CHANGE = 0.02
"""The smallest stage, as a share of the whole range of the curve."""
CONTRAST = 3.0
"""How much faster than at rest the curve moves in the middle of a stage."""
SIGNIFICANCE = 15.0
"""The smallest stage in units of the noise that smoothing leaves. The largest swing of noise among
4000 points is some 9 of these units, and more where it is correlated."""
EXPLAINED = 0.95
"""The share of the whole change that the marked stages should account for."""

_WIDEST = 0.05  # of the axis
_GAUSSIAN = 0.6745  # median of |x| for a standard normal x


class CurvatureAxis(StrEnum):
    """What a curvature is taken along.

    >>> import saddlescope as ss
    >>> [axis.value for axis in ss.measure.CurvatureAxis]
    ['time', 'log time']
    """

    TIME = "time"
    LOG_TIME = "log time"


@dataclass(frozen=True, eq=False)
class Curvature:
    """A curvature signal and the stages that it marks.

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> time = np.linspace(0, 10, 200)
    >>> curvature = ss.measure.norm_curvature(1 / (1 + np.exp(5 - 2 * time)), time)
    >>> curvature.value.shape
    (200,)
    """

    time: FloatArray
    """The times [T] of even steps of the axis."""
    value: FloatArray
    """The signal [T]."""
    marks: FloatArray
    """The times of the stages, in order."""
    smoothing: float
    """The standard deviation of the Gaussian that was used, as a share of the axis."""
    axis: CurvatureAxis
    """What the curvature is taken along."""

    def __repr__(self) -> str:
        marks = ", ".join(f"{mark:.6g}" for mark in self.marks)
        axis = self.axis.value
        return f"Curvature(marks=[{marks}], smoothing={self.smoothing:.3g}, axis={axis!r})"


def autocorrelation_curvature(
    loss: Numbers, time: Numbers | None = None, *, smoothing: object = None
) -> Curvature:
    r"""The local curvature of the loss autocorrelation, which peaks at every drop.

    The autocorrelation $A(\tau) = E[L(u)L(u+\tau)]$ (THEORY section 7) of a stationary curve has
    the curvature $-A''(0) = E[L'(u)^2]$ at lag 0. Over a whole run that is one number. Here the
    expectation is over the neighbourhood of each moment, a Gaussian of the width that also smooths
    L: `value` is $E_u[L'^2]$, a signal of time. (Curvature at other lags shows the differences of
    the drops' times beside the times themselves.) A mark is the moment of steepest fall of a
    stage. A rise of the loss makes a peak too and is not marked.

    `loss[T]` and `time[T]` as in `stages`; `smoothing` is described above.

    >>> time = np.geomspace(1, 1e4, 400)
    >>> loss = 1 - 0.6 / (1 + (100 / time) ** 8) - 0.3 / (1 + (2000 / time) ** 8)
    >>> curvature = autocorrelation_curvature(loss, time)
    >>> curvature.marks.round(-2).tolist(), curvature.axis.value
    ([100.0, 2000.0], 'log time')
    """

    def signal(smooth: FloatArray, width: float, step: float) -> FloatArray:
        squares = np.gradient(smooth, step) ** 2
        return gaussian_filter1d(squares, width, mode="nearest")

    return _measured("loss", loss, time, smoothing, signal, rises=False)


def norm_curvature(
    norm: Numbers, time: Numbers | None = None, *, smoothing: object = None
) -> Curvature:
    r"""The curvature $d^2 n/du^2$ of a parameter-norm curve, whose sign turns at every stage.

    The norm bends upwards where a direction starts to be learned and downwards where it is learned
    (THEORY section 7): a mark is the moment between them when the curvature crosses zero and the
    norm changes fastest. Stages at which a norm falls, as under weight decay, are marked too.

    `norm[T]` and `time[T]` as in `stages`; `smoothing` is described above.

    >>> time = np.linspace(0, 100, 500)
    >>> norm = 1 / (1 + np.exp(30 - time)) + 2 / (1 + np.exp(70 - time))
    >>> norm_curvature(norm, time).marks.round().tolist()
    [30.0, 70.0]
    """

    def signal(smooth: FloatArray, width: float, step: float) -> FloatArray:
        return np.gradient(np.gradient(smooth, step), step)

    return _measured("norm", norm, time, smoothing, signal, rises=True)


def _measured(
    name: str,
    curve: Numbers,
    time: Numbers | None,
    smoothing: object,
    signal: Callable[[FloatArray, float, float], FloatArray],
    rises: bool,
) -> Curvature:
    values, times = checked_curve(name, curve, time)
    axis_values, axis = _axis(times)
    grid = np.linspace(axis_values[0], axis_values[-1], axis_values.size)
    even = median_filter(
        np.interp(grid, axis_values, values[-axis_values.size :]), 5, mode="nearest"
    )
    points = grid.size - 1
    if smoothing is None:
        width, smooth, marked = _narrowest(even, rises)
    else:
        share = number("smoothing", smoothing)
        if not 1e-6 <= share <= 0.25:
            raise InvalidInput("smoothing", smoothing, "must be a share of the axis, 1e-6 to 0.25")
        width = share * points
        smooth, marked, _ = _stages_at(even, width, rises)
    moments = np.exp(grid) if axis is CurvatureAxis.LOG_TIME else grid
    step = float(grid[1] - grid[0])
    return Curvature(
        time=moments,
        value=signal(smooth, width, step),
        marks=moments[marked],
        smoothing=float(width / points),
        axis=axis,
    )


def _axis(time: FloatArray) -> tuple[FloatArray, CurvatureAxis]:
    """The time or its logarithm, in which the steps differ less."""
    later = time[int(time[0] <= 0) :]
    if later[0] <= 0 or later.size < 3:
        return time, CurvatureAxis.TIME
    spread = [np.std(steps) / np.mean(steps) for steps in (np.diff(time), np.diff(np.log(later)))]
    if spread[1] < spread[0]:
        return np.log(later), CurvatureAxis.LOG_TIME
    return time, CurvatureAxis.TIME


def _narrowest(even: FloatArray, rises: bool) -> tuple[float, FloatArray, list[int]]:
    width, best, share = 1.0, None, -1.0
    while best is None or (share < EXPLAINED and width <= _WIDEST * even.size):
        smooth, marked, explained = _stages_at(even, width, rises)
        if explained > share:
            best, share = (width, smooth, marked), explained
        width *= 2
    return best


def _stages_at(even: FloatArray, width: float, rises: bool) -> tuple[FloatArray, list[int], float]:
    """The smoothed curve, where its stages move fastest, and what share of the change they are."""
    smooth = gaussian_filter1d(even, width, mode="nearest")
    wider = gaussian_filter1d(even, 4 * width, mode="nearest")
    noise = float(np.median(np.abs(smooth - wider))) / _GAUSSIAN
    smallest = max(SMALLEST_CHANGE * float(np.ptp(smooth)), SIGNIFICANCE * noise)
    marked: list[int] = []
    explained = 0.0
    for start, fastest, end in _stretches(np.abs(np.gradient(smooth))):
        change = float(smooth[start] - smooth[end])
        if (abs(change) if rises else change) >= max(smallest, np.finfo(np.float64).tiny):
            marked.append(fastest)
            explained += abs(change)
    total = float(np.ptp(smooth)) if rises else float(smooth[0] - smooth.min())
    return smooth, marked, explained / total if total > 0 else 1.0


def _stretches(speed: FloatArray) -> list[tuple[int, int, int]]:
    """Slowest, fastest and slowest moment of each stretch between two moments of rest."""
    stretches: list[tuple[int, int, int]] = []
    start, fastest, slowest = 0, 0, 0
    for index, value in enumerate(speed.tolist()):
        if slowest <= fastest:  # moving: wait for a rest
            if value > speed[fastest]:
                fastest = index
            elif value * CONTRAST < speed[fastest]:
                slowest = index
        elif value <= speed[slowest]:
            slowest = index
        elif value > CONTRAST * speed[slowest]:
            stretches.append((start, fastest, slowest))
            start, fastest = slowest, index
            slowest = fastest
    end = slowest if slowest > fastest else speed.size - 1
    return [*stretches, (start, fastest, end)]
