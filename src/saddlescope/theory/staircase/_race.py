"""The race of heads for the modes: who wins each drop, and when, in many seeds at once (T13)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.theory.landscape._modes import Modes
from saddlescope.theory.staircase._eigenspaces import turn_after_winners, turn_to_modes
from saddlescope.theory.staircase._felt import Felt
from saddlescope.theory.staircase._heads import Spans
from saddlescope.theory.staircase._moment import LastStep, Moment
from saddlescope.theory.staircase._order import Order
from saddlescope.theory.staircase._quiet import half_way_times, skip
from saddlescope.theory.staircase._standing import SETTLED, Standing
from saddlescope.theory.staircase._tableau import step

# A head that has done less than this share of the next drop is not felt by the others yet.
_QUIET = 1e-4
# A prediction takes hundreds of steps.
_MOST_STEPS = 5_000
# Where a crossing lies within a step, by so many halvings or better.
_TO_CROSSING = 6
# Eigenspaces are turned after their winners once in so many steps.
_SELDOM = 8
# As heads run away steps shrink, by more than this; those that stability bounds vary by less.
_SHRINKS = 0.86
# Seeds that have ended are carried along until they are this share of all.
_ENOUGH = 0.25


@dataclass(frozen=True, eq=False)
class Finish:
    """The drops of every seed, as they are won; infinite and −1 where none comes by then."""

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


class Race:
    """Seeds from their initial weights, `rows[H, 1+2RD, S]` in the common eigenbasis, to an end."""

    def __init__(self, modes: Modes, rows: FloatArray, pairs: int, until: float) -> None:
        heads, _, seeds = rows.shape
        dimension = modes.dimension
        self._modes, self._until = modes, until
        order = Order.empty(heads, dimension, seeds)
        self._standing = Standing(modes, pairs, order, Spans.none(heads, dimension, seeds))
        self._now, self._quiet, self._earlier = (
            Moment(np.zeros(seeds), rows.copy()) for _ in range(3)
        )
        self._earlier_velocity = np.zeros_like(rows)
        self._number = np.arange(seeds)
        self._felt: Felt | None = None
        self._width = np.zeros(seeds)
        self._fitting = np.full(seeds, np.inf)
        self._steps = np.zeros(seeds, dtype=int)
        self._has_skipped = np.full(seeds, False)
        self._over = np.full(seeds, False)
        self._absolute = np.maximum(1e-7 * np.sqrt((rows**2).mean((0, 1))), np.finfo(float).tiny)
        most = min(len(modes.order), pairs * heads)
        self._drops = [
            np.full((most, seeds), fill, dtype=kind)
            for fill, kind in ((np.inf, float), (-1, int), (-1, int), (np.inf, float))
        ]

    @property
    def _order(self) -> Order:
        return self._standing.order

    def _set_order(self, order: Order) -> None:
        """Go on under another order."""
        self._standing = replace(self._standing, order=order)
        self._felt = None

    def _take_spans(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> None:
        """What winners of several pairs hold is looked at once a step, in seeds that take one."""
        standing = self._standing
        if standing.pairs > 1 and (standing.order.moving & going).any():
            spans = Spans.of(self._modes, standing.order, felt.own)
            self._standing = replace(standing, spans=spans.where(going, standing.spans))

    def begin(self) -> Bool[np.ndarray, "D S"]:
        """Give the heads what they hold already in the initial weights; what that is."""
        while (crossed := self._to_go(self._feel()) <= 0).any():
            seeds = np.flatnonzero(crossed)
            self._award(seeds, self._standing.of(seeds), self._now.of(seeds), record=False)
        return self._order.given

    def _feel(self) -> Felt:
        """What all heads feel where they are: known from the last step, unless anything came."""
        if self._felt is None:
            self._felt = self._standing.heads.felt(self._now.rows)
        return self._felt

    def _to_go(self, felt: Felt) -> FloatArray:
        """How far every seed is from its next crossing."""
        return np.where(self._over, np.inf, self._standing.to_go(felt))

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
                next_time[self._number[ended]] = self._next_time(ended)
                stuck[self._number[ended]] = self._steps[ended] > _MOST_STEPS
                self._narrow(np.flatnonzero(~self._over))
        time, head, mode, margin = self._drops
        return Finish(time, head, mode, margin, at_start, next_time, stuck)

    def _narrow(self, seeds: AnyArray) -> None:
        """Go on with some of the seeds alone."""
        self._standing = self._standing.of(seeds)
        self._now, self._quiet, self._earlier = (
            one.of(seeds) for one in (self._now, self._quiet, self._earlier)
        )
        self._earlier_velocity = np.take(self._earlier_velocity, seeds, axis=2)
        self._felt = None
        every = ("_number", "_width", "_fitting", "_steps", "_has_skipped", "_absolute", "_over")
        for name in every:
            setattr(self, name, getattr(self, name)[seeds])

    def _advance(self) -> None:
        """Handle what has come in the seeds that have reached it; a step of the others."""
        felt = self._feel()
        going = ~self._over
        crossed = going & (self._to_go(felt) <= 0)
        if crossed.any():
            self._cross(np.flatnonzero(crossed), felt)
        arrived = self._settle(felt, going & ~crossed)
        self._over |= self._now.time >= self._until
        self._over |= self._steps > _MOST_STEPS
        going &= ~crossed & ~arrived & ~self._over
        loudest = np.where(self._order.racing, felt.falls, -np.inf).max(0)
        quiet = going & (loudest < _QUIET * self._standing.depth())
        self._keep_quiet(quiet)
        ready = quiet & ~self._has_skipped
        if ready.any():
            ready &= self._standing.at_rest(felt)
        # It is dear for a few seeds: they wait for others.
        if ready.sum() >= max(1, going.sum() // 4):
            self._skip(ready)
        going &= ~ready
        if going.any():
            self._take_spans(felt, going)
            self._step(going, felt)

    def _cross(self, seeds: AnyArray, felt: Felt) -> None:
        """Go back to where these seeds have crossed within their last step, and award the mode."""
        slopes = (
            np.take(slope, seeds, axis=2) for slope in (self._earlier_velocity, felt.velocity)
        )
        inside = LastStep(
            self._standing.of(seeds), self._earlier.of(seeds), self._now.of(seeds), *slopes
        )
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
        self._award(seeds, inside.standing, inside.at(high), record=True)

    def _award(self, seeds: AnyArray, own: Standing, won: Moment, *, record: bool) -> None:
        """Give winners their modes in some seeds, at a moment of theirs."""
        quiet = self._quiet.of(seeds)
        felt = own.heads.felt(won.rows)
        winners, others = own.falls(felt)
        again = own.again() & (winners > others.max(0))
        candidates = np.where(again, own.order.moving & own.has_room(), False)
        first = np.where(again, -1, others.argmax(0))
        candidates |= np.arange(len(others))[:, None] == first
        head, mode = own.most_grown(felt, candidates)
        if record:
            number = self._number[seeds]
            recorded = np.isfinite(self._drops[0][:, number]).sum(0)
            drop = (won.time, head, mode, _margin(own, quiet, head, won.time))
            for part, value in zip(self._drops, drop, strict=True):
                part[recorded, number] = value
        turn_to_modes(own, head, mode, felt, (quiet.rows, won.rows))
        self._quiet.rows[:, :, seeds] = quiet.rows
        fresh = own.order.racing[head, np.arange(seeds.size)]
        # The others have felt it ever since it became noticeable: go back to that moment.
        self._restart(seeds, quiet.where(fresh, won))
        self._set_order(self._order.awarded(seeds, head, mode))
        self._over |= self._standing.is_complete
        if own.pairs > 1:
            self._take_spans(self._feel(), np.isin(np.arange(self._over.size), seeds))
            self._felt = None

    def _restart(self, seeds: AnyArray, moment: Moment) -> None:
        """Continue some seeds from another moment."""
        for one in (self._now, self._earlier):
            one.time[seeds], one.rows[:, :, seeds] = moment.time, moment.rows
        self._width[seeds] = 0.0
        self._has_skipped[seeds] = False
        self._felt = None

    def _settle(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> Bool[np.ndarray, " S"]:
        """Let the full winners stand still that have arrived; in which seeds any has."""
        full = self._order.moving & ~self._standing.has_room() & going
        if not full.any():
            return np.full(going.shape, False)
        seldom = going & (self._steps % _SELDOM == 0)
        moments = (self._now.rows, self._quiet.rows, self._earlier.rows, self._earlier_velocity)
        turn_after_winners(self._standing, seldom, felt, moments)
        self._reassign(felt, going)
        arrived = full & (self._standing.distance(felt) < SETTLED)
        if arrived.any():
            self._set_order(replace(self._order, settled=self._order.settled | arrived))
            seeds = np.flatnonzero(arrived.any(0))
            heads, where = np.nonzero(arrived)
            self._now.rows[heads, :, where] = 0.0
            # Whoever wins from here on goes back to no earlier moment.
            self._restart(seeds, self._now.of(seeds))
            self._keep_quiet(arrived.any(0))
        return arrived.any(0)

    def _reassign(self, felt: Felt, going: Bool[np.ndarray, " S"]) -> None:
        """Give winners the modes that they have turned to since they won another."""
        held = self._order.held
        share = felt.diagonal > self._modes.amplitude[:, None] / 2
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
        if turned.any():
            self._set_order(replace(self._order, held=np.where(turned, now, held)))

    def _keep_quiet(self, mask: Bool[np.ndarray, " S"]) -> None:
        """Note that nobody feels a head of these seeds that has not won, up to now."""
        for kept, now in zip(vars(self._quiet).values(), vars(self._now).values(), strict=True):
            np.copyto(kept, now, where=mask)

    def _skip(self, mask: Bool[np.ndarray, " S"]) -> None:
        """Carry seeds in which nothing is to be felt to where something is (T18)."""
        seeds = np.flatnonzero(mask)
        now = self._now.of(seeds)
        left = self._until - now.time
        rest, rows = skip(self._standing.of(seeds), now.rows, left)
        self._restart(seeds, Moment(np.where(rest < left, now.time + rest, self._until), rows))
        self._has_skipped[seeds] = True
        self._keep_quiet(mask)

    def _step(self, going: Bool[np.ndarray, " S"], felt: Felt) -> None:
        """One step of those that go on, refused where it errs."""
        self._steps += going
        left = self._until - self._now.time
        fresh = self._width == 0
        width = self._width
        if fresh.any():
            size, speed = (
                np.einsum("hns,hns->s", own, own) for own in (self._now.rows, felt.velocity)
            )
            width = np.where(fresh, 0.01 * np.sqrt(size / speed), width)
        width = np.minimum(width, left)
        moved, ahead, error = step(
            self._standing.heads, self._now.rows, felt.velocity, width, self._absolute
        )
        kept = going & (error <= 1)
        factor = np.where(np.isfinite(error), np.maximum(error, 1e-10) ** -0.2, 0.0)
        # A step that would have erred by as much as it may: where it shrinks, it will once more.
        fitting = width * factor
        shrinks = kept & ~fresh & (fitting < _SHRINKS * self._fitting)
        factor *= np.where(shrinks, fitting / self._fitting, 1.0)
        self._fitting = np.where(kept, fitting, self._fitting)
        self._width = np.where(going, width * np.clip(0.9 * factor, 0.2, 5.0), self._width)
        self._earlier = self._now.where(kept, self._earlier)
        self._earlier_velocity = np.where(kept, felt.velocity, self._earlier_velocity)
        # The end itself, which a sum would miss by a rounding.
        time = np.where(width < left, self._now.time + width, self._until)
        self._now = Moment(time, moved).where(kept, self._now)
        # Spans have been taken anew since those that stay behind felt what they do.
        is_known = self._felt is not None and (self._standing.pairs == 1 or kept.all())
        self._felt = ahead.where(kept, felt) if is_known else None

    def _next_time(self, seeds: AnyArray) -> FloatArray:
        """When the next drop of some seeds would come after the end, by quadrature."""
        now = self._now.of(seeds)
        return now.time + half_way_times(self._standing.of(seeds), now.rows).min(0)


def _margin(
    standing: Standing, quiet: Moment, head: AnyArray, time: FloatArray
) -> Float[np.ndarray, " S"]:
    """How much later another head would have come, from when nobody was felt."""
    times = half_way_times(standing, quiet.rows)
    times[head, np.arange(head.size)] = np.inf
    return np.maximum(quiet.time + times.min(0) - time, 0.0)
