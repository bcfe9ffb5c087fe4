"""Quantiles over seeds in place of trajectories: a share of the seeds after another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from saddlescope.checks import AnyArray, FloatArray
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
_SHARES = np.linspace(0, 1, 1001)
_NOT_ITS_OWN = "its state is not one of this setting's"
_NUMBERS = ("drop_time", "plateau_loss", "learned_time")


@dataclass(frozen=True)
class Tally:
    """Of all seeds so far: how the loss at every point and their few numbers are distributed."""

    sizes: tuple[int, ...]
    """How many there are of the loss, of the last one, and of each of a summary's numbers."""
    seen: Distribution
    places: AnyArray
    """How many seeds learned each direction in each place, [place, direction]."""

    @classmethod
    def empty(cls, points: int, drops: int, levels: int, directions: int) -> Tally:
        sizes = (points, 1, drops, levels, directions)
        places = np.zeros((directions, directions), dtype=np.int64)
        return cls(sizes, Distribution.empty(sum(sizes)), places)

    def added(self, loss: FloatArray, summary: Summary) -> Tally:
        """With further seeds, of which these are the losses, [S, T]."""
        numbers = [getattr(summary, name) for name in _NUMBERS]
        rows = np.hstack([loss, last_losses(loss)[:, None], *numbers])
        places = summary.order[:, :, None] == np.arange(len(self.places))
        return replace(self, seen=self.seen.added(rows), places=self.places + places.sum(axis=0))

    def dataset(self, time: Mapping[str, object], shares: FloatArray) -> xr.Dataset:
        """The quantiles, with names, at records of these coordinates."""
        import xarray as xr

        found = self.seen.quantiles(shares)
        loss, last, *numbers = np.split(found, np.cumsum(self.sizes)[:-1], axis=1)
        named = dict(zip(_NUMBERS, numbers, strict=True))
        learned = self.places / max(self.seen.count, 1)
        dataset = xr.Dataset(
            {
                "loss": (("quantile", "time"), loss),
                **{name: (("quantile", AXES[name]), own) for name, own in named.items()},
                "final_loss": ("quantile", last[:, 0]),
                "order_share": (("place", "direction"), learned),
            },
            {"quantile": shares, **time, **axis_labels(named)},
        )
        about = "share of the seeds that learn an eigenvector in this place"
        dataset["order_share"].attrs["long_name"] = about
        dataset["quantile"].attrs["long_name"] = "share of the seeds that is no greater"
        return dataset


def summarise_quantiles(trajectory: Trajectory, quantiles: ArrayLike | None) -> xr.Dataset:
    """The quantiles over the seeds of a run: the kept ones that are nearest, or of its records."""
    shares = _SHARES if quantiles is None else check_shares("quantiles", quantiles)
    if trajectory.setting.record.keep == "quantiles":
        near = trajectory.dataset.sel(quantile=shares, method="nearest")
        near = near.assign_coords(quantile=shares)
        return near.assign(_ended(trajectory.outcomes)).drop_attrs(deep=False)
    few = summarise(trajectory)
    summary = Summary(*(few[name].to_numpy() for name in _NUMBERS))
    sizes = [len(trajectory.time), *(few[name].shape[1] for name in _NUMBERS)]
    tally = Tally.empty(*sizes).added(trajectory.loss, summary)
    quantiles = tally.dataset({"time": trajectory.time}, shares)
    return quantiles.assign(_ended(trajectory.outcomes)).drop_attrs(deep=False)


def _ended(outcomes: Outcomes) -> xr.Dataset:
    import xarray as xr

    counts = [int(outcomes.are(one).sum()) for one in Result]
    about = {"long_name": "how many seeds ended so"}
    return xr.Dataset(
        {"ended": ("result", counts, about)}, {"result": [one.value for one in Result]}
    )


@dataclass(frozen=True)
class ShareState:
    """The seeds before share number `place` tallied, those in it on their way."""

    place: int
    states: States
    """Empty where all are tallied."""
    tally: Tally
    outcomes: Outcomes
    """Of those that are tallied."""


