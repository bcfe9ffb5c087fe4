"""Running one setting, a segment at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

from saddlescope.dynamics import _results
from saddlescope.dynamics._prepared import Prepared
from saddlescope.dynamics._rows import Rows, States
from saddlescope.running.loop import run_job
from saddlescope.running.observers import AbstractJob, Saved, State
from saddlescope.setting import Setting
from saddlescope.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray as xr

# Steps of the first segment, which also compiles.
FIRST_SEGMENT = 500


def run_setting(
    setting: Setting, start: Trajectory | None = None, observers: object = ()
) -> Trajectory:
    """Run a setting, from its start or from the end of another run."""
    if setting.record.keep == "quantiles":
        from saddlescope.dynamics._quantiles import QuantilesJob

        time_start = 0.0 if start is None else float(start.time[-1])
        return run_job(QuantilesJob(setting, time_start), observers)
    return run_job(Job(setting, earlier=start), observers)


def finish(interrupted: Trajectory, observers: object = ()) -> Trajectory:
    """Finish an interrupted run."""
    if interrupted.setting.record.keep == "quantiles":
        from saddlescope.dynamics._quantiles import QuantilesJob

        quantiles = QuantilesJob(interrupted.setting, interrupted.time_start)
        return _resume(quantiles, interrupted, observers)
    return _resume(Job(interrupted.setting, interrupted.time_start), interrupted, observers)


def _resume(
    job: AbstractJob[State, Trajectory], interrupted: Trajectory, observers: object
) -> Trajectory:
    return run_job(job, observers, job.restore(Saved(interrupted.state)))


class Job(AbstractJob[States, Trajectory]):
    """One setting, with the seeds as rows.

    It begins where the run `earlier` ended, if given, otherwise at flow time `time_start`.
    """

    first_budget = FIRST_SEGMENT

    def __init__(
        self, setting: Setting, time_start: float = 0.0, earlier: Trajectory | None = None
    ) -> None:
        self._earlier = earlier
        time_start = time_start if earlier is None else float(earlier.time[-1])
        self.prepared = Prepared(setting, time_start)
        self.rows = Rows(setting.method, self.prepared.problem, self.prepared.seeds)

    @property
    def setting(self) -> Setting:
        """The setting that is run."""
        return self.prepared.setting

    @property
    def digest(self) -> str:
        return f"{self.setting.digest}-{float(self.prepared.time_start).hex()}"

    def begin(self) -> States:
        if self._earlier is not None and self._continues(self._earlier):
            return self.rows.prolong(self.restore(Saved(self._earlier.state)))
        return self.rows.begin(self.prepared.starts(self.prepared.seeds))

    def _continues(self, earlier: Trajectory) -> bool:
        """Whether the final state of an earlier run can be continued exactly."""
        before, now = earlier.setting.to_dict(), self.setting.to_dict()
        same = all(before[part] == now[part] for part in ("model", "task", "seeds"))
        # Only trajectories leave a state, and only they can take one: drops are noted from a start.
        same &= {run.record.keep for run in (earlier.setting, self.setting)} == {"trajectory"}
        # Seeds of an interrupted run stand at different times, past its last common record.
        same &= earlier.is_complete
        return same and self.setting.method.continues(earlier.setting.method)

    def restore(self, saved: Saved) -> States:
        return self.rows.restore(saved.state)

    def save(self, state: States) -> Saved:
        return Saved(tuple(jax.tree.leaves(self.rows.join(state))))

    def advance(self, state: States, budget: int) -> tuple[States, int]:
        return self.rows.advance(state, budget)

    def is_finished(self, state: States) -> bool:
        return self.rows.is_finished(state)

    def share(self, state: States) -> float:
        return self.rows.share(state)

    def slow_advice(self, state: States) -> str:
        return self.setting.method.slow_advice

    def dataset(self, state: States) -> xr.Dataset:
        return self.result(state).dataset

    def result(self, state: States) -> Trajectory:
        return _results.trajectory(self.prepared, self.rows.join(state))
