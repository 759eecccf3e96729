"""The sockets of a client to one exchange. Sending never blocks."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import zmq

from serl.clients.errors import ExchangeUnreachable, ForkedClient, unreachable_advice
from serl.clients.feed_topics import subscribe, unsubscribe
from serl.exchange.config import socket_endpoints
from serl.exchange.keys import read_keys


class Connection:
    """Orders, queries and feed socket."""

    def __init__(self, endpoint: str, curve: Path | None) -> None:
        self.endpoint, self._process = endpoint, os.getpid()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoints = socket_endpoints(endpoint)
        self._curve = read_keys(curve) if curve else None
        #: number of messages received so far, on all sockets
        self.received = 0
        #: whether nothing is received: tasks are about to raise the last error, and another one would take its place
        self.is_held = False
        #: whether messages may have arrived that libzmq no longer signals: every other call on a socket may consume its signal
        self.is_unread = False
        #: called when `is_unread` becomes true
        self.on_unread: Callable[[], None] = lambda: None
        self.orders = self._connect("orders", zmq.DEALER)
        self.queries = self._connect("queries", zmq.DEALER)
        self.feed = self._connect("feed", zmq.SUB)

    def _connect(self, name: str, kind: int) -> "zmq.Socket[bytes]":
        socket = self.context.socket(kind)
        socket.linger = 500
        if name == "feed":
            socket.rcvhwm = 100_000
        if name in ("orders", "feed"):
            socket.sndhwm = 0  # no limit: a login sends all unanswered commands at once, a connection all subscriptions, and libzmq drops what is more
        if self._curve is not None:
            self._curve.open(socket)
        socket.connect(self._endpoints[name])
        return socket

    @property
    def is_forked(self) -> bool:
        """Whether this process is a fork of the one that opened the sockets. libzmq's calls on them do not return here."""
        return os.getpid() != self._process

    def require_own_process(self) -> None:
        """Raises ForkedClient in a fork."""
        if self.is_forked:
            raise ForkedClient(
                f"expected a client that this process connected, got one of process {self._process}, of which this is a fork; connect again here"
            )

    @property
    def sockets(self) -> "list[zmq.Socket[bytes]]":
        """The sockets to wait on between two steps."""
        return [self.orders, self.queries, self.feed]

    def transmit(self, message: bytes) -> None:
        """Sends a message on the orders socket, without noting the time. Raises `ExchangeUnreachable`."""
        self._put(self.orders, message)

    def query(self, message: bytes) -> None:
        """Sends a message on the queries socket. Raises `ExchangeUnreachable` if too many queries are queued for an unreachable exchange."""
        self._put(self.queries, message)

    def try_query(self, message: bytes) -> None:
        """Sends a query that its caller repeats if no reply arrives; a full queue is no error."""
        with contextlib.suppress(ExchangeUnreachable):
            self.query(message)

    def open_topic(self, topic: bytes, token: str) -> None:
        """Subscribes to a topic of the feed."""
        self._note_use()
        subscribe(self.feed, topic, token, self._curve is not None)

    def close_topic(self, topic: bytes, token: str) -> None:
        """Ends the subscription made by `open_topic`."""
        self._note_use()
        unsubscribe(self.feed, topic, token, self._curve is not None)

    def _put(self, socket: "zmq.Socket[bytes]", message: bytes) -> None:
        self._note_use()
        try:
            socket.send(message, zmq.DONTWAIT)
        except zmq.Again:
            advice = unreachable_advice(self._curve is not None)
            raise ExchangeUnreachable(f"{self.endpoint} accepts no messages; {advice}") from None

    def _note_use(self) -> None:
        self.require_own_process()
        if not self.is_unread:
            self.is_unread = True
            self.on_unread()

    def disconnect(self) -> None:
        """Closes the sockets."""
        for socket in self.sockets:
            socket.close()
        self.context.term()
