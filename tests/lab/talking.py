"""A page without a browser: what it sends, and the frames that come."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from websockets.sync.client import ClientConnection, connect

from saddlescope.checks import AnyArray
from saddlescope.lab._protocol import read_frame
from saddlescope.lab.server import Lab

SETTING: dict[str, Any] = {
    "model": {"kind": "separate", "heads": 3},
    "task": {"kind": "in_context_regression", "spectrum": [0.6, 0.3], "context_length": 31},
    "method": {"kind": "descent", "learning_rate": 0.5, "steps": 400},
    "init": {"kind": "random", "init_scale": 0.1},
    "record": {"kind": "record", "points": 101},
    "seeds": 3,
}

PATIENCE = 60.0


def origin(lab: Lab) -> str:
    return f"http://127.0.0.1:{lab.port}"


@contextmanager
def dial(lab: Lab, **options: Any) -> Iterator[ClientConnection]:
    """A connection, as a page makes it unless the options say otherwise."""
    options.setdefault("origin", origin(lab))
    address = f"ws://127.0.0.1:{lab.port}/talk{options.pop('query', '')}"
    with connect(address, max_size=None, open_timeout=PATIENCE, **options) as socket:
        yield socket


class Talk:
    """A connection that counts its requests."""

    def __init__(self, lab: Lab) -> None:
        self._open = ExitStack()
        self.socket = self._open.enter_context(dial(lab))
        self.number = 0
        self.hello = self.receive()

    def ask(self, what: str, setting: object, **more: object) -> int:
        self.number += 1
        message = {"ask": what, "number": self.number, "setting": setting, **more}
        self.socket.send(json.dumps(message))
        return self.number

    def receive(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        frame = self.socket.recv(timeout=PATIENCE)
        assert isinstance(frame, bytes)
        return read_frame(frame)  # type: ignore[return-value]

    def answers(self, *kinds: str) -> dict[str, tuple[dict[str, Any], dict[str, AnyArray]]]:
        """What comes until there is one of each kind, runs when they are whole."""
        found: dict[str, tuple[dict[str, Any], dict[str, AnyArray]]] = {}
        while not set(kinds) <= set(found):
            header, arrays = self.receive()
            if header["kind"] != "run" or header["share"] == 1:
                found[header["kind"]] = header, arrays
            if header["kind"] == "refused" and "refused" not in kinds:
                raise AssertionError(header["reason"])
        return found

    def __enter__(self) -> "Talk":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()
