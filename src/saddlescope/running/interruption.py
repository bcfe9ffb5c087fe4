"""Ctrl-C that waits for the border of a segment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class StopRequest:
    """While it is entered, a first Ctrl-C is kept until `check` is called; a second one is not.

    An exception in the middle of a compiled call can end up in a callback of JAX that swallows it.
    Only the main thread receives signals; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self._requested = False
        self._previous: Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> StopRequest:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous = signal.signal(signal.SIGINT, self._keep)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def check(self) -> None:
        """Raise the KeyboardInterrupt that was kept."""
        if self._requested:
            raise KeyboardInterrupt

    def _keep(self, number: int, frame: FrameType | None) -> None:
        if self._requested:
            signal.default_int_handler(number, frame)
        self._requested = True
