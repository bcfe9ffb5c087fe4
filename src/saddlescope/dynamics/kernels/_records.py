"""Records and notes, written from inside a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from saddlescope.dynamics.kernels._lanes import Block, Lane, Ref
from saddlescope.dynamics.methods._notes import Notes, passing
from saddlescope.dynamics.methods._problem import Problem, Records


@runtime_checkable
class Put(Protocol):
    """Writes the weights of the trajectories in a mask, at `at` where there are several."""

    def __call__(self, ref: Ref, mask: Lane, *at: Lane) -> None: ...


class Place(eqx.Module):
    """Where each trajectory stands in its records."""

    index: Lane
    due: Lane
    converged: Lane
    failed: Lane


@dataclass(frozen=True)
class Recorder:
    """Writes records where their time has come."""

    block: Block
    problem: Problem
    records: Records
    points: Lane
    threshold: Lane

    @classmethod
    def of(cls, block: Block, problem: Problem, records: Records) -> Recorder:
        """Of a problem and records that are in the GPU's memory."""
        points, threshold = block.given(problem.points), block.given(problem.threshold)
        return cls(block, problem, records, points, threshold)

    def begin(self) -> Place:
        """Where they stood when the segment began."""
        read, records = self.block.read, self.records
        return Place(*map(read, (records.index, records.due, records.converged, records.failed)))

    def active(self, place: Place) -> Lane:
        """Which trajectories have further to go."""
        ahead = place.index < self.points
        return ahead & ~place.converged & ~place.failed & self.block.inside

    def write(
        self,
        place: Place,
        due: Lane,
        put: Put,
        loss: Lane,
        resting: Lane | bool = False,
    ) -> Place:
        """Record the trajectories in `due`, some of which are known to be `resting`."""
        block, records = self.block, self.records
        block.write(records.loss, loss, due, place.index)
        put(records.last, due)
        if self.problem.keep_weights:
            put(records.path, due, place.index)
        index = place.index + jnp.where(due, 1, 0).astype(place.index.dtype)
        return Place(
            index,
            block.given(self.problem.grid, jnp.minimum(index, self.points - 1)),
            place.converged | (due & (resting | (loss <= self.threshold))),
            place.failed | (due & ~(jnp.abs(loss) < jnp.inf)),
        )

    def failing(self, place: Place, failed: Lane) -> Place:
        """Trajectories that can go no further."""
        return Place(place.index, place.due, place.converged, place.failed | failed)

    def end(self, place: Place) -> None:
        """Leave where they stand."""
        records, everything = self.records, self.block.inside
        for ref, value in (
            (records.index, place.index),
            (records.due, place.due),
            (records.converged, place.converged),
            (records.failed, place.failed),
        ):
            self.block.write(ref, value, everything)


class Seen(eqx.Module):
    """What is kept at hand of the notes; the rest stays in memory until something is passed."""

    loss: Lane
    diagonal: list[Lane]
    passed: Lane
    """A bit for every mark that was passed: the middles, then the halves."""
    level: Lane
    """How many middles the loss lies below."""
    flattest: Lane
    """The loss where it changed least at this level."""
    change: Lane
    """How much it changed there."""


