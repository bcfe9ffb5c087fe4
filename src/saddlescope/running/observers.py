"""What looks on while something long is carried out, and can ask it to stop."""

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
    """What going on needs: the state, and records that never change once they are there."""

    state: tuple[AnyArray, ...]
    records: tuple[dict[str, AnyArray], ...] = ()


class AbstractJob(abc.ABC, Generic[State, Result]):
    """Something long that advances a segment at a time from one state to the next."""

    @property
    @abc.abstractmethod
    def digest(self) -> str:
        """Names the job: all that its result depends on."""

    @property
    @abc.abstractmethod
    def first_budget(self) -> int:
        """How many steps to try in the first segment."""

    @abc.abstractmethod
    def begin(self) -> State:
        """The state before the first segment."""

    @abc.abstractmethod
    def advance(self, state: State, budget: int) -> tuple[State, int]:
        """Advance by at most about `budget` steps; the new state and the steps taken."""

    @abc.abstractmethod
    def share(self, state: State) -> float:
        """How much of it is done, from 0 to 1."""

    @abc.abstractmethod
    def is_finished(self, state: State) -> bool:
        """Whether nothing is left to do."""

    @abc.abstractmethod
    def dataset(self, state: State) -> xr.Dataset:
        """The records so far."""

    @abc.abstractmethod
    def result(self, state: State) -> Result:
        """What has come of it so far; the result once it is finished."""

    @abc.abstractmethod
    def save(self, state: State) -> Saved:
        """What going on from the state needs."""

    @abc.abstractmethod
    def restore(self, saved: Saved) -> State:
        """The state that was saved; `CannotRead` where it is not one of this job's."""

    def headline(self, state: State) -> str | None:
        """What a progress bar says besides how far it has come, None for nothing."""
        return None

    @property
    def has_even_pace(self) -> bool:
        """Whether its first seconds tell how long it will take, so that it may be said to crawl."""
        return True

    def slow_advice(self, state: State) -> str:
        """What to change where the job gets nowhere, in one line."""
        return "take less of it"


@dataclass(frozen=True, eq=False)
class Snapshot(Generic[State, Result]):
    """Something long at the border of two segments.

    `share` of it is done after `seconds`; `dataset` holds the records so far, `result` what has
    come of it (a `Trajectory`, a `Fit`), both made when they are asked for.

    `job` and `state` are what the loop carries out and how far it is, which `resume` needs;
    `request` is how an observer asks it to stop.

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
    """Where the job begins and ends in a whole of several."""

    @cached_property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        begin, end = self.within
        return begin + (end - begin) * self.job.share(self.state)

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the pace so far, None while there is none."""
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
        """What has come of it so far."""
        return self.job.result(self.state)

    def stop(self) -> None:
        """Ask to stop here; `Interrupted` is then raised, with what was computed."""
        self.request.ask()

    def __repr__(self) -> str:
        return f"Snapshot(share={self.share:.3g}, seconds={self.seconds:.3g})"


class AbstractObserver(abc.ABC):
    """Looks on at every segment border. One that fails is reported and left out from there on.

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
    """The seconds after which it wants to look again: a segment lasts about as long as the most
    impatient observer waits."""

    def begin(self, job: AbstractJob[State, Result]) -> Saved | None:
        """Called before anything is done; what it returns is where the job goes on from."""
        return None

    @abc.abstractmethod
    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        """Called at every border, the last one included."""

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:  # noqa: B027
        """Called once at the end, however it came, with the last border (None before the first)."""


class StopButton(AbstractObserver):
    """Stops what it looks on when pressed, from any thread.

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
    """Stops where a condition on the snapshot is true.

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
    """A plain function of the snapshot."""

    def __init__(self, function: Callable[[Snapshot], object]) -> None:
        self.function = function

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        self.function(snapshot)


class Audience:
    """All observers of one job, of which none can cost it its result."""

    def __init__(self, observers: object) -> None:
        given = listed("observers", observers, "must be a list of observers")
        self._present = [_as_observer(observer) for observer in given]
        self._begun: list[AbstractObserver] = []

    @property
    def interval(self) -> float:
        """About how long a segment should last."""
        return min((one.interval for one in self._present), default=AbstractObserver.interval)

    def begin(self, job: AbstractJob[State, Result]) -> Saved | None:
        """Let them begin; the state of the first that has one is taken."""
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
        """Show them a border."""
        for observer in list(self._present):
            try:
                observer.observe(snapshot)
            except KeyboardInterrupt:
                snapshot.request.ask()
            except Exception as problem:
                self._dismiss(observer, problem)

    def end(self, snapshot: Snapshot[State, Result] | None) -> None:
        """Let those that began end."""
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
