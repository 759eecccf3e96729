"""Requests to the queries and admin sockets: a few in each turn of the loop, charged to a budget. The connection that was served least is next."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import zmq

from serl.exchange import wire
from serl.exchange.budget import Budget, processor_time_s
from serl.exchange.peer import Peer, Refusals, peer_of
from serl.exchange.unread_replies import UnreadReplies
from serl.exchange.wire import Kind, RequestError, pack

TURN_REQUESTS_MAX = 16
"""Maximum number of requests received, and of requests answered, in one turn of the loop."""
TURN_FRAMES_MAX = 256
"""Maximum number of surplus frames of a malformed message dropped in one turn."""
WAITING_MAX = 1024
"""Maximum number of requests that wait here for their turn; more wait in libzmq."""


class _Request(NamedTuple):
    frame: zmq.Frame
    frames: int


class Requests:
    """Answers a ROUTER's requests. `reply` encodes the answer to a message of a peer, or raises RequestError.

    Answered operator requests are not charged (`charges_answers` False); refused requests always are.

    Start-time fair queueing (Goyal, Vin and Cheng 1997): a connection with few requests does not wait for those with many, so monitoring
    continues while others use up the budget.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        reply: Callable[[list[Any], Peer], bytes],
        budget: Budget,
        refusals: Refusals,
        unread: UnreadReplies,
        charges_answers: bool = True,
    ) -> None:
        self._socket, self._reply, self._budget, self._charges_answers = socket, reply, budget, charges_answers
        self._refusals, self._unread = refusals, unread
        self._skipping = False
        self._waiting: dict[bytes, deque[_Request]] = {}  # by routing id
        self._count = 0
        self._served_s: dict[
            bytes, float
        ] = {}  # by routing id: when its next request starts, in time spent on requests
        self._start_s = 0.0  # of the last request that was answered

    @property
    def is_waiting(self) -> bool:
        """Whether received requests are still unanswered."""
        return bool(self._waiting)

    def answer(self, turn_s: float) -> None:
        """Receives requests and, if no more have arrived, answers some; begins none after `turn_s`."""
        began = time.monotonic()
        for _ in range(TURN_REQUESTS_MAX):
            if not self._receive():
                break
        else:
            return
        for _ in range(TURN_REQUESTS_MAX):
            if not self._waiting:
                break
            self._answer_next()
            if time.monotonic() - began > turn_s:
                break

    def _receive(self) -> bool:
        """Receives a request, or drops frames of a malformed one. Returns False if none has arrived, or too many are waiting."""
        if self._count >= WAITING_MAX:
            return False
        start = processor_time_s()
        try:
            if self._skipping:
                self._skip(TURN_FRAMES_MAX)
            else:
                route, frame = self._socket.recv(zmq.NOBLOCK), self._socket.recv(copy=False)
                self._put(route, _Request(frame, 1 + self._skip(TURN_FRAMES_MAX) if frame.more else 1))
        except zmq.Again:
            return False
        if self._charges_answers:
            self._budget.spend(processor_time_s() - start)
        return True

    def _put(self, route: bytes, request: _Request) -> None:
        if route not in self._waiting:
            self._waiting[route] = deque()
            self._served_s[route] = max(self._served_s.get(route, 0.0), self._start_s)
            if len(self._served_s) > 2 * WAITING_MAX:  # connections behind the start begin there anyway
                self._served_s = {
                    each: own for each, own in self._served_s.items() if own > self._start_s or each in self._waiting
                }
        self._waiting[route].append(request)
        self._count += 1

    def _answer_next(self) -> None:
        start = processor_time_s()
        route = min(self._waiting, key=lambda route: (self._served_s[route], len(self._waiting[route])))
        self._start_s = self._served_s[route]
        waiting = self._waiting[route]
        free = self._answer(route, waiting.popleft())
        self._count -= 1
        took_s = processor_time_s() - start
        self._served_s[route] += took_s
        if not waiting:
            del self._waiting[route]
            if not self._waiting:
                self._served_s.clear()
        if not free:
            self._budget.spend(took_s)

    def _answer(self, route: bytes, waiting: _Request) -> bool:
        """Answers a request. Returns whether it is free of charge."""
        request, accepted, peer = 0, False, peer_of(waiting.frame)
        self._refusals.heard.add(peer.descriptor)
        if not self._unread.admits(peer):
            self._refusals.errors["replies_unread"] += 1
            return False
        try:
            if waiting.frames > 1:
                raise RequestError(
                    "malformed", f"expected one frame, got {waiting.frames}; use a DEALER socket without delimiter"
                )
            message = wire.unpack(waiting.frame.bytes)
            if len(message) < 2 or not wire.is_int(message[1]):
                raise RequestError(
                    "malformed", "expected [kind, request, ...] with an integer request, got something else"
                )
            request = message[1]
            answer, accepted = self._reply(message, peer), True
        except RequestError as error:
            self._refusals.errors[error.code] += 1
            answer = pack(Kind.ERROR, error.code, str(error), request)
        self._unread.add(peer, len(answer))
        try:
            self._socket.send_multipart([route, answer], zmq.NOBLOCK)
        except zmq.ZMQError:  # the client is gone or does not read: its answer is dropped
            self._unread.add(peer, -len(answer))
        return accepted and not self._charges_answers

    def _skip(self, frames_max: int) -> int:
        """Drops up to this many remaining frames of a message. Returns their number."""
        for count in range(1, frames_max + 1):
            self._skipping = bool(self._socket.recv(copy=False).more)
            if not self._skipping:
                return count
        return frames_max
