"""One connection: its requests are answered frame by frame, and a newer one cancels the older."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

from saddlescope.checks import AnyArray
from saddlescope.errors import InvalidInput, TheoryDoesNotApply
from saddlescope.lab._bounds import limits, read_setting
from saddlescope.lab._prediction import (
    course_of_a_head,
    law_of_first_drop,
    predicted,
    prompts_and_algorithms,
)
from saddlescope.lab._protocol import Asked, Kind, Malformed, Request, read_request, write_frame
from saddlescope.lab._simulation import Simulator, described
from saddlescope.lab._turns import Turns
from saddlescope.running import StopButton
from saddlescope.running.cores import count_cores
from saddlescope.trajectory import Trajectory

if TYPE_CHECKING:
    from fastapi import WebSocket

log = logging.getLogger("saddlescope")

_THREADS = 16
# Seconds by which a prediction starts before its run. With none, the two compete for the
# interpreter (measured: predictions after 45 ms, not 32); with more, the run waits in vain.
_HEAD_START = 0.005
# RFC 6455: data that cannot be accepted.
_UNSUPPORTED = 1003

Post = Callable[[Kind, int, dict[str, object], dict[str, AnyArray]], None]


class Engine:
    """Answers the requests of all connections."""

    def __init__(self) -> None:
        self.simulator = Simulator(Turns(count_cores()))
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="saddlescope-lab")
        self._beside = ThreadPoolExecutor(_THREADS, thread_name_prefix="saddlescope-lab-beside")

    def submit(self, request: Request, post: Post, button: StopButton) -> Future[None]:
        """Begin to answer a request; frames are posted as they are ready."""
        return self._threads.submit(self._answer, request, post, button)

    def warm_up(self) -> Future[None]:
        """Begin to compile all that the controls can reach."""
        return self._threads.submit(self.simulator.warm_up)

    def close(self) -> None:
        """Take no more requests."""
        self.simulator.close()
        for threads in (self._threads, self._beside):
            threads.shutdown(wait=False, cancel_futures=True)

    def _answer(self, request: Request, post: Post, button: StopButton) -> None:
        def give(kind: Kind, values: dict[str, object], arrays: dict[str, AnyArray]) -> None:
            if not button.is_pressed:
                post(kind, request.number, values, arrays)

        try:
            if request.asked is Asked.RUN:
                self._run(request, give, button)
            else:
                setting = read_setting(request.setting)
                give(Kind.PROMPTS, *prompts_and_algorithms(setting, request.seed))
        except (InvalidInput, TheoryDoesNotApply) as reason:
            field = reason.field if isinstance(reason, InvalidInput) else None
            give(Kind.REFUSED, {"reason": str(reason), "field": field, "asked": request.asked}, {})
        except Exception as problem:
            # A failure in one simulation must not affect the others.
            log.warning("a request of the lab failed: %s", problem, exc_info=True)
            reason_text = f"the request failed: {type(problem).__name__}: {problem}"
            give(Kind.REFUSED, {"reason": reason_text, "field": None, "asked": request.asked}, {})

    def _run(
        self,
        request: Request,
        give: Callable[[Kind, dict[str, object], dict[str, AnyArray]], None],
        button: StopButton,
    ) -> None:
        setting = read_setting(request.setting)
        # Beside the run, most of which is compiled code that releases the interpreter. What comes
        # before that does not, and the prediction is shown first.
        told = self._beside.submit(lambda: give(Kind.PREDICTION, *predicted(setting)))
        wait([told], timeout=_HEAD_START)
        law_given = Event()
        if not self.simulator.is_ready(setting):
            give(Kind.WAITING, {"reason": "compiling, once for all settings of this kind"}, {})

        def show(run: Trajectory, share: float) -> None:
            # The page draws a run together with its prediction.
            told.result()
            # The seed on the screen is sent before the others, which take longer.
            is_part = share == 1.0 and request.shown is not None and len(run.outcomes) > 1
            give(Kind.RUN, *described(run, share, request.shown if is_part else None))
            if not button.is_pressed and not law_given.is_set():
                law_given.set()
                give(Kind.LAW, *law_of_first_drop(setting))
            if is_part and not button.is_pressed:
                give(Kind.RUN, *described(run, share))

        self.simulator.run(setting, show, button)


class Mailbox:
    """Frames on their way to a page: the latest of each kind, so that a slow page delays nobody.

    The part of a run that comes first and the whole run count as two kinds, and so do the refusals
    of a run and of prompts.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames: dict[tuple[object, ...], bytes] = {}
        self._filled = asyncio.Event()

    def post(
        self, kind: Kind, number: int, values: dict[str, object], arrays: dict[str, AnyArray]
    ) -> None:
        """Post a frame; from any thread."""
        frame = write_frame(kind, number, values, arrays)
        # Once the loop has ended there is no reader.
        with suppress(RuntimeError):
            key = (kind, values.get("asked"), values.get("shown") is not None)
            self._loop.call_soon_threadsafe(self._put, key, frame)

    def _put(self, key: tuple[object, ...], frame: bytes) -> None:
        self._frames.pop(key, None)
        *kind, is_part = key
        if is_part:
            # A part comes before its whole: a whole run that is still here is an older one.
            self._frames.pop((*kind, False), None)
        self._frames[key] = frame
        self._filled.set()

    async def deliver(self, socket: WebSocket) -> None:
        """Send frames as they come, in order, until cancelled."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._frames:
                oldest = next(iter(self._frames))
                await socket.send_bytes(self._frames.pop(oldest))


async def converse(socket: WebSocket, engine: Engine) -> None:
    """Answer a page until it leaves, or sends a malformed message."""
    from fastapi import WebSocketDisconnect

    await socket.accept()
    mailbox = Mailbox()
    mailbox.post(Kind.HELLO, 0, {"limits": limits()}, course_of_a_head())
    delivery = asyncio.create_task(mailbox.deliver(socket))
    buttons: dict[Asked, StopButton] = {}
    pending: dict[Asked, Future[None]] = {}
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            request = read_request(message.get("text"))
            if request.asked in buttons:
                buttons[request.asked].press()
                pending[request.asked].cancel()
            buttons[request.asked] = StopButton()
            pending[request.asked] = engine.submit(request, mailbox.post, buttons[request.asked])
    except Malformed:
        with suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(_UNSUPPORTED)
    finally:
        delivery.cancel()
        for asked, button in buttons.items():
            button.press()
            pending[asked].cancel()
