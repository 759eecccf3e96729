"""Which topics of the feed have subscribers; who may subscribe where the exchange requires a login; how much one connection may subscribe to."""

import dataclasses
import time
from collections.abc import Callable

import zmq

from serl.exchange import wire
from serl.exchange.config import endpoint_port
from serl.exchange.connections import close_connection
from serl.exchange.login import Login
from serl.exchange.peer import Refusals, peer_of

TURN_MESSAGES_MAX = 64
"""Subscriptions read in one turn of the loop."""
CONNECTIONS_REMEMBERED = 4096
"""Connections, closed ones too (libzmq does not tell which one has ended), whose subscriptions are remembered. If an older one unsubscribes, its topics are still encoded, for nobody."""


@dataclasses.dataclass(slots=True)
class _Own:
    """The prefixes that a connection is subscribed to, and how many it named that do not exist."""

    prefixes: set[bytes] = dataclasses.field(default_factory=set)
    unknown: int = 0


class Subscriptions:
    """The subscribed prefixes of an XPUB socket, with their numbers of subscribers.

    A connection adds one to a prefix however often it subscribes, and takes away only what it added: nobody can end another's subscription.
    A connection with more than `unknown_max` subscriptions to topics that do not exist is closed. Where a login is required, the
    exchange decides instead of libzmq who receives what (the socket has the mode XPUB_MANUAL from before it was bound), and only subscriptions
    with a credential count. A connection's other subscriptions are its own filter and have no effect here.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        login: Login,
        refusals: Refusals,
        unknown_max: int,
    ) -> None:
        self._socket, self._login, self._refusals = socket, login, refusals
        self._unknown_max, self._port = unknown_max, endpoint_port(socket.get_string(zmq.LAST_ENDPOINT))
        self.is_known: Callable[[bytes], bool] = lambda topic: True
        self.prefixes: dict[bytes, int] = {}
        #: those that connections subscribed to in the last turn, also where others were subscribed before
        self.new: set[bytes] = set()
        self._own: dict[str, _Own] = {}

    def read(self, turn_s: float) -> bool:
        """Reads some of the subscriptions that have arrived, none after `turn_s`. Returns whether the prefixes may have changed."""
        began_s = time.monotonic()
        self.new.clear()
        before = dict(self.prefixes) if len(self.prefixes) < TURN_MESSAGES_MAX else None
        for _ in range(TURN_MESSAGES_MAX):
            if time.monotonic() - began_s > turn_s:
                break
            try:
                frame = self._socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            data = frame.bytes
            if data:
                self._read(frame, data[1:], data[:1] == b"\x01")
        return before is None or before.keys() != self.prefixes.keys()

    def _read(self, frame: zmq.Frame, prefix: bytes, subscribes: bool) -> None:
        topic, permitted = prefix, True
        if self._login.required:
            parsed = wire.read_subscription(prefix)
            token, topic = parsed or ("", prefix)
            permitted = parsed is not None and self._may_follow(frame, token, topic, subscribes)
            if parsed is None and self.is_known(topic):
                return
        peer = peer_of(frame)
        if not peer.number:  # libzmq's own message at the end of a connection: one for each prefix it was subscribed to
            self._count(topic, -1 if permitted and self.is_known(topic) else 0)
            return
        self._refusals.heard.add(peer.descriptor)
        own = self._remembered(peer.number)
        if not permitted or not self.is_known(topic):
            own.unknown += subscribes
            if own.unknown > self._unknown_max:
                self._refusals.connections_closed += 1
                close_connection(peer.descriptor, self._port)
        elif subscribes != (prefix in own.prefixes):
            (own.prefixes.add if subscribes else own.prefixes.discard)(prefix)
            self._count(topic, 1 if subscribes else -1)

    def _remembered(self, number: str) -> _Own:
        if number not in self._own and len(self._own) >= CONNECTIONS_REMEMBERED:
            del self._own[next(iter(self._own))]
        return self._own.setdefault(number, _Own())

    def _may_follow(self, frame: zmq.Frame, token: str, topic: bytes, subscribes: bool) -> bool:
        """Tells libzmq whether the connection receives a topic. Returns whether the subscription counts."""
        peer = peer_of(frame)
        if subscribes and not self._login.permits("data", token, peer.key):
            self._refusals.log(peer.address, f"subscription to {topic[:80]!r}")
        elif subscribes:
            self._socket.setsockopt(zmq.SUBSCRIBE, topic)
        else:
            self._socket.setsockopt(zmq.UNSUBSCRIBE, topic)
        # by the token alone, so that a connection's end takes back what it added, and a stranger cannot take back anything
        return self._login.permits("data", token, None)

    def _count(self, topic: bytes, change: int) -> None:
        if change > 0:
            self.new.add(topic)
        count = self.prefixes.get(topic, 0) + change
        self.prefixes[topic] = count
        if count <= 0:
            del self.prefixes[topic]
