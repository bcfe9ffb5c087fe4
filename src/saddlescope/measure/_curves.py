"""Checks of scalar curves and their times."""

from __future__ import annotations

import numpy as np

from saddlescope.checks import FloatArray, float_array, real_array
from saddlescope.errors import InvalidInput


def checked_curve(name: str, curve: object, time: object = None) -> tuple[FloatArray, FloatArray]:
    """A curve [T] and its times [T], which increase strictly (by default 0, 1, 2, ...)."""
    values = real_array(name, curve)
    if values.ndim != 1 or values.size < 3:
        raise InvalidInput(f"{name}.shape", values.shape, "must be one axis of 3 points or more")
    return values, _times(name, time, values.size)


def checked_curves(name: str, curves: object, time: object = None) -> tuple[FloatArray, FloatArray]:
    """Curves [..., T], NaN where nothing is known of them, and their times [T]."""
    values = float_array(name, curves)
    if values.ndim < 1 or values.shape[-1] < 1:
        raise InvalidInput(f"{name}.shape", values.shape, "must be [..., T] with a point or more")
    return values, _times(name, time, values.shape[-1])


def _times(name: str, time: object, count: int) -> FloatArray:
    if time is None:
        return np.arange(float(count))
    times = real_array("time", time)
    if times.shape != (count,):
        raise InvalidInput("time.shape", times.shape, f"must be ({count},), as {name} has")
    if not (np.diff(times) > 0).all():
        raise InvalidInput("time", time, "must increase strictly")
    return times
