"""Records and notes, written inside a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from saddlescope.dynamics.kernels._lanes import Block, Lane, Ref
from saddlescope.dynamics.methods._notes import Notes, crossing
from saddlescope.dynamics.methods._problem import Problem, Records


@runtime_checkable
class WriteWeights(Protocol):
    """Writes the weights of the trajectories in a mask, at record `at` if there are several."""

    def __call__(self, ref: Ref, mask: Lane, *at: Lane) -> None: ...


class Cursor(eqx.Module):
    """Each trajectory's position in its records."""

    index: Lane
    due: Lane
    converged: Lane
    failed: Lane


@dataclass(frozen=True)
class Recorder:
    """Writes records that are due."""

    block: Block
    problem: Problem
    records: Records
    points: Lane
    threshold: Lane

    @classmethod
    def of(cls, block: Block, problem: Problem, records: Records) -> Recorder:
        """From a problem and records in GPU memory."""
        points, threshold = block.parameter(problem.points), block.parameter(problem.threshold)
        return cls(block, problem, records, points, threshold)

    def load(self) -> Cursor:
        """The cursors at the start of the segment."""
        read, records = self.block.read, self.records
        return Cursor(*map(read, (records.index, records.due, records.converged, records.failed)))

    def active(self, cursor: Cursor) -> Lane:
        """Which trajectories have further to go."""
        ahead = cursor.index < self.points
        return ahead & ~cursor.converged & ~cursor.failed & self.block.inside

    def write(
        self,
        cursor: Cursor,
        due: Lane,
        write_weights: WriteWeights,
        loss: Lane,
        resting: Lane | bool = False,
    ) -> Cursor:
        """Record the trajectories in `due`, some of which are known to be `resting`."""
        block, records = self.block, self.records
        block.write(records.loss, loss, due, cursor.index)
        write_weights(records.last, due)
        if self.problem.keep_weights:
            write_weights(records.path, due, cursor.index)
        index = cursor.index + jnp.where(due, 1, 0).astype(cursor.index.dtype)
        return Cursor(
            index,
            block.parameter(self.problem.grid, jnp.minimum(index, self.points - 1)),
            cursor.converged | (due & (resting | (loss <= self.threshold))),
            cursor.failed | (due & ~(jnp.abs(loss) < jnp.inf)),
        )

    def fail(self, cursor: Cursor, failed: Lane) -> Cursor:
        """Mark trajectories that can go no further."""
        return Cursor(cursor.index, cursor.due, cursor.converged, cursor.failed | failed)

    def store(self, cursor: Cursor) -> None:
        """Store the cursors at the end of the segment."""
        records, inside = self.records, self.block.inside
        for ref, value in (
            (records.index, cursor.index),
            (records.due, cursor.due),
            (records.converged, cursor.converged),
            (records.failed, cursor.failed),
        ):
            self.block.write(ref, value, inside)


class LiveNotes(eqx.Module):
    """The notes kept in registers; the rest stays in memory until something is crossed."""

    loss: Lane
    diagonal: list[Lane]
    crossed: Lane
    """A bit for every mark that was crossed: the middles, then the halves."""
    level: Lane
    """How many middles the loss is below."""
    flattest: Lane
    """The loss where it changed least at this level."""
    change: Lane
    """How fast it changed there."""


