"""Which topics of the feed have subscribers; who may subscribe where the exchange requires a login."""

import zmq

from serl.exchange import wire
from serl.exchange.login import Login
from serl.exchange.peer import Refusals, peer_of


class Subscriptions:
    """The subscribed prefixes of an XPUB socket, with their numbers of subscribers.

    Where a login is required, libzmq leaves it to the exchange who receives what (the socket is in the mode XPUB_MANUAL since before it was
    bound), and only subscriptions with a credential count. A connection's other subscriptions are its own filter: nothing follows from them.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", login: Login, refusals: Refusals) -> None:
        self._socket, self._login, self._refusals = socket, login, refusals
        self.prefixes: dict[bytes, int] = {}

    def read(self) -> None:
        """Reads subscriptions that have arrived."""
        while self._socket.poll(0):
            frame = self._socket.recv(copy=False)
            data = frame.bytes
            if self._login.required:
                self._read_credential(frame, data)
            elif data:
                self._count(data[1:], data[:1] == b"\x01")

    def _read_credential(self, frame: zmq.Frame, data: bytes) -> None:
        parsed = wire.read_subscription(data[1:])
        if parsed is None:
            return
        token, topic = parsed
        subscribes = data[:1] == b"\x01"
        peer = peer_of(frame) if subscribes else None  # of a connection that is gone nothing is known
        if subscribes and not self._login.permits("data", token, peer.key if peer else ""):
            self._refusals.log(peer.address if peer else "", f"subscription to {topic[:80]!r}")
        elif subscribes:
            self._socket.setsockopt(zmq.SUBSCRIBE, topic)
        else:
            self._socket.setsockopt(zmq.UNSUBSCRIBE, topic)
        # by the token alone, so that a connection's end takes back what it added, and a stranger cannot take back anything
        if self._login.permits("data", token, None):
            self._count(topic, subscribes)

    def _count(self, prefix: bytes, subscribes: bool) -> None:
        count = self.prefixes.get(prefix, 0) + (1 if subscribes else -1)
        self.prefixes[prefix] = count
        if count <= 0:
            del self.prefixes[prefix]
