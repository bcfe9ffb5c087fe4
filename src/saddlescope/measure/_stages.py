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
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.checks import FloatArray, number
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Numbers
from saddlescope.measure._curves import checked_curve
from saddlescope.measure._descent import QUARTER, Descent, Levels, slow_levels
from saddlescope.tables import counted, html_table, paragraphs, text_table

if TYPE_CHECKING:
    from saddlescope.drawing import Drawing

LARGEST_VALUE = 1e150
"""Squares of larger values are beyond float64."""
SMALLEST_DROP = 0.02
"""The smallest default of `smoothing`: a share of the whole fall."""
CONTRAST = 3.0
"""Two equal logistic drops part where their centres are 6.5 of their time constants apart."""
SIGNIFICANCE = 5.0
"""At 4, none of 600 curves of pure noise had a drop; noise that is correlated asks for more."""

_HEADINGS = ("", "start", "end", "level", "±", "mid-drop")
_ROUNDING = 1e-12  # a smaller share of the values than this is no fall


@dataclass(frozen=True)
class Plateau:
    """A stretch of time at one level.

    From `start` to `end`, at `level` give or take `uncertainty`.

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> time = np.linspace(0, 100, 400)
    >>> first, last = ss.measure.stages(np.where(time < 40, 1., .5), time).plateaus
    >>> first.level, last.level
    (1.0, 0.5)
    """

    start: float
    end: float
    level: float
    """The median of eight medians, one for each eighth of the plateau's time."""
    uncertainty: float
    """One standard error of the level: from the noise, or from the spread of the eight medians
    (which sees drift and correlated noise) where that is larger."""


@dataclass(frozen=True)
class Drop:
    """A fall from one plateau to the next.

    From `before` at `start` to `after` at `end`; half-way at `time`, give or take `uncertainty`.

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> time = np.linspace(0, 100, 400)
    >>> (drop,) = ss.measure.stages(np.where(time < 40, 1., .5), time).drops
    >>> round(drop.time), round(drop.height, 2)
    (40, 0.5)
    """

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


