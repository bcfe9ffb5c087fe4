"""The race of heads for the modes: who wins each drop, and when, in many seeds at once (T13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.courses.head import half_way_lead
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._heads import Felt, Heads, Order, Spans
from saddlescope.theory.staircase._quiet import runaways, skip
from saddlescope.theory.staircase._tableau import hermite, step

# A head that has done less than this share of the next drop is not felt by the others yet.
_QUIET = 1e-4
# A winner whose map is this close to what it learns stands still from then on.
_SETTLED = 3e-4
# A prediction takes hundreds of steps.
_MOST_STEPS = 5_000
# Where a crossing lies within a step, by so many halvings or better.
_TO_CROSSING = 6
# Eigenspaces are turned after their winners once in so many steps.
_SELDOM = 8
# Seeds that have ended are carried along until they are this share of all.
_ENOUGH = 0.25


@dataclass(frozen=True, eq=False)
class Finish:
    """The drops of every seed, in order of time; infinite and −1 where none comes by then."""

    time: Float[np.ndarray, "M S"]
    head: Int[np.ndarray, "M S"]
    mode: Int[np.ndarray, "M S"]
    margin: Float[np.ndarray, "M S"]
    """How much later the next head would have won, by quadrature (T18)."""
    at_start: Bool[np.ndarray, "D S"]
    """The modes that the initial weights hold already."""
    next_time: Float[np.ndarray, " S"]
    """When the next drop would come, by quadrature (T18)."""
    stuck: Bool[np.ndarray, " S"]
    """Whether the heads could not be followed to the end."""


@dataclass(frozen=True, eq=False)
class Moment:
    """All heads of every seed, each seed at its own time."""

    time: Float[np.ndarray, " S"]
    rows: Float[np.ndarray, "H n S"]

    def of(self, seeds: AnyArray) -> Moment:
        """A copy of some seeds."""
        return Moment(self.time[seeds], self.rows[:, :, seeds])

    def where(self, mask: Bool[np.ndarray, " S"], other: Moment) -> Moment:
        """This one in the seeds of a mask, the other one elsewhere."""
        return Moment(np.where(mask, self.time, other.time), np.where(mask, self.rows, other.rows))


class Race:
    """Seeds from their initial weights, `rows[H, 1+2RD, S]` in the common eigenbasis, to an end."""

    def __init__(self, modes: Modes, rows: FloatArray, pairs: int, until: float) -> None:
        heads, _, seeds = rows.shape
        dimension = modes.dimension
        self._modes, self._pairs, self._until = modes, pairs, until
        self._most = min(len(modes.order), pairs * heads)
        self._order = Order(
            np.full((heads, seeds), -1),
            np.full((heads, dimension, seeds), False),
            np.full((heads, seeds), False),
        )
        self._now, self._quiet, self._earlier = (
            Moment(np.zeros(seeds), rows.copy()) for _ in range(3)
        )
        self._earlier_velocity = np.zeros_like(rows)
        self._number = np.arange(seeds)
        self._width = np.zeros(seeds)
        self._steps = np.zeros(seeds, dtype=int)
        self._has_skipped = np.full(seeds, False)
        self._over = np.full(seeds, False)
        self._absolute = np.maximum(1e-7 * np.sqrt((rows**2).mean((0, 1))), np.finfo(float).tiny)
        self._drops = [
            np.full((self._most, seeds), fill, dtype=kind)
            for fill, kind in ((np.inf, float), (-1, int), (-1, int), (np.inf, float))
        ]
        same = np.zeros((dimension, dimension))
        for group in modes.eigenspaces:
            same[np.ix_(group, group)] = 1.0
        self._same = same
        self._spans = Spans.none(heads, dimension, seeds)
        self._refresh()

    def _refresh(self) -> None:
        self._heads = Heads(self._modes, self._pairs, self._order, self._spans)

    def _take_spans(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> None:
        """What winners of several pairs hold is looked at once a step, in seeds that take one."""
        if self._pairs > 1 and (self._order.moving & going).any():
            found = Spans.of(self._modes, self._order, felt.own)
            self._spans = found.where(going, self._spans)
            self._refresh()

    def begin(self) -> Bool[np.ndarray, "D S"]:
        """Give the heads what they hold already in the initial weights; what that is."""
        while (crossed := self._to_go(self._heads.felt(self._now.rows)) <= 0).any():
            seeds = np.flatnonzero(crossed)
            self._award(seeds, self._now.time[seeds], self._now.rows[:, :, seeds], record=False)
        return self._order.given

    @property
    def racing(self) -> Bool[np.ndarray, "H S"]:
        """The heads that have won nothing."""
        return self._order.racing

    def finish(self, at_start: Bool[np.ndarray, "D S"], left_out: AnyArray) -> Finish:
        """Follow all seeds to the end, but for those that are left out."""
        self._over |= left_out
        next_time, stuck = np.full(left_out.size, np.inf), np.full(left_out.size, False)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while self._number.size:
                while self._over.mean() < _ENOUGH:
                    self._advance()
                ended = np.flatnonzero(self._over)
                next_time[self._number[ended]] = self._of(ended)._next_time()
                stuck[self._number[ended]] = self._steps[ended] > _MOST_STEPS
                self._narrow(np.flatnonzero(~self._over))
        time, head, mode, margin = self._drops
        return Finish(time, head, mode, margin, at_start, next_time, stuck)

    def _narrow(self, seeds: AnyArray) -> None:
        """Go on with some of the seeds alone."""
        own = self._of(seeds)
        own._earlier = self._earlier.of(seeds)
        own._earlier_velocity = self._earlier_velocity[:, :, seeds]
        for name in ("_number", "_width", "_steps", "_has_skipped", "_absolute"):
            setattr(own, name, getattr(self, name)[seeds])
        vars(self).update(vars(own))

    def _advance(self) -> None:
        """Handle what has come in the seeds that have reached it; a step of the others."""
        felt = self._heads.felt(self._now.rows)
        going = ~self._over
        crossed = going & (self._to_go(felt) <= 0)
        if crossed.any():
            self._cross(np.flatnonzero(crossed), felt)
        arrived = self._settle(felt, going & ~crossed)
        self._over |= self._now.time >= self._until
        self._over |= self._steps > _MOST_STEPS
        going &= ~crossed & ~arrived & ~self._over
        loudest = np.where(self._order.racing, felt.falls, -np.inf).max(0)
        quiet = going & (loudest < _QUIET * self._depth())
        self._keep_quiet(np.flatnonzero(quiet))
        ready = quiet & ~self._has_skipped & self._at_rest(felt)
        # It is dear for a few seeds: they wait for others.
        if ready.sum() >= max(1, going.sum() // 4):
            self._skip(np.flatnonzero(ready))
        going &= ~ready
        if going.any():
            self._take_spans(felt, going)
            self._step(going, felt)

    def _levels(self) -> tuple[FloatArray, FloatArray]:
        """The level of the last plateau, and that of the next one."""
        count, levels = self._order.count, self._modes.levels
        return levels[count], levels[np.minimum(count + 1, len(levels) - 1)]

    def _depth(self) -> FloatArray:
        level, after = self._levels()
        return level - after

    def _falls(self, felt: Felt) -> tuple[FloatArray, FloatArray]:
        """How far below the last plateau the winners are, and how far each other takes them."""
        winners = np.where(self._order.moving, felt.falls, 0.0).sum(0) + self._heads.settled_fall
        level = self._levels()[0]
        together = self._modes.label_power - winners
        return level - together, np.where(self._order.racing, felt.falls, -np.inf)

    def _again(self) -> Bool[np.ndarray, " S"]:
        """Whether a winner has room for one more mode."""
        return (self._order.moving & self._has_room()).any(0)

    def _has_room(self) -> Bool[np.ndarray, "H S"]:
        return self._order.held.sum(1) < self._pairs

    def _to_go(self, felt: Felt) -> FloatArray:
        """How far the loss is from half-way down the next drop; infinite where there is none."""
        winners, others = self._falls(felt)
        furthest = np.maximum(others.max(0), np.where(self._again(), 0.0, -np.inf))
        left = self._depth() / 2 - winners - furthest
        return np.where(self._over | (self._order.count >= self._most), np.inf, left)

    def _cross(self, seeds: AnyArray, felt: Felt) -> None:
        """Go back to where these seeds have crossed within their last step, and award the mode."""
        inside = _Inside(self, seeds, felt)
        low, high = np.zeros(seeds.size), np.ones(seeds.size)
        below, above = inside.to_go(low), inside.to_go(high)
        for _ in range(_TO_CROSSING):
            # Illinois: of a side that stays, half is taken.
            share = np.clip((low * above - high * below) / (above - below), low, high)
            share = np.where(np.isfinite(share), share, high)
            value = inside.to_go(share)
            left = value > 0
            low, high = np.where(left, share, low), np.where(left, high, share)
            above = np.where(left, above / 2, value)
            below = np.where(left, value, below / 2)
        self._award(seeds, *inside.at(high), record=True)

    def _award(self, seeds: AnyArray, time: FloatArray, rows: FloatArray, *, record: bool) -> None:
        """Give winners their modes in some seeds, whose heads are `rows[H, n, s]`."""
        own = self._of(seeds)
        felt = own._heads.felt(rows)
        winners, others = own._falls(felt)
        again = own._again() & (winners > others.max(0))
        candidates = np.where(again, own._order.moving & own._has_room(), False)
        first = np.where(again, -1, others.argmax(0))
        candidates |= np.arange(len(others))[:, None] == first
        head, mode = own._most_grown(felt, candidates)
        if record:
            number = self._number[seeds]
            recorded = np.isfinite(self._drops[0][:, number]).sum(0)
            found = (time, head, mode, own._margin(head, mode, time))
            for part, value in zip(self._drops, found, strict=True):
                part[recorded, number] = value
        own._turn(head, mode, felt, rows)
        self._quiet.rows[:, :, seeds] = own._quiet.rows
        fresh = own._order.racing[head, np.arange(seeds.size)]
        # The others have felt it ever since it became noticeable: go back to that moment.
        self._put(seeds, own._quiet.where(fresh, Moment(time, rows)))
        self._order.held[head, mode, seeds] = True
        place = self._order.place
        place[head[fresh], seeds[fresh]] = place[:, seeds[fresh]].max(0) + 1
        self._over[seeds] |= self._order.count[seeds] >= self._most
        self._refresh()
        awarded = np.isin(np.arange(self._over.size), seeds)
        self._take_spans(self._heads.felt(self._now.rows), awarded)

    def _of(self, seeds: AnyArray) -> Race:
        """A race of some of the seeds, to look at."""
        own = object.__new__(Race)
        vars(own).update(vars(self))
        own._order = Order(
            self._order.place[:, seeds],
            self._order.held[:, :, seeds],
            self._order.settled[:, seeds],
        )
        own._now, own._quiet = self._now.of(seeds), self._quiet.of(seeds)
        own._over = np.full(seeds.size, False)
        own._spans = self._spans.at(seeds)
        own._refresh()
        return own

    def _put(self, seeds: AnyArray, moment: Moment) -> None:
        """Continue some seeds from another moment."""
        for one in (self._now, self._earlier):
            one.time[seeds], one.rows[:, :, seeds] = moment.time, moment.rows
        self._width[seeds] = 0.0
        self._has_skipped[seeds] = False

    def _most_grown(
        self, felt: Felt, candidates: Bool[np.ndarray, "H S"]
    ) -> tuple[AnyArray, AnyArray]:
        """Among candidates, the one that has grown the most along a free mode; that mode."""
        grown = np.einsum("hdds->hds", felt.own) * self._modes.drive[:, None]
        grown = np.einsum("de,hes->hds", self._same, grown)
        held = np.einsum("de,hes->hds", self._same, self._order.held.astype(float))
        grown -= held * self._modes.drop[:, None]
        active = self._modes.active[:, None]
        allowed = candidates[:, None] & ~self._order.given[None] & active
        grown = np.where(allowed, grown, -np.inf)
        best = grown.reshape(-1, grown.shape[2]).argmax(0)
        return np.divmod(best, self._modes.dimension)

    def _turn(self, heads: AnyArray, modes: AnyArray, felt: Felt, rows: FloatArray) -> None:
        """Turn the eigenspace of an equal eigenvalue so that the winner has learned the mode."""
        for seed, (head, mode) in enumerate(zip(heads, modes, strict=True)):
            free = np.flatnonzero((self._same[mode] > 0) & ~self._order.given[:, seed])
            if free.size > 1:
                block = felt.own[head][np.ix_(free, free)][:, :, seed]
                self._mirror(block, free, int(mode), seed, (self._quiet.rows, rows))

    def _mirror(
        self, block: FloatArray, free: AnyArray, mode: int, seed: int, moments: Sequence[FloatArray]
    ) -> FloatArray | None:
        """Turn free modes of one eigenspace so that a map's leading direction is that of a mode.

        Nothing else changes: all that is of an eigenspace is the same in every direction of it.
        """
        direction = np.linalg.eigh(block + block.T)[1][:, -1]
        direction *= np.where(direction[free == mode] < 0, -1.0, 1.0)
        across = direction - (free == mode)
        if (size := float(across @ across)) < 1e-24:
            return None
        mirror: FloatArray = np.eye(free.size) - 2 * np.outer(across, across) / size
        for moment in moments:
            for part in self._heads.parts(moment)[1:]:
                part[:, :, free, seed] = part[:, :, free, seed] @ mirror
        return mirror

    def _align(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> None:
        """Turn eigenspaces after winners that have turned in them since they won."""
        moments = (
            self._now.rows,
            self._quiet.rows,
            self._earlier.rows,
            self._earlier_velocity,
            felt.velocity,
        )
        moving, place, held = self._order.moving, self._order.place, self._order.held
        for seed in np.flatnonzero(going & moving.any(0) & (self._steps % _SELDOM == 0)):
            taken = (held[:, :, seed] & self._order.settled[:, seed, None]).any(0)
            for head in sorted(np.flatnonzero(moving[:, seed]), key=lambda h: place[h, seed]):
                for mode in np.flatnonzero(held[head, :, seed]):
                    free = np.flatnonzero((self._same[mode] > 0) & ~taken)
                    taken[mode] = True
                    if free.size < 2:
                        continue
                    own = felt.own[:, :, :, seed]
                    block = own[head][np.ix_(free, free)]
                    mirror = self._mirror(block, free, int(mode), int(seed), moments)
                    if mirror is not None:
                        own[:, free] = np.einsum("de,hef->hdf", mirror, own[:, free])
                        own[:, :, free] = own[:, :, free] @ mirror

    def _settle(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> Bool[np.ndarray, " S"]:
        """Let the full winners stand still that have arrived; in which seeds any has."""
        if not (self._order.moving & ~self._has_room() & going).any():
            return np.full(going.shape, False)
        if (self._same.sum(0) > 1).any():
            self._align(felt, going)
        self._reassign(felt, going)
        full = self._order.moving & ~self._has_room() & going
        arrived = full & (self._distance(felt) < _SETTLED)
        if arrived.any():
            self._order = replace(self._order, settled=self._order.settled | arrived)
            seeds = np.flatnonzero(arrived.any(0))
            self._now.rows[np.nonzero(arrived)[0], :, np.nonzero(arrived)[1]] = 0.0
            # Whoever wins from here on goes back to no earlier moment.
            self._put(seeds, self._now.of(seeds))
            self._keep_quiet(seeds)
            self._refresh()
        return arrived.any(0)

    def _reassign(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> None:
        """Give winners the modes that they have turned to since they won another."""
        held = self._order.held
        share = np.einsum("hdds->hds", felt.own) > self._modes.amplitude[:, None] / 2
        active = self._modes.active[:, None]
        now = np.where((self._order.moving & going)[:, None], share & active, held)
        as_many = (now.sum(1) == held.sum(1)).all(0) & (now.sum(0) <= 1).all(0)
        turned = going & as_many & (now != held).any((0, 1))
        for seed in np.flatnonzero(turned):
            for head in np.flatnonzero((now[:, :, seed] != held[:, :, seed]).any(1)):
                before, after = held[head, :, seed].copy(), now[head, :, seed]
                modes, number = self._drops[2], self._number[seed]
                for old, new in zip(
                    np.flatnonzero(before & ~after), np.flatnonzero(after & ~before), strict=True
                ):
                    own = (modes[:, number] == old) & (self._drops[1][:, number] == head)
                    modes[own, number] = new
            held[:, :, seed] = now[:, :, seed]

    def _distance(self, felt: Felt) -> Float[np.ndarray, "H S"]:
        """How far each head's own map is from what it holds, as a share of it, as the loss sees it.

        Its distance is ‖B^½ W Λ_q^½‖: along weak modes a map arrives late, and
        nobody feels it.
        """
        every = np.arange(self._modes.dimension)
        off = felt.own.copy()
        off[:, every, every] -= np.where(self._order.held, self._modes.amplitude[:, None], 0.0)
        distance = np.einsum("hdes,hdes,de->hs", off, off, self._heads.damping)
        held = np.einsum("hds,d->hs", self._order.held.astype(float), self._modes.drop)
        return np.sqrt(distance / held)

    def _at_rest(self, felt: Felt) -> Bool[np.ndarray, " S"]:
        """Whether every winner that moves only waits for its next mode."""
        waits = self._has_room() & (self._distance(felt) < 10 * _SETTLED)
        return ~np.asarray((self._order.moving & ~waits).any(0))

    def _keep_quiet(self, seeds: AnyArray) -> None:
        """Note that nobody feels a head of these seeds that has not won, up to now."""
        self._quiet.time[seeds] = self._now.time[seeds]
        self._quiet.rows[:, :, seeds] = self._now.rows[:, :, seeds]

    def _skip(self, seeds: AnyArray) -> None:
        """Carry seeds in which nothing is to be felt to where something is (T18)."""
        own = self._of(seeds)
        left = self._until - own._now.time
        rest, rows = skip(self._modes, self._pairs, own._order, own._now.rows, left)
        self._put(seeds, Moment(np.where(rest < left, own._now.time + rest, self._until), rows))
        self._has_skipped[seeds] = True
        self._keep_quiet(seeds)

    def _step(self, going: Bool[np.ndarray, " S"], felt: Felt) -> None:
        """One step of those that go on, refused where it errs."""
        self._steps += going
        left = self._until - self._now.time
        fresh = self._width == 0
        size = np.sqrt((self._now.rows**2).sum((0, 1)) / (felt.velocity**2).sum((0, 1)))
        width = np.minimum(np.where(fresh, 0.01 * size, self._width), left)
        moved, error = step(self._heads, self._now.rows, felt.velocity, width, self._absolute)
        kept = going & (error <= 1)
        factor = np.where(np.isfinite(error), 0.9 * np.maximum(error, 1e-10) ** -0.2, 0.2)
        self._width = np.where(going, width * np.clip(factor, 0.2, 5.0), self._width)
        self._earlier = self._now.where(kept, self._earlier)
        self._earlier_velocity = np.where(kept, felt.velocity, self._earlier_velocity)
        # The end itself, which a sum would miss by a rounding.
        time = np.where(width < left, self._now.time + width, self._until)
        self._now = Moment(time, moved).where(kept, self._now)

    def _margin(self, head: AnyArray, mode: AnyArray, time: FloatArray) -> FloatArray:
        """How much later another head would have won the mode, from when nobody was felt."""
        times = runaways(self._modes, self._pairs, self._order, self._quiet.rows)
        times[head, np.arange(head.size)] = np.inf
        other = self._quiet.time + times.min(0) - half_way_lead() * self._modes.rise_time[mode]
        return np.maximum(other - time, 0.0)

    def _next_time(self) -> FloatArray:
        """When the next drop would come after the end, by quadrature."""
        times = runaways(self._modes, self._pairs, self._order, self._now.rows).min(0)
        drive = np.where(self._order.given, 0.0, self._modes.drive[:, None])
        mode = drive.argmax(0)
        found = self._now.time + times - half_way_lead() * self._modes.rise_time[mode]
        return np.where(self._order.count < self._most, found, np.inf)


class _Inside:
    """Seeds within their last step."""

    def __init__(self, race: Race, seeds: AnyArray, felt: Felt) -> None:
        self._race = race._of(seeds)
        self._begin = race._earlier.of(seeds)
        self._end = self._race._now
        self._slopes = (
            race._earlier_velocity[:, :, seeds],
            felt.velocity[:, :, seeds],
        )

    def at(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The time and all heads at a share of the step."""
        width = self._end.time - self._begin.time
        rows = hermite(self._begin.rows, self._end.rows, *self._slopes, width, share)
        return self._begin.time + share * width, rows

    def to_go(self, share: FloatArray) -> FloatArray:
        """How far it is to the crossing there."""
        return self._race._to_go(self._race._heads.felt(self.at(share)[1]))