@dataclass(frozen=True)
class Watch:
    """Notes what `Notes.after_step` notes."""

    block: Block
    notes: Notes
    middles: list[Lane]
    halves: list[Lane]
    last: Lane
    """Where the grid ends."""

    @classmethod
    def of(cls, block: Block, problem: Problem, notes: Notes | None) -> Watch | None:
        """Of a problem and notes that are in the GPU's memory, None where there are none."""
        if notes is None:
            return None
        assert problem.marks is not None

        def marks(ref: Ref) -> list[Lane]:
            return [block.given(ref, number) for number in range(ref.shape[-1])]

        last = block.given(problem.grid, problem.grid.shape[-1] - 1).astype(notes.loss.dtype)
        return cls(block, notes, marks(problem.marks.middles), marks(problem.marks.halves), last)

    def begin(self) -> Seen:
        """What was seen when the segment began."""
        read, notes = self.block.read, self.notes
        drops = [read(notes.drops, i) for i in range(len(self.middles))]
        learned = [read(notes.learned, i) for i in range(len(self.halves))]
        passed = jnp.zeros_like(self.block.rows)
        for bit, time in enumerate(drops + learned):
            passed = passed | jnp.where(jnp.isnan(time), 0, 1 << bit)
        loss = read(notes.loss)
        level = self._level(loss)
        return Seen(
            loss,
            [read(notes.diagonal, i) for i in range(len(self.halves))],
            passed,
            level,
            read(notes.levels, level),
            read(notes.changes, level),
        )

    def end(self, seen: Seen) -> None:
        """Leave what was seen."""
        everything = self.block.inside
        self.block.write(self.notes.loss, seen.loss, everything)
        for axis, value in enumerate(seen.diagonal):
            self.block.write(self.notes.diagonal, value, everything, axis)
        self._leave_level(seen, everything)

    def after_step(
        self,
        seen: Seen,
        moved: Lane,
        step: tuple[Lane, Lane],
        at: tuple[Lane, list[Lane]],
        changes: tuple[Lane, Lane] | None = None,
    ) -> Seen:
        """After a step of the trajectories in `moved` that ended at a loss and a diagonal."""
        (begin, end), (loss, diagonal) = step, at
        width = end - begin
        if changes is None:
            changes = ((loss - seen.loss) / width,) * 2
        level = self._level(loss)
        below = [loss <= middle for middle in self.middles]
        above = [value >= half for value, half in zip(diagonal, self.halves, strict=True)]
        passed = seen.passed
        for bit, there in enumerate(below + above):
            passed = passed | jnp.where(there, 1 << bit, 0)
        happened = moved & ((passed != seen.passed) | (level != seen.level))
        ends = seen.loss, loss, width, *changes

        def note(_: Array) -> tuple[Lane, Lane]:
            new = jnp.where(moved, passed & ~seen.passed, 0)

            def drop(index: Lane, here: Lane) -> None:
                place = passing(_chosen(self.middles, index), *ends)
                self.block.write(self.notes.drops, begin + width * place, here, index)

            def learn(index: Lane, here: Lane) -> None:
                before, after = _chosen(seen.diagonal, index), _chosen(diagonal, index)
                share = (_chosen(self.halves, index) - before) / (after - before)
                self.block.write(self.notes.learned, begin + width * share, here, index)

            count = len(self.middles)
            self._for_each(new & ((1 << count) - 1), count, drop)
            self._for_each(new >> count, len(self.halves), learn)
            self._leave_level(seen, moved)
            here = jnp.where(moved, level, seen.level)
            changed = here != seen.level
            levels, read = (self.notes.levels, self.notes.changes), self.block.read
            kept = (seen.flattest, seen.change)
            first, second = (
                jnp.where(changed, read(ref, here), old)
                for ref, old in zip(levels, kept, strict=True)
            )
            return first, second

        flattest, change = jax.lax.cond(
            self.block.any(happened), note, lambda _: (seen.flattest, seen.change), 0
        )
        flatter = moved & (end <= self.last) & (jnp.abs(changes[1]) < change)
        return Seen(
            jnp.where(moved, loss, seen.loss),
            [jnp.where(moved, new, old) for new, old in zip(diagonal, seen.diagonal, strict=True)],
            jnp.where(moved, passed, seen.passed),
            jnp.where(moved, level, seen.level),
            jnp.where(flatter, loss, flattest),
            jnp.where(flatter, jnp.abs(changes[1]), change),
        )

    def _level(self, loss: Lane) -> Lane:
        level = jnp.zeros_like(self.block.rows)
        for middle in self.middles:
            level = level + jnp.where(loss <= middle, 1, 0)
        return level

    def _for_each(self, bits: Lane, count: int, act: Callable[[Lane, Lane], None]) -> None:
        """Act on the bits of every trajectory, one after another; few have more than one."""

        def one(left: Lane) -> Lane:
            lowest = sum(jnp.where(left & ((1 << bit) - 1) == 0, 1, 0) for bit in range(1, count))
            here = (left & (1 << lowest)) != 0
            act(jnp.broadcast_to(lowest, left.shape), here)
            return left & ~(1 << lowest)

        jax.lax.while_loop(lambda left: self.block.any(left != 0), one, bits)

    def _leave_level(self, seen: Seen, mask: Lane) -> None:
        self.block.write(self.notes.levels, seen.flattest, mask, seen.level)
        self.block.write(self.notes.changes, seen.change, mask, seen.level)


def _chosen(values: Sequence[Lane], index: Lane) -> Lane:
    """The value of every trajectory's own index."""
    chosen = values[0]
    for number, value in enumerate(values[1:], start=1):
        chosen = jnp.where(index == number, value, chosen)
    return chosen
