"""Observers of long jobs: they see every segment border and can ask the job to stop."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from saddlescope.checks import AnyArray, listed
from saddlescope.errors import InvalidInput, SaddlescopeError

if TYPE_CHECKING:
    import xarray as xr

    from saddlescope.running.interruption import StopRequest

State = TypeVar("State")
Result = TypeVar("Result")

log = logging.getLogger("saddlescope")


@dataclass(frozen=True)
class Saved:
    """What a job needs to resume: its state, and records that no longer change."""

    state: tuple[AnyArray, ...]
    records: tuple[dict[str, AnyArray], ...] = ()


class AbstractJob(abc.ABC, Generic[State, Result]):
    """A long computation that advances one segment at a time."""

    @property
    @abc.abstractmethod
    def digest(self) -> str:
        """Identifies the job by everything that its result depends on."""

    @property
    @abc.abstractmethod
    def first_budget(self) -> int:
        """How many steps to try in the first segment."""

    @abc.abstractmethod
    def begin(self) -> State:
        """The state before the first segment."""

    @abc.abstractmethod
    def advance(self, state: State, budget: int) -> tuple[State, int]:
        """Advance by about `budget` steps at most; return the new state and the steps taken."""

    @abc.abstractmethod
    def share(self, state: State) -> float:
        """The fraction done, from 0 to 1."""

    @abc.abstractmethod
    def is_finished(self, state: State) -> bool:
        """Whether nothing is left to do."""

    @abc.abstractmethod
    def dataset(self, state: State) -> xr.Dataset:
        """The records so far."""

    @abc.abstractmethod
    def result(self, state: State) -> Result:
        """The result so far; the final one once the job is finished."""

    @abc.abstractmethod
    def save(self, state: State) -> Saved:
        """What resuming from the state needs."""

    @abc.abstractmethod
    def restore(self, saved: Saved) -> State:
        """The state that was saved; `CannotRead` where it is not one of this job's."""

    def headline(self, state: State) -> str | None:
        """What a progress bar shows besides the fraction done, if anything."""
        return None

    @property
    def has_even_pace(self) -> bool:
        """Whether its first seconds predict its duration, so that a slow job can be reported."""
        return True

    def slow_advice(self, state: State) -> str:
        """What to change if the job makes no progress, in one line."""
        return "take less of it"


