"""More runs than cores: they take turns, a segment at a time."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from saddlescope.running import AbstractObserver, Snapshot
from saddlescope.running.observers import Result, State


class Turns:
    """A limited number of turns to compute, handed out first come, first served.

    >>> turns = Turns(1)
    >>> with turns:
    ...     turns.give_way()
    """

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> Turns:
        turn = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                return self
            self._waiting.append(turn)
        turn.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._waiting:
                # The turn is handed over directly: nobody who comes later can take it.
                self._waiting.popleft().set()
            else:
                self._free += 1

    def give_way(self) -> None:
        """Let those who are waiting go first."""
        if self._waiting:
            self.__exit__(None, None, None)
            self.__enter__()


class GiveWay(AbstractObserver):
    """Lets others go first at every segment border."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def observe(self, snapshot: Snapshot[State, Result]) -> None:
        self._turns.give_way()
