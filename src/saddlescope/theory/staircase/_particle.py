r"""A dormant head as a particle: when it runs away, and where it is until then (T18).

While all maps are small the drive is constant. With θ = ∫v dt, a head's keys and queries along a
mode of drive c move as $\hat k + \hat q = A e^{c\theta}$ and
$\hat k - \hat q = B e^{-c\theta}$, and its value by $\dot\theta^2 = v^2 = F(\theta)$ with
$F(\theta) = v_0^2 + \sum_d [a_d(e^{2c_d\theta} - 1) + b_d(e^{-2c_d\theta} - 1)]$, where a and b are
a quarter of A² and B², summed over the pairs of a head. F is convex: a head turns back once at
most, and then runs away in finite time.
"""

from __future__ import annotations

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

# The quadrature: panels of so many nodes (Gauss and Legendre).
_PANELS = 16
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_ALL_NODES = ((np.arange(_PANELS)[:, None] + (1 + _NODES) / 2) / _PANELS).reshape(-1)
_ALL_WEIGHTS = np.tile(_WEIGHTS, _PANELS) / (2 * _PANELS)
# The way to infinity is cut where √F has grown by so much: no more than its inverse is left.
_FAR = 1e12
# Newton's steps to the minimum of F, to its root, and to a moment on the way.
_TO_MINIMUM, _TO_ROOT, _TO_MOMENT = 12, 20, 8
# F is known to this share of its terms.
_ROUNDING = 1e-13
# Beside amplitudes of this share of the largest, zero is as good.
_NEGLIGIBLE = 1e-40


Panels: TypeAlias = tuple[Float[Array, " borders"], Float[Array, " borders"]]
"""Borders along a way, and the time at each."""


