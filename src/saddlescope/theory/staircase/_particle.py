r"""Dormant heads as particles: where each comes from and where it goes (T18).

While all maps are small the drive is constant. With θ = ∫v dt, a head's keys and queries along a
mode of drive c move as $\hat k + \hat q = A e^{c\theta}$ and
$\hat k - \hat q = B e^{-c\theta}$, and its value by $\dot\theta^2 = v^2 = F(\theta)$ with
$F(\theta) = v_0^2 + \sum_d [a_d(e^{2c_d\theta} - 1) + b_d(e^{-2c_d\theta} - 1)]$, where a and b are
a quarter of A² and B², summed over the pairs of a head. F is convex: a head turns back once at
most, and then runs away in finite time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from saddlescope.checks import FloatArray

# The way to infinity is cut where √F has grown by so much: no more than its inverse is left.
_FAR = 1e12
# Newton's steps at most: to the minimum of F, and to its root. To the minimum most are halvings,
# where drives lie far apart: one for each factor of two between them.
_TO_MINIMUM, _TO_ROOT = 200, 30
# The last of them: to the minimum in units of 1/c, to a root as a share of its distance from it.
_LAST_STEP = 1e-7
# F is known to this share of its terms.
_ROUNDING = 1e-13
# A minimum within this of the start, in units of 1/c, is not behind it.
_AHEAD = 1e-9
# Beside amplitudes of this share of the largest, zero is as good.
_NEGLIGIBLE = 1e-40


@dataclass(frozen=True, eq=False)
class Particles:
    """Heads that move towards greater θ at first, each in a variable z along its way.

    θ − base is a sinh z about the minimum of F, where the head passes over it, and ±2b sinh²(z/2)
    from the root of F on its side, where F has one: the way is smooth in z even beside the
    separatrix, and where the head turns back, z passes through zero. Heads come last, where NumPy
    is fastest.
    """

    value: Float[np.ndarray, " n"]
    """|v| at the start."""
    onward: Float[np.ndarray, "D n"]
    """At the base, what grows towards the end of the way: a_d, or b_d of a head that turns."""
    backward: Float[np.ndarray, "D n"]
    """What falls there."""
    drive: Float[np.ndarray, "D n"]
    base: Float[np.ndarray, " n"]
    """θ there."""
    at_base: Float[np.ndarray, " n"]
    """F there: 0 at a root."""
    width: Float[np.ndarray, " n"]
    """a or b."""
    has_root: Bool[np.ndarray, " n"]
    turns: Bool[np.ndarray, " n"]
    """Whether θ falls with z in the end: where the root lies ahead."""
    stops: Bool[np.ndarray, " n"]
    """Whether it comes to rest: at the minimum of F, or where nothing is left to grow."""
    start: Float[np.ndarray, " n"]
    """z at the start."""
    end: Float[np.ndarray, " n"]
    """z where it is as good as at infinity."""
    reach: Float[np.ndarray, " n"]
    """|θ − base| there."""

    @classmethod
    def of_pairs(
        cls,
        value: Float[np.ndarray, " n"],
        sums: Float[np.ndarray, "n R D"],
        differences: Float[np.ndarray, "n R D"],
        drive: Float[np.ndarray, "n D"],
    ) -> tuple[Particles, Float[np.ndarray, " n"]]:
        """Heads of given v, A and B, and the sign of θ that they move towards."""
        moves = np.asarray(drive.any(0))
        if not moves.all():
            # One is kept where there is none.
            moves[0] |= not moves.any()
            sums, differences, drive = (own[..., moves] for own in (sums, differences, drive))
        rising, falling = (
            np.ascontiguousarray(np.einsum("nrd,nrd->dn", own, own)) / 4
            for own in (sums, differences)
        )
        drives = np.ascontiguousarray(drive.T)
        # One that is at rest begins to move as the drive pulls it.
        pull = (drives * (rising - falling)).sum(0)
        forward = np.where(value == 0, pull >= 0, value > 0)
        ahead, behind = (
            np.where(forward, one, other) for one, other in ((rising, falling), (falling, rising))
        )
        return cls.of(np.abs(value), ahead, behind, drives), np.where(forward, 1.0, -1.0)

    @classmethod
    def of(
        cls,
        value: Float[np.ndarray, " n"],
        rising: Float[np.ndarray, "D n"],
        falling: Float[np.ndarray, "D n"],
        drive: Float[np.ndarray, "D n"],
    ) -> Particles:
        """Heads of value |v|, with a_d ahead of them and b_d behind."""
        # A mode that a head has nothing of does not move it.
        drive = np.where((rising > 0) | (falling > 0), drive, 0.0)
        ahead_at_start, behind_at_start = rising, falling
        driven = drive > 0
        largest = np.where(driven, np.maximum(rising, falling), 0.0).max(0)
        largest = np.maximum(largest, value**2)
        rising, falling = (
            np.where(driven, np.maximum(own, _NEGLIGIBLE * largest), 0.0)
            for own in (rising, falling)
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            lowest = _minimum(rising, falling, drive)
            bottom = _height(value, rising, falling, drive, lowest)
            # Within rounding of zero a head comes to rest there: the separatrix.
            rounding = _ROUNDING * (value**2 + rising.sum(0) + falling.sum(0))
            is_flat = np.abs(bottom) <= rounding
            stops = is_flat & (lowest * drive.max(0) > -_AHEAD)
            bottom = np.where(is_flat, rounding, bottom)
            ahead, behind = _moved(rising, falling, drive, lowest)
            bend = (4 * drive**2 * (ahead + behind)).sum(0)
            has_root = bottom < 0
            over = np.sqrt(2 * np.abs(bottom) / bend)
            base, width = lowest.copy(), over.copy()
            if has_root.any():
                own = np.flatnonzero(has_root)
                up, down, rates = (np.take(part, own, axis=1) for part in (rising, falling, drive))
                base[own] = _root(value[own], up, down, rates, lowest[own], over[own])
                width[own] = np.abs(base[own] - lowest[own])
                ahead[:, own], behind[:, own] = _moved(up, down, rates, base[own])
            turns = has_root & (lowest > 0)
            onward = np.where(turns, behind, ahead)
            near = 2 * np.arcsinh(np.sqrt(np.abs(base) / (2 * width)))
            start = np.where(has_root, np.where(turns, -near, near), np.arcsinh(-base / width))
            # The first of the modes to have grown by as much ends it.
            goal = np.log(_FAR**2 * largest) - np.log(onward)
            reach = np.where(driven, goal / (2 * drive), np.inf).min(0)
            reach = np.maximum(reach, np.abs(base))
            far = np.where(has_root, 2 * np.arcsinh(np.sqrt(reach / (2 * width))), 0.0)
            end = np.where(has_root, far, np.arcsinh(reach / width))
        # A head that has nothing to grow from where it goes in the end never runs away.
        remains = np.where(turns, behind_at_start, ahead_at_start)
        stops |= ~((remains > 0) & driven).any(0)
        return cls(
            value=value,
            onward=onward,
            backward=np.where(turns, ahead, behind),
            drive=drive,
            base=base,
            at_base=np.where(has_root, 0.0, bottom),
            width=width,
            has_root=has_root,
            turns=turns,
            stops=stops,
            start=start,
            end=end,
            reach=reach,
        )

    def some(self, own: Bool[np.ndarray, " n"]) -> Particles:
        """Some of them."""
        return Particles(
            **{name: np.compress(own, array, axis=-1) for name, array in vars(self).items()}
        )

    @property
    def is_driven(self) -> Bool[np.ndarray, " n"]:
        """Whether anything makes it run away."""
        return (self.onward + self.backward > 0).any(0)


def between(step: FloatArray, low: FloatArray, high: FloatArray) -> Float[np.ndarray, " n"]:
    """A step of Newton's where it stays inside, but for rounding; else the middle."""
    slip = 1e-6 * (high - low)
    inside = (step >= low - slip) & (step <= high + slip)
    return np.where(inside, np.clip(step, low, high), (low + high) / 2)


