"""HTTP connections: limits on their number and on the time that a request takes to arrive. An idle connection does not take up a place for long."""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import encode
from serl.gateways.connections import ConnectionLimits

REQUEST_S = 10.0
"""A connection ends if a request has not arrived completely after this long, or if there is none."""
HEAD_BYTES_MAX = 65_536
"""Maximum size of a request before its body; the parser has no limit of its own."""


def http_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """The protocol of HTTP connections with these limits. WebSocket connections begin as HTTP connections and count until they are closed."""

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
        # a connection that is being upgraded has no address for a moment
        addresses = (each.client[0] if each.client is not None else "" for each in self.connections)
        limit = self.connection_limits.exceeded(addresses, str((transport.get_extra_info("peername") or ("?",))[0]))
        if limit:
            self._is_refused = True
            _refuse(transport, limit)
            return
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        # data after an answered request belongs to the next one
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

    def _await_request(self) -> None:
        if self.transport.get_protocol() is not self:  # it has become a WebSocket, which uses pings
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _refuse(transport: Any, limit: int) -> None:
    """Answers with an error, whatever the request, and closes the connection."""
    error = BinanceError(-1034, f"Too many concurrent connections; current limit is '{limit}'.", 429)
    body = encode(error.body()).encode()
    transport.write(
        b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Type: application/json;charset=UTF-8\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    transport.close()
