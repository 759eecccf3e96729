"""The same loop as gateway.loop in plain Python: the readable reference, and what runs where no libzmq is found.

Every order still goes through the compiled `accept` and `advance`; only the sockets are driven from here.
"""

import time
from typing import Any

import numpy as np
import zmq

from serl.exchange.gateway.accept import FOR_PYTHON, FULL_OUT, IDLE, NO_ROOM, advance
from serl.exchange.gateway.gate import (
    CUT,
    DIRTY,
    EVENTS,
    HEAD_BYTES,
    IDENTITY_BYTES,
    LIVE,
    MESSAGES,
    PENDING_ROUTE,
    PENDING_SIZE,
    SLOW,
    Gate,
    head_message,
)  # fmt: skip
from serl.exchange.gateway.loop import (
    BAD_FRAMES,
    EVENT_ROOM,
    FEED,
    JOURNAL_ROOM,
    MESSAGE,
    OTHER_SOCKET,
    TIMER,
    TOO_LARGE,
    take_pending,
)  # fmt: skip


def flush_python(gate: Gate, socket: "zmq.Socket[bytes]") -> None:
    """Sends every session what waits for it; see gateway.loop.flush."""
    for session in gate.dirty[: gate.counter[DIRTY]].tolist():
        if gate.status[session] == LIVE:
            start = head_message(gate, session)
            identity = b"\0" + int(gate.route[session]).to_bytes(4, "big")
            try:
                socket.send_multipart(
                    [identity, gate.out[session, start : gate.filled[session]].tobytes()], zmq.DONTWAIT
                )
            except zmq.ZMQError:
                gate.status[session] = SLOW
                gate.counter[CUT] += 1
            gate.last_out_ns[session] = time.monotonic_ns()
        gate.waiting[session] = 0
        gate.filled[session] = HEAD_BYTES
    gate.counter[DIRTY] = 0


def settle_python(gate: Gate, market: Any, journal: Any, socket: "zmq.Socket[bytes]") -> int:
    """Executes and reports all that is journaled; see gateway.loop.settle."""
    commands, _, _, events, event_bytes = journal
    while (status := int(advance(gate, market, commands, events, event_bytes))) == FULL_OUT:
        flush_python(gate, socket)
    return status


def _receive(gate: Gate, socket: "zmq.Socket[bytes]") -> bool:
    """Puts the next message where `take_pending` finds it; False if there is none."""
    try:
        identity, *frames = socket.recv_multipart(zmq.DONTWAIT)
    except zmq.Again:
        return False
    known = len(identity) == IDENTITY_BYTES and identity[0] == 0
    gate.counter[PENDING_ROUTE] = int.from_bytes(identity[1:], "big") if known else -1
    size = len(frames[0])
    gate.counter[PENDING_SIZE] = size
    if len(frames) != 1 or size == 0:
        gate.counter[PENDING_SIZE] = BAD_FRAMES
    elif size > len(gate.message):
        gate.counter[PENDING_SIZE] = TOO_LARGE
    else:
        gate.message[:size] = np.frombuffer(frames[0], np.uint8)
    gate.counter[MESSAGES] += 1
    return True


def _drain(gate: Gate, market: Any, journal: Any, socket: "zmq.Socket[bytes]", limit: int) -> tuple[int, int]:
    for done in range(limit):
        if gate.counter[PENDING_SIZE] == 0 and not _receive(gate, socket):
            return done, IDLE
        result = take_pending(gate, market, journal, time.monotonic_ns())
        if result in (FOR_PYTHON, NO_ROOM):
            return done, MESSAGE if result == FOR_PYTHON else JOURNAL_ROOM
        status = settle_python(gate, market, journal, socket)
        if status != IDLE:
            return done, EVENT_ROOM + status - 1
    return limit, IDLE


def serve_python(
    gate: Gate,
    market: Any,
    journal: Any,
    sockets: list["zmq.Socket[bytes]"],
    deadline_ns: int,
    limit: int,
    has_feed: bool,
) -> int:
    """Serves the orders socket (the first) until `deadline_ns` or until the caller is needed; see gateway.loop.serve."""
    published = int(gate.counter[EVENTS])
    status = settle_python(gate, market, journal, sockets[0])
    if status != IDLE:
        return EVENT_ROOM + status - 1
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    while True:
        done, status = _drain(gate, market, journal, sockets[0], limit)
        flush_python(gate, sockets[0])
        if status != IDLE:
            return status
        if has_feed and gate.counter[EVENTS] != published:
            return FEED
        now_ns = time.monotonic_ns()
        if now_ns >= deadline_ns:
            return TIMER
        ready = dict(poller.poll(0 if done == limit else (deadline_ns - now_ns) // 1_000_000 + 1))
        if any(socket in ready for socket in sockets[1:]):
            return OTHER_SOCKET
