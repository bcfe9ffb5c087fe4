"""Quantiles over seeds in place of trajectories, from one chunk of the seeds after another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from saddlescope.checks import AnyArray, FloatArray
from saddlescope.dynamics import _results
from saddlescope.dynamics._job import FIRST_SEGMENT
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics._rows import Rows, States
from saddlescope.dynamics._summarise import summarise
from saddlescope.dynamics._summary import AXES, Summary, axis_labels, last_losses
from saddlescope.dynamics.methods._problem import AbstractState
from saddlescope.errors import CannotRead
from saddlescope.measure.distribution import Distribution, check_shares
from saddlescope.running.observers import AbstractJob, Saved
from saddlescope.setting import Setting
from saddlescope.trajectory import Outcomes, Result, Trajectory, clock_coordinates, describe

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import ArrayLike

# The quantiles that a run keeps.
_KEPT_QUANTILES = np.linspace(0, 1, 1001)
_WRONG_STATE = "its state is not one of this setting's"
_EVENTS = ("drop_time", "plateau_loss", "learned_time")


@dataclass(frozen=True)
class Tally:
    """The distributions, over all seeds so far, of the loss at every point and of events."""

    sizes: tuple[int, ...]
    """The number of losses, of final losses, and of each of a summary's events."""
    distribution: Distribution
    order_counts: AnyArray
    """How many seeds learned each direction in each place, [place, direction]."""

    @classmethod
    def empty(cls, points: int, drops: int, levels: int, directions: int) -> Tally:
        sizes = (points, 1, drops, levels, directions)
        order_counts = np.zeros((directions, directions), dtype=np.int64)
        return cls(sizes, Distribution.empty(sum(sizes)), order_counts)

    def added(self, loss: FloatArray, summary: Summary) -> Tally:
        """The tally with further seeds, given their losses, [S, T], and summary."""
        events = [getattr(summary, name) for name in _EVENTS]
        rows = np.hstack([loss, last_losses(loss)[:, None], *events])
        learned = summary.order[:, :, None] == np.arange(len(self.order_counts))
        return replace(
            self,
            distribution=self.distribution.added(rows),
            order_counts=self.order_counts + learned.sum(axis=0),
        )

    def dataset(self, time: Mapping[str, object], quantiles: FloatArray) -> xr.Dataset:
        """The quantiles, labelled, with the time coordinates of the records."""
        import xarray as xr

        values = self.distribution.quantiles(quantiles)
        loss, last, *events = np.split(values, np.cumsum(self.sizes)[:-1], axis=1)
        named = dict(zip(_EVENTS, events, strict=True))
        order_share = self.order_counts / max(self.distribution.count, 1)
        dataset = xr.Dataset(
            {
                "loss": (("quantile", "time"), loss),
                **{name: (("quantile", AXES[name]), array) for name, array in named.items()},
                "final_loss": ("quantile", last[:, 0]),
                "order_share": (("place", "direction"), order_share),
            },
            {"quantile": quantiles, **time, **axis_labels(named)},
        )
        about = "share of the seeds that learn an eigenvector in this place"
        dataset["order_share"].attrs["long_name"] = about
        dataset["quantile"].attrs["long_name"] = "share of the seeds that is no greater"
        return dataset


def summarise_quantiles(trajectory: Trajectory, quantiles: ArrayLike | None) -> xr.Dataset:
    """Quantiles over the seeds of a run: the nearest ones kept, or those of its records."""
    wanted = _KEPT_QUANTILES if quantiles is None else check_shares("quantiles", quantiles)
    if trajectory.setting.record.keep == "quantiles":
        nearest = trajectory.dataset.sel(quantile=wanted, method="nearest")
        dataset = nearest.assign_coords(quantile=wanted)
    else:
        of_seeds = summarise(trajectory)
        summary = Summary(*(of_seeds[name].to_numpy() for name in _EVENTS))
        sizes = [len(trajectory.time), *(of_seeds[name].shape[1] for name in _EVENTS)]
        tally = Tally.empty(*sizes).added(trajectory.loss, summary)
        dataset = tally.dataset({"time": trajectory.time}, wanted)
    return dataset.assign(_ended(trajectory.outcomes)).drop_attrs(deep=False)


def _ended(outcomes: Outcomes) -> xr.Dataset:
    import xarray as xr

    counts = [int(outcomes.are(result).sum()) for result in Result]
    about = {"long_name": "how many seeds ended so"}
    return xr.Dataset(
        {"ended": ("result", counts, about)}, {"result": [result.value for result in Result]}
    )


@dataclass(frozen=True)
class ChunkState:
    """The seeds before chunk number `chunk` are tallied; those in it are running."""

    chunk: int
    states: States
    """Empty once all are tallied."""
    tally: Tally
    outcomes: Outcomes
    """Those of the tallied seeds."""


