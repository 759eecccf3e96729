"""Subscriptions to the feed: which topics have subscribers, who may subscribe if the exchange requires a login, and limits per connection."""

import dataclasses
import time
from collections.abc import Callable

import zmq

from serl.exchange import wire
from serl.exchange.budget import Charges, processor_time_s
from serl.exchange.config import LimitsConfig, endpoint_port
from serl.exchange.connections import close_connection
from serl.exchange.login import Login
from serl.exchange.peer import Peer, Refusals, number_of, peer_of

TURN_MESSAGES_MAX = 64
"""Maximum number of subscriptions read in one turn of the loop."""
CONNECTIONS_REMEMBERED = 4096
"""Number of connections whose subscriptions are remembered, closed ones included (libzmq does not report which one has ended). If an older one
unsubscribes, its topics are still encoded, for nobody."""
CLOSED_REMEMBERED = 1024
"""Number of closed connections whose messages are dropped: libzmq stores everything that it has read, and newer subscriptions wait behind it."""
DROP_TURN_S = 0.0003
"""Seconds into a turn of the loop after which no further message of a closed connection is dropped."""
DROP_SHARE = 0.25
"""The part of that time charged to the feed's share. The rest is charged to unauthenticated connections: new connections wait for it, and with
them the next flood."""

_FIRST_BYTES = b"\x00", b"\x01"
"""The first byte of a message that unsubscribes, and of one that subscribes."""


@dataclasses.dataclass(slots=True)
class _Own:
    """The prefixes that a connection is subscribed to, the highest number of them so far, and how many it named that do not exist."""

    prefixes: set[bytes] = dataclasses.field(default_factory=set)
    most: int = 0
    unknown: int = 0

    def change(self, prefix: bytes, subscribes: bool) -> bool:
        """Subscribes or unsubscribes. Returns whether the message was not a repeat: it led to more prefixes than ever before, or to fewer than now."""
        (self.prefixes.add if subscribes else self.prefixes.discard)(prefix)
        is_more = len(self.prefixes) > self.most
        self.most = max(self.most, len(self.prefixes))
        return is_more or not subscribes


class Subscriptions:
    """The subscribed prefixes of an XPUB socket, with their numbers of subscribers.

    A connection adds one to a prefix however often it subscribes, and removes only what it added: nobody can end another's subscription.
    A connection with more than `unknown_topics_max` subscriptions to topics that do not exist is closed, and one that repeats more than
    `repeated_subscriptions_per_s_max`. Where a login is required, the
    exchange decides instead of libzmq who receives what (the socket has been in mode XPUB_MANUAL since before it was bound), and only
    subscriptions with a credential count. A connection's other subscriptions are its own filter and have no effect here.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        login: Login,
        refusals: Refusals,
        limits: LimitsConfig,
    ) -> None:
        self._socket, self._login, self._refusals = socket, login, refusals
        self._unknown_max, self._port = limits.unknown_topics_max, endpoint_port(socket.get_string(zmq.LAST_ENDPOINT))
        self.is_known: Callable[[bytes], bool] = lambda topic: True
        self.prefixes: dict[bytes, int] = {}
        #: prefixes that connections subscribed to in the last turn, even if others were already subscribed
        self.new: set[bytes] = set()
        self._own: dict[str, _Own] = {}
        self._repeated, self._closed = Charges(limits.repeated_subscriptions_per_s_max), dict[str, None]()
        self._dropped_s = 0.0

    def read(self, turn_s: float) -> bool:
        """Reads some of the subscriptions that have arrived, none after `turn_s`. Returns whether the prefixes may have changed."""
        began_s = time.monotonic()
        self.new.clear()
        before = dict(self.prefixes) if len(self.prefixes) < TURN_MESSAGES_MAX else None
        for _ in range(TURN_MESSAGES_MAX):
            frame = self._receive() if time.monotonic() - began_s <= turn_s else None
            if frame is None:
                break
            self._read(frame)
        return before is None or before.keys() != self.prefixes.keys()

    def owed_by_unauthenticated_s(self) -> float:
        """The time to charge to unauthenticated connections since the last call."""
        dropped_s, self._dropped_s = self._dropped_s, 0.0
        return (1.0 - DROP_SHARE) * dropped_s

    def _receive(self) -> zmq.Frame | None:
        """The next message of a connection that is not closed; None if there is none, or if dropping those of closed ones took too long."""
        began_s = processor_time_s()
        stop_s = began_s + DROP_TURN_S
        while began_s < stop_s:
            try:
                frame = self._socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            if not self._closed or (number := number_of(frame)) not in self._closed:
                return frame
            self._drop(frame, number)
            now_s = processor_time_s()
            self._dropped_s += now_s - began_s
            began_s = now_s
        return None

    def _drop(self, frame: zmq.Frame, number: str) -> None:
        """Drops a message of a closed connection, unless it changes what libzmq reports at the end of the connection."""
        data, own = frame.bytes, self._own.get(number)
        if data[:1] in _FIRST_BYTES and (own is None or (data[:1] == b"\x01") != (data[1:] in own.prefixes)):
            self._read(frame)

    def _close(self, peer: Peer) -> None:
        """Closes a connection. The messages that it has already sent are dropped."""
        if peer.number in self._closed:
            return
        self._refusals.connections_closed += 1
        close_connection(peer.descriptor, self._port)
        self._closed[peer.number] = None
        if len(self._closed) > CLOSED_REMEMBERED:
            del self._closed[next(iter(self._closed))]

    def _read(self, frame: zmq.Frame) -> None:
        if frame.bytes[:1] not in _FIRST_BYTES:  # not a subscription: libzmq passes on any message
            self._note_repeated(peer_of(frame))
            return
        prefix, subscribes = frame.bytes[1:], frame.bytes[:1] == b"\x01"
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
                self._close(peer)
                return
            is_repeated = not subscribes
        else:
            is_repeated = subscribes == (prefix in own.prefixes)
            if not is_repeated:
                self._count(topic, 1 if subscribes else -1)
                is_repeated = not own.change(prefix, subscribes)
        if is_repeated:
            self._note_repeated(peer)

    def _note_repeated(self, peer: Peer) -> None:
        """Charges a connection for a message that changes nothing, and closes it if it has sent too many."""
        if not self._repeated.take(int(peer.number)):
            self._close(peer)

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
        # by the token alone, so that a connection's end removes what it added, and another client cannot remove anything
        return self._login.permits("data", token, None)

    def _count(self, topic: bytes, change: int) -> None:
        if change > 0:
            self.new.add(topic)
        count = self.prefixes.get(topic, 0) + change
        self.prefixes[topic] = count
        if count <= 0:
            del self.prefixes[topic]
