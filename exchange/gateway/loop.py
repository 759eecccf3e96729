"""The compiled loop between the socket and the book: wait, receive until empty or a limit, execute, send."""

from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.gateway.accept import (
    AFTER_DUE,
    FOR_PYTHON,
    FULL_OUT,
    IDLE,
    NO_ROOM,
    ON_ITS_WAY,
    TAKEN,
    accept,
    advance,
    append,
)  # fmt: skip
from serl.exchange.gateway.state import (
    APPENDED,
    CUT,
    DIRTY,
    EVENTS,
    HEAD_BYTES,
    IDENTITY_BYTES,
    JOURNAL_BROKEN,
    LIVE,
    MESSAGES,
    PENDING_ROUTE,
    PENDING_SESSION,
    PENDING_SIZE,
    SLOW,
    Gate,
    find_session,
    head_message,
)  # fmt: skip
from serl.exchange.gateway.timing import MONOTONIC, machine_ns
from serl.exchange.libzmq import (
    DONTWAIT,
    EAGAIN,
    SNDMORE,
    memcpy,
    zmq_errno,
    zmq_msg_data,
    zmq_msg_more,
    zmq_msg_recv,
    zmq_poll,
    zmq_recv,
    zmq_send,
)  # fmt: skip

# Why the loop went back to Python
TIMER, MESSAGE, OTHER_SOCKET, EVENT_ROOM, MARKET_ROOM, JOURNAL_ROOM, FEED, DEPARTED, DUE_FIRST, BROKEN = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
)
# Values of PENDING_SIZE for messages that are refused unread
BAD_FRAMES, TOO_LARGE = -2, -3
TURN_EVENTS = 16_384
"""Events after which the feed gets its turn."""


@inlined
def write_identity(gate: Gate, route: int, at: int) -> int:
    """Writes the ZeroMQ routing identity of `route` into gate.scratch at `at`; its address."""
    scratch = gate.scratch
    scratch[at] = 0
    for byte in range(4):
        scratch[at + 1 + byte] = (route >> (8 * (3 - byte))) & 0xFF
    return scratch.ctypes.data + at


@inlined
def flush(gate: Gate, socket: int, now_ns: int) -> None:
    """Sends every session what waits for it. One whose pipe is full or gone is marked SLOW: Python ends it."""
    for index in range(gate.counter[DIRTY]):
        session = gate.dirty[index]
        if gate.status[session] == LIVE:
            start = head_message(gate, session)
            identity = write_identity(gate, gate.route[session], 32)
            sent = zmq_send(socket, identity, IDENTITY_BYTES, SNDMORE | DONTWAIT)
            if sent >= 0:
                body = gate.out[session]
                sent = zmq_send(socket, body.ctypes.data + start, gate.filled[session] - start, DONTWAIT)
            if sent < 0:
                gate.status[session] = SLOW
                gate.counter[CUT] += 1
            gate.last_out_ns[session] = now_ns
        gate.waiting[session] = 0
        gate.filled[session] = HEAD_BYTES
    gate.counter[DIRTY] = 0


@inlined
def _receive(gate: Gate, socket: int) -> int:
    """Receives one message into gate.message: its size, -1 if there is none, BAD_FRAMES or TOO_LARGE.

    PENDING_ROUTE says from where; more than one frame behind the identity would let a client forge another's.
    """
    scratch = gate.scratch
    if zmq_recv(socket, scratch.ctypes.data, IDENTITY_BYTES, DONTWAIT) < 0:
        return -1
    route = 0
    for byte in range(1, IDENTITY_BYTES):
        route = (route << 8) | int64(scratch[byte])
    gate.counter[PENDING_ROUTE] = route
    message = gate.zmq_message.ctypes.data
    size = int64(zmq_msg_recv(message, socket, DONTWAIT))
    if size > gate.message.size:
        result = TOO_LARGE
    elif size == 0:
        result = BAD_FRAMES
    else:
        memcpy(gate.message.ctypes.data, zmq_msg_data(message), size)
        result = size
    while zmq_msg_more(message) != 0:
        if zmq_msg_recv(message, socket, DONTWAIT) < 0:
            break
        result = BAD_FRAMES
    return result