@dataclass(frozen=True)
class NoteTaker:
    """Does in a kernel what `Notes.after_step` does."""

    block: Block
    notes: Notes
    middles: list[Lane]
    halves: list[Lane]
    last: Lane
    """The last time of the grid."""

    @classmethod
    def of(cls, block: Block, problem: Problem, notes: Notes | None) -> NoteTaker | None:
        """From a problem and notes in GPU memory, None where there are none."""
        if notes is None:
            return None
        assert problem.marks is not None

        def marks(ref: Ref) -> list[Lane]:
            return [block.parameter(ref, number) for number in range(ref.shape[-1])]

        last = block.parameter(problem.grid, problem.grid.shape[-1] - 1).astype(notes.loss.dtype)
        return cls(block, notes, marks(problem.marks.middles), marks(problem.marks.halves), last)

    def load(self) -> LiveNotes:
        """The live notes at the start of the segment."""
        read, notes = self.block.read, self.notes
        drops = [read(notes.drops, i) for i in range(len(self.middles))]
        learned = [read(notes.learned, i) for i in range(len(self.halves))]
        crossed = jnp.zeros_like(self.block.rows)
        for bit, time in enumerate(drops + learned):
            crossed = crossed | jnp.where(jnp.isnan(time), 0, 1 << bit)
        loss = read(notes.loss)
        level = self._level(loss)
        return LiveNotes(
            loss,
            [read(notes.diagonal, i) for i in range(len(self.halves))],
            crossed,
            level,
            read(notes.levels, level),
            read(notes.changes, level),
        )

    def store(self, live: LiveNotes) -> None:
        """Store the live notes at the end of the segment."""
        inside = self.block.inside
        self.block.write(self.notes.loss, live.loss, inside)
        for axis, value in enumerate(live.diagonal):
            self.block.write(self.notes.diagonal, value, inside, axis)
        self._store_level(live, inside)

    def after_step(
        self,
        live: LiveNotes,
        moved: Lane,
        step: tuple[Lane, Lane],
        at: tuple[Lane, list[Lane]],
        changes: tuple[Lane, Lane] | None = None,
    ) -> LiveNotes:
        """The notes after a step of the trajectories in `moved`, to a loss and a diagonal."""
        (begin, end), (loss, diagonal) = step, at
        width = end - begin
        if changes is None:
            changes = ((loss - live.loss) / width,) * 2
        level = self._level(loss)
        below = [loss <= middle for middle in self.middles]
        above = [value >= half for value, half in zip(diagonal, self.halves, strict=True)]
        crossed = live.crossed
        for bit, is_crossed in enumerate(below + above):
            crossed = crossed | jnp.where(is_crossed, 1 << bit, 0)
        happened = moved & ((crossed != live.crossed) | (level != live.level))
        ends = live.loss, loss, width, *changes

        def note(_: Array) -> tuple[Lane, Lane]:
            new = jnp.where(moved, crossed & ~live.crossed, 0)

            def note_drop(index: Lane, mask: Lane) -> None:
                share = crossing(_chosen(self.middles, index), *ends)
                self.block.write(self.notes.drops, begin + width * share, mask, index)

            def note_learned(index: Lane, mask: Lane) -> None:
                before, after = _chosen(live.diagonal, index), _chosen(diagonal, index)
                share = (_chosen(self.halves, index) - before) / (after - before)
                self.block.write(self.notes.learned, begin + width * share, mask, index)

            count = len(self.middles)
            self._for_each(new & ((1 << count) - 1), count, note_drop)
            self._for_each(new >> count, len(self.halves), note_learned)
            self._store_level(live, moved)
            new_level = jnp.where(moved, level, live.level)
            changed = new_level != live.level
            levels, read = (self.notes.levels, self.notes.changes), self.block.read
            kept = (live.flattest, live.change)
            first, second = (
                jnp.where(changed, read(ref, new_level), old)
                for ref, old in zip(levels, kept, strict=True)
            )
            return first, second

        flattest, change = jax.lax.cond(
            self.block.any(happened), note, lambda _: (live.flattest, live.change), 0
        )
        flatter = moved & (end <= self.last) & (jnp.abs(changes[1]) < change)
        return LiveNotes(
            jnp.where(moved, loss, live.loss),
            [jnp.where(moved, new, old) for new, old in zip(diagonal, live.diagonal, strict=True)],
            jnp.where(moved, crossed, live.crossed),
            jnp.where(moved, level, live.level),
            jnp.where(flatter, loss, flattest),
            jnp.where(flatter, jnp.abs(changes[1]), change),
        )

    def _level(self, loss: Lane) -> Lane:
        level = jnp.zeros_like(self.block.rows)
        for middle in self.middles:
            level = level + jnp.where(loss <= middle, 1, 0)
        return level

    def _for_each(self, bits: Lane, count: int, act: Callable[[Lane, Lane], None]) -> None:
        """Act on the set bits of every trajectory in turn; few have more than one."""

        def act_on_lowest(left: Lane) -> Lane:
            lowest = sum(jnp.where(left & ((1 << bit) - 1) == 0, 1, 0) for bit in range(1, count))
            mask = (left & (1 << lowest)) != 0
            act(jnp.broadcast_to(lowest, left.shape), mask)
            return left & ~(1 << lowest)

        jax.lax.while_loop(lambda left: self.block.any(left != 0), act_on_lowest, bits)

    def _store_level(self, live: LiveNotes, mask: Lane) -> None:
        self.block.write(self.notes.levels, live.flattest, mask, live.level)
        self.block.write(self.notes.changes, live.change, mask, live.level)


def _chosen(values: Sequence[Lane], index: Lane) -> Lane:
    """The value at each trajectory's index."""
    chosen = values[0]
    for number, value in enumerate(values[1:], start=1):
        chosen = jnp.where(index == number, value, chosen)
    return chosen
