"""The dashboard's web server: static files, a WebSocket for each page, and checks on who may connect."""

import contextlib
import errno
import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from importlib.resources import files
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from serl.clients.dashboard.board import Board
from serl.clients.dashboard.errors import AddressInUse, NotALocalHost
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.pages import MESSAGE_BYTES_MAX, Page
from serl.exchange.ports import free_port, listening_process
from serl.garbage import collect_while_serving

STATIC = files("serl.clients.dashboard") / "static"
PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)
"""Errors of `bind` about the port; all others are about the host."""
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class OriginGuard:
    """Rejects requests whose Host is a foreign name (DNS rebinding) and WebSockets of pages from another origin."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host.lower()  # `hostname` below is in lower case, as names are equal in any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        allowed = self._is_own_host(host) and (origin is None or origin in (f"http://{host}", f"https://{host}"))
        if scope["type"] == "websocket" and (origin is None or not allowed):
            await WebSocket(scope, receive, send).close(1008)
        elif not allowed:
            await PlainTextResponse("open the address that `serl dashboard` printed", 403)(scope, receive, send)
        else:
            await self._app(scope, receive, _with_headers(send))

    def _is_own_host(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in ("localhost", self._host):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)  # a route may have its own policy
        await send(message)

    return send_with_headers


def application(
    board: Board, link: Link, admin_token: str, host: str, extra_routes: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """The ASGI application: the market page at /, and `extra_routes`."""

    async def market(request: object) -> Response:
        return FileResponse(str(STATIC / "index.html"))

    async def page(socket: WebSocket) -> None:
        await Page(socket, board, link, admin_token).serve()

    routes = [
        Route("/", market),
        WebSocketRoute("/live", page),
        *extra_routes,
        Mount("/static", StaticFiles(directory=str(STATIC))),
    ]
    return OriginGuard(Starlette(routes=routes), host)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `AddressInUse`, naming the process that has the port if it can, and `NotALocalHost`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with its protocol: asyncio sets TCP_NODELAY only for connections of such a socket, and without it a frame waits for the page's answer
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError, TypeError) as error:  # TypeError: a host with a zero byte
        listening.close()
        if not isinstance(error, OverflowError) and getattr(error, "errno", None) not in PORT_ERRORS:
            raise NotALocalHost(
                f"expected an address of this machine, got {host} ({error}); use --host 127.0.0.1 to serve this machine only, 0.0.0.0 for all networks"
            ) from None
        owner = listening_process(port)
        raise AddressInUse(
            f"{host}:{port} cannot be bound ({error}){f': {owner} listens there' if owner else ''}; choose another port, for example "
            f"--port {free_port()}, which is free"
        ) from None
    return listening


def serve_until_stopped(config: uvicorn.Config, listening: socket.socket) -> None:
    """Serves on a socket until SIGINT or SIGTERM."""
    server = uvicorn.Server(config)
    # `run` does so too, but later: a signal before that would leave its coroutine without a loop
    with server.capture_signals():
        server.run(sockets=[listening])


def serve(
    board: Board,
    link: Link,
    host: str,
    port: int,
    extra_routes: Sequence[BaseRoute],
    on_ready: Callable[[str, str], None],
) -> None:
    """Serves until Ctrl-C; calls `on_ready` with the page's address and the operator's address, which contains the operator token."""
    listening = bind(host, port)
    admin_token = secrets.token_urlsafe(18)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"
    config = uvicorn.Config(
        application(board, link, admin_token, host, extra_routes), log_level="warning", lifespan="off", ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES_MAX, ws_per_message_deflate=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    link.start()
    try:
        on_ready(address, f"{address}#operator={admin_token}")
        collect_while_serving()
        serve_until_stopped(config, listening)
    finally:
        link.stop()
        with contextlib.suppress(OSError):
            listening.close()
