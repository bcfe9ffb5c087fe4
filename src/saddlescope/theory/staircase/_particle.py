r"""Dormant heads as particles: when each runs away, and where it is until then (T18).

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

# The quadrature: panels of so many nodes (Gauss and Legendre).
_PANELS = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_ALL_NODES = ((np.arange(_PANELS)[:, None] + (1 + _NODES) / 2) / _PANELS).reshape(-1)
_ALL_WEIGHTS = np.tile(_WEIGHTS, _PANELS) / (2 * _PANELS)
# Heads whose nodes are worked on together, in the cache and below what an allocator maps anew.
_TOGETHER = 2**14 // _ALL_NODES.size
# The way to infinity is cut where √F has grown by so much: no more than its inverse is left.
_FAR = 1e12
# Newton's steps at most: to the minimum of F, to its root, and to a moment on the way.
_TO_MINIMUM, _TO_ROOT, _TO_MOMENT = 30, 30, 20
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
    separatrix, and where the head turns back, z passes through zero.
    """

    value: Float[np.ndarray, " n"]
    """|v| at the start."""
    rising: Float[np.ndarray, "n D"]
    """a_d at the base."""
    falling: Float[np.ndarray, "n D"]
    """b_d at the base."""
    drive: Float[np.ndarray, "n D"]
    base: Float[np.ndarray, " n"]
    """θ there."""
    at_base: Float[np.ndarray, " n"]
    """F there: 0 at a root."""
    width: Float[np.ndarray, " n"]
    """a or b."""
    has_root: Bool[np.ndarray, " n"]
    turns: Bool[np.ndarray, " n"]
    """Whether θ falls with z: where the root lies ahead."""
    stops: Bool[np.ndarray, " n"]
    """Whether it comes to rest: at the minimum of F, or where nothing is left to grow."""
    start: Float[np.ndarray, " n"]
    """z at the start."""
    end: Float[np.ndarray, " n"]
    """z where it is as good as at infinity."""

    @classmethod
    def of_pairs(
        cls,
        value: Float[np.ndarray, " n"],
        sums: Float[np.ndarray, "n R D"],
        differences: Float[np.ndarray, "n R D"],
        drive: Float[np.ndarray, "n D"],
    ) -> tuple[Particles, Float[np.ndarray, " n"]]:
        """Heads of given v, A and B, and the sign of θ that they move towards."""
        rising, falling = (sums**2).sum(1) / 4, (differences**2).sum(1) / 4
        # One that is at rest begins to move as the drive pulls it.
        pull = (drive * (rising - falling)).sum(1)
        forward = np.where(value == 0, pull >= 0, value > 0)
        ahead, behind = (
            np.where(forward[:, None], one, other)
            for one, other in ((rising, falling), (falling, rising))
        )
        return cls.of(np.abs(value), ahead, behind, drive), np.where(forward, 1.0, -1.0)

    @classmethod
    def of(
        cls,
        value: Float[np.ndarray, " n"],
        rising: Float[np.ndarray, "n D"],
        falling: Float[np.ndarray, "n D"],
        drive: Float[np.ndarray, "n D"],
    ) -> Particles:
        """Heads of value |v|, with a_d ahead of them and b_d behind."""
        # A mode that a head has nothing of does not move it.
        drive = np.where((rising > 0) | (falling > 0), drive, 0.0)
        ahead_at_start, behind_at_start = rising, falling
        largest = np.maximum(np.maximum(rising, falling).max(1), value**2)
        driven = drive > 0
        rising, falling = (
            np.where(driven, np.maximum(own, _NEGLIGIBLE * largest[:, None]), 0.0)
            for own in (rising, falling)
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            lowest = _minimum(rising, falling, drive)
            bottom = _height(value, rising, falling, drive, lowest)
            # Within rounding of zero a head comes to rest there: the separatrix.
            rounding = _ROUNDING * (value**2 + rising.sum(1) + falling.sum(1))
            is_flat = np.abs(bottom) <= rounding
            stops = is_flat & (lowest * drive.max(1) > -_AHEAD)
            bottom = np.where(is_flat, rounding, bottom)
            ahead, behind = _moved(rising, falling, drive, lowest)
            bend = (4 * drive**2 * (ahead + behind)).sum(1)
            has_root = bottom < 0
            over = np.sqrt(2 * np.abs(bottom) / bend)
            base, width = lowest.copy(), over.copy()
            if has_root.any():
                parts = (value, rising, falling, drive, lowest, over)
                base[has_root] = _root(*(part[has_root] for part in parts))
                width[has_root] = np.abs(base - lowest)[has_root]
            turns = has_root & (lowest > 0)
            rising, falling = _moved(rising, falling, drive, base)
            near = 2 * np.arcsinh(np.sqrt(np.abs(base) / (2 * width)))
            start = np.where(has_root, np.where(turns, -near, near), np.arcsinh(-base / width))
            # The first of the modes to have grown by as much ends it.
            onward = np.where(turns[:, None], falling, rising)
            goal = np.log(_FAR**2 * largest)[:, None] - np.log(onward)
            reach = np.where(driven, goal / (2 * drive), np.inf).min(1)
            reach = np.maximum(reach, np.abs(base))
            far = np.where(has_root, 2 * np.arcsinh(np.sqrt(reach / (2 * width))), 0.0)
            end = np.where(has_root, far, np.arcsinh(reach / width))
        # A head that has nothing to grow from where it goes in the end never runs away.
        onward = np.where(turns[:, None], behind_at_start, ahead_at_start)
        stops |= ~((onward > 0) & driven).any(1)
        return cls(
            value=value,
            rising=rising,
            falling=falling,
            drive=drive,
            base=base,
            at_base=np.where(has_root, 0.0, bottom),
            width=width,
            has_root=has_root,
            turns=turns,
            stops=stops,
            start=start,
            end=end,
        )

    def __getitem__(self, own: slice | Bool[np.ndarray, " n"]) -> Particles:
        """Some of them."""
        return Particles(**{name: array[own] for name, array in vars(self).items()})

    @property
    def is_driven(self) -> Bool[np.ndarray, " n"]:
        """Whether anything makes it run away."""
        return (self.rising + self.falling > 0).any(1)

    def at(self, z: Float[np.ndarray, "n m"]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """θ − base, √F, which is |v|, and dt/dz at some z of each."""
        half = np.exp(z / 2)
        small, large = (half - 1 / half) / 2, (half + 1 / half) / 2
        odd, even = 2 * small * large, 2 * small**2
        rooted, width = self.has_root[:, None], self.width[:, None]
        offset = width * np.where(rooted, np.where(self.turns[:, None], -even, even), odd)
        up, size, height = offset > 0, np.abs(offset), self.at_base[:, None]
        for mode in np.flatnonzero((self.drive > 0).any(0)):
            rate, rising, falling = (
                own[:, mode, None] for own in (self.drive, self.rising, self.falling)
            )
            grown = np.expm1(2 * rate * size)
            ahead, behind = np.where(up, rising, falling), np.where(up, falling, rising)
            height = height + grown * (ahead - behind / (1 + grown))
        speed = np.sqrt(np.maximum(height, 1e-300))
        return offset, speed, width * np.where(rooted, np.abs(odd), 1 + even) / speed

    def ways(self) -> Ways:
        """The time along the way of each."""
        span = self.end - self.start
        shares = np.empty((span.size, _PANELS))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, span.size, _TOGETHER):
                own = slice(first, first + _TOGETHER)
                nodes = self.start[own, None] + span[own, None] * _ALL_NODES
                paces = self[own].at(nodes)[2] * _ALL_WEIGHTS
                shares[own] = paces.reshape(-1, _PANELS, _NODES.size).sum(2)
        times = np.zeros((span.size, _PANELS + 1))
        np.cumsum(span[:, None] * shares, axis=1, out=times[:, 1:])
        return Ways(self, times)


@dataclass(frozen=True, eq=False)
class Ways:
    """Particles and the times at which they come by borders that cut their ways evenly in z."""

    particles: Particles
    times: Float[np.ndarray, "n borders"]

    @property
    def runaway(self) -> Float[np.ndarray, " n"]:
        """The time until each has run away; infinite where nothing drives it, or it stops."""
        goes = self.particles.is_driven & ~self.particles.stops
        return np.where(goes, self.times[:, -1], np.inf)

    def after(self, time: Float[np.ndarray, " n"]) -> tuple[FloatArray, FloatArray]:
        """θ and v of each after a time before it runs away."""
        own, every = self.particles, np.arange(time.size)
        panel = np.clip((self.times < time[:, None]).sum(1) - 1, 0, _PANELS - 1)
        width = (own.end - own.start) / _PANELS
        left = own.start + panel * width
        missing = time - self.times[every, panel]
        low, high, z = left, left + width, left + width / 2
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(_TO_MOMENT):
                half = (z - left) / 2
                nodes = left[:, None] + half[:, None] * (1 + _NODES)
                error = missing - half * (own.at(nodes)[2] * _WEIGHTS).sum(1)
                low, high = np.where(error > 0, z, low), np.where(error > 0, high, z)
                step = _between(z + error / own.at(z[:, None])[2][:, 0], low, high)
                done = np.abs(step - z) <= 1e-14 * (1 + np.abs(z))
                z = step
                if done.all():
                    break
            z = np.where(time > 0, z, own.start)
            z = np.where(own.stops & ~own.has_root, np.minimum(z, np.maximum(own.start, 0.0)), z)
            offset, speed = (part[:, 0] for part in own.at(z[:, None])[:2])
        theta = np.where(own.is_driven, own.base + offset, own.value * time)
        speed = np.where(own.turns & (z > 0), -speed, speed)
        return theta, np.where(own.is_driven, speed, own.value)


def _moved(
    rising: FloatArray, falling: FloatArray, drive: FloatArray, by: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """a_d and b_d at another θ."""
    return rising * np.exp(2 * drive * by[:, None]), falling * np.exp(-2 * drive * by[:, None])


def _height(
    value: FloatArray, rising: FloatArray, falling: FloatArray, drive: FloatArray, at: FloatArray
) -> Float[np.ndarray, " n"]:
    """F."""
    grown, fallen = np.expm1(2 * drive * at[:, None]), np.expm1(-2 * drive * at[:, None])
    height: FloatArray = value**2 + (rising * grown + falling * fallen).sum(1)
    return height


def _between(step: FloatArray, low: FloatArray, high: FloatArray) -> Float[np.ndarray, " n"]:
    """A step of Newton's where it stays inside, but for rounding; else the middle."""
    slip = 1e-6 * (high - low)
    inside = (step >= low - slip) & (step <= high + slip)
    return np.where(inside, np.clip(step, low, high), (low + high) / 2)


def _minimum(rising: FloatArray, falling: FloatArray, drive: FloatArray) -> Float[np.ndarray, " n"]:
    """Where F is least: its slope's two parts balance, in logarithms nearly straight lines."""
    driven = drive > 0
    own = np.where(driven, (np.log(falling) - np.log(rising)) / (4 * drive), np.nan)
    some = driven.any(1)
    low = np.where(driven, own, np.inf).min(1, where=driven, initial=np.inf)
    high = np.where(driven, own, -np.inf).max(1, where=driven, initial=-np.inf)
    low, high = np.where(some, low, 0.0), np.where(some, high, 0.0)
    at = (low + high) / 2
    for _ in range(_TO_MINIMUM):
        ahead, behind = _moved(drive * rising, drive * falling, drive, at)
        up, down = np.maximum(ahead.sum(1), 1e-300), np.maximum(behind.sum(1), 1e-300)
        difference = np.log(up) - np.log(down)
        slope = 2 * ((drive * ahead).sum(1) / up + (drive * behind).sum(1) / down)
        low, high = np.where(difference < 0, at, low), np.where(difference < 0, high, at)
        step = _between(at - difference / np.maximum(slope, 1e-300), low, high)
        moved = np.abs(step - at) * drive.max(1)
        at = step
        if (moved < 1e-12).all():
            break
    return at


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
    at = np.clip(lowest - np.sign(lowest) * over, near, far)
    for _ in range(_TO_ROOT):
        ahead, behind = _moved(rising, falling, drive, at)
        slope = (2 * drive * (ahead - behind)).sum(1)
        height = _height(value, rising, falling, drive, at)
        # Between the start and the minimum, whatever rounding makes of it.
        step = np.clip(at - height / np.where(slope == 0, 1.0, slope), near, far)
        moved = np.abs(step - at)
        at = step
        if (moved <= 1e-15 * np.abs(lowest)).all():
            break
    return at