class QuantilesJob(AbstractJob[ShareState, Trajectory]):
    """One setting, its seeds a share after another, from flow time `time_start`.

    All shares have one shape: what the last one lacks is filled with its own seeds once more.
    """

    first_budget = FIRST_SEGMENT

    def __init__(self, setting: Setting, time_start: float = 0.0) -> None:
        self._prepared = Prepared(setting, time_start)
        seeds, together = self._prepared.seeds, self._prepared.together
        self._shares = [seeds[first : first + together] for first in range(0, len(seeds), together)]

    @property
    def digest(self) -> str:
        setting, begins = self._prepared.setting, float(self._prepared.time_start)
        return f"{setting.digest}-{begins.hex()}"

    def begin(self) -> ShareState:
        return ShareState(0, self._begun(0), self._nothing, Outcomes.of())

    @property
    def _nothing(self) -> Tally:
        points, marks = len(self._prepared.grid), self._prepared.problem.marks
        if marks is None:
            return Tally.empty(points, 0, 0, 0)
        drops = len(marks.middles)
        return Tally.empty(points, drops, drops + 1, len(marks.halves))

    def advance(self, state: ShareState, budget: int) -> tuple[ShareState, int]:
        rows = self._rows(state.place)
        states, taken = rows.advance(state.states, budget)
        if rows.is_finished(states):
            return self._tallied(state, rows.join(states)), taken
        return replace(state, states=states), taken

    def _rows(self, place: int) -> Rows:
        prepared = self._prepared
        return Rows(prepared.setting.method, prepared.problem, self._filled(place))

    def _filled(self, place: int) -> AnyArray:
        return np.resize(self._shares[place], self._prepared.together)

    def _begun(self, place: int) -> States:
        if place == len(self._shares):
            return ()
        return self._rows(place).begin(self._prepared.starts(self._filled(place)))

    def _tallied(self, state: ShareState, ended: AbstractState) -> ShareState:
        """With what has come of the seeds on their way, and the next share begun."""
        seeds, prepared = self._shares[state.place], self._prepared
        ended = jax.tree.map(lambda leaf: leaf[: len(seeds)], ended)
        outcomes = prepared.outcomes(ended, seeds)
        summary = prepared.summary(ended.records, outcomes)
        if summary is None:
            summary = Summary(*(np.empty((len(seeds), 0)) for _ in _NUMBERS))
        loss = prepared.losses(ended.records, len(prepared.grid))
        return ShareState(
            state.place + 1,
            self._begun(state.place + 1),
            state.tally.added(loss, summary),
            state.outcomes.followed_by(outcomes),
        )

    def is_finished(self, state: ShareState) -> bool:
        return state.place == len(self._shares)

    def share(self, state: ShareState) -> float:
        if self.is_finished(state):
            return 1.0
        within = self._rows(state.place).share(state.states)
        return (state.place + within) / len(self._shares)

    def slow_advice(self, state: ShareState) -> str:
        return self._prepared.setting.method.slow_advice

    def dataset(self, state: ShareState) -> xr.Dataset:
        return self.result(state).dataset

    def result(self, state: ShareState) -> Trajectory:
        prepared, clock = self._prepared, self._prepared.grid
        missing = Outcomes.all(len(prepared.seeds) - len(state.outcomes), Result.INTERRUPTED)
        outcomes = state.outcomes.followed_by(missing)
        time = clock_coordinates(prepared.setting, clock, prepared.flow_time(clock))
        dataset = describe(state.tally.dataset(time, _SHARES), prepared.setting)
        dataset.attrs["rank_error"] = state.tally.seen.rank_error
        leaves = () if self.is_finished(state) else self.save(state).state
        return Trajectory(dataset, prepared.setting, outcomes, leaves, prepared.time_start)

    def save(self, state: ShareState) -> Saved:
        texts = np.frombuffer(json.dumps(state.outcomes.messages).encode(), dtype=np.uint8)
        tally = (state.tally.places, *state.tally.seen.arrays())
        on_their_way: list[AnyArray] = []
        if not self.is_finished(state):
            on_their_way = jax.tree.leaves(self._rows(state.place).join(state.states))
        counts = np.array([state.place, len(tally)])
        return Saved((counts, state.outcomes.codes, texts, *tally, *on_their_way))

    def restore(self, saved: Saved) -> ShareState:
        nothing, leaves = self._nothing, list(saved.state)
        if len(leaves) < 3 or leaves[0].shape != (2,):
            raise CannotRead(_NOT_ITS_OWN)
        place, length = leaves[0].tolist()
        places, *held = leaves[3 : 3 + length] or [np.empty(0)]
        tally = replace(nothing, seen=Distribution.of_arrays(held), places=places)
        done = sum(map(len, self._shares[:place]))
        fits = 0 <= place <= len(self._shares) and tally.seen.count == len(leaves[1]) == done
        fits &= tally.seen.ends.shape == nothing.seen.ends.shape
        if not fits or places.shape != nothing.places.shape:
            raise CannotRead(_NOT_ITS_OWN)
        messages = json.loads(leaves[2].tobytes())
        outcomes = Outcomes(leaves[1], {int(seed): text for seed, text in messages.items()})
        states: States = ()
        if place < len(self._shares):
            states = self._rows(place).restore(leaves[3 + length :])
        return ShareState(place, states, tally, outcomes)