class Particle(eqx.Module):
    """One head that moves towards greater θ at first, in a variable z along its way.

    θ − base is a sinh z about the minimum of F, where the head passes over it, and ±2b sinh²(z/2)
    from the root of F on its side, where F has one: the way is smooth in z even beside the
    separatrix, and where the head turns back, z passes through zero.
    """

    value: Float[Array, ""]
    """|v| at the start."""
    rising: Float[Array, " D"]
    """a_d at the base."""
    falling: Float[Array, " D"]
    """b_d at the base."""
    drive: Float[Array, " D"]
    base: Float[Array, ""]
    """θ there."""
    at_base: Float[Array, ""]
    """F there: 0 at a root."""
    width: Float[Array, ""]
    """a or b."""
    has_root: Bool[Array, ""]
    side: Float[Array, ""]
    """Whether θ grows with z (1), or falls (−1): where the root lies ahead."""
    start: Float[Array, ""]
    """z at the start."""
    end: Float[Array, ""]
    """z where it is as good as at infinity."""

    @staticmethod
    def of(
        value: Float[Array, ""],
        rising: Float[Array, " D"],
        falling: Float[Array, " D"],
        drive: Float[Array, " D"],
    ) -> Particle:
        """A head of value |v|, with a_d ahead of it and b_d behind."""
        largest = jnp.maximum(jnp.maximum(rising, falling).max(), value**2)
        rising, falling = (
            jnp.where(drive > 0, jnp.maximum(own, _NEGLIGIBLE * largest), 0.0)
            for own in (rising, falling)
        )
        lowest = _minimum(rising, falling, drive)

        def moved(by: Float[Array, ""]) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
            return rising * jnp.exp(2 * drive * by), falling * jnp.exp(-2 * drive * by)

        def height(at: Float[Array, ""]) -> Float[Array, ""]:
            grown, fallen = jnp.expm1(2 * drive * at), jnp.expm1(-2 * drive * at)
            return value**2 + (rising * grown + falling * fallen).sum()

        ahead, behind = moved(lowest)
        # What lies within rounding of zero counts as above it, in one place: XLA would compute it
        # anew where it is used, and round it otherwise.
        rounding = _ROUNDING * (value**2 + rising.sum() + falling.sum())
        bottom = height(lowest)
        bottom = jax.lax.optimization_barrier(
            jnp.where(jnp.abs(bottom) < rounding, rounding, bottom)
        )
        has_root = bottom < 0
        bend = (4 * drive**2 * (ahead + behind)).sum()
        # From where it would be if F did not bend further, which is beyond it.
        guess = lowest - jnp.sign(lowest) * jnp.sqrt(2 * jnp.maximum(-bottom, 0.0) / bend)
        root = _root(value, rising, falling, drive, lowest, guess)
        base = jnp.where(has_root, root, lowest)
        over = jnp.sqrt(2 * jnp.maximum(bottom, 0.0) / bend)
        width = jnp.where(has_root, jnp.abs(root - lowest), over)
        turns = has_root & (lowest > 0)
        side = jnp.where(turns, -1.0, 1.0)
        rising, falling = moved(base)
        near = 2 * jnp.arcsinh(jnp.sqrt(jnp.abs(base) / (2 * width)))
        start = jnp.where(has_root, jnp.where(turns, -near, near), jnp.arcsinh(-base / width))
        # The first of the modes to have grown by as much ends it.
        onward = jnp.where(turns, falling, rising)
        goal = jnp.log(_FAR**2 * largest) - jnp.log(jnp.where(drive > 0, onward, 1.0))
        reach = jnp.where(drive > 0, goal / jnp.where(drive > 0, 2 * drive, 1.0), jnp.inf).min()
        reach = jnp.maximum(reach, jnp.abs(base))
        end = jnp.where(
            has_root,
            2 * jnp.arcsinh(jnp.sqrt(reach / (2 * width))),
            jnp.arcsinh(reach / width),
        )
        return Particle(
            value=value,
            rising=rising,
            falling=falling,
            drive=drive,
            base=base,
            at_base=jnp.where(has_root, 0.0, bottom),
            width=width,
            has_root=has_root,
            side=side,
            start=start,
            end=end,
        )

    def at(self, z: Float[Array, ""]) -> tuple[Array, Array, Array]:
        """θ − base, √F, which is |v|, and dt/dz."""
        half = jnp.exp(z / 2)
        small, large = (half - 1 / half) / 2, (half + 1 / half) / 2
        odd, even = 2 * small * large, 2 * small**2
        offset = self.side * self.width * jnp.where(self.has_root, even, odd)
        up, height = offset > 0, self.at_base
        # Mode after mode, as whole rows of nodes: sums over a short axis take twice the time.
        for drive, rising, falling in zip(self.drive, self.rising, self.falling, strict=True):
            grown = _expm1(2 * drive * jnp.abs(offset))
            fallen = -grown / (1 + grown)
            height = height + jnp.where(
                up, rising * grown + falling * fallen, rising * fallen + falling * grown
            )
        speed = jnp.sqrt(jnp.maximum(height, 1e-300))
        slope = jnp.where(self.has_root, jnp.abs(odd), 1 + even)
        return offset, speed, self.width * slope / speed

    def between(self, low: Float[Array, ""], high: Float[Array, ""]) -> Float[Array, ""]:
        """The time from one z to another."""
        half = (high - low) / 2
        at = low + half * (1 + jnp.asarray(_NODES))
        return half * (jnp.asarray(_WEIGHTS) * jax.vmap(self.at)(at)[2]).sum()

    def panels(self) -> Panels:
        """The borders of the panels in z, and the time at each."""
        span = self.end - self.start
        borders = self.start + span * jnp.linspace(0.0, 1.0, _PANELS + 1)
        # All nodes in one row: it is worth half of the time.
        paces = jax.vmap(self.at)(self.start + span * jnp.asarray(_ALL_NODES))[2]
        shares = (paces * jnp.asarray(_ALL_WEIGHTS)).reshape(_PANELS, -1).sum(axis=1)
        return borders, jnp.concatenate([jnp.zeros(1), span * jnp.cumsum(shares)])

    @property
    def is_driven(self) -> Bool[Array, ""]:
        """Whether anything makes it run away."""
        return (self.rising.sum() + self.falling.sum()) > 0

    def runaway(self, panels: Panels) -> Float[Array, ""]:
        """The time until it has run away; infinite where nothing drives it."""
        return jnp.where(self.is_driven, panels[1][-1], jnp.inf)

    def after(
        self, time: Float[Array, ""], panels: Panels
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """θ and v after a time before it runs away."""
        borders, times = panels
        panel = jnp.clip(jnp.searchsorted(times, time) - 1, 0, _PANELS - 1)
        left, missing = borders[panel], time - times[panel]

        def newton(
            _: Int[Array, ""], state: tuple[Array, Array, Array]
        ) -> tuple[Array, Array, Array]:
            low, high, z = state
            error = missing - self.between(left, z)
            low, high = jnp.where(error > 0, z, low), jnp.where(error > 0, high, z)
            return low, high, _between(z + error / self.at(z)[2], low, high)

        right = borders[panel + 1]
        z = jax.lax.fori_loop(0, _TO_MOMENT, newton, (left, right, (left + right) / 2))[2]
        z = jnp.where(time > 0, z, self.start)
        backward = self.has_root & (self.side < 0) & (z > 0)
        offset, speed, _ = self.at(z)
        theta = jnp.where(self.is_driven, self.base + offset, self.value * time)
        return theta, jnp.where(backward, -speed, speed)


def _between(
    step: Float[Array, ""], low: Float[Array, ""], high: Float[Array, ""]
) -> Float[Array, ""]:
    """A step of Newton's where it stays inside, but for rounding; else the middle."""
    slip = 1e-6 * (high - low)
    inside = (step >= low - slip) & (step <= high + slip)
    return jnp.where(inside, jnp.clip(step, low, high), (low + high) / 2)


def _expm1(x: Float[Array, ""]) -> Float[Array, ""]:
    """eˣ − 1 of what is not negative, with one exponential."""
    series = x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))))
    return jnp.where(x < 0.01, series, jnp.exp(x) - 1)


