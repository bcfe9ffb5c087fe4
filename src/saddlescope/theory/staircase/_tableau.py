"""A step of Dormand and Prince's method of order five, for many seeds that each have their own."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.integrate import RK45

from saddlescope.checks import FloatArray
from saddlescope.theory.staircase._felt import Felt
from saddlescope.theory.staircase._heads import Heads

# Of the integration; the absolute one is that of each seed.
_RELATIVE = 1e-6


def step(
    heads: Heads,
    rows: Float[np.ndarray, "H n S"],
    slope: Float[np.ndarray, "H n S"],
    width: Float[np.ndarray, " S"],
    absolute: Float[np.ndarray, " S"],
) -> tuple[Float[np.ndarray, "H n S"], Felt, Float[np.ndarray, " S"]]:
    """Where steps lead, what is felt there, and the error of each in units of what it may be.

    It is infinite for no number. The tableau is SciPy's, whose last slope is that of the end.
    """
    slopes = np.empty((len(RK45.E), *rows.shape))
    slopes[0] = slope
    for stage, row in enumerate(RK45.A[1:], start=1):
        slopes[stage] = heads.velocity(_moved(rows, width, row[:stage], slopes[:stage]))
    moved = _moved(rows, width, RK45.B, slopes[:-1])
    felt = heads.felt(moved)
    slopes[-1] = felt.velocity
    allowed = np.maximum(np.abs(rows), np.abs(moved))
    allowed *= _RELATIVE
    allowed += absolute
    error = np.einsum("i,ihns->hns", RK45.E, slopes)
    error /= allowed
    size = width * np.sqrt(np.einsum("hns,hns->s", error, error) / error[..., 0].size)
    return moved, felt, np.where(np.isfinite(size), size, np.inf)


def _moved(
    rows: FloatArray, width: FloatArray, coefficients: FloatArray, slopes: FloatArray
) -> FloatArray:
    moved: FloatArray = np.einsum("i,ihns->hns", coefficients, slopes)
    moved *= width
    moved += rows
    return moved


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
