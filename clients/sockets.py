"""Feed, queries and admin sockets to an exchange, without a login and without blocking."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import zmq

from serl.clients.feed_topics import subscribe
from serl.clients.inbox import drain
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys
from serl.exchange.wire import Kind, with_token

FEED_MESSAGES_MAX = 100_000
REPLY_TIMEOUT_S = 2.0
OnReply = Callable[[list[Any], float], None]
"""Callback with (reply or ERROR, round trip in seconds)."""


class _Request(NamedTuple):
    on_reply: OnReply
    sent_s: float
    expires_s: float
    on_timeout: Callable[[], None] | None


class Sockets:
    """The sockets of one exchange. Replies go to callbacks; a request without a reply times out."""

    def __init__(self, endpoint: str, curve: Path | None = None, token: str = "") -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoints = socket_endpoints(endpoint)
        self._token = token
        self._keys = read_keys(curve) if curve else None
        self.feed = self._connect("feed", zmq.SUB)
        self._queries = self._connect("queries", zmq.DEALER)
        self._admin = self._connect("admin", zmq.DEALER)
        self._poller = zmq.Poller()
        for socket in (self.feed, self._queries, self._admin):
            self._poller.register(socket, zmq.POLLIN)
        self._last_request = 0
        self._pending: dict[int, _Request] = {}

    def _connect(self, name: str, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = FEED_MESSAGES_MAX
        if name == "feed":
            socket.sndhwm = 0  # no limit: a connection begins with all subscriptions, and libzmq drops what is more
        socket.reconnect_ivl, socket.reconnect_ivl_max = 100, 500
        socket.immediate = True  # without a connection a send fails instead of queueing for a later exchange
        if self._keys is not None:
            self._keys.open(socket)
        socket.connect(self._endpoints[name])
        return socket

    @property
    def has_keys(self) -> bool:
        """Whether CURVE keys are used."""
        return self._keys is not None

    @property
    def descriptors(self) -> list[int]:
        """File descriptors for an event loop to wait on: readable when messages may have arrived; then receive all of them."""
        return [int(socket.getsockopt(zmq.FD)) for socket in (self.feed, self._queries, self._admin)]

    def wait(self, timeout_ms: int) -> None:
        """Returns when a message has arrived, or after timeout_ms."""
        self._poller.poll(timeout_ms)

    def request(
        self, on_reply: OnReply, kind: int, *values: Any, on_timeout: Callable[[], None] | None = None,
        timeout_s: float = REPLY_TIMEOUT_S,
    ) -> bool:  # fmt: skip
        """Sends a query, which needs no token here, or an admin request (values: token first); False if there is no connection.

        If it returns True, either `on_reply` or `on_timeout` is called later. timeout_s: replies after this time are dropped.
        """
        self._last_request += 1
        if kind < Kind.ACCOUNT:
            values = tuple(with_token(values, self._token))
        socket = self._admin if kind >= Kind.STOP else self._queries
        try:
            socket.send(msgpack.packb([int(kind), self._last_request, *values]), zmq.DONTWAIT)
        except zmq.Again:
            return False
        now_s = time.perf_counter()
        self._pending[self._last_request] = _Request(on_reply, now_s, now_s + timeout_s, on_timeout)
        return True

    def process_replies(self) -> None:
        """Calls the callbacks of the replies that have arrived and of the requests that have timed out."""
        for socket in (self._queries, self._admin):
            for data in drain(socket):
                reply = msgpack.unpackb(data, strict_map_key=False)
                request = reply[3] if reply[0] == Kind.ERROR else reply[1]
                if request in self._pending:
                    answered = self._pending.pop(request)
                    answered.on_reply(reply, time.perf_counter() - answered.sent_s)
        now_s = time.perf_counter()
        for request in [request for request, each in self._pending.items() if each.expires_s < now_s]:
            on_timeout = self._pending.pop(request).on_timeout
            if on_timeout is not None:
                on_timeout()

    def feed_messages(self, limit: int) -> Iterator[tuple[bytes, list[Any]]]:
        """Yields (topic, message) of at most `limit` feed messages that have arrived."""
        with contextlib.suppress(zmq.Again):
            for _ in range(limit):
                topic, data = self.feed.recv_multipart(zmq.DONTWAIT)
                yield topic, msgpack.unpackb(data)

    def subscribe(self, topic: bytes) -> None:
        """Subscribes to a topic of the feed."""
        subscribe(self.feed, topic, self._token, self._keys is not None)

    def close(self) -> None:
        """Closes the sockets."""
        self._context.destroy(0)
