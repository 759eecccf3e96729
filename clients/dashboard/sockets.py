"""The sockets over which a dashboard asks, listens and operates; without a login."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import zmq

from serl.clients.core import drain
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys
from serl.exchange.wire import Kind

FEED_MESSAGES_MAX = 100_000
ANSWER_S = 2.0
Answered = Callable[[list[Any], float], None]
"""Takes (reply or ERROR, seconds it took)."""


class Sockets:
    """Feed, queries and admin of one exchange. Nothing waits; what is not answered within ANSWER_S is forgotten, and who asked may be told."""

    def __init__(self, endpoint: str, curve: Path | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoints = socket_endpoints(endpoint)
        self._keys = read_keys(curve) if curve else None
        self.feed = self._connect("feed", zmq.SUB)
        self._queries = self._connect("queries", zmq.DEALER)
        self._admin = self._connect("admin", zmq.DEALER)
        self._poller = zmq.Poller()
        for socket in (self.feed, self._queries, self._admin):
            self._poller.register(socket, zmq.POLLIN)
        self._request = 0
        self._asked: dict[int, tuple[Answered, float, Callable[[], None] | None]] = {}

    def _connect(self, name: str, kind: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = FEED_MESSAGES_MAX
        socket.reconnect_ivl, socket.reconnect_ivl_max = 100, 500
        socket.immediate = True  # a question to nobody is not kept for whoever comes
        if self._keys is not None:
            self._keys.open(socket)
        socket.connect(self._endpoints[name])
        return socket

    def wait(self, timeout_ms: int) -> None:
        """Returns when something has come, or after timeout_ms."""
        self._poller.poll(timeout_ms)

    def ask(self, answered: Answered, kind: int, *values: Any, unanswered: Callable[[], None] | None = None) -> bool:
        """Asks a query, or an admin request (values: token first); False if nobody is there to be asked.

        One of `answered` and `unanswered` is called if it returns True.
        """
        self._request += 1
        socket = self._admin if kind >= Kind.STOP else self._queries
        try:
            socket.send(msgpack.packb([int(kind), self._request, *values]), zmq.DONTWAIT)
        except zmq.Again:
            return False
        self._asked[self._request] = (answered, time.perf_counter(), unanswered)
        return True

    def take_replies(self) -> None:
        """Tells those who asked, also those whose answer is late."""
        for socket in (self._queries, self._admin):
            for data in drain(socket):
                reply = msgpack.unpackb(data, strict_map_key=False)
                request = reply[3] if reply[0] == Kind.ERROR else reply[1]
                if request in self._asked:
                    answered, asked_s, _ = self._asked.pop(request)
                    answered(reply, time.perf_counter() - asked_s)
        late = time.perf_counter() - ANSWER_S
        for request in [request for request, (_, asked_s, _) in self._asked.items() if asked_s < late]:
            *_, unanswered = self._asked.pop(request)
            if unanswered is not None:
                unanswered()

    def feed_messages(self, most: int) -> Iterator[tuple[bytes, list[Any]]]:
        """(topic, message) of what the feed has brought, at most so many."""
        with contextlib.suppress(zmq.Again):
            for _ in range(most):
                topic, data = self.feed.recv_multipart(zmq.DONTWAIT)
                yield topic, msgpack.unpackb(data)

    def close(self) -> None:
        """Lets the sockets go."""
        self._context.destroy(0)