@dataclass(frozen=True, eq=False)
class Snapshot(Generic[State, Result]):
    """A long computation at the border of two segments.

    The fraction `share` is done after `seconds`; `dataset` holds the records so far and `result`
    the result so far (a `Trajectory`, a `Fit`), both computed when they are first read.

    `resume` continues from `job` and `state`; an observer asks for a stop through `request`.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> shares = []
    >>> look = ss.StopWhen(lambda snapshot: shares.append(snapshot.share))
    >>> run = ss.train(model, task, method=method, observers=[look])
    >>> shares[-1]
    1.0
    """

    job: AbstractJob[State, Result]
    state: State
    seconds: float
    request: StopRequest
    within: tuple[float, float] = (0.0, 1.0)
    """The part of a larger whole that this job is, from 0 to 1."""

    @cached_property
    def share(self) -> float:
        """The fraction done, from 0 to 1."""
        begin, end = self.within
        return begin + (end - begin) * self.job.share(self.state)

    @property
    def seconds_left(self) -> float | None:
        """The time left, estimated from the pace so far; None before there is a pace."""
        return self.seconds * (1 - self.share) / self.share if self.share > 0 else None

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.job.is_finished(self.state)

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The records so far."""
        return self.job.dataset(self.state)

    @cached_property
    def result(self) -> Result:
        """The result so far."""
        return self.job.result(self.state)

    def stop(self) -> None:
        """Ask to stop here; `Interrupted` is then raised, with what was computed."""
        self.request.ask()

    def __repr__(self) -> str:
        return f"Snapshot(share={self.share:.3g}, seconds={self.seconds:.3g})"


class AbstractObserver(abc.ABC):
    """Called at every segment border. An observer that fails is reported and then left out.

    >>> import saddlescope as ss
    >>> task = ss.InContextRegression([.4, .3], context_length=31)
    >>> model, method = ss.SeparateAttention(heads=2), ss.GradientDescent(.2, steps=20)
    >>> class Counts(ss.AbstractObserver):
    ...     borders = 0
    ...     def observe(self, snapshot):
    ...         self.borders += 1
    ...
    >>> counts = Counts()
    >>> run = ss.train(model, task, method=method, observers=[counts])
    >>> counts.borders > 0
    True
    """

    interval: float = 0.5
    """Seconds between calls: a segment lasts about as long as the smallest interval of all
    observers."""

    def begin(self, job: AbstractJob[State, Result]) -> Saved | None:
        """Called before the first segment; the job resumes from what it returns, if anything."""
        return None

    @abc.abstractmethod
    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        """Called at every segment border, including the last."""

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:  # noqa: B027
        """Called once, however the job ended, with the last snapshot (None if there was none)."""


class StopButton(AbstractObserver):
    """Stops the job when pressed, from any thread.

    >>> button = StopButton()
    >>> button.press()
    """

    def __init__(self) -> None:
        self.is_pressed = False

    def press(self) -> None:
        """Ask to stop at the next border."""
        self.is_pressed = True

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        if self.is_pressed:
            snapshot.stop()


class StopWhen(AbstractObserver):
    """Stops the job once a condition on the snapshot is true.

    >>> early = StopWhen(lambda snapshot: snapshot.dataset["loss"][:, -1].max() < .2)
    """

    def __init__(self, condition: Callable[[Snapshot], object]) -> None:
        if not callable(condition):
            raise InvalidInput("condition", condition, "must be a function of a snapshot")
        self._condition = condition

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        if self._condition(snapshot):
            snapshot.stop()


class _Call(AbstractObserver):
    """A plain function of the snapshot, as an observer."""

    def __init__(self, function: Callable[[Snapshot], object]) -> None:
        self.function = function

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        self.function(snapshot)


class Audience:
    """All observers of one job; none of them can cost the job its result."""

    def __init__(self, observers: object) -> None:
        given = listed("observers", observers, "must be a list of observers")
        self._present = [_as_observer(observer) for observer in given]
        self._begun: list[AbstractObserver] = []

    @property
    def interval(self) -> float:
        """About how long a segment should last."""
        return min((one.interval for one in self._present), default=AbstractObserver.interval)

    def begin(self, job: AbstractJob[State, Result]) -> Saved | None:
        """Begin all observers; return the first saved state that one of them has."""
        saved: Saved | None = None
        for observer in list(self._present):
            self._begun.append(observer)
            try:
                kept = observer.begin(job)
            except SaddlescopeError:
                raise
            except Exception as problem:
                self._dismiss(observer, problem)
                continue
            saved = kept if saved is None else saved
        return saved

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        """Show a snapshot to all observers."""
        for observer in list(self._present):
            try:
                observer.observe(snapshot)
            except KeyboardInterrupt:
                snapshot.request.ask()
            except Exception as problem:
                self._dismiss(observer, problem)

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:
        """End the observers that began."""
        for observer in self._begun:
            try:
                observer.end(snapshot)
            except Exception as problem:
                self._dismiss(observer, problem)

    def _dismiss(self, observer: AbstractObserver, problem: Exception) -> None:
        if observer not in self._present:
            return
        self._present.remove(observer)
        one = observer.function if isinstance(observer, _Call) else observer
        name = getattr(one, "__name__", type(one).__name__)
        log.warning(
            "the observer %s failed and is left out: %s: %s", name, type(problem).__name__, problem
        )


def _as_observer(observer: object) -> AbstractObserver:
    if isinstance(observer, AbstractObserver):
        return observer
    if isinstance(observer, type) or not callable(observer):
        raise InvalidInput(
            "observers", observer, "must be observers, or functions that take a snapshot"
        )
    return _Call(observer)
