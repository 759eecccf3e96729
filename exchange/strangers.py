"""Connections to the orders socket that are not logged in: what they may cost, and how they end."""

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable

import zmq

from serl.exchange.connections import open_connection
from serl.exchange.gateway.state import CLOSED_ROUTES, GatewayState
from serl.exchange.peer import Peer, Refusals

GRACE_S = 0.1
"""Time in which a connection that is closed may still read why."""


class Strangers:
    """Nobody knows who they are, so all of them share one budget, which also admits new connections (zap.py).

    While it has no time left, the first message of each connection is answered (it cost an admission) and the next one closes it. So what is
    answered was admitted before, and who floods under ever new connections waits for his next one.
    """

    def __init__(
        self,
        gateway: GatewayState,
        router: "zmq.Socket[bytes]",
        port: int,
        connections_max: int,
        is_limited: Callable[[], bool],
        refusals: Refusals,
    ) -> None:
        self._gateway, self._router, self._port = gateway, router, port
        self._connections_max, self._is_limited, self._refusals = connections_max, is_limited, refusals
        self._known: dict[int, None] = {}  # routing numbers, in the order of their first messages
        self._closing: deque[tuple[float, socket.socket]] = deque()

    def may_be_answered(self, route: int) -> bool:
        """Whether there is time for a message of a connection."""
        if route in self._known:
            return not self._is_limited()
        self.remember(route)
        return True

    def remember(self, route: int) -> None:
        """Notes that a connection has had its first message."""
        if len(self._known) >= 2 * self._connections_max:
            del self._known[next(iter(self._known))]
        self._known[route] = None

    def close(self, route: int, peer: Peer, message: bytes) -> None:
        """Sends a connection a message, which shows that it still exists, and closes it in GRACE_S. The compiled loop drops what it has
        sent already."""
        own = open_connection(peer.descriptor, self._port)
        if own is None:
            return
        self._router.get(zmq.EVENTS)  # libzmq notices now whose connections have ended
        try:
            self._router.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
        except zmq.Again:
            pass  # it does not read
        except zmq.ZMQError:  # it has ended, and its descriptor may be another's now
            own.close()
            return
        self._refusals.connections_closed += 1
        gateway = self._gateway
        gateway.closed_route[gateway.counter[CLOSED_ROUTES] % len(gateway.closed_route)] = route
        gateway.counter[CLOSED_ROUTES] += 1
        self._closing.append((time.monotonic() + GRACE_S, own))

    def finish(self) -> None:
        """Ends connections whose time to read is over."""
        while self._closing and self._closing[0][0] <= time.monotonic():
            own = self._closing.popleft()[1]
            with contextlib.suppress(OSError), own:
                own.shutdown(socket.SHUT_RDWR)
