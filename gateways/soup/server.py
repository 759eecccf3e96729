"""Serves streams to clients that log in over SoupBinTCP.

A client receives its stream from the message that it requests. Messages that it has not read yet stay in the stream's file: a connection stores no
more than the buffer of its transport.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serl.exchange.log import LineLimit
from serl.gateways.connections import BACKLOG, SESSIONS, ConnectionLimits, lengthen_queues, permitted
from serl.gateways.soup import packets
from serl.gateways.soup.packets import Login
from serl.gateways.soup.stream import StreamLog

TICK_S = 0.1
"""How often heartbeats and time limits are checked."""
SILENCE_MAX_S = 60.0
"""The longest heartbeat timeout that a client of version 4.0 may ask for."""


@dataclass(frozen=True)
class SoupLimits:
    """Limits of a server.

    Attributes:
        heartbeat_s: a client is sent something at least this often.
        silence_s: a client that sends nothing for this long is disconnected.
        login_s: a connection must log in within this time.
        blocked_s: a client that reads nothing of what it is sent for this long is disconnected.
        connections: maximum number of open connections; further ones are closed.
        packet_bytes_max: a longer packet from a client ends its connection.
        unread_bytes_max: maximum bytes that wait in memory for a client to read them.
    """

    heartbeat_s: float = 1.0
    silence_s: float = 15.0
    login_s: float = 5.0
    blocked_s: float = 15.0
    connections: ConnectionLimits = SESSIONS
    packet_bytes_max: int = 1024
    unread_bytes_max: int = 1 << 20


class Stream(Protocol):
    """The stream that a client reads, and the receiver of its messages."""

    log: StreamLog
    readers: "set[Connection]"
    exclusive: bool
    """Whether a login ends the connection of an earlier one."""

    def receive(
        self, connection: "Connection", data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        """Processes the payloads data[start:end] of unsequenced packets."""


class Refusal(Exception):
    """A refused login.

    Attributes:
        reason: `NOT_AUTHORIZED` or `NO_SESSION`.
    """

    def __init__(self, reason: bytes, text: str) -> None:
        super().__init__(text)
        self.reason = reason


DEFAULT_LIMITS = SoupLimits()

Authorize = Callable[[Login], Stream]
"""The stream of a login. Raises `Refusal`."""


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: "SoupServer") -> None:
        self._server = server
        self._limits = server.limits
        self._rest = b""
        self._stream: Stream | None = None
        self._next = 0  # number of the next message to send
        self._silence_s = server.limits.silence_s
        self._is_blocked = False
        self._transport: asyncio.Transport
        self.peer = ""
        self._opened_s = self._received_s = self._sent_s = self._read_s = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = str((transport.get_extra_info("peername") or ("?",))[0])
        transport.set_write_buffer_limits(self._limits.unread_bytes_max)
        limit = self._limits.connections.exceeded((each.peer for each in self._server.connections), self.peer)
        if limit:
            self._report(f"{self.peer}: closed, {limit} connections are open")
            transport.abort()
            return
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._server.connections.discard(self)
        if self._stream is not None:
            self._stream.readers.discard(self)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._is_blocked = True
        self._read_s = time.monotonic()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._is_blocked = False
        self.send_new()

    def pause_reading(self) -> None:
        """Stops receiving, because received messages are waiting for the exchange."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receives again."""
        if not self._transport.is_closing():
            self._received_s = time.monotonic()
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Processes complete packets and keeps the rest for the next call."""
        self._received_s = time.monotonic()
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        starts: list[int] = []
        ends: list[int] = []
        while at + 2 < size:
            length = data[at] << 8 | data[at + 1]
            end = at + 2 + length
            if end > size or not 1 <= length <= self._limits.packet_bytes_max:
                break
            if data[at + 2] == 85 and self._stream is not None:  # U
                starts.append(at + 3)
                ends.append(end)
            else:
                self._flush(data, starts, ends)
                starts, ends = [], []
                self._receive_other(data[at + 2 : at + 3], data[at + 3 : end])
                if self._transport.is_closing():
                    return
            at = end
        self._flush(data, starts, ends)
        self._rest = data[at:]
        self._check_length()

    def _check_length(self) -> None:
        if len(self._rest) < 2 or self._transport.is_closing():
            return
        length = int.from_bytes(self._rest[:2], "big")
        if not 1 <= length <= self._limits.packet_bytes_max:
            self.close(f"expected a packet length of 1 to {self._limits.packet_bytes_max}, got {length}")

    def _flush(self, data: bytes, starts: list[int], ends: list[int]) -> None:
        if starts and self._stream is not None:
            self._stream.receive(self, data, np.array(starts, np.int64), np.array(ends, np.int64))

    def _receive_other(self, kind: bytes, payload: bytes) -> None:
        if self._stream is None:
            self._log_in(kind, payload)
        elif kind == packets.LOGOUT:
            self._transport.close()
        elif kind not in (packets.CLIENT_HEARTBEAT, packets.DEBUG):
            self.close(f"expected a packet of type U, R, O or +, got {kind!r}")

    def _log_in(self, kind: bytes, payload: bytes) -> None:
        login = packets.read_login(payload) if kind == packets.LOGIN_REQUEST else None
        if kind == packets.DEBUG:
            return
        if login is None:
            return self.close(f"expected a login request, got a packet of type {kind!r} and {len(payload)} bytes")
        try:
            stream = self._server.authorize(login)
            if login.sequence > stream.log.count + 1:
                raise Refusal(
                    packets.NO_SESSION,
                    f"expected a sequence number of up to {stream.log.count + 1}, got {login.sequence}",
                )
        except Refusal as refusal:
            self._report(f"{self.peer}: login of {login.user!r} refused: {refusal}")
            self._write(packets.packet(packets.LOGIN_REJECTED, refusal.reason))
            self._transport.close()
            return None
        if stream.exclusive:
            for reader in list(stream.readers):
                reader.close("a later login of the same user ended this one")
        self._next = login.sequence or stream.log.count + 1
        if login.timeout_ms:
            self._silence_s = min(max(login.timeout_ms / 1000, self._limits.heartbeat_s), SILENCE_MAX_S)
        self._write(packets.login_accepted(self._server.session, self._next))
        self._stream = stream
        stream.readers.add(self)
        self.send_new()
        return None

    def send_new(self, data: bytes = b"", count: int = 0) -> None:
        """Sends the messages that the client has not been sent, as fast as it reads. data: the stream's last `count` messages."""
        stream = self._stream
        while stream is not None and not self._is_blocked and self._next <= stream.log.count:
            if self._next + count != stream.log.count + 1:
                data, count = stream.log.read(self._next)
            self._write(data)
            self._next += count
            data, count = b"", 0

    def _write(self, data: bytes) -> None:
        self._sent_s = time.monotonic()
        self._transport.write(data)

    def _report(self, text: str) -> None:
        line = text if self._stream is not None else self._server.strangers.limit(text)
        if line:
            self._server.report(line)

    def explain(self, text: str) -> None:
        """Tells the client in a debug packet what it did wrong."""
        if not self._is_blocked and not self._transport.is_closing():
            self._write(packets.debug(text))

    def close(self, reason: str) -> None:
        """Ends the connection; the client is told why in a debug packet."""
        if not self._transport.is_closing():
            self._report(f"{self.peer}: disconnected: {reason}")
            self.explain(reason)
            self._transport.close()

    def end_session(self) -> None:
        """Tells a client that its session has ended, and ends the connection."""
        if self._stream is not None and not self._is_blocked:
            self._write(packets.packet(packets.END_OF_SESSION))
        self._transport.close()

    def check_times(self, now_s: float) -> None:
        """Sends a heartbeat that is due; disconnects a client that is silent, does not log in or does not read."""
        if self._transport.is_closing():
            if now_s - max(self._sent_s, self._received_s) > self._limits.login_s:
                self._transport.abort()  # the client does not read the data sent before the close
        elif self._stream is None:
            if now_s - self._opened_s > self._limits.login_s:
                self.close(f"expected a login within {self._limits.login_s:g} s")
        elif self._is_blocked:
            if now_s - self._read_s > self._limits.blocked_s:
                self._report(f"{self.peer}: disconnected: read nothing for {self._limits.blocked_s:g} s")
                self._transport.abort()
        elif now_s - self._received_s > self._silence_s and self._transport.is_reading():
            self.close(f"expected a heartbeat within {self._silence_s:g} s")
        elif now_s - self._sent_s >= self._limits.heartbeat_s:
            self._write(packets.packet(packets.SERVER_HEARTBEAT))


class SoupServer:
    """Listens, and keeps the connections."""

    def __init__(
        self, session: str, authorize: Authorize, report: Callable[[str], None], limits: SoupLimits = DEFAULT_LIMITS
    ) -> None:
        self.session = session
        self.authorize = authorize
        self.report = report
        self.strangers = LineLimit()
        """Limits the log lines about connections that are not logged in."""
        self.limits = limits
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int) -> int:
        """Starts listening; returns the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self.limits = replace(self.limits, connections=permitted(self.limits.connections))
        self._server = await loop.create_server(lambda: Connection(self), host, port, backlog=BACKLOG)
        lengthen_queues(self._server.sockets)
        self._tick()
        return int(self._server.sockets[0].getsockname()[1])

    def _tick(self) -> None:
        now_s = time.monotonic()
        for connection in list(self.connections):
            connection.check_times(now_s)
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def end_session(self, session: str) -> None:
        """Ends the session of all clients; clients that log in from now on join session `session`."""
        self.session = session
        for connection in list(self.connections):
            connection.end_session()

    async def close(self) -> None:
        """Stops; clients may log in again where the session is served next."""
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close("the gateway stops")
        await asyncio.sleep(0)  # their transports write what is left
