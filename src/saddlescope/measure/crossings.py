"""When a curve first passes a level, by one definition for measured and predicted curves.

A crossing lies between the last record before the level and the first at or beyond it. Between
them the curve is the monotone cubic (PCHIP) through the eight records around: it follows the bend
of a drop, and noise makes it swing no further than the records do.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.interpolate import PchipInterpolator

from saddlescope.checks import FloatArray, float_array, real_array
from saddlescope.errors import InvalidInput
from saddlescope.measure._arrays import Numbers
from saddlescope.measure._curves import checked_curves

# Records on either side of a crossing that the cubic is drawn through.
_NEAR = 4


def first_crossing(
    curve: Numbers, level: Numbers, time: Numbers | None = None, *, rising: bool = False
) -> Float[np.ndarray, "..."]:
    """When each of `curve[..., T]` first falls, or rises, to a level: [...], NaN where it never is.

    `level` broadcasts with the axes in front of T: `curve[:, None]` and `level[L]` give every curve
    at every level. `time[T]` increases strictly, in any spacing (by default 0, 1, 2, ...). Records
    that are not finite are left out. A curve that touches a level has crossed it; one that starts
    at a level or beyond it has not, and never will.

    `rising` asks for a crossing upwards, in place of one downwards.

    >>> time = np.geomspace(1, 1e4, 200)
    >>> loss = 1 / (1 + (time / 300) ** 4)
    >>> first_crossing(loss, [.5, .2, 1.5], time).round(2).tolist()
    [300.0, 424.26, nan]
    """
    curves, times = checked_curves("curve", curve, time)
    rows, levels = _facing_down(curves, level, rising)
    records = _first_at_or_below(rows, levels)
    crossings = np.full(records.shape, np.nan)
    for index in map(tuple, np.argwhere(records >= 0)):
        crossings[index] = _passed(times, rows[index], int(records[index]), float(levels[index]))
    return crossings


def first_record(curve: Numbers, level: Numbers, *, rising: bool = False) -> Int[np.ndarray, "..."]:
    """The first record of each curve at or beyond a level that it did not start beyond; else -1.

    Arguments as in `first_crossing`, which lies before this record.

    `rising` asks for a crossing upwards, in place of one downwards.

    >>> first_record([[5., 3., 1.], [1., 0., 0.]], 3.0).tolist()
    [1, -1]
    """
    curves, _ = checked_curves("curve", curve, None)
    return _first_at_or_below(*_facing_down(curves, level, rising))


def drop_times(
    loss: Numbers, levels: Numbers, time: Numbers | None = None
) -> Float[np.ndarray, "... drops"]:
    """When each of `loss[..., T]` first falls midway from each of `levels[L]` to the next.

    [..., L-1], NaN where it never does: the times of drops between plateaus of known levels.

    >>> drop_times([5., 4., 3., 2., 1.], [6., 4., 1.]).tolist()
    [nan, 2.5]
    """
    rows, times = checked_curves("loss", loss, time)
    heights = real_array("levels", levels, (None,))
    return first_crossing(rows[..., None, :], (heights[:-1] + heights[1:]) / 2, times)


def _facing_down(curves: FloatArray, level: Numbers, rising: bool) -> tuple[FloatArray, FloatArray]:
    """Curves [..., T] that fall, and the level of each [...]."""
    levels = float_array("level", level)
    try:
        shape = np.broadcast_shapes(curves.shape[:-1], levels.shape)
    except ValueError:
        allowed = f"must be numbers that broadcast with {curves.shape[:-1]}, the axes before T"
        raise InvalidInput("level", level, allowed) from None
    sign = -1.0 if rising else 1.0
    rows = np.broadcast_to(sign * curves, (*shape, curves.shape[-1]))
    return rows, np.broadcast_to(sign * levels, shape)


def _first_at_or_below(rows: FloatArray, levels: FloatArray) -> Int[np.ndarray, "..."]:
    known = np.isfinite(rows)
    passed = known & (rows <= levels[..., None])
    first = passed.argmax(axis=-1)
    return np.where(passed.any(axis=-1) & (first > known.argmax(axis=-1)), first, -1)


def _passed(time: FloatArray, row: FloatArray, after: int, level: float) -> float:
    """When a falling row comes down to a level, in the interval that ends with a record."""
    known = np.flatnonzero(np.isfinite(row))
    index = int(np.searchsorted(known, after))
    near = known[max(0, index - _NEAR) : index + _NEAR]
    roots = PchipInterpolator(time[near], row[near]).solve(level, extrapolate=False)
    inside = roots[(roots >= time[known[index - 1]]) & (roots <= time[after])]
    return float(inside[0]) if inside.size else float(time[after])
