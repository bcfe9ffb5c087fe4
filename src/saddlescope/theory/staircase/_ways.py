r"""The times of dormant heads along their ways, by quadrature in panels (T18).

Along a way $dt = d\theta/\sqrt{F}$ is analytic in z. Its singularities are roots of F at complex θ:
in z they lie $\pi/2$ from the real line or, where two terms of F of rates c and c' balance at some
θ, $\frac{\pi}{2}/\bigl((c - c')\sqrt{w^2 + \theta^2}\bigr)$ with w the width of the map from z. The
panels are as many times narrower, so that Gauss' and Legendre's rule errs by the same on all ways:
by 6e-11 at worst, measured over 36 000 random heads of one to eight modes. Beside the
separatrix, as near as 1e-9, rounding in F decides: 2e-7 at worst, 3e-8 in 999 of a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.polynomial.legendre import leggauss, legint, legval, legvander

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.staircase._particle import Particles, between
from saddlescope.theory.staircase._tableau import hermite

# The rule in a panel, how wide in z a panel is at most, and how many of them a way has.
_NODES, _WEIGHTS = leggauss(12)
_SHARES_TO_END = (1 + np.append(_NODES, 1.0)[:, None]) / 2
_SHARES = np.concatenate([[[0.0]], _SHARES_TO_END])
# One of a third of the nodes errs by the cube root of what that one does: 3e-4; more is allowed.
_FEW_NODES, _FEW_WEIGHTS = leggauss(4)
_ROUGHLY = 0.01
_WIDEST, _MOST_PANELS = 2.0, 64
# Numbers that are worked on together, in the cache and below what an allocator maps anew.
_TOGETHER = 2**14
# Legendre's series of the polynomial through the nodes, and of its integral over shares of a panel;
# what integrates it up to each of the nodes, and to the end.
_PARTS = _WEIGHTS * legvander(_NODES, _NODES.size - 1).T * (np.arange(_NODES.size)[:, None] + 0.5)
_INTEGRAL = legint(_PARTS, lbnd=-1) / 2
_UP_TO = legval(np.append(_NODES, 1.0), _INTEGRAL).T
# Newton's steps at most to a moment on the way, and the last of them, in widths of a panel.
_TO_MOMENT, _LAST_STEP = 20, 1e-7


@dataclass(frozen=True, eq=False)
class Ways:
    """Particles and panels of their ways, one head after another."""

    particles: Particles
    first: Int[np.ndarray, " n"]
    """The first panel of each."""
    head: Int[np.ndarray, " p"]
    """Whose each panel is."""
    left: Float[np.ndarray, " p"]
    """z where it begins."""
    width: Float[np.ndarray, " p"]
    time: Float[np.ndarray, " p"]
    """How long the head is in it."""

    @classmethod
    def of(cls, particles: Particles, *, roughly: bool = False) -> Ways:
        """The time along the way of each; roughly, to a hundredth, in a third of the work."""
        nodes, weights = (_FEW_NODES, _FEW_WEIGHTS) if roughly else (_NODES, _WEIGHTS)
        shares = (1 + nodes[:, None]) / 2
        below, count = _count_panels(particles)
        first = np.cumsum(count) - count
        head = np.repeat(np.arange(count.size), count)
        place = np.arange(head.size) - first[head]
        start, end, below = particles.start[head], particles.end[head], below[head]
        # A way that passes over the minimum of F is cut there.
        cut = np.where(below > 0, 0.0, start)
        is_below = place < below
        with np.errstate(over="ignore", invalid="ignore"):
            width = np.where(is_below, -start, end - cut)
            width /= np.where(is_below, below, count[head] - below)
            left = np.where(is_below, start + place * width, cut + (place - below) * width)
            time = np.empty(head.size)
            together = _TOGETHER // nodes.size
            for begin in range(0, head.size, together):
                own = slice(begin, begin + together)
                stretches = _Stretches.of(particles, head[own], is_below[own])
                pace = stretches.at(left[own] + width[own] * shares)[2]
                time[own] = width[own] / 2 * (weights @ pace)
        return cls(particles, first, head, left, width, time)

    @property
    def runaway(self) -> Float[np.ndarray, " n"]:
        """The time until each has run away; infinite where nothing drives it, or it stops."""
        goes = self.particles.is_driven & ~self.particles.stops
        return np.where(goes, np.add.reduceat(self.time, self.first), np.inf)

    def after(self, time: Float[np.ndarray, " n"]) -> tuple[FloatArray, FloatArray]:
        """θ and v of each after a time before it runs away."""
        own = self.particles
        panel, missing = self._panel_at(time)
        z = np.empty(time.size)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            together = _TOGETHER // _NODES.size
            for begin in range(0, time.size, together):
                some = np.arange(begin, min(begin + together, time.size))
                z[some] = self._place(some, panel[some], missing[some])
            z = np.where(time > 0, z, own.start)
            z = np.where(own.stops & ~own.has_root, np.minimum(z, np.maximum(own.start, 0.0)), z)
            stretches = _Stretches.of(own, np.arange(time.size), z < 0)
            size, speed, _ = (part[0] for part in stretches.at(z[None]))
        is_behind = np.where(own.has_root, own.turns, z < 0)
        theta = own.base + np.where(is_behind, -size, size)
        theta = np.where(own.is_driven, theta, own.value * time)
        speed = np.where(own.turns & (z > 0), -speed, speed)
        return theta, np.where(own.is_driven, speed, own.value)

    def _place(self, head: AnyArray, panel: AnyArray, missing: FloatArray) -> FloatArray:
        """z of some heads that have been in a panel for a time, by Newton's method."""
        left, width = self.left[panel], self.width[panel]
        low, high = left.copy(), left + width
        stretches = _Stretches.of(self.particles, head, left < 0)
        z = between(_guess(stretches, left, width, missing), low, high)
        open_ = np.arange(head.size)
        for _ in range(_TO_MOMENT):
            at, begin = z[open_], left[open_]
            paces = stretches.at(begin + (at - begin) * _SHARES_TO_END)[2]
            error = missing[open_] - (at - begin) / 2 * (_WEIGHTS @ paces[:-1])
            low[open_] = np.where(error > 0, at, low[open_])
            high[open_] = np.where(error > 0, high[open_], at)
            step = between(at + error / paces[-1], low[open_], high[open_])
            z[open_] = step
            # The next step would be as small as the square of this one.
            further = ~(np.abs(step - at) <= _LAST_STEP * width[open_])
            if not further.any():
                break
            open_, stretches = open_[further], stretches.some(further)
        return z

    def _panel_at(self, time: FloatArray) -> tuple[AnyArray, FloatArray]:
        """The panel that each is in at a time, and how long it has been in it."""
        panel, missing = self.first.copy(), time.copy()
        last = np.append(self.first[1:], self.head.size) - 1
        passing = np.arange(time.size)
        while passing.size:
            spent = self.time[panel[passing]]
            passes = (missing[passing] > spent) & (panel[passing] < last[passing])
            passing = passing[passes]
            missing[passing] -= spent[passes]
            panel[passing] += 1
        return panel, missing


