"""Ensembles of dormant heads: the runaway times of all, and the race for the modes (T18)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.running.cores import on_all_cores
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._particle import Particles
from saddlescope.theory.staircase._pickup import Rise, rise_beside, rise_from_rest
from saddlescope.theory.staircase._ways import Ways, soonest_runaways

# Seeds whose heads are worked on together, and threads that do so: more of them keep one another
# waiting, since each array is small.
_TOGETHER, _THREADS = 2048, 4


@dataclass(frozen=True, eq=False)
class Climbed:
    """The drops of every seed, a column each; infinite and head −1 where none comes."""

    time: Float[np.ndarray, "S M"]
    head: Int[np.ndarray, "S M"]
    margin: Float[np.ndarray, "S M"]
    mode: Int[np.ndarray, " M"]


@dataclass(frozen=True, eq=False)
class DormantHeads:
    """Seeds of heads along what they grow along, all of them small."""

    drive: Float[np.ndarray, " D"]
    """c, of the modes of a task or of the singular vectors of its drive."""
    value: Float[np.ndarray, "S H"]
    """v."""
    sums: Float[np.ndarray, "S H R D"]
    """A at θ = 0."""
    differences: Float[np.ndarray, "S H R D"]
    """B there."""

    def runaways(self) -> Float[np.ndarray, "S H"]:
        """When each head would run away, were it alone."""

        def times(own: DormantHeads) -> FloatArray:
            return Ways.of(own.particles()).runaway.reshape(own.value.shape)

        return np.concatenate(on_all_cores(times, self._blocks(), _THREADS))

    def soonest(self) -> Float[np.ndarray, " S"]:
        """When the first head of each seed would run away: in half the time that all take."""

        def times(own: DormantHeads) -> FloatArray:
            return soonest_runaways(own.particles(), len(own.value))

        return np.concatenate(on_all_cores(times, self._blocks(), _THREADS))

    def particles(self) -> Particles:
        """All heads of all seeds, one seed after another."""
        drive = np.broadcast_to(self.drive, (self.value.size, self.drive.size))
        sums, differences = (
            own.reshape(-1, *own.shape[2:]) for own in (self.sums, self.differences)
        )
        return Particles.of_pairs(self.value.reshape(-1), sums, differences, drive)[0]

    def staircase(self, modes: Modes) -> Climbed:
        """Every drop of every seed, where these are the modes that they grow along."""
        _, heads, pairs, _ = self.sums.shape
        order = modes.order[: heads * pairs]

        def climbed(own: DormantHeads) -> tuple[AnyArray, ...]:
            race = _Climb.begin(own)
            drops = [
                race.drop(mode, float(modes.amplitude[mode]), is_last=index == order.size - 1)
                for index, mode in enumerate(order.tolist())
            ]
            return tuple(np.stack(parts, axis=1) for parts in zip(*drops, strict=True))

        parts = zip(*on_all_cores(climbed, self._blocks(), _THREADS), strict=True)
        time, head, margin = (np.concatenate(part) for part in parts)
        return Climbed(time, head, margin, order)

    def _blocks(self) -> list[DormantHeads]:
        own = ("value", "sums", "differences")
        return [
            replace(self, **{name: getattr(self, name)[first : first + _TOGETHER] for name in own})
            for first in range(0, max(len(self.value), 1), _TOGETHER)
        ]


@dataclass(eq=False)
class _Climb:
    """A block of seeds from one drop to the next; what it holds changes as it goes."""

    now: Float[np.ndarray, " S"]
    value: Float[np.ndarray, "S H"]
    sums: Float[np.ndarray, "S H R D"]
    """A of heads that hold nothing; of the others what grows beside that which they hold."""
    differences: Float[np.ndarray, "S H R D"]
    drive: Float[np.ndarray, " D"]
    """Of the modes that are left."""
    held: Float[np.ndarray, "S H"]
    """The amplitudes of what each head holds."""
    room: Int[np.ndarray, "S H"]
    """How many modes more each can learn."""

    @classmethod
    def begin(cls, heads: DormantHeads) -> _Climb:
        return cls(
            now=np.zeros(len(heads.value)),
            value=heads.value.copy(),
            sums=heads.sums.copy(),
            differences=heads.differences.copy(),
            drive=heads.drive.copy(),
            held=np.zeros(heads.value.shape),
            room=np.full(heads.value.shape, heads.sums.shape[2]),
        )

    def ways(self, racing: Bool[np.ndarray, "S H"]) -> tuple[Ways, Float[np.ndarray, " n"]]:
        """The ways of some heads as particles, and the sign of θ that they begin towards."""
        drive = np.broadcast_to(self.drive, (int(racing.sum()), self.drive.size))
        particles, sign = Particles.of_pairs(
            self.value[racing], self.sums[racing], self.differences[racing], drive
        )
        return Ways.of(particles), sign

    def drop(
        self, mode: int, amplitude: float, *, is_last: bool
    ) -> tuple[FloatArray, AnyArray, FloatArray]:
        """The next drop's time, head and margin; unless it is the last, go to where it is felt."""
        racing = self.held == 0
        ways, sign = self.ways(racing)
        # What grows in the end: the sums, or the differences of a head whose value is negative.
        upward = np.full(racing.shape, True)
        upward[racing] = (sign > 0) != ways.particles.turns
        growing = np.where(upward[:, :, None, None], self.sums, self.differences)
        rise = self._rise(mode, amplitude, racing, ways.runaway, growing)
        seeds = np.arange(len(self.now))
        first = rise.half.argmin(1)
        soonest = rise.half[seeds, first]
        others = rise.half.copy()
        others[seeds, first] = np.inf
        came = np.isfinite(soonest)
        wait = np.where(came, np.maximum(rise.felt[seeds, first], 0.0), 0.0)
        time = self.now + soonest
        with np.errstate(invalid="ignore"):
            margin = np.where(came, others.min(1) - soonest, np.inf)
        if not is_last:
            self._go_on(wait, racing, ways, sign)
            self._learn(mode, amplitude, (seeds[came], first[came]), growing, rise.theta)
            self.now = self.now + wait
            self.drive[mode] = 0.0
        return time, np.where(came, first, -1), margin

    def _rise(
        self,
        mode: int,
        amplitude: float,
        racing: Bool[np.ndarray, "S H"],
        runaway: FloatArray,
        growing: FloatArray,
    ) -> Rise:
        """When each head would learn the mode, [S, H]; never where it has no room for it."""
        drive = float(self.drive[mode])
        size = (growing[..., mode] ** 2).sum(2) / 4
        parts = [np.full(racing.shape, np.inf) for _ in range(3)]
        beside = ~racing & (self.room > 0) & (size > 0)
        begin = np.cbrt(self.held[beside]) * size[beside]
        # What has nothing of the mode never learns it.
        grows = size[racing] > 0
        from_rest = racing.copy()
        from_rest[racing] = grows
        rest = rise_from_rest(runaway[grows], size[from_rest], drive, amplitude)
        for own, rise in (
            (from_rest, rest),
            (beside, rise_beside(self.held[beside], begin, drive, amplitude)),
        ):
            for part, values in zip(parts, (rise.half, rise.felt, rise.theta), strict=True):
                part[own] = values
        return Rise(*parts)

    def _go_on(
        self, wait: FloatArray, racing: Bool[np.ndarray, "S H"], ways: Ways, sign: FloatArray
    ) -> None:
        """Carry every head on, as if nothing were learned."""
        waits = np.broadcast_to(wait[:, None], racing.shape)
        theta = np.where(self.room > 0, np.cbrt(self.held) * waits, 0.0)
        away, speed = ways.after(waits[racing])
        theta[racing], self.value[racing] = sign * away, sign * speed
        grown = np.exp(self.drive * theta[:, :, None, None])
        self.sums *= grown
        self.differences /= grown

    def _learn(
        self,
        mode: int,
        amplitude: float,
        own: tuple[AnyArray, AnyArray],
        growing: FloatArray,
        theta: FloatArray,
    ) -> None:
        """Give the mode to the winners; what is left of them grows beside it."""
        grown = growing[own] * np.exp(self.drive * theta[own][:, None, None])
        along = grown[:, :, mode]
        along = along / np.sqrt((along**2).sum(1, keepdims=True))
        grown -= along[:, :, None] * (along[:, :, None] * grown).sum(1, keepdims=True)
        self.room[own] -= 1
        self.sums[own] = np.where(self.room[own][:, None, None] > 0, grown, 0.0)
        self.differences[own] = 0.0
        self.held[own] += amplitude
        self.value[own] = np.cbrt(self.held[own])
