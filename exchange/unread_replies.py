"""Limits the bytes of replies that clients have not read and libzmq therefore stores. libzmq limits only their number, but a reply to L3 may have megabytes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from serl.exchange.open_sockets import COUNTS_BYTES, acked_bytes
from serl.exchange.peer import Peer

STALLED_S, SLOW_S = 1.0, 10.0
"""If there is no room, a connection is closed that has read nothing for STALLED_S or has had unread replies for SLOW_S: the one with the most unread bytes."""
LOOK_S = 0.02
"""Seconds between two checks of all connections."""


@dataclass
class _Connection:
    """A connection, and the bytes of its replies since it had last read all of them."""

    number: str
    read_before: int
    """Bytes that it had received by then: acknowledged by its system, which then stores them."""
    since_s: float
    sent: int = 0
    read: int = 0
    progress_s: float = 0.0

    @property
    def unread(self) -> int:
        return self.sent - self.read


class UnreadReplies:
    """Room for the replies of both ROUTER sockets together: half of it for all connections, the other half for those that have read all earlier replies.
    While less than half is unread, nothing is looked up. Only Linux reports how much a connection has received; elsewhere there is no limit."""

    def __init__(self, bytes_max: int, close: Callable[[int], None], acked: Callable[[int], int] = acked_bytes) -> None:
        """close: closes the connection with a descriptor. acked: returns the bytes that it has received, -1 if it is not a connection."""
        self._bytes_max, self._close, self._acked = bytes_max, close, acked
        acked(-1)  # compiled code is loaded now, not at the first reply
        self._connections: dict[int, _Connection] = {}  # by descriptor
        self._unread_max = 0  # upper bound of the unread bytes: as if nothing had been read since the last check
        self._looked_s = 0.0

    def admits(self, peer: Peer) -> bool:
        """Whether the peer may be sent a reply. If no room is left for a peer that has read all earlier replies, closes another that does not read."""
        if self._unread_max < self._bytes_max // 2:
            return True
        now_s = time.monotonic()
        if now_s >= self._looked_s + LOOK_S:
            self._look(now_s)
        if self._unread_max < self._bytes_max // 2:
            return True
        own = self._connections.get(peer.descriptor)
        if own is not None and own.number == peer.number:
            return False
        return self._unread_max < self._bytes_max or self._make_room(now_s)

    def add(self, peer: Peer, size: int) -> None:
        """Notes that a reply of this size is about to be sent; what the peer has received before belongs to earlier ones. Negative: it was not sent."""
        if not COUNTS_BYTES or peer.descriptor < 0:
            return
        own = self._connections.get(peer.descriptor)
        if own is None or own.number != peer.number:
            now_s = time.monotonic()
            own = _Connection(peer.number, self._acked(peer.descriptor), now_s, progress_s=now_s)
            self._connections[peer.descriptor] = own
        own.sent += size
        self._unread_max += size

    def _look(self, now_s: float) -> None:
        """Forgets the connections that are gone or have read everything."""
        self._looked_s = now_s
        for descriptor, each in list(self._connections.items()):
            read = self._acked(descriptor) - each.read_before
            if read < each.read or read >= each.sent:  # the descriptor belongs to another connection or to none
                del self._connections[descriptor]
            elif read > each.read:
                each.read, each.progress_s = read, now_s
        self._unread_max = sum(each.unread for each in self._connections.values())

    def _make_room(self, now_s: float) -> bool:
        """Closes the connection with the most unread among those that do not read. Returns whether there is one."""
        idle = [
            descriptor
            for descriptor, each in self._connections.items()
            if now_s - each.progress_s > STALLED_S or now_s - each.since_s > SLOW_S
        ]
        if not idle:
            return False
        worst = max(idle, key=lambda descriptor: self._connections[descriptor].unread)
        self._unread_max -= self._connections.pop(worst).unread
        self._close(worst)
        return True
