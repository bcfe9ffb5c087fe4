"""Access control: Host, Origin and token of every request are checked before anything answers."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

Scope = MutableMapping[str, object]
Message = MutableMapping[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "saddlescope_lab"

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# The page may load from and talk to this server only; local pages may show it in a frame.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """An application behind access checks.

    The Host must be a name of this server, which defeats DNS rebinding. An Origin, which browsers
    send with cross-site requests, must be this server's; a WebSocket must have one. If there is a
    token, the address of the page or its cookie must hold it.
    """

    def __init__(self, application: Application, host: str, port: int, token: str | None) -> None:
        self._application = application
        self._names = {*_LOOPBACK_NAMES, host}
        # Any address of the machine may be used; the token keeps others out.
        self._takes_addresses = not is_loopback(host)
        self._port = port
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
        elif (reason := self._refusal(scope)) is not None:
            await _refuse(scope, receive, send, reason)
        else:
            await self._application(scope, receive, self._with_headers(scope, send))

    def _refusal(self, scope: Scope) -> str | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]  # type: ignore[assignment]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return "this name is not the lab's"
        if scope["type"] == "websocket" and not origins:
            return "a page is needed to talk to the lab"
        if any(origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}") for origin in origins):
            return "another page cannot talk to the lab"
        if self._token is not None and not self._has_token(scope, headers):
            return "the token is missing or wrong"
        return None

    def _is_ours(self, host: str) -> bool:
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not name or (port and port != str(self._port)):
            return False
        name = name.removeprefix("[").removesuffix("]").lower()
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._takes_addresses

    def _has_token(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> bool:
        query: bytes = scope.get("query_string", b"")  # type: ignore[assignment]
        given = parse_qs(query.decode("latin-1")).get("token", [])
        for name, value in headers:
            if name == b"cookie":
                given += _cookie(value.decode("latin-1"))
        assert self._token is not None
        wanted = self._token.encode()
        return any(hmac.compare_digest(one.encode(), wanted) for one in given)

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
        if self._token is not None:
            cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            added.append((b"set-cookie", cookie.encode()))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *added]  # type: ignore[misc]
            await send(message)

        return sending


def _cookie(text: str) -> list[str]:
    try:
        cookies: Mapping[str, object] = SimpleCookie(text)
    except CookieError:
        return []
    found = cookies.get(COOKIE)
    return [] if found is None else [found.value]  # type: ignore[attr-defined]


async def _refuse(scope: Scope, receive: Receive, send: Send, reason: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        # Before it is accepted: the handshake is answered with 403.
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
