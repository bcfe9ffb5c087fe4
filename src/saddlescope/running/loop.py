"""The one loop that runs anything long, one segment at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from saddlescope.errors import Interrupted
from saddlescope.running.interruption import StopRequest
from saddlescope.running.observers import AbstractJob, Audience, Result, Snapshot, State, log
from saddlescope.running.programs import let_go, programs_made

_MOST_GROWTH = 8.0
# After this many seconds a job that would take longer than a day is reported.
_PATIENCE = 5.0
_TOO_LONG = 24 * 3600.0


def run_job(
    job: AbstractJob[State, Result], observers: object = (), state: State | None = None
) -> Result:
    """Run a job from a state, from what an observer saved, or from its beginning."""
    audience = Audience(observers)
    let_go()
    snapshot: Snapshot[State, Result] | None = None
    with StopRequest() as request:
        try:
            saved = audience.begin(job)
            if state is None:
                state = job.begin() if saved is None else job.restore(saved)
            began, budget, warned = time.monotonic(), job.first_budget, not job.has_even_pace
            first: _Reached | None = None
            snapshot = Snapshot(job, state, 0.0, request)
            while not request.requested and not snapshot.is_finished:
                before, programs = time.monotonic(), programs_made()
                state, taken = job.advance(state, budget)
                now = time.monotonic()
                budget = next_budget(budget, taken, now - before, audience.interval)
                snapshot = Snapshot(job, state, now - began, request)
                audience.observe(snapshot)
                # A segment that compiles, as the first does, says nothing about the pace.
                if first is None or programs_made() > programs:
                    first = _Reached(snapshot.seconds, snapshot.share)
                elif not warned and snapshot.seconds > first.seconds + _PATIENCE:
                    warned = _warn_if_slow(first, snapshot)
            if not request.requested:
                # A stop requested while the result is assembled still delivers it, in the snapshot.
                result = snapshot.result
        finally:
            audience.end(snapshot)
    if request.requested:
        raise Interrupted(snapshot, request.signal)
    return result


def next_budget(budget: int, taken: int, seconds: float, segment: float) -> int:
    """Steps for about the seconds of a `segment`, growing by no more than eight times at once.

    A segment that something else cut short, a record say, does not shrink the next one.
    """
    fitting = int(taken * min(segment / max(seconds, 1e-6), _MOST_GROWTH))
    return max(1, fitting if seconds > segment else max(fitting, budget))


@dataclass(frozen=True)
class _Reached:
    """How far a job had come, and when."""

    seconds: float
    share: float


def _warn_if_slow(first: _Reached, snapshot: Snapshot[State, Result]) -> bool:
    """Warn once if the job would take more than a day, with advice."""
    seconds, done = snapshot.seconds - first.seconds, snapshot.share - first.share
    left = seconds * (1 - snapshot.share) / done if done > 0 else None
    if left is not None and left < _TOO_LONG:
        return False
    pace = (
        "no end is in sight" if left is None else f"at this pace {left / 3600:.2g} hours are left"
    )
    log.warning(
        "%.0f s for %.2g of the run: %s; %s. Ctrl-C stops it and keeps what is computed",
        seconds,
        done,
        pace,
        snapshot.job.slow_advice(snapshot.state),
    )
    return True