def _moved(
    rising: FloatArray, falling: FloatArray, drive: FloatArray, by: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """a_d and b_d at another θ."""
    grown = np.exp(2 * drive * by)
    return rising * grown, falling / grown


def _height(
    value: FloatArray, rising: FloatArray, falling: FloatArray, drive: FloatArray, at: FloatArray
) -> Float[np.ndarray, " n"]:
    """F."""
    grown, fallen = np.expm1(2 * drive * at), np.expm1(-2 * drive * at)
    height: FloatArray = value**2 + (rising * grown + falling * fallen).sum(0)
    return height


def _minimum(rising: FloatArray, falling: FloatArray, drive: FloatArray) -> Float[np.ndarray, " n"]:
    """Where F is least: its slope's two parts balance, in logarithms nearly straight lines."""
    driven = drive > 0
    own = np.log(falling / rising) / (4 * drive)
    some = driven.any(0)
    low = np.where(some, np.where(driven, own, np.inf).min(0), 0.0)
    high = np.where(some, np.where(driven, own, -np.inf).max(0), 0.0)
    lowest = (low + high) / 2
    unknown = np.arange(lowest.size)
    parts = [2 * drive, drive * rising, drive * falling, low, high, lowest.copy()]
    for _ in range(_TO_MINIMUM):
        rate, up_first, down_first, low, high, at = parts
        grown = np.exp(rate * at)
        ahead, behind = up_first * grown, down_first / grown
        up, down = np.maximum(ahead.sum(0), 1e-300), np.maximum(behind.sum(0), 1e-300)
        difference = np.log(up / down)
        ahead /= up
        behind /= down
        slope = (rate * (ahead + behind)).sum(0)
        is_before = difference < 0
        low, high = np.where(is_before, at, low), np.where(is_before, high, at)
        step = between(at - difference / np.maximum(slope, 1e-300), low, high)
        lowest[unknown] = step
        # The next step would be as small as the square of this one.
        further = ~(np.abs(step - at) * rate.max(0) <= 2 * _LAST_STEP)
        if not further.any():
            break
        unknown = unknown[further]
        parts = [
            np.compress(further, part, axis=-1)
            for part in (rate, up_first, down_first, low, high, step)
        ]
    return lowest


def _root(
    value: FloatArray,
    rising: FloatArray,
    falling: FloatArray,
    drive: FloatArray,
    lowest: FloatArray,
    over: FloatArray,
) -> Float[np.ndarray, " n"]:
    """The root of F between the start and its minimum: Newton's steps come from one side."""
    near, far = np.minimum(lowest, 0.0), np.maximum(lowest, 0.0)
    # From where it would be if F did not bend further, which is beyond it.
    root = np.clip(lowest - np.sign(lowest) * over, near, far)
    unknown = np.arange(root.size)
    parts = [2 * drive, value**2, rising, falling, near, far, root.copy()]
    for _ in range(_TO_ROOT):
        rate, square, up_first, down_first, near, far, at = parts
        grown, fallen = np.expm1(rate * at), np.expm1(-rate * at)
        height = square + (up_first * grown + down_first * fallen).sum(0)
        slope = (rate * (up_first * (1 + grown) - down_first * (1 + fallen))).sum(0)
        step = at - height / np.where(slope == 0, 1.0, slope)
        # Between the start and the minimum, whatever rounding makes of it.
        step = np.clip(step, near, far)
        root[unknown] = step
        # The next step would be as small as the square of this one; one of both bounds is zero.
        further = np.abs(step - at) > _LAST_STEP * np.abs(step - (near + far))
        if not further.any():
            break
        unknown = unknown[further]
        parts = [
            np.compress(further, part, axis=-1)
            for part in (rate, square, up_first, down_first, near, far, step)
        ]
    return root
