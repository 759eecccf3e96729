"""Runs the gateway: one process, one event loop."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.types import Receive, Scope, Send

from serl.exchange.errors import ConfigError
from serl.garbage import collect_while_serving
from serl.gateways.accounts import GatewayAccount
from serl.gateways.binance.account import Account
from serl.gateways.binance.api import Gateway
from serl.gateways.binance.api_keys import read_api_key
from serl.gateways.binance.http import http_protocol
from serl.gateways.binance.hub import Hub
from serl.gateways.binance.limits import Limits, LimitSettings
from serl.gateways.binance.link import AccountLink
from serl.gateways.binance.market import Market
from serl.gateways.binance.order_file import OrderFile
from serl.gateways.binance.outbox import PING_S, PONG_S, WebSocketProtocol
from serl.gateways.binance.rest import Rest
from serl.gateways.binance.socket_api import ApiSocket
from serl.gateways.binance.socket_streams import StreamSocket
from serl.gateways.binance.streams import Streams
from serl.gateways.connections import BACKLOG, QUEUE, REQUESTS, ConnectionLimits, lengthen_queues, permitted

MESSAGE_BYTES_MAX = 65_536
KEEP_ALIVE_S = 65
"""Idle HTTP connections stay open for this long; bots keep theirs for many requests."""


class Settings(NamedTuple):
    """The settings of a gateway.

    Attributes:
        connect: orders endpoint of the exchange.
        listen: host and port; port 0 means any free port.
        accounts: accounts by API key.
        folder: folder for the records of orders.
        quote: the quote asset of every symbol.
        token: token of a participant that may read data.
    """

    connect: str
    listen: tuple[str, int]
    accounts: Mapping[str, GatewayAccount]
    folder: Path
    quote: str = "USDT"
    token: str = ""
    curve: Path | None = None
    limits: LimitSettings = LimitSettings()
    connections: ConnectionLimits = REQUESTS


def bind(host: str, port: int) -> socket.socket:
    """Creates a listening socket. Raises ConfigError."""
    # with its protocol, because asyncio sets TCP_NODELAY only for connections of such a socket
    listening = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(QUEUE)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"--listen {host}:{port}: {reason}; choose another address or port") from None
    return listening


class Application:
    """The ASGI application: REST and the two kinds of WebSocket connections."""

    def __init__(self, gateway: Gateway, hub: Hub) -> None:
        self._gateway, self._hub, self._rest = gateway, hub, Rest(gateway)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        path = scope["path"]
        if scope["type"] == "http":
            await self._rest(scope, receive, send)
        elif path.rstrip("/") == "/ws-api/v3":
            await ApiSocket(self._gateway, scope, receive, send).serve()
        elif path in ("/ws", "/stream") or path.startswith(("/ws/", "/stream/")):
            await StreamSocket(self._gateway, self._hub, scope, receive, send).serve()
        else:
            await receive()
            await send({"type": "websocket.close"})


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        lengthen_queues(sockets or ())


def run(settings: Settings, on_ready: Callable[[str, list[str]], None]) -> None:
    """Serves until SIGINT or SIGTERM. on_ready: called with the address, HOST:PORT, and the symbols.

    Raises ConfigError, and the errors of logins and queries during the start.
    """
    listening = bind(*settings.listen)
    try:
        asyncio.run(_serve(settings, listening, on_ready))
    finally:
        listening.close()


async def _serve(settings: Settings, listening: socket.socket, on_ready: Callable[[str, list[str]], None]) -> None:
    api_keys = {key: read_api_key(each) for key, each in settings.accounts.items()}
    async with AsyncExitStack() as closing:
        market = Market(settings.connect, settings.token, settings.curve, settings.quote)
        closing.push_async_callback(market.close)
        await market.connect()
        accounts: dict[str, Account] = {}
        for key, each in settings.accounts.items():
            file = OrderFile(settings.folder, each.participant)
            link = AccountLink(settings.connect, settings.curve, each, file, market.listings, market.offset_ms)
            closing.push_async_callback(link.close)
            await link.connect()
            file.compact()
            accounts[key] = Account(each, api_keys[key], link, market.listings)
        hub = Hub()
        streams = Streams(market, hub)
        application = Application(Gateway(market, accounts, Limits(settings.limits)), hub)
        server = _Server(_config(application, permitted(settings.connections)))
        tasks = [
            asyncio.create_task(steps)
            for steps in (market.run(), streams.run(), *(each.link.run() for each in accounts.values()))
        ]
        try:
            host, port = listening.getsockname()[:2]
            on_ready(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", list(market.symbols))
            collect_while_serving()
            await _until_stopped(server, listening, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _config(application: Application, connections: ConnectionLimits) -> uvicorn.Config:
    return uvicorn.Config(
        application, http=http_protocol(connections), backlog=BACKLOG, log_level="warning", access_log=False, lifespan="off", ws=WebSocketProtocol, ws_max_size=MESSAGE_BYTES_MAX,
        ws_per_message_deflate=False, ws_ping_interval=PING_S, ws_ping_timeout=PONG_S, timeout_graceful_shutdown=1, timeout_keep_alive=KEEP_ALIVE_S, server_header=False, proxy_headers=False, date_header=False, loop="asyncio",
    )  # fmt: skip


async def _until_stopped(server: uvicorn.Server, listening: socket.socket, tasks: "list[asyncio.Task[None]]") -> None:
    """Serves until stopped. If one of the tasks ends, which none should, stops the server and raises the task's error."""
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await asyncio.wait((serving, *tasks), return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