@dataclass(frozen=True, repr=False)
class Stages:
    """The stages of a curve, in order of time: n drops separate n + 1 plateaus.

    >>> import saddlescope as ss
    >>> import numpy as np
    >>> time = np.linspace(0, 100, 400)
    >>> stages = ss.measure.stages(np.where(time < 40, 1., .5), time)
    >>> len(stages.plateaus), len(stages.drops)
    (2, 1)
    """

    plateaus: tuple[Plateau, ...]
    drops: tuple[Drop, ...]
    noise: float
    """Standard deviation of the noise from point to point."""
    smoothing: float
    """The share of the whole fall that was used as the resolution in height."""
    curve: FloatArray | None = field(default=None, compare=False)
    """The curve [T] that they are of."""
    time: FloatArray | None = field(default=None, compare=False)
    """Its times [T]."""

    def plot(self, *, label: str = "loss", unit: str = "time") -> Drawing:
        """A picture of the curve: plateaus as lines at their levels, drops as bands.

        >>> stages(1 - np.tanh((np.arange(200.0) - 100) / 5)).plot().axes[0].get_xlabel()
        'time'
        """
        from saddlescope.drawing.stages import draw_stages

        return draw_stages(self, label, unit)

    def __repr__(self) -> str:
        """A table with a line for each stage, in order of time."""
        return f"{self._title}\n{text_table(_HEADINGS, self._cells(), left=1, rule=False)}"

    def _repr_html_(self) -> str:
        return paragraphs([self._title]) + html_table(_HEADINGS, self._cells())

    @property
    def _title(self) -> str:
        return f"Stages: {counted(len(self.drops) or 'no', 'drop')}, noise {self.noise:.2g}"

    def _cells(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for index, plateau in enumerate(self.plateaus):
            rows.append(("plateau", *_brief(*vars(plateau).values()), ""))
            for drop in self.drops[index : index + 1]:
                fall = _brief(drop.start, drop.end, -drop.height, drop.uncertainty, drop.time)
                rows.append(("drop", *fall))
        return rows

    def to_dict(self) -> dict[str, object]:
        """Plain lists, dictionaries and numbers, fit for JSON."""
        return {
            "plateaus": [asdict(plateau) for plateau in self.plateaus],
            "drops": [{**asdict(drop), "height": drop.height} for drop in self.drops],
            "noise": self.noise,
            "smoothing": self.smoothing,
        }


def _brief(*numbers: float) -> list[str]:
    return [f"{one:.4g}" for one in numbers]


def stages(curve: Numbers, time: Numbers | None = None, *, smoothing: object = None) -> Stages:
    """The plateaus and drops of `curve[T]`, usually a loss (THEORY section 7).

    `time[T]` increases strictly, in any spacing (by default 0, 1, 2, ...). `smoothing` is the
    resolution in height, as a share of the whole fall of the curve: whatever is smaller counts as
    noise, be it short or long. By default .02, or more where a plateau that holds a twentieth of
    the points is known less well. The cost is linear in T.

    >>> steps = np.arange(1000.0)
    >>> loss = 1 - 0.6 / (1 + np.exp(300 - steps)) - 0.3 / (1 + np.exp(700 - steps))
    >>> stages(loss)
    Stages: 2 drops, noise 0
             start    end  level  ±  mid-drop
    ...
    >>> [round(drop.time) for drop in stages(loss).drops]
    [300, 700]
    """
    values, times = checked_curve("curve", curve, time)
    if np.abs(values).max() > LARGEST_VALUE:
        raise InvalidInput("curve", curve, f"must be within ±{LARGEST_VALUE:g}")
    given = None if smoothing is None else number("smoothing", smoothing)
    if given is not None and not 1e-4 <= given <= 0.5:
        raise InvalidInput("smoothing", smoothing, "must be a share of the fall, 0.0001 to 0.5")
    descent = Descent.of(values, times)
    fall = float(descent.fit[0] - descent.fit[-1])
    if fall <= _ROUNDING * np.abs(values).max():
        share = SMALLEST_DROP if given is None else given
        return _described(descent, descent.measured(times[:1], times[-1:]), share, values)
    hidden = min(2 * descent.noise * np.sqrt(20 / values.size) / fall, 0.5)
    share = float(max(SMALLEST_DROP, hidden)) if given is None else given
    finest = min(share, SMALLEST_DROP)
    candidates = slow_levels(descent, finest)
    _established(descent, candidates, finest * fall, CONTRAST)
    # Only then, and with no second look at the pauses: two plateaus that a small drop parts would
    # make one slow drop of whatever is beside them.
    levels = _established(descent, candidates, share * fall, 0.0)
    return _described(descent, levels, share, values)


def _established(
    descent: Descent, candidates: list[float], resolution: float, contrast: float
) -> Levels:
    """The candidates that are plateaus: the least convincing goes until all convince."""
    while True:
        spans = descent.spans(np.array(candidates), QUARTER)
        levels = descent.measured(*spans)
        if len(candidates) == 1:
            return levels
        drops = levels.heights / np.maximum(resolution, SIGNIFICANCE * levels.height_uncertainty)
        if drops.min() < 1:
            weakest, lasted = int(np.argmin(drops)), spans[1] - spans[0]
            del candidates[weakest + int(lasted[weakest] >= lasted[weakest + 1])]
            continue
        pauses = _pauses(descent, levels)
        if pauses.min(initial=np.inf) >= contrast:
            return levels
        del candidates[int(np.argmin(pauses)) + 1]


def _pauses(descent: Descent, levels: Levels) -> FloatArray:
    """How many times as far each inner plateau would have fallen, as fast as its slower drop."""
    starts, ends = descent.spans(levels.level, QUARTER)
    slowness = (starts[1:] - ends[:-1]) / (levels.heights * (1 - 2 * QUARTER))
    starts, ends = descent.spans(levels.level, levels.edges)
    fallen = levels.edges * levels.heights
    as_a_drop = (fallen[1:] + fallen[:-1]) * np.maximum(slowness[1:], slowness[:-1])
    pauses = np.full(as_a_drop.shape, np.inf)
    np.divide((ends - starts)[1:-1], as_a_drop, out=pauses, where=as_a_drop > 0)
    return pauses


def _described(descent: Descent, levels: Levels, smoothing: float, given: FloatArray) -> Stages:
    # A fall that never rests has no level at its ends; each round comes nearer to the end itself.
    for _ in range(4):
        finer = descent.measured(*descent.spans(levels.level, levels.edges))
        levels = finer if (finer.heights > 0).all() else levels
    starts, ends = descent.spans(levels.level, levels.edges)
    before, after = levels.level[:-1], levels.level[1:]
    middles = descent.when((before + after) / 2)
    plateaus = np.stack([starts, ends, levels.level, levels.uncertainty], axis=1)
    drops = np.stack(
        [ends[:-1], starts[1:], middles, before, after, levels.height_uncertainty], axis=1
    )
    return Stages(
        plateaus=tuple(Plateau(*plateau) for plateau in plateaus.tolist()),
        drops=tuple(Drop(*drop) for drop in drops.tolist()),
        noise=descent.noise,
        smoothing=smoothing,
        curve=given,
        time=descent.time,
    )