def soonest_runaways(particles: Particles, seeds: int) -> Float[np.ndarray, " S"]:
    """The first runaway of each seed, whose heads come one after another.

    Only those are followed that may be the first: a rough quadrature of all says which.
    """
    roughly = Ways.of(particles, roughly=True).runaway.reshape(seeds, -1)
    may_win = roughly <= (1 + 2 * _ROUGHLY) * roughly.min(1, keepdims=True)
    times = np.full(roughly.shape, np.inf)
    times[may_win] = Ways.of(particles.some(may_win.reshape(-1))).runaway
    return times.min(1)


@dataclass(frozen=True, eq=False)
class _Stretches:
    """Parts of ways that each lie on one side of the base."""

    twice_drive: Float[np.ndarray, "D p"]
    ahead: Float[np.ndarray, "D p"]
    """At the base, what grows away from it on this side."""
    behind: Float[np.ndarray, "D p"]
    at_base: Float[np.ndarray, " p"]
    width: Float[np.ndarray, " p"]
    sign: Float[np.ndarray, " p"]
    """−1 from a root, 1 about a minimum."""
    modes: tuple[int, ...]
    """Those that move any of them."""

    @classmethod
    def of(cls, particles: Particles, head: AnyArray, is_below: AnyArray) -> _Stretches:
        """Of some heads; before the minimum of F, where they pass over it and this is so."""
        has_root = particles.has_root[head]
        onward, backward, drive = (
            np.take(own, head, axis=1)
            for own in (particles.onward, particles.backward, particles.drive)
        )
        swapped = is_below & ~has_root
        drive *= 2
        return cls(
            drive,
            np.where(swapped, backward, onward),
            np.where(swapped, onward, backward),
            particles.at_base[head],
            particles.width[head],
            np.where(has_root, -1.0, 1.0),
            tuple(np.flatnonzero(drive.any(1)).tolist()),
        )

    def some(self, own: Bool[np.ndarray, " p"]) -> _Stretches:
        """Some of them."""
        return _Stretches(
            np.compress(own, self.twice_drive, axis=1),
            np.compress(own, self.ahead, axis=1),
            np.compress(own, self.behind, axis=1),
            self.at_base[own],
            self.width[own],
            self.sign[own],
            self.modes,
        )

    def at(self, z: Float[np.ndarray, "m p"]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """|θ − base|, √F, which is |v|, and dt/dz at some z of each."""
        half = np.abs(z)
        half /= 2
        np.exp(half, out=half)
        inverse = 1 / half
        # Of |z|/2 twice the hyperbolic sine, times that once more from a root, else the cosine:
        # sinh |z| about a minimum, cosh z − 1 from a root.
        size = half - inverse
        half_width = self.width / 2
        inverse *= self.sign
        size *= half + inverse
        size *= half_width
        height, grown, fallen = (np.empty_like(z) for _ in range(3))
        height[:] = self.at_base
        for mode in self.modes:
            np.multiply(self.twice_drive[mode], size, out=grown)
            np.expm1(grown, out=grown)
            np.add(grown, 1, out=fallen)
            np.divide(self.behind[mode], fallen, out=fallen)
            np.subtract(self.ahead[mode], fallen, out=fallen)
            grown *= fallen
            height += grown
        speed = np.sqrt(np.maximum(height, 1e-300, out=height), out=height)
        half *= half
        inverse *= inverse
        inverse *= self.sign
        along = half
        along += inverse
        along *= half_width
        along /= speed
        return size, speed, along


def _guess(
    stretches: _Stretches, left: FloatArray, width: FloatArray, missing: FloatArray
) -> FloatArray:
    """About where heads are that have been in a panel for a time: the square root of an error.

    Between nodes by a cubic, and from there by one of Newton's steps on the polynomial through all.
    """
    paces = width * stretches.at(left + width * _SHARES)[2]
    inner = paces[1:-1]
    times = np.zeros_like(paces)
    np.matmul(_UP_TO, inner, out=times[1:])
    node = np.clip((times < missing).sum(0) - 1, 0, len(_SHARES) - 2)
    every = np.arange(node.size)
    (begin, end), (first, last), (before, after) = (
        (part[node, every], part[node + 1, every])
        for part in (times, 1 / paces, np.broadcast_to(_SHARES, paces.shape))
    )
    step = end - begin
    share = hermite(before, after, first, last, step, (missing - begin) / step)
    terms = legvander(2 * np.clip(share, 0.0, 1.0) - 1, _NODES.size).T
    time, pace = (
        np.einsum("kp,kp->p", series @ inner, terms[: len(series)])
        for series in (_INTEGRAL, _PARTS)
    )
    return left + width * (share + (missing - time) / pace)


def _count_panels(own: Particles) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """How many panels each way has before the minimum of F, where it passes over it, and in all."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        passes = ~own.has_root & (own.start < 0)
        after = _panels(own, own.end - np.where(passes, 0.0, own.start), own.onward, own.reach)
        below = np.zeros_like(after)
        if passes.any():
            some = own.some(passes)
            below[passes] = _panels(some, -some.start, some.backward, np.abs(some.base))
    return below, below + after


def _panels(
    own: Particles, length: FloatArray, growing: FloatArray, reach: FloatArray
) -> Int[np.ndarray, " n"]:
    """The panels of parts of ways, so long in z, along which these terms of F grow."""
    floor = np.maximum(np.maximum(own.onward, own.backward).max(0), own.at_base)
    size = np.log(growing)
    # Where the first mode takes over from what does not grow.
    takes = np.where(own.drive > 0, (np.log(floor) - size) / (2 * own.drive), np.inf)
    first = takes.argmin(0)[None]
    at, rate = (np.take_along_axis(part, first, axis=0)[0] for part in (takes, own.drive))
    square = own.width**2
    narrow = rate**2 * (square + np.maximum(at, 0.0) ** 2)
    # Where the fastest one does from each other.
    fastest = own.drive.argmax(0)[None]
    ahead, last = (np.take_along_axis(part, fastest, axis=0) for part in (own.drive, size))
    faster = ahead - own.drive
    crossing = np.where((faster > 0) & (growing > 0), (size - last) / (2 * faster), 0.0)
    crossing = np.clip(crossing, 0.0, reach)
    narrow = np.maximum(narrow, (faster**2 * (square + crossing**2)).max(0))
    wanted = np.ceil(length * np.sqrt(np.maximum(narrow, 1.0)) / _WIDEST)
    return np.clip(np.nan_to_num(wanted, nan=1.0), 1, _MOST_PANELS).astype(int)
