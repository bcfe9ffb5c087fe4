r"""How a head learns a mode: from nothing (T12), or beside the modes that it holds already (T18).

A head that holds modes of amplitudes $\xi$ with $X = \sum\xi$ rests at $v = X^{1/3}$, and what it
has of a further mode of drive c grows as $e^{cvt}$. Once it counts, $y = v\hat k\hat q$ rises to
the mode's own ξ while all that is held follows at once, so that $v^3 = X + y$ and
$\dot y\,[1/y - 1/(3(X+y))] = 2(X+y)^{1/3}c(1 - y/\xi)$: with $\sigma = y/\xi$ an integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlescope.checks import FloatArray
from saddlescope.theory.courses.head import half_way_lead

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_SHARES, _STEPS = (1 + _NODES) / 2, _WEIGHTS / 2
# y/ξ where the loss is midway down the drop: (1 − σ)² = ½.
_HALF_WAY = 1 - math.sqrt(0.5)
# cθ of a head of its own that has come to rest, less c v (t − t*) and ln(v/√a): from T12.
_BEYOND = 1 - math.log(3) / 2 + math.pi / (6 * math.sqrt(3))


@dataclass(frozen=True, eq=False)
class Rise:
    """When heads learn a mode, counted from one moment, and how far they have come by then."""

    half: Float[np.ndarray, " *S"]
    """When the loss is midway down."""
    felt: Float[np.ndarray, " *S"]
    r"""When the others feel that the mode is gone: $\int (1 - \sigma)\,dt$, all of its impulse."""
    theta: Float[np.ndarray, " *S"]
    """θ = ∫|v| dt at that moment, as if the head were at rest by then."""


def rise_from_rest(runaway: FloatArray, size: FloatArray, drive: float, amplitude: float) -> Rise:
    r"""Of heads that run away at some time, with $a_d$ = `size` along the mode (T12, T18)."""
    rest = math.cbrt(amplitude)
    rate = drive * rest
    with np.errstate(divide="ignore"):
        theta = (np.log(rest) - np.log(size) / 2 + _BEYOND - 1) / drive
    return Rise(runaway - half_way_lead() / rate, runaway - 1 / rate, theta)


def rise_beside(
    held: FloatArray,
    begin: FloatArray,
    drive: FloatArray | float,
    amplitude: FloatArray | float,
) -> Rise:
    r"""Of heads that hold X = `held` and of the mode $y$ = `begin`, both above zero (T18).

    The mode's drive and amplitude are one number, or a number for each head.
    """
    strength, full = np.broadcast_to(drive, held.shape), np.broadcast_to(amplitude, held.shape)

    def pace(share: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """dt and dθ along the logistic coordinate of σ."""
        reached = full[:, None] * np.asarray(share)
        above = held[:, None] + reached
        turned = (1 - reached / (3 * above)) / (2 * strength[:, None])
        return turned / np.cbrt(above), turned

    def over(part: FloatArray) -> FloatArray:
        total: FloatArray = (part * _STEPS).sum(1)
        return total

    (first, first_turn), (last, last_turn) = (pace(np.array([share])) for share in (0.0, 1.0))
    paces, turns = pace(_SHARES)
    early = _HALF_WAY * _SHARES
    till_half = over((pace(early)[0] - first) / (early * (1 - early)) * _HALF_WAY)
    impulse = over((paces - first) / _SHARES)
    # What is neither of the rest before nor of that after.
    late, late_turn = (
        over((own - before * (1 - _SHARES) - after * _SHARES) / (_SHARES * (1 - _SHARES)))
        for own, before, after in ((paces, first, last), (turns, first_turn, last_turn))
    )
    way = np.log(full) - np.log(begin)
    linear = first[:, 0] * way
    half = linear + first[:, 0] * math.log(_HALF_WAY / (1 - _HALF_WAY)) + till_half
    felt = linear + impulse
    after = felt - linear - late
    theta = first_turn[:, 0] * way + late_turn + np.cbrt(held + full) * after
    return Rise(half, felt, theta)
