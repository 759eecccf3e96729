"""Connections to the orders socket that are not logged in: limits their cost, and closes them."""

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable

import zmq

from serl.exchange.connections import open_connection
from serl.exchange.gateway.state import CLOSED_ROUTES, DROPPED, DROPPED_BYTES, MUTED_ROUTES, GatewayState
from serl.exchange.peer import Peer, Refusals
from serl.exchange.wire import Kind, pack

ANSWERS_MIN = 8
"""Messages per connection that are answered even if no time is left: enough for a login and some refused messages."""
FLOOD_MESSAGES = 256
"""Messages that a connection may send after it was told that it is not logged in: many commands are on their way when a session ends. After more it
is closed. Otherwise a flood of large messages would occupy the processor for as long as the share of unauthenticated connections allows
at once, 20 ms of each 200."""
DROP_S, DROP_BYTE_S = 2e-6, 3e-10
"""Time to receive and drop a message, and each of its bytes, in libzmq's thread and in the loop."""
FLOOD_WAIT_S, ADMISSION_S = 1.0, 0.05
"""After such a flood nobody is admitted for this time, because its sender is likely to reconnect at once and send as much again: however little each
of these bursts costs, ten a second delay more than one order in a hundred. Then all who wait are admitted for ADMISSION_S, and a flood in this time
counts at its end."""
GRACE_S = 0.1
"""Time in which a connection that is being closed may still read the reason."""


class UnauthenticatedConnections:
    """Connections that are not logged in. They are anonymous, so all of them share one budget, which also pays for admitting new ones (zap.py).

    While the budget has no time left, the first ANSWERS_MIN messages of each connection are still answered, because it had to wait for its
    admission; the next message closes it. A client that floods through one new connection after another must wait for each of them.
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
        self._connections_max, self.is_limited, self._refusals = connections_max, is_limited, refusals
        self._answered: dict[int, int] = {}  # messages by routing number, in the order of their first messages
        self._muted: dict[int, Peer] = {}  # by place in gateway.muted_route
        self._dropped = self._dropped_bytes = 0
        self._closing: deque[tuple[float, socket.socket]] = deque()
        self._is_holding = False  # nobody is admitted, because of a flood
        self._admitting_from_s = 0.0
        self._was_flooded = False  # since connections are admitted again

    def may_be_answered(self, route: int) -> bool:
        """Whether there is time for a message of a connection."""
        answered = self._answered.get(route, 0)
        if answered >= ANSWERS_MIN and self.is_limited():
            return False
        if not answered and len(self._answered) >= 2 * self._connections_max:
            del self._answered[next(iter(self._answered))]
        self._answered[route] = answered + 1
        return True

    def forget(self, route: int) -> None:
        """Resets the message count of a connection: its participant, which logged out, has paid for the next login. Does nothing while no time is left:
        otherwise it would be answered however often it logs in."""
        if not self.is_limited():
            self._answered.pop(route, None)

    def mute(self, route: int, peer: Peer) -> None:
        """Mutes a connection that was told that it is not logged in. For MUTE_NS the compiled loop drops its messages until a HELLO, because many
        commands are on their way when a session ends."""
        gateway = self._gateway
        place = gateway.counter[MUTED_ROUTES] % len(gateway.muted_route)
        gateway.muted_route[place], gateway.muted_ns[place] = route, time.monotonic_ns()
        gateway.muted_messages[place] = 0
        self._muted[place] = peer
        gateway.counter[MUTED_ROUTES] += 1

    def unmute(self, route: int) -> None:
        """Ends `mute`, because the connection has logged in."""
        muted = self._gateway.muted_route
        muted[muted == route] = -1

    def drop_cost_s(self) -> float:
        """The cost of the messages that the compiled loop has dropped since the last call."""
        dropped, dropped_bytes = int(self._gateway.counter[DROPPED]), int(self._gateway.counter[DROPPED_BYTES])
        cost_s = (dropped - self._dropped) * DROP_S + (dropped_bytes - self._dropped_bytes) * DROP_BYTE_S
        self._dropped, self._dropped_bytes = dropped, dropped_bytes
        return cost_s

    def close_floods(self) -> None:
        """Closes connections that keep sending although they were told that they are not logged in."""
        for place in (self._gateway.muted_messages >= FLOOD_MESSAGES).nonzero()[0].tolist():
            self._gateway.muted_messages[place] = 0
            route = int(self._gateway.muted_route[place])
            if route >= 0:  # otherwise it has logged in
                text = f"more than {FLOOD_MESSAGES} messages on a connection that is not logged in; send HELLO first"
                self.close(route, self._muted[place], pack(Kind.GOODBYE, "rate", text), grace_s=0.0)
                self._was_flooded |= not self._is_holding

    def flood_wait_s(self, wait_s: float) -> float:
        """The seconds for which no other connection should be admitted, from now on, because of a flood; 0 without one, and until ADMISSION_S is over.
        The waiting times for floods on many connections, one after the other, do not add up. wait_s: how long nobody is admitted anyway; what floods
        cost in a waiting time makes it longer, and the admission begins after that."""
        now_s = time.monotonic()
        if self._is_holding:
            self._is_holding, self._admitting_from_s = wait_s > 0, now_s
        if self._is_holding or not self._was_flooded or now_s < self._admitting_from_s + ADMISSION_S:
            return 0.0
        self._was_flooded, self._is_holding = False, True
        return FLOOD_WAIT_S

    def close(self, route: int, peer: Peer, message: bytes, grace_s: float = GRACE_S) -> None:
        """Sends a connection a message, which shows that it still exists, and closes it after `grace_s`. The compiled loop drops the messages that it
        has already sent."""
        own = open_connection(peer.descriptor, self._port)
        if own is None:
            return
        self._router.get(zmq.EVENTS)  # makes libzmq notice which connections have ended
        try:
            self._router.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
        except zmq.Again:
            pass  # it does not read
        except zmq.ZMQError:  # it has ended, and its descriptor may now belong to another connection
            own.close()
            return
        self._refusals.connections_closed += 1
        gateway = self._gateway
        gateway.closed_route[gateway.counter[CLOSED_ROUTES] % len(gateway.closed_route)] = route
        gateway.counter[CLOSED_ROUTES] += 1
        self._closing.append((time.monotonic() + grace_s, own))

    def finish(self) -> None:
        """Ends connections whose grace time is over."""
        now_s = time.monotonic() if self._closing else 0.0
        for _ in range(len(self._closing)):
            end_s, own = self._closing.popleft()
            if end_s > now_s:
                self._closing.append((end_s, own))
                continue
            with contextlib.suppress(OSError), own:
                own.shutdown(socket.SHUT_RDWR)
