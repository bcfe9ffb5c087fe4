"""The server: the page, its files, and a WebSocket for every tab."""

from __future__ import annotations

import importlib.util
import socket as sockets
import threading
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import quote

from saddlescope.errors import InvalidInput
from saddlescope.lab import _pages
from saddlescope.lab._bounds import check_setting, with_points_of_page
from saddlescope.lab._copying import as_address
from saddlescope.lab._guard import Application, Guard, is_loopback
from saddlescope.lab._protocol import LONGEST_MESSAGE
from saddlescope.lab._session import Engine, converse
from saddlescope.setting import Setting

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, WebSocket

DEFAULT_PORT = 8137

_PACKAGES = ("fastapi", "uvicorn", "websockets")

# Tabs at once; each holds a socket and a mailbox.
_MOST_TABS = 64
_SHORTEST_TOKEN = 8
_BACKLOG = 128
# Seconds until the server is up, or gone.
_PATIENCE = 10.0
# RFC 6455: come back later.
_BUSY = 1013


def make_application(engine: Engine) -> FastAPI:
    """The routes, without access control."""
    from fastapi import FastAPI, Response
    from starlette.routing import Route, WebSocketRoute

    tabs: set[WebSocket] = set()

    async def index(request: Request) -> Response:
        return answer("index.html")

    async def file(request: Request) -> Response:
        return answer(request.path_params["name"])

    async def self_contained(request: Request) -> Response:
        return Response(_pages.self_contained(), media_type=_pages.content_type("index.html"))

    def answer(name: str) -> Response:
        known = _pages.files()
        if name not in known:
            return Response("there is no such file\n", 404, media_type="text/plain")
        return Response(known[name], media_type=_pages.content_type(name))

    async def talk(socket: WebSocket) -> None:
        if len(tabs) >= _MOST_TABS:
            await socket.accept()
            await socket.close(_BUSY, f"{_MOST_TABS} tabs are open already")
            return
        tabs.add(socket)
        try:
            await converse(socket, engine)
        finally:
            tabs.discard(socket)

    routes = [
        Route("/", index),
        Route("/page/{name:path}", file),
        Route("/self-contained", self_contained),
        WebSocketRoute("/talk", talk),
    ]
    return FastAPI(routes=routes, docs_url=None, redoc_url=None, openapi_url=None)


class Lab:
    """A lab that is served from its own thread until it is closed.

    In a notebook it shows itself in a cell. With `warm_up` it compiles what the controls can reach
    while the page is already usable.
    """

    def __init__(
        self,
        setting: Setting | None = None,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        token: str | None = None,
        warm_up: bool = True,
    ) -> None:
        _require_packages()
        import uvicorn

        if setting is not None:
            if not isinstance(setting, Setting):
                raise InvalidInput("setting", setting, "must be a Setting")
            setting = with_points_of_page(setting)
            check_setting(setting)
        _check_token(host, token)
        self._listener = _listen(host, port)
        self.host, self.port = host, int(self._listener.getsockname()[1])
        self._token = token
        self._fragment = "" if setting is None else "#" + as_address(setting)
        self._engine = Engine()
        application: Application = make_application(self._engine)
        config = uvicorn.Config(
            Guard(application, host, self.port, token),
            log_level="warning",
            access_log=False,
            ws_max_size=LONGEST_MESSAGE,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._serving = threading.Thread(
            target=self._server.run, args=([self._listener],), name="saddlescope-lab", daemon=True
        )
        self._serving.start()
        self._warming = self._engine.warm_up() if warm_up else None

    @property
    def address(self) -> str:
        """The address of the page, with the setting that it opens with."""
        named = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        name = f"[{named}]" if ":" in named else named
        query = "" if self._token is None else f"?token={quote(self._token)}"
        return f"http://{name}:{self.port}/{query}{self._fragment}"

    def wait_until_warm(self) -> None:
        """Wait until the warm-up is complete."""
        if self._warming is not None:
            self._warming.result()

    def open_browser(self) -> None:
        """Show the page in the system's browser, if there is one."""
        webbrowser.open(self.address)

    def close(self) -> None:
        """Stop serving; runs that are under way are abandoned."""
        self._server.should_exit = True
        self._engine.close()
        self._serving.join(_PATIENCE)
        self._listener.close()

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{self.address}" title="Saddlescope lab" width="100%" height="820" '
            'style="border: 0" allow="clipboard-write"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Lab({self.address})"


def _require_packages() -> None:
    for name in _PACKAGES:
        if importlib.util.find_spec(name) is None:
            raise InvalidInput("lab", name, "is not installed: pip install 'saddlescope[lab]'")


def _check_token(host: str, token: str | None) -> None:
    if token is None and not is_loopback(host):
        raise InvalidInput("host", host, "others can reach it: give a token, or take 127.0.0.1")
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii()):
        raise InvalidInput("token", token, f"must be {_SHORTEST_TOKEN} ASCII characters or more")
    if token is not None and not all(one.isalnum() or one in "-_." for one in token):
        raise InvalidInput("token", token, "must be of letters, digits, '-', '_' and '.'")


def _listen(host: str, port: int | None) -> sockets.socket:
    """A socket at the port; without one, at the usual port, or at any free one if that is taken."""
    wanted = [DEFAULT_PORT, 0] if port is None else [port]
    for attempt, number in enumerate(wanted):
        if not 0 <= number <= 65_535:
            raise InvalidInput("port", number, "must be from 0 to 65535")
        listener = sockets.socket(sockets.AF_INET6 if ":" in host else sockets.AF_INET)
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            # Connections wait until the server is up.
            listener.listen(_BACKLOG)
        except OSError as problem:
            listener.close()
            if attempt + 1 < len(wanted):
                continue
            field, value = ("port", number) if number else ("host", host)
            reason = problem.strerror or str(problem)
            raise InvalidInput(field, value, f"cannot be listened on: {reason}") from None
        return listener
    raise AssertionError("there is always a last port")
