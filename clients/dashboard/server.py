"""The web server of the dashboard: static files, a socket for each page, and the rules about who may connect."""

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
from serl.clients.dashboard.errors import NoSuchHost, PageAddressTaken
from serl.clients.dashboard.link import Link
from serl.clients.dashboard.pages import MESSAGE_BYTES_MAX, Page
from serl.exchange.ports import free_port, listening_process

STATIC = files("serl.clients.dashboard") / "static"
OF_PORTS = (errno.EADDRINUSE, errno.EACCES)
"""What `bind` says of a port that cannot be had; the rest is of hosts."""
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Guard:
    """Lets in only who asked for this server: by an address, not by a name that somebody else's DNS could point here; and on sockets
    only pages that came from it."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        allowed = self._is_ours(host) and (origin is None or urlsplit(origin).netloc == host)
        if scope["type"] == "websocket" and (origin is None or not allowed):
            await WebSocket(scope, receive, send).close(1008)
        elif not allowed:
            await PlainTextResponse("open the address that `serl dashboard` printed", 403)(scope, receive, send)
        else:
            await self._app(scope, receive, _with_headers(send))

    def _is_ours(self, host: str) -> bool:
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
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sending


def application(board: Board, link: Link, admin_token: str, host: str, more: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The page of the market at /, and what else is mounted (`more`)."""

    async def market(request: object) -> Response:
        return FileResponse(str(STATIC / "index.html"))

    async def page(socket: WebSocket) -> None:
        await Page(socket, board, link, admin_token).serve()

    routes = [
        Route("/", market),
        WebSocketRoute("/live", page),
        *more,
        Mount("/static", StaticFiles(directory=str(STATIC))),
    ]
    return Guard(Starlette(routes=routes), host)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; PageAddressTaken says who has the port, as far as that can be known, NoSuchHost that the machine has no such address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError, TypeError) as error:  # TypeError: a host that no name can be
        listening.close()
        if not isinstance(error, OverflowError) and getattr(error, "errno", None) not in OF_PORTS:
            raise NoSuchHost(
                f"{host} is no address of this machine ({error}); --host 127.0.0.1 is for this machine alone, 0.0.0.0 for all its networks"
            ) from None
        who = listening_process(port)
        raise PageAddressTaken(
            f"{host}:{port} cannot be bound ({error}){f': {who} listens there' if who else ''}; choose another port, as "
            f"--port {free_port()}, which is free"
        ) from None
    return listening


def serve(
    board: Board, link: Link, host: str, port: int, more: Sequence[BaseRoute], tell: Callable[[str, str], None]
) -> None:
    """Serves until Ctrl-C; `tell` gets the address, and the operator's address with the page's token in it."""
    listening = bind(host, port)
    admin_token = secrets.token_urlsafe(18)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"
    config = uvicorn.Config(
        application(board, link, admin_token, host, more), log_level="warning", lifespan="off", ws="websockets-sansio",
        ws_max_size=MESSAGE_BYTES_MAX, ws_per_message_deflate=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    link.start()
    try:
        tell(address, f"{address}#operator={admin_token}")
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        link.stop()
        with contextlib.suppress(OSError):
            listening.close()
