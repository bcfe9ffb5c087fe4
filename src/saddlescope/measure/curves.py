"""Checks of a scalar curve and its times."""

from __future__ import annotations

import numpy as np

from saddlescope.checks import FloatArray, real_array
from saddlescope.errors import InvalidInput
from saddlescope.measure.arrays import is_tensor


def checked_curve(name: str, curve: object, time: object = None) -> tuple[FloatArray, FloatArray]:
    """A curve [T] and its times [T], which increase strictly (by default 0, 1, 2, ...)."""
    values = _one_axis(name, curve)
    if time is None:
        return values, np.arange(float(values.size))
    times = _one_axis("time", time)
    if times.size != values.size:
        raise InvalidInput("time.shape", times.shape, f"must be {values.shape}, as {name} has")
    if not (np.diff(times) > 0).all():
        raise InvalidInput("time", time, "must increase strictly")
    return values, times


def _one_axis(name: str, given: object) -> FloatArray:
    # Through float64 in torch, since NumPy does not know all of its types.
    known = given.detach().cpu().double().numpy() if is_tensor(given) else given  # type: ignore[attr-defined]
    array = real_array(name, known)
    if array.ndim != 1 or array.size < 3:
        raise InvalidInput(f"{name}.shape", array.shape, "must be one axis of 3 points or more")
    return array
