"""A step of Dormand and Prince's method of order five, for many seeds that each have their own."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.integrate import RK45

from saddlescope.checks import FloatArray
from saddlescope.theory.staircase._heads import Heads

# Of the integration; the absolute one is that of each seed.
_RELATIVE = 1e-6


def step(
    heads: Heads,
    rows: Float[np.ndarray, "H n S"],
    slope: Float[np.ndarray, "H n S"],
    width: Float[np.ndarray, " S"],
    absolute: Float[np.ndarray, " S"],
) -> tuple[Float[np.ndarray, "H n S"], Float[np.ndarray, " S"]]:
    """Where steps lead, and the error of each in units of what it may be; infinite for no number.

    The tableau is SciPy's.
    """
    slopes = [slope]
    for row in (*RK45.A[1:], RK45.B):
        moved = rows + width * _combine(row, slopes)
        slopes.append(heads.velocity(moved))
    allowed = absolute + _RELATIVE * np.maximum(np.abs(rows), np.abs(moved))
    error = width * _combine(RK45.E, slopes) / allowed
    size = np.sqrt((error**2).mean((0, 1)))
    return moved, np.where(np.isfinite(size), size, np.inf)


def _combine(coefficients: FloatArray, slopes: list[FloatArray]) -> FloatArray:
    total = np.zeros_like(slopes[0])
    for coefficient, slope in zip(coefficients, slopes, strict=False):
        if coefficient:
            total += coefficient * slope
    return total


def hermite(
    begin: FloatArray,
    end: FloatArray,
    first: FloatArray,
    last: FloatArray,
    width: FloatArray,
    share: FloatArray,
) -> FloatArray:
    """Inside a step, by its ends and their slopes."""
    rest = 1 - share
    bent = rest * (width * first - (end - begin)) - share * (width * last - (end - begin))
    inside: FloatArray = rest * begin + share * end + share * rest * bent
    return inside