@inlined
def settle(gate: Gate, market: Any, journal: Any, socket: int, now_ns: int) -> int:
    """Executes and reports all that is journaled; IDLE, or what Python must make room for."""
    commands, _, _, events, event_bytes = journal
    while True:
        status = advance(gate, market, commands, events, event_bytes)
        if status != FULL_OUT:
            return status
        flush(gate, socket, now_ns)


@compiled
def journal_rows(gate: Gate, commands: Any, words: Any, rows: Any) -> None:
    """Journals complete COMMAND rows (participant and time set) behind what is there; the caller has seen to the room."""
    for index in range(rows.size):
        place = gate.counter[APPENDED]
        commands[place] = rows[index]
        append(gate, commands, words, rows[index].participant, rows[index].time_ns)


@inlined
def take_pending(gate: Gate, market: Any, journal: Any, now_ns: int) -> int:
    """Takes the message in gate.message, as `accept` says; it stays there if it is neither TAKEN nor ON_ITS_WAY."""
    session = find_session(gate, gate.counter[PENDING_ROUTE])
    gate.counter[PENDING_SESSION] = session
    size = gate.counter[PENDING_SIZE]
    if session < 0 or size < 0:
        return FOR_PYTHON
    commands, words, row_bytes, _, _ = journal
    result = accept(gate, market.last_command_id, commands, words, row_bytes, session, gate.message[:size], now_ns)
    if result == TAKEN or result == ON_ITS_WAY:
        gate.counter[PENDING_SIZE] = 0
    return result


@inlined
def _drain(gate: Gate, market: Any, journal: Any, socket: int, limit: int, now_ns: int) -> tuple[int, int]:
    """Takes up to `limit` messages: (how many, IDLE or why Python is needed)."""
    counter = gate.counter
    first_event = counter[EVENTS]
    done = 0
    while True:
        status = settle(gate, market, journal, socket, now_ns)
        if status != IDLE:
            return done, EVENT_ROOM + status - 1
        if counter[JOURNAL_BROKEN] != 0:
            return done, BROKEN
        if done == limit or counter[EVENTS] - first_event > TURN_EVENTS:
            return limit, IDLE
        if counter[PENDING_SIZE] == 0:
            size = _receive(gate, socket)
            if size == -1:
                return done, IDLE
            counter[MESSAGES] += 1
            counter[PENDING_SIZE] = size
        result = take_pending(gate, market, journal, now_ns)
        if result == FOR_PYTHON:
            return done, MESSAGE
        if result == NO_ROOM:
            return done, JOURNAL_ROOM
        if result == AFTER_DUE:
            return done, DUE_FIRST
        if result == ON_ITS_WAY:
            return done, DEPARTED
        done += 1


@compiled(nogil=True)
def serve(
    gate: Gate, market: Any, journal: Any, socket: int, poll: Any, deadline_ns: int, limit: int, has_feed: bool
) -> int:
    """Serves the orders socket until `deadline_ns` (monotonic) or until Python is needed; says why it came back.

    journal = (commands, words, command bytes, events, event bytes); poll = POLL_ITEM rows, the orders socket first: the
    others are looked at in each call, however soon the deadline is. limit: messages between two looks, 0 = take none.
    """
    published = gate.counter[EVENTS]
    clock = gate.clock[6:8]
    while True:
        now_ns = machine_ns(MONOTONIC, clock)
        done, status = _drain(gate, market, journal, socket, limit, now_ns)
        if status == BROKEN:
            return status  # nothing is acknowledged any more
        flush(gate, socket, now_ns)
        if status != IDLE:
            return status
        if has_feed and gate.counter[EVENTS] != published:
            return FEED
        if limit == 0:
            return TIMER
        over = now_ns >= deadline_ns
        wait_ms = 0 if over or done == limit else (deadline_ns - now_ns) // 1_000_000 + 1
        if zmq_poll(poll.ctypes.data, np.int32(poll.size), wait_ms) < 0 and zmq_errno() != EAGAIN:
            return TIMER
        for index in range(1, poll.size):
            if poll[index].revents != 0:
                return OTHER_SOCKET
        if over:
            return TIMER
