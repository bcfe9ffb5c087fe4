"""The lab under messages and requests that no page sends, and under many connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket as sockets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.conftest import Soak
from tests.lab.talking import SETTING, Talk, dial
from websockets.exceptions import ConnectionClosed

from saddlescope.lab import _session
from saddlescope.lab.server import Lab

PATIENCE = 20.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab whose runs are over at once: this is about all that is around them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_session.Simulator, "run", lambda *given: None)
        patched.setattr(_session, "law_of_first_drop", lambda setting: None)
        served = Lab(port=0, warm_up=False)
        yield served
        served.close()


def is_alive(lab: Lab) -> bool:
    """Whether a page would be answered."""
    with Talk(lab) as talk:
        talk.ask("run", SETTING)
        return bool(talk.answers("prediction"))


def mutated(random: np.random.Generator) -> str | bytes:
    """A request with something wrong in it, or nothing of a request at all."""
    text = json.dumps({"ask": "run", "number": int(random.integers(9)), "setting": SETTING})
    way = random.integers(6)
    if way == 0:
        return bytes(random.integers(256, size=random.integers(200), dtype=np.uint8))
    if way == 1:
        return "".join(map(chr, random.integers(32, 0xD7FF, size=random.integers(300))))
    if way == 2:
        return text[: random.integers(len(text))]
    if way == 3:
        place = int(random.integers(len(text)))
        return text[:place] + chr(int(random.integers(32, 127))) + text[place + 1 :]
    if way == 4:
        return text.replace(str(random.choice(["0.6", "400", "3", "31"])), _odd(random))
    return "x" * int(random.integers(30_000, 90_000))


def _odd(random: np.random.Generator) -> str:
    odd: list[Any] = [None, -1, 0, 1e308, 10**30, [], {}, "", [[[]]], True, {"array": "x"}]
    return json.dumps(odd[int(random.integers(len(odd)))]).replace("1e+308", "1e999")


def test_messages_of_any_kind_close_one_connection_at_most(lab: Lab, soak: Soak) -> None:
    for _ in range(soak.count(100, 1000)):
        message = mutated(soak.random)
        with contextlib.suppress(ConnectionClosed), dial(lab) as socket:
            socket.send(message)
            # It is answered, or the connection is closed: it never hangs.
            for _ in range(2):
                socket.recv(timeout=PATIENCE)
    assert is_alive(lab)


def test_requests_of_any_kind_are_never_an_error_of_the_server(lab: Lab, soak: Soak) -> None:
    methods = ["GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "BREW"]
    for _ in range(soak.count(60, 1000)):
        letters = soak.random.integers(33, 127, size=soak.random.integers(1, 40))
        path = "/" + "".join(map(chr, letters)).replace("#", "")
        if soak.random.random() < 0.5:
            path = f"/page/{path}"
        host = [f"127.0.0.1:{lab.port}", "x", "127.0.0.1"][soak.random.integers(3)]
        connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=PATIENCE)
        connection.putrequest(str(soak.random.choice(methods)), path, skip_host=True)
        connection.putheader("Host", host)
        connection.putheader("Cookie", "".join(map(chr, letters)))
        connection.endheaders()
        assert connection.getresponse().status < 500
        connection.close()
    assert is_alive(lab)


def test_what_is_no_http_at_all_is_outlived(lab: Lab, soak: Soak) -> None:
    for _ in range(soak.count(20, 300)):
        with sockets.create_connection(("127.0.0.1", lab.port), timeout=PATIENCE) as raw:
            size = soak.random.integers(1, 2000)
            with contextlib.suppress(OSError):
                raw.sendall(bytes(soak.random.integers(256, size=size, dtype=np.uint8)))
    assert is_alive(lab)


def resident() -> int:
    """The memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_connections_leave_nothing_behind(lab: Lab, soak: Soak) -> None:
    def connect(count: int) -> None:
        for _ in range(count):
            with Talk(lab) as talk:
                talk.ask("run", {**SETTING, "seeds": 99})
                talk.answers("refused")

    descriptors = len(os.listdir("/proc/self/fd"))
    connect(20)
    memory, threads, count = resident(), threading.active_count(), soak.count(100, 1000)
    connect(count)
    deadline = time.monotonic() + PATIENCE
    # Sockets are closed a moment after they are left.
    while len(os.listdir("/proc/self/fd")) > descriptors:
        assert time.monotonic() < deadline, "sockets of connections that have gone stay open"
    assert threading.active_count() <= threads + 2 * _session._THREADS
    # A connection that were kept would hold its socket's buffers, a hundred kilobytes and more.
    assert resident() - memory < 2**24 + count * 2**14
