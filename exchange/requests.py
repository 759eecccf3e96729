"""Requests to the queries and admin sockets: a few each turn of the loop, charged to a budget."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import zmq

from serl.exchange import wire
from serl.exchange.budget import Budget, processor_time_s
from serl.exchange.peer import Peer, Refusals, peer_of
from serl.exchange.wire import Kind, RequestError, pack

TURN_REQUESTS_MAX, TURN_S_MAX = 16, 0.0002
"""Requests answered in one turn of the loop, and the time after which no further one begins."""
TURN_FRAMES_MAX = 256
"""Surplus frames of a malformed message that are dropped in one turn."""


class Requests:
    """Answers a ROUTER's requests. `reply` encodes the answer to a message of a peer, or raises RequestError.

    Answered operator requests are not charged (`charges_answers` False); refused requests always are.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        reply: Callable[[list[Any], Peer], bytes],
        budget: Budget,
        refusals: Refusals,
        charges_answers: bool = True,
    ) -> None:
        self._socket, self._reply, self._budget, self._charges_answers = socket, reply, budget, charges_answers
        self._refusals = refusals
        self._skipping = False

    def answer(self) -> None:
        """Answers waiting requests, up to the limits of a turn."""
        began = time.monotonic()
        for _ in range(TURN_REQUESTS_MAX):
            if time.monotonic() - began > TURN_S_MAX:
                return
            start = processor_time_s()
            try:
                free = self._answer_one()
            except zmq.Again:
                return
            if not free:
                self._budget.spend(processor_time_s() - start)

    def _answer_one(self) -> bool:
        """Answers a request, or drops frames of a malformed one. Returns whether it costs nothing. Raises zmq.Again if none waits."""
        if self._skipping:
            self._skip(TURN_FRAMES_MAX)
            return False
        route, frame, request, accepted = self._socket.recv(zmq.NOBLOCK), self._socket.recv(copy=False), 0, False
        peer = peer_of(frame)
        self._refusals.heard.add(peer.descriptor)
        try:
            if frame.more:
                frames = 1 + self._skip(TURN_FRAMES_MAX)
                raise RequestError(
                    "malformed", f"expected one frame, got {frames}; use a DEALER socket without delimiter"
                )
            message = wire.unpack(frame.bytes)
            if len(message) < 2 or not wire.is_int(message[1]):
                raise RequestError(
                    "malformed", "expected [kind, request, ...] with an integer request, got something else"
                )
            request = message[1]
            answer, accepted = self._reply(message, peer), True
        except RequestError as error:
            self._refusals.errors[error.code] += 1
            answer = pack(Kind.ERROR, error.code, str(error), request)
        with contextlib.suppress(zmq.ZMQError):  # the client is gone or does not read: its answer is dropped
            self._socket.send_multipart([route, answer], zmq.NOBLOCK)
        return accepted and not self._charges_answers

    def _skip(self, frames_max: int) -> int:
        """Drops up to this many remaining frames of a message. Returns their number."""
        for count in range(1, frames_max + 1):
            self._skipping = bool(self._socket.recv(copy=False).more)
            if not self._skipping:
                return count
        return frames_max
