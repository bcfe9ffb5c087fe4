"""Signals that wait for the border of a segment, and a process that leaves in one line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# What a process of our own has no handler for yet.
_UNTOUCHED = (signal.default_int_handler, signal.SIG_DFL)
_SHOW_CURSOR = b"\x1b[?25h"

Handler = Callable[[int, FrameType | None], object] | int | None


class StopRequest:
    """While it is entered, a first SIGINT or SIGTERM is a request to stop, read from `requested`.

    An exception in the middle of a compiled call can end up in a callback of JAX that swallows it.
    A second signal is not kept. Only the main thread receives signals; anybody else asks by `ask`.
    A signal for which the user has a handler is the user's own.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.signal: int | None = None
        """The signal that asked, if one did."""
        self._previous: dict[int, Handler] = {}

    @property
    def requested(self) -> bool:
        """Whether somebody has asked to stop."""
        return self._asked.is_set()

    def ask(self, number: int | None = None) -> None:
        """Ask to stop at the next border; from any thread."""
        # An observer that asks as well does not hide that a signal came.
        self.signal = number or self.signal
        self._asked.set()

    def __enter__(self) -> StopRequest:
        if _process.is_guarded:
            _process.requests.append(self)
        elif threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) in _UNTOUCHED:
                    self._previous[number] = signal.signal(number, self._keep)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self in _process.requests:
            _process.requests.remove(self)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.ask(number)


class _Process:
    """What a guarded process does on a signal: it asks the loop that runs, or leaves at once."""

    def __init__(self) -> None:
        self.is_guarded = False
        self.requests: list[StopRequest] = []
        self._numbers: list[signal.Signals] = []

    def guard(self, message: str) -> None:
        """Answer SIGINT and SIGTERM from a thread of their own, from here to the end.

        A handler in the main thread waits for compiled code to return, and what it raises can be
        swallowed there. Whatever is written is written whole or not at all, so that a process may
        leave at any moment.
        """
        if self.is_guarded or threading.current_thread() is not threading.main_thread():
            return
        # What is ignored where the process was started, as under nohup, stays so.
        self._numbers = [one for one in SIGNALS if signal.getsignal(one) in _UNTOUCHED]
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in self._numbers:
            signal.signal(number, _nothing)
        self.is_guarded = True
        threading.Thread(target=self._answer, args=(reading, message), daemon=True).start()

    def obey(self) -> None:
        """Answer what `ask` says, and no signals: from here on another process asks this one."""
        self.is_guarded = True

    def ask(self, number: int, message: str = "") -> None:
        """Ask the loops that run to stop; where there is none, or none but asked ones, leave."""
        waiting = [request for request in self.requests if not request.requested]
        if not waiting:
            leave(number, message)
        for request in waiting:
            request.ask(number)

    def retire(self) -> None:
        """Answer no more signals: all is done, and what is left is Python's own end.

        There the thread is gone and a signal would end the process without a word.
        """
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)

    def _answer(self, reading: int, message: str) -> None:
        while True:
            for number in os.read(reading, 64):
                if number in SIGNALS:
                    self.ask(number, message)


_process = _Process()
guard, retire, obey, ask = _process.guard, _process.retire, _process.obey, _process.ask


def leave(number: int, message: str) -> None:
    """End the process at once, with a line if there is one and the signal's own exit code."""
    if not message:
        os._exit(128 + number)
    line = f"saddlescope: {message}\n".encode()
    # Nobody may be there to read it.
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            # A progress bar hides it.
            line = _SHOW_CURSOR + b"\r\n" + line
        os.write(2, line)
    os._exit(128 + number)


@contextmanager
def withheld(numbers: Sequence[int]) -> Iterator[None]:
    """Withhold signals from whatever threads and processes are started here, for good."""
    from multiprocessing import resource_tracker

    # Whoever starts the tracker lets interrupts through again. It takes over this process's filters
    # of warnings. Of a guarded process, which may leave at once, it clears up without a word.
    unfiltered = list(sys.warnoptions)
    if _process.is_guarded:
        sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions[:] = unfiltered
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Take the signal, so that the system does not end the process."""