def _minimum(
    rising: Float[Array, " D"], falling: Float[Array, " D"], drive: Float[Array, " D"]
) -> Float[Array, ""]:
    """Where F is least: its slope's two parts balance, in logarithms nearly straight lines."""
    driven = drive > 0
    safe = jnp.where(driven, drive, 1.0)
    own = jnp.where(
        driven,
        (jnp.log(jnp.where(driven, falling, 1.0)) - jnp.log(jnp.where(driven, rising, 1.0)))
        / (4 * safe),
        0.0,
    )
    low = jnp.where(driven, own, jnp.inf).min()
    high = jnp.where(driven, own, -jnp.inf).max()
    low, high = (jnp.where(driven.any(), edge, 0.0) for edge in (low, high))

    def newton(_: Int[Array, ""], state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, at = state
        # About a point that keeps both sums within range.
        ahead = jnp.where(driven, safe * rising * jnp.exp(2 * safe * at), 0.0)
        behind = jnp.where(driven, safe * falling * jnp.exp(-2 * safe * at), 0.0)
        up, down = jnp.maximum(ahead.sum(), 1e-300), jnp.maximum(behind.sum(), 1e-300)
        difference = jnp.log(up) - jnp.log(down)
        slope = 2 * ((safe * ahead).sum() / up + (safe * behind).sum() / down)
        low = jnp.where(difference < 0, at, low)
        high = jnp.where(difference < 0, high, at)
        return low, high, _between(at - difference / jnp.maximum(slope, 1e-300), low, high)

    return jax.lax.fori_loop(0, _TO_MINIMUM, newton, (low, high, (low + high) / 2))[2]


def _root(
    value: Float[Array, ""],
    rising: Float[Array, " D"],
    falling: Float[Array, " D"],
    drive: Float[Array, " D"],
    lowest: Float[Array, ""],
    guess: Float[Array, ""],
) -> Float[Array, ""]:
    """The root of F between the start and its minimum: Newton's steps come from one side."""
    near, far = jnp.minimum(lowest, 0.0), jnp.maximum(lowest, 0.0)

    def newton(_: Int[Array, ""], at: Float[Array, ""]) -> Float[Array, ""]:
        grown, fallen = jnp.expm1(2 * drive * at), jnp.expm1(-2 * drive * at)
        height = value**2 + (rising * grown + falling * fallen).sum()
        slope = (2 * drive * (rising * (1 + grown) - falling * (1 + fallen))).sum()
        step = at - height / jnp.where(slope == 0, 1.0, slope)
        # Between the start and the minimum, whatever rounding makes of it.
        return jnp.clip(step, near, far)

    return jax.lax.fori_loop(0, _TO_ROOT, newton, jnp.clip(guess, near, far))