class QuantilesJob(AbstractJob[ChunkState, Trajectory]):
    """One setting, one chunk of its seeds after another, from flow time `time_start`.

    All chunks have one shape: the last one is filled up by repeating its seeds.
    """

    first_budget = FIRST_SEGMENT

    def __init__(self, setting: Setting, time_start: float = 0.0) -> None:
        self._prepared = Prepared(setting, time_start)
        seeds, size = self._prepared.seeds, self._prepared.seeds_at_once
        self._chunks = [seeds[first : first + size] for first in range(0, len(seeds), size)]

    @property
    def digest(self) -> str:
        setting, time_start = self._prepared.setting, float(self._prepared.time_start)
        return f"{setting.digest}-{time_start.hex()}"

    def begin(self) -> ChunkState:
        return ChunkState(0, self._begin_chunk(0), self._empty_tally, Outcomes.of())

    @property
    def _empty_tally(self) -> Tally:
        points, marks = len(self._prepared.grid), self._prepared.problem.marks
        if marks is None:
            return Tally.empty(points, 0, 0, 0)
        drops = len(marks.middles)
        return Tally.empty(points, drops, drops + 1, len(marks.halves))

    def advance(self, state: ChunkState, budget: int) -> tuple[ChunkState, int]:
        rows = self._rows(state.chunk)
        states, taken = rows.advance(state.states, budget)
        if rows.is_finished(states):
            return self._with_chunk_tallied(state, rows.join(states)), taken
        return replace(state, states=states), taken

    def _rows(self, chunk: int) -> Rows:
        prepared = self._prepared
        return Rows(prepared.setting.method, prepared.problem, self._filled(chunk))

    def _filled(self, chunk: int) -> AnyArray:
        return np.resize(self._chunks[chunk], self._prepared.seeds_at_once)

    def _begin_chunk(self, chunk: int) -> States:
        if chunk == len(self._chunks):
            return ()
        return self._rows(chunk).begin(self._prepared.starts(self._filled(chunk)))

    def _with_chunk_tallied(self, state: ChunkState, ended: AbstractState) -> ChunkState:
        """The state with the current chunk tallied and the next one begun."""
        seeds, prepared = self._chunks[state.chunk], self._prepared
        ended = jax.tree.map(lambda leaf: leaf[: len(seeds)], ended)
        outcomes = _results.outcomes(prepared, ended, seeds)
        summary = _results.summary(prepared, ended.records, outcomes)
        if summary is None:
            summary = Summary(*(np.empty((len(seeds), 0)) for _ in _EVENTS))
        loss = _results.losses(prepared, ended.records, len(prepared.grid))
        return ChunkState(
            state.chunk + 1,
            self._begin_chunk(state.chunk + 1),
            state.tally.added(loss, summary),
            state.outcomes.followed_by(outcomes),
        )

    def is_finished(self, state: ChunkState) -> bool:
        return state.chunk == len(self._chunks)

    def share(self, state: ChunkState) -> float:
        if self.is_finished(state):
            return 1.0
        within = self._rows(state.chunk).share(state.states)
        return (state.chunk + within) / len(self._chunks)

    def slow_advice(self, state: ChunkState) -> str:
        return self._prepared.setting.method.slow_advice

    def dataset(self, state: ChunkState) -> xr.Dataset:
        return self.result(state).dataset

    def result(self, state: ChunkState) -> Trajectory:
        prepared, clock = self._prepared, self._prepared.grid
        missing = Outcomes.all(len(prepared.seeds) - len(state.outcomes), Result.INTERRUPTED)
        outcomes = state.outcomes.followed_by(missing)
        time = clock_coordinates(prepared.setting, clock, prepared.flow_time(clock))
        dataset = describe(state.tally.dataset(time, _KEPT_QUANTILES), prepared.setting)
        dataset.attrs["rank_error"] = state.tally.distribution.rank_error
        leaves = () if self.is_finished(state) else self.save(state).state
        return Trajectory(dataset, prepared.setting, outcomes, leaves, prepared.time_start)

    def save(self, state: ChunkState) -> Saved:
        texts = np.frombuffer(json.dumps(state.outcomes.messages).encode(), dtype=np.uint8)
        tally = (state.tally.order_counts, *state.tally.distribution.arrays())
        running: list[AnyArray] = []
        if not self.is_finished(state):
            running = jax.tree.leaves(self._rows(state.chunk).join(state.states))
        counts = np.array([state.chunk, len(tally)])
        return Saved((counts, state.outcomes.codes, texts, *tally, *running))

    def restore(self, saved: Saved) -> ChunkState:
        empty, leaves = self._empty_tally, list(saved.state)
        if len(leaves) < 3 or leaves[0].shape != (2,):
            raise CannotRead(_WRONG_STATE)
        chunk, length = leaves[0].tolist()
        order_counts, *arrays = leaves[3 : 3 + length] or [np.empty(0)]
        distribution = Distribution.of_arrays(arrays)
        tally = replace(empty, distribution=distribution, order_counts=order_counts)
        done = sum(map(len, self._chunks[:chunk]))
        fits = 0 <= chunk <= len(self._chunks)
        fits &= distribution.count == len(leaves[1]) == done
        fits &= distribution.ends.shape == empty.distribution.ends.shape
        if not fits or order_counts.shape != empty.order_counts.shape:
            raise CannotRead(_WRONG_STATE)
        messages = json.loads(leaves[2].tobytes())
        outcomes = Outcomes(leaves[1], {int(seed): text for seed, text in messages.items()})
        states: States = ()
        if chunk < len(self._chunks):
            states = self._rows(chunk).restore(leaves[3 + length :])
        return ChunkState(chunk, states, tally, outcomes)
