"""How many TCP connections there may be, and how long a request may take to arrive: who only connects takes no place from others for long."""

import asyncio
from typing import Any, NamedTuple

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from serl.exchange.log import log
from serl.exchange.open_files import raise_open_files
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import encode

BACKLOG = 512
"""Connections that are accepted in a turn of the event loop; until a refused one is closed, asyncio accepts three turns more."""
RESERVED = 128 + 4 * BACKLOG
"""Descriptors kept for the exchange's sockets, the files of orders, the standard streams, and connections that are being refused."""
REQUEST_S = 10.0
"""A request that has not arrived whole after this long ends its connection; so does a connection without a request."""
HEAD_BYTES_MAX = 65_536
"""Of a request up to its body; the parser has no limit of its own."""


class ConnectionLimits(NamedTuple):
    """How many connections may be open.

    Attributes:
        total: of all addresses.
        per_address: of one of them.
    """

    total: int = 1024
    per_address: int = 300


def permitted(limits: ConnectionLimits) -> ConnectionLimits:
    """Lets the process open as many connections, as far as the system permits. Returns what it permits, and logs if that is less."""
    allowed = raise_open_files(limits.total + RESERVED)
    if allowed is None or allowed >= limits.total + RESERVED:
        return limits
    total = max(1, allowed - RESERVED)
    log(
        "few_descriptors",
        f"--connections: expected a limit of {limits.total + RESERVED} open files for {limits.total} connections, got {allowed}: "
        f"{total} connections are served; raise it with ulimit -n",
    )
    return limits._replace(total=total)


def http_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol of HTTP connections with these limits. WebSocket connections begin as such, and count until they are closed."""

    class Protocol(_HttpProtocol):
        connection_limits = limits

    return Protocol


class _HttpProtocol(AutoHTTPProtocol):
    connection_limits: ConnectionLimits
    connections: set[Any]
    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol."""
        error = self._excess(str(transport.get_extra_info("peername")[0]))
        if error is not None:
            self._is_refused = True
            _refuse(transport, error)
            return
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        # what comes after an answered request belongs to the next one
        cycle = self.cycle
        has_head = cycle is not None and (cycle.more_body or not cycle.response_complete)
        self._head_bytes = 0 if has_head else self._head_bytes + len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()
        elif has_head and not cycle.more_body:
            self._stop_waiting()
        else:
            self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if not self._is_refused:
            self._stop_waiting()
            super().connection_lost(exc)

    def _excess(self, address: str) -> BinanceError | None:
        """The limit that one more connection of an address exceeds. O(open connections), a few microseconds each hundred."""
        total, per_address = self.connection_limits
        if len(self.connections) >= total:
            return _too_many(total)
        # a connection that is being upgraded has no address for a moment
        count = sum(each.client is not None and each.client[0] == address for each in self.connections)
        return _too_many(per_address) if count >= per_address else None

    def _await_request(self) -> None:
        if self.transport.get_protocol() is not self:  # a WebSocket by now, which has pings
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _too_many(limit: int) -> BinanceError:
    return BinanceError(-1034, f"Too many concurrent connections; current limit is '{limit}'.", 429)


def _refuse(transport: Any, error: BinanceError) -> None:
    """Answers, whatever the request, and closes."""
    body = encode(error.body()).encode()
    transport.write(
        b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: application/json;charset=UTF-8\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    transport.close()
