"""A batch of settings padded to one shape, with a row for each of their seeds, in one program."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import jax
import numpy as np

from saddlescope.checks import AnyArray
from saddlescope.dynamics import _results
from saddlescope.dynamics._expected import expected_steps
from saddlescope.dynamics._frame import Frame
from saddlescope.dynamics._padding import padded, resized, smallest_frame
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics._rows import Rows, States
from saddlescope.dynamics._summary import RunSummary
from saddlescope.dynamics.kernels.choice import choose_kernel
from saddlescope.dynamics.methods._layout import Layout
from saddlescope.dynamics.methods._problem import AbstractState
from saddlescope.running.memory import check_memory
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory

# Problems and records are held together, in shards, and as results.
_COPIES = 3


@dataclass(frozen=True)
class _Member:
    """A setting of a batch."""

    index: int
    """Its index among all settings of the job."""
    prepared: Prepared
    rows: AnyArray
    """The rows of its seeds."""
    weights: AnyArray
    """The indices of its weights in the batch's flat vector."""


class Batch:
    """Settings of one shape, the smaller ones padded; `indices` are their indices among all."""

    def __init__(
        self, indices: Sequence[int], prepared: Sequence[Prepared], frame: Frame | None = None
    ) -> None:
        expected = np.array([expected_steps(item) for item in prepared])
        # Rows of similar length are adjacent, because a group waits for its slowest.
        order = np.argsort(expected, kind="stable")
        ordered = [prepared[at] for at in order]
        counts = [len(item.setting.seeds) for item in ordered]
        ends = np.cumsum(counts).tolist()
        if frame is None:
            frame = smallest_frame(prepared, ends[-1])
        shape = resized(prepared[0].setting.model, dict(frame.sizes)), frame.dimension
        self._layout = Layout.of(*shape)
        self._count = frame.rows
        _check_memory(ordered, self._layout)
        self._members = [
            _Member(
                indices[at],
                item,
                np.arange(end - count, end),
                item.problem.layout.indices_in(self._layout),
            )
            for at, item, count, end in zip(order, ordered, counts, ends, strict=True)
        ]
        methods = [item.setting.method for item in prepared]
        risk = prepared[0].problem.risk
        kernel = choose_kernel(methods, shape[0], risk, self._layout, frame.rows)
        # Settings that differ only in their start share a problem.
        distinct = {id(item.problem): item for item in ordered}
        problems = [
            replace(padded(item, shape, frame), kernel=kernel) for item in distinct.values()
        ]
        numbers = {key: number for number, key in enumerate(distinct)}
        owners = np.repeat([numbers[id(item.problem)] for item in ordered], counts)
        # Missing rows repeat the first.
        missing = frame.rows - ends[-1]
        owners = np.concatenate([owners, np.repeat(owners[:1], missing)])
        # Stacked on the host: shards are moved to their devices.
        problem = jax.tree.map(lambda *rows: np.stack(rows)[owners], *problems)
        for item in ordered:
            item.kernel = kernel
        seeds = np.concatenate([item.seeds for item in ordered])
        seeds = np.concatenate([seeds, np.repeat(seeds[:1], missing)])
        self.rows = Rows(prepared[0].setting.method, problem, seeds)
        self.work = ends[-1] * self._layout.size * float(expected.mean())
        """Roughly what it costs, relative to other batches."""

    def restarted(self, settings: Sequence[Setting]) -> Batch:
        """A copy for settings, by index, that differ from its own only in their starts."""
        other = copy(self)
        other._members = [
            replace(member, prepared=member.prepared.restarted(settings[member.index]))
            for member in self._members
        ]
        return other

    def begin(self) -> States:
        """The state of all rows at the first point of their grids."""
        starts = np.zeros((self._count, self._layout.size))
        for member in self._members:
            prepared = member.prepared
            starts[member.rows[:, None], member.weights] = prepared.starts(prepared.seeds)
        starts[self._members[-1].rows[-1] + 1 :] = starts[0]
        return self.rows.begin(starts)

    def results(self, states: States) -> dict[int, Trajectory]:
        """Each setting's trajectory so far, by its index."""
        whole = self.rows.join(states)
        return {
            member.index: _results.trajectory(member.prepared, _state_of(member, whole))
            for member in self._members
        }

    def summaries(self, states: States) -> dict[int, RunSummary]:
        """Each setting's summary so far, by its index, without making trajectories."""
        whole = self.rows.join(states)

        def summary(member: _Member) -> RunSummary:
            state: AbstractState = jax.tree.map(lambda leaf: leaf[member.rows], whole)
            if np.asarray(state.records.failed).any():
                # Explaining a failure takes the setting's own, unpadded weights.
                state = _state_of(member, whole)
            return _results.run_summary(member.prepared, state)

        return {member.index: summary(member) for member in self._members}


def _state_of(member: _Member, whole: AbstractState) -> AbstractState:
    """The state of a setting's rows, without padding."""
    prepared, state = member.prepared, whole
    # Only a part has to be copied.
    if member.rows.size < len(whole.records.index):
        state = jax.tree.map(lambda leaf: leaf[member.rows], state)
    if not np.array_equal(member.weights, np.arange(whole.records.path.shape[-1])):
        state = state.map_vectors(lambda leaf: leaf[..., member.weights])
    state = state.with_points(len(prepared.grid)).with_marks(prepared.problem.marks)
    return state.narrowed(prepared.problem.layout)


def _check_memory(prepared: Sequence[Prepared], layout: Layout) -> None:
    """Refuse rows that would not fit together, each with its problem and its records."""
    seeds = sum(len(item.setting.seeds) for item in prepared)
    points = max(len(item.grid) for item in prepared)
    problem = max(sum(leaf.size for leaf in jax.tree.leaves(item.problem)) for item in prepared)
    kept = points * (1 + layout.size if prepared[0].setting.record.weights else 1)
    numbers = _COPIES * seeds * (problem + kept + layout.size)
    check_memory(numbers, {"settings": len(prepared), "seeds": seeds}, "take fewer at once")
