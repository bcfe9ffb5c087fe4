"""Work in several processes, each of which takes one item after another."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

from saddlescope.errors import Interrupted, InvalidInput, SaddlescopeError
from saddlescope.running import interruption
from saddlescope.running.cores import at_most_threads, count_cores
from saddlescope.running.interruption import StopRequest
from saddlescope.running.observers import log
from saddlescope.running.parts import Parts
from saddlescope.running.programs import ignore_torn_programs

Item = TypeVar("Item")
Result = TypeVar("Result")

_CANNOT_START = (
    "a process could not be started: a script does this under "
    """`if __name__ == "__main__":`, or with 1"""
)
# Seconds between looks at whether a stop was requested.
_LOOK_EVERY = 0.1


@dataclass(frozen=True)
class Lost:
    """In place of a result: the process ended before it delivered one."""

    reason: str


@dataclass(frozen=True)
class _Stop:
    """The message to a worker that it must stop."""

    signal: int


# Messages from a worker: it is ready, the share of an item that is done, its result, what it
# raised, that it was stopped, and what it logs.
@dataclass(frozen=True)
class _Ready:
    pass


@dataclass(frozen=True)
class _Share:
    share: float


@dataclass(frozen=True)
class _Made(Generic[Result]):
    result: Result


@dataclass(frozen=True)
class _Raised:
    problem: Exception


@dataclass(frozen=True)
class _Stopped:
    pass


@dataclass(frozen=True)
class _Logged:
    level: int
    line: str


def on_workers(
    function: Callable[[Item, Parts], Result],
    items: Sequence[Item],
    jobs: int,
    show: Callable[[Sequence[float], Sequence[int]], object],
) -> list[Result | Lost]:
    """Apply a function to every item in `jobs` processes, starting the items in order.

    `show` is called with the share of each item that is done and the indices of those being worked
    on. An exception of the function ends all work and is raised here. A request to stop reaches
    every worker's loop; workers outside one leave at once. No worker outlives its parent.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        # A worker that is being started runs its parent's script again: the parent reports it.
        sys.exit(1)
    crew = _Crew(function, items, show)
    with StopRequest() as request:
        try:
            for _ in range(min(jobs, len(items))):
                crew.start(max(1, count_cores() // jobs))
            while crew.is_busy:
                if request.requested:
                    crew.stop(request.signal)
                crew.listen()
        finally:
            crew.end()
    if crew.problem is not None:
        raise crew.problem
    if request.requested or crew.is_stopped:
        # The snapshots are the workers', and kept by them.
        raise Interrupted(None, request.signal)  # type: ignore[arg-type]
    return [crew.results[index] for index in range(len(items))]


class _Worker(Generic[Item, Result]):
    """A process, the pipe to it, and the index of the item that it is working on."""

    def __init__(self, function: Callable[[Item, Parts], Result], threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.threads = threads
        self.index: int | None = None
        self.is_ready = False
        self.process = context.Process(
            target=_work, args=(function, theirs, threads), name="saddlescope", daemon=True
        )
        # A terminal sends them to all processes; the one that hands out items answers.
        with interruption.withheld(interruption.SIGNALS):
            self.process.start()
        # Only the worker holds it: when that ends, however it came, this end is told.
        theirs.close()

    def end(self) -> None:
        """End the process, now: whatever it writes is written whole or not at all."""
        self.line.close()
        self.process.kill()
        self.process.join()


class _Crew(Generic[Item, Result]):
    """All workers, what is left for them to do, and what has come of it."""

    def __init__(
        self,
        function: Callable[[Item, Parts], Result],
        items: Sequence[Item],
        show: Callable[[Sequence[float], Sequence[int]], object],
    ) -> None:
        self._function, self._items, self._show = function, items, show
        self._workers: list[_Worker[Item, Result]] = []
        self._left = list(range(len(items)))[::-1]
        self._shares = [0.0] * len(items)
        self.results: dict[int, Result | Lost] = {}
        self.problem: Exception | None = None
        self.is_stopped = False

    @property
    def is_busy(self) -> bool:
        """Whether any worker has an item in hand."""
        return any(worker.index is not None for worker in self._workers)

    def start(self, threads: int) -> None:
        """Start a worker and give it its first item."""
        worker = _Worker(self._function, threads)
        self._workers.append(worker)
        self._give(worker)

    def stop(self, number: int | None) -> None:
        """Ask all workers to stop."""
        if self.is_stopped:
            return
        self.is_stopped = True
        for worker in self._workers:
            if not worker.is_ready:
                # It imports what it needs, and does not listen yet.
                worker.process.kill()
            with suppress(OSError):
                worker.line.send(_Stop(number or signal.SIGINT))

    def listen(self) -> None:
        """Take what workers say, waiting a little for it."""
        lines = {worker.line: worker for worker in self._workers if worker.index is not None}
        for line in connection.wait(list(lines), _LOOK_EVERY):
            assert isinstance(line, Connection)
            worker = lines[line]
            try:
                self._hear(worker, line.recv())
            except (EOFError, OSError):
                self._lose(worker)

    def end(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.end()

    def _give(self, worker: _Worker[Item, Result]) -> None:
        worker.index = None
        if self._left and not self.is_stopped:
            worker.index = self._left.pop()
            with suppress(OSError):
                # One that is gone is noticed when it is listened to.
                worker.line.send(self._items[worker.index])
            self._tell()

    def _hear(self, worker: _Worker[Item, Result], said: object) -> None:
        assert worker.index is not None
        if isinstance(said, _Ready):
            worker.is_ready = True
        elif isinstance(said, _Share):
            self._shares[worker.index] = said.share
            self._tell()
        elif isinstance(said, _Logged):
            log.log(said.level, "%s", said.line)
        elif isinstance(said, _Made):
            self.results[worker.index] = said.result
            self._shares[worker.index] = 1.0
            self._give(worker)
        else:
            if isinstance(said, _Raised):
                self.problem = self.problem or said.problem
            worker.index = None
            self.stop(None)

    def _lose(self, worker: _Worker[Item, Result]) -> None:
        """A process has ended with an item in hand: another takes what is left."""
        assert worker.index is not None
        index, worker.index = worker.index, None
        self._workers.remove(worker)
        worker.process.join()
        code = worker.process.exitcode or 0
        worker.line.close()
        if self.is_stopped:
            return
        if not worker.is_ready and code > 0:
            self.problem = InvalidInput("jobs", len(self._workers) + 1, _CANNOT_START)
            self.stop(None)
        else:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self.results[index] = Lost(f"its process {how}")
            self._shares[index] = 1.0
            if self._left:
                self.start(worker.threads)

    def _tell(self) -> None:
        in_hand = [worker.index for worker in self._workers if worker.index is not None]
        self._show(self._shares, sorted(in_hand))


def _work(
    function: Callable[[Item, Parts], Result], line: Connection[object, Item | _Stop], threads: int
) -> None:
    """What a worker does: it takes items, one after another, until nobody is there any more."""
    interruption.obey()
    ignore_torn_programs()
    items: queue.SimpleQueue[Item] = queue.SimpleQueue()
    told = _Told(line)
    threading.Thread(target=_follow, args=(line, items, told), daemon=True).start()
    log.addHandler(told)
    log.propagate = False
    told.say(_Ready())
    with at_most_threads(threads):
        while True:
            parts = Parts(lambda share: told.say(_Share(share)))
            try:
                said: object = _Made(function(items.get(), parts))
            except Interrupted:
                said = _Stopped()
            except Exception as problem:
                said = _Raised(_sendable(problem))
            told.say(said)


def _sendable(problem: Exception) -> Exception:
    """An exception, or its text if it cannot be rebuilt in another process."""
    try:
        pickle.loads(pickle.dumps(problem))
    except Exception:
        # Rebuilding one calls its class, which may want other arguments.
        return SaddlescopeError(f"{type(problem).__name__}: {problem}")
    return problem


class _Told(logging.Handler):
    """Says things to the process that started this one; logs too, which are for its user."""

    def __init__(self, line: Connection[object, object]) -> None:
        super().__init__()
        self._line, self._turn = line, threading.Lock()

    def say(self, said: object) -> None:
        with self._turn:
            try:
                self._line.send(said)
            except OSError:
                # There is nobody any more.
                os._exit(1)
            except Exception as problem:
                # A result that cannot be pickled.
                self._line.send(_Raised(_sendable(problem)))

    def emit(self, record: logging.LogRecord) -> None:
        self.say(_Logged(record.levelno, record.getMessage()))


def _follow(
    line: Connection[object, Item | _Stop], items: queue.SimpleQueue[Item], told: _Told
) -> None:
    """Take items and requests to stop; where they end, the process that started this one has."""
    while True:
        try:
            order = line.recv()
        except (EOFError, OSError):
            os._exit(1)
        except Exception as problem:
            # An item whose class this process does not have.
            told.say(_Raised(_sendable(problem)))
            continue
        if isinstance(order, _Stop):
            interruption.ask(order.signal)
        else:
            items.put(order)
