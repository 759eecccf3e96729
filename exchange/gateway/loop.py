"""The compiled loop between the orders socket and the book: poll, receive up to a limit, execute, send."""

from typing import Any

import numpy as np

from serl.exchange.compiling import apart, compiled, inlined, int64
from serl.exchange.gateway.accept import (
    ACCEPTED,
    DELAYED,
    DUE_FIRST,
    IDLE,
    NEEDS_ANSWER,
    NEEDS_PYTHON,
    OUT_FULL,
    SEGMENT_FULL,
    accept,
    advance,
    append_row,
)  # fmt: skip
from serl.exchange.gateway.feed_items import is_auction_fill, is_status
from serl.exchange.gateway.feed_state import NOBODY, PYTHON, FeedState
from serl.exchange.gateway.publish import publish_unpublished
from serl.exchange.gateway.refusals import write_answer
from serl.exchange.gateway.state import (
    APPENDED,
    COMMIT_FD,
    COMMIT_TARGET,
    DIRTY,
    DRAINED,
    DROPPED,
    DROPPED_BYTES,
    EVENTS,
    HEADER_BYTES,
    JOURNAL_FAILED,
    LIVE,
    MESSAGES_RECEIVED,
    NEXT_DUE_NS,
    NEXT_SEQUENCE,
    PENDING_ROUTE,
    PENDING_SESSION,
    PENDING_SIZE,
    ROUTING_ID_BYTES,
    SLOW,
    SLOW_SESSIONS,
    WAKE_FD,
    GatewayState,
    count_undurable,
    find_session,
    is_closed,
    is_muted,
    write_reports_header,
)  # fmt: skip
from serl.exchange.gateway.timing import MONOTONIC, system_ns
from serl.exchange.libzmq import (
    DONTWAIT,
    EAGAIN,
    EINTR,
    POLL_ITEM,
    SNDMORE,
    memcpy,
    read_file,
    write_file,
    zmq_errno,
    zmq_msg_data,
    zmq_msg_more,
    zmq_msg_recv,
    zmq_poll,
    zmq_recv,
    zmq_send,
)  # fmt: skip
from serl.exchange.records import EventKind
from serl.exchange.wire import Kind

# Why `serve` returned to Python
(
    TIMEOUT,
    CONTROL_MESSAGE,
    OTHER_SOCKET_READY,
    NEED_EVENT_SEGMENT,
    NEED_MARKET_CAPACITY,
    NEED_COMMAND_SEGMENT,
    NEED_PUBLISH,
    NEED_LATENCY,
    NEED_DUE_COMMANDS,
    JOURNAL_FAILURE,
) = range(10)
# Consequences of events beyond their reports
NOTHING, CHANGED, RESCHEDULED = range(3)
# Values of PENDING_SIZE for messages that are rejected unread
BAD_FRAMES, TOO_LARGE, SKIPPING = -2, -3, -4
FRAMES_SKIPPED_MAX = 256
"""Maximum number of surplus frames of a message dropped before the loop continues."""
TURN_EVENTS_MAX = 16_384
"""Number of events after which no more messages are received before the feed is published."""
SEND_EVENTS = 1024
"""Number of events after which reports are sent although more messages are waiting: nobody has to wait for the reports of a later bulk message."""
UNDURABLE_MAX = 16_384
"""The loop receives no more messages while this many commands wait to reach the disk."""
POLL_ITEM_BYTES = POLL_ITEM.itemsize
_REJECTED, _HELLO = int(EventKind.REJECTED), int(Kind.HELLO)
_SHORT_ARRAY, _ARRAY_16, _ARRAY_32 = 0x90, 0xDC, 0xDD
"""First bytes of msgpack arrays; the first has the length in its lower half."""


@inlined
def write_routing_id(gateway: GatewayState, route: int, at: int) -> int:
    """Writes the ZeroMQ routing id of `route` into gateway.scratch at `at`. Returns its address."""
    scratch = gateway.scratch
    scratch[at] = 0
    for byte in range(4):
        scratch[at + 1 + byte] = (route >> (8 * (3 - byte))) & 0xFF
    return scratch.ctypes.data + at


@inlined
def _send_frame(socket: int, address: int, size: int, flags: int) -> int:
    """Like zmq_send, but retries if a signal interrupts it."""
    sent = zmq_send(socket, address, size, flags)
    while sent < 0 and zmq_errno() == EINTR:
        sent = zmq_send(socket, address, size, flags)
    return sent


@inlined
def _send(gateway: GatewayState, socket: int, session: int, address: int, size: int, now_ns: int) -> None:
    """Sends a message to a session, which is marked SLOW if its pipe is full or gone: Python ends it."""
    identity = write_routing_id(gateway, gateway.route[session], 32)
    sent = _send_frame(socket, identity, ROUTING_ID_BYTES, SNDMORE | DONTWAIT)
    if sent >= 0:
        sent = _send_frame(socket, address, size, DONTWAIT)
    if sent < 0:
        gateway.status[session] = SLOW
        gateway.counter[SLOW_SESSIONS] += 1
    gateway.last_out_ns[session] = now_ns


@inlined
def send_reports(gateway: GatewayState, socket: int, now_ns: int) -> None:
    """Sends the unsent reports of every session. A session whose pipe is full or gone is marked SLOW: Python ends it."""
    for index in range(gateway.counter[DIRTY]):
        session = gateway.dirty[index]
        if gateway.status[session] == LIVE:
            start = write_reports_header(gateway, session)
            body, size = gateway.out[session].ctypes.data + start, gateway.out_end[session] - start
            _send(gateway, socket, session, body, size, now_ns)
        gateway.pending[session] = 0
        gateway.out_end[session] = HEADER_BYTES
    gateway.counter[DIRTY] = 0


@inlined
def _skip_frames(gateway: GatewayState, socket: int) -> int:
    """Drops the remaining frames of a message. Returns BAD_FRAMES after the last one, SKIPPING if there are more."""
    message = gateway.zmq_message.ctypes.data
    for _ in range(FRAMES_SKIPPED_MAX):
        if zmq_msg_recv(message, socket, DONTWAIT) < 0 or zmq_msg_more(message) == 0:
            return BAD_FRAMES
    return SKIPPING


@inlined
def _receive(gateway: GatewayState, socket: int) -> int:
    """Receives one message into gateway.message. Returns its size, -1 if there is none, BAD_FRAMES, TOO_LARGE or SKIPPING (frames of a bad
    message remain).

    PENDING_ROUTE is its sender. A second frame is rejected: a client could forge another's messages with it.
    """
    if zmq_msg_more(gateway.zmq_message.ctypes.data) != 0:
        return _skip_frames(gateway, socket)
    scratch = gateway.scratch
    if zmq_recv(socket, scratch.ctypes.data, ROUTING_ID_BYTES, DONTWAIT) < 0:
        return -1
    route = 0
    for byte in range(1, ROUTING_ID_BYTES):
        route = (route << 8) | int64(scratch[byte])
    gateway.counter[PENDING_ROUTE] = route
    message = gateway.zmq_message.ctypes.data
    size = int64(zmq_msg_recv(message, socket, DONTWAIT))
    while size < 0 and zmq_errno() == EINTR:  # once a message has begun, all of its frames have arrived
        size = int64(zmq_msg_recv(message, socket, DONTWAIT))
    if size < 0:
        return -1
    if size > gateway.message.size:
        result = TOO_LARGE
    elif size == 0:
        result = BAD_FRAMES
    else:
        memcpy(gateway.message.ctypes.data, zmq_msg_data(message), size)
        result = size
    return result if zmq_msg_more(message) == 0 else _skip_frames(gateway, socket)


@inlined
def execute_journaled(gateway: GatewayState, market: Any, journal: Any, socket: int, now_ns: int) -> int:
    """Executes and reports everything that is journaled. Returns IDLE, or the status of `execute` that Python must resolve."""
    commands, _, _, events, event_bytes = journal
    while True:
        status = advance(gateway, market, commands, events, event_bytes)
        if status != OUT_FULL:
            return status
        send_reports(gateway, socket, now_ns)


@compiled
def journal_rows(gateway: GatewayState, commands: Any, words: Any, rows: Any) -> None:
    """Journals COMMAND rows with participant and time set. The caller has checked that they fit."""
    for index in range(rows.size):
        place = gateway.counter[APPENDED]
        commands[place] = rows[index]
        append_row(gateway, commands, words, rows[index].participant, rows[index].time_ns)


@inlined
def _may_be_hello(gateway: GatewayState, size: int) -> bool:
    """Whether Python must check the message of a connection that is not logged in: a msgpack array that begins with HELLO or has an unusual
    header, or a message that is too long or has several frames."""
    first = gateway.message[0]
    return (
        size < 2 or (first & 0xF0 == _SHORT_ARRAY and gateway.message[1] == _HELLO) or first in (_ARRAY_16, _ARRAY_32)
    )


@apart
def _answer(gateway: GatewayState, market: Any, socket: int, session: int, buffer: Any, now_ns: int) -> bool:
    """Answers a message that changes nothing, after the reports so far; False if Python must."""
    size = write_answer(gateway, market.last_command_id, session, buffer)
    if size == 0:
        return False
    if gateway.pending[session] > 0:
        send_reports(gateway, socket, now_ns)
    if gateway.status[session] == LIVE:
        _send(gateway, socket, session, gateway.answer.ctypes.data, size, now_ns)
    return True


@inlined
def accept_pending(gateway: GatewayState, market: Any, journal: Any, socket: int, now_ns: int) -> int:
    """Calls `accept` on the message in gateway.message, which stays there unless it is ACCEPTED or DELAYED."""
    route, size = gateway.counter[PENDING_ROUTE], gateway.counter[PENDING_SIZE]
    session = find_session(gateway, route)
    gateway.counter[PENDING_SESSION] = session
    if session < 0 and (
        is_closed(gateway, route) or (is_muted(gateway, route, now_ns) and not _may_be_hello(gateway, size))
    ):
        gateway.counter[PENDING_SIZE] = 0
        gateway.counter[DROPPED] += 1
        gateway.counter[DROPPED_BYTES] += max(size, 0)
        return ACCEPTED
    if session < 0 or size < 0:
        return NEEDS_PYTHON
    commands, words, row_bytes, _, _ = journal
    result = accept(
        gateway, market.last_command_id, commands, words, row_bytes, session, gateway.message[:size], now_ns
    )
    if result == NEEDS_ANSWER:
        answered = _answer(gateway, market, socket, session, gateway.message[:size], now_ns)
        result = ACCEPTED if answered else NEEDS_PYTHON
    if result == ACCEPTED or result == DELAYED:
        gateway.counter[PENDING_SIZE] = 0
    return result


@inlined
def _drain(gateway: GatewayState, market: Any, journal: Any, socket: int, limit: int, now_ns: int) -> tuple[int, int]:
    """Accepts up to `limit` messages: (their number, IDLE or the reason to return to Python)."""
    counter = gateway.counter
    first_event = sent = counter[EVENTS]
    done = 0
    while True:
        status = execute_journaled(gateway, market, journal, socket, now_ns)
        if status != IDLE:
            return done, NEED_EVENT_SEGMENT + status - 1
        if counter[JOURNAL_FAILED] != 0:
            return done, JOURNAL_FAILURE
        if done == limit or counter[EVENTS] - first_event > TURN_EVENTS_MAX:
            return limit, IDLE
        if counter[EVENTS] - sent >= SEND_EVENTS:
            send_reports(gateway, socket, now_ns)
            sent = counter[EVENTS]
        if count_undurable(gateway) >= UNDURABLE_MAX:
            return done, IDLE
        if counter[PENDING_SIZE] == 0:
            size = _receive(gateway, socket)
            if size == -1:
                counter[DRAINED] += 1
                return done, IDLE
            counter[MESSAGES_RECEIVED] += 1
            counter[PENDING_SIZE] = size
        result = accept_pending(gateway, market, journal, socket, now_ns)
        if result == NEEDS_PYTHON:
            return done, CONTROL_MESSAGE
        if result == SEGMENT_FULL:
            return done, NEED_COMMAND_SEGMENT
        if result == DUE_FIRST:
            return done, NEED_DUE_COMMANDS
        if result == DELAYED:
            return done, NEED_LATENCY
        done += 1


@inlined
def _consequence(events: Any, first: int, stop: int) -> int:
    """RESCHEDULED if any of these events is a halt, a phase or part of an auction, after which Python checks its schedule; CHANGED if any is more than
    a rejection; otherwise NOTHING, which no subscriber needs to receive at once."""
    found = NOTHING
    for index in range(first, stop):
        event = events[index]
        if is_status(event) or is_auction_fill(event):
            return RESCHEDULED
        if event.kind != _REJECTED:
            found = CHANGED
    return found


@inlined
def _request_commit(gateway: GatewayState) -> None:
    """Requests a sync of the journaled commands that are not durable yet. A full pipe already means a request."""
    counter = gateway.counter
    last = counter[NEXT_SEQUENCE] - 1
    if count_undurable(gateway) > 0 and counter[COMMIT_TARGET] < last:
        counter[COMMIT_TARGET] = last
        write_file(np.int32(counter[COMMIT_FD]), gateway.scratch.ctypes.data, 1)


@inlined
def _poll(gateway: GatewayState, poll: Any, wait_ms: int) -> int:
    """Polls the sockets and, after them, the pipe that reports syncs. The orders socket waits while too many commands are not durable."""
    first = 1 if count_undurable(gateway) >= UNDURABLE_MAX else 0
    return zmq_poll(poll.ctypes.data + first * POLL_ITEM_BYTES, np.int32(poll.size - first), wait_ms)


@compiled(nogil=True)
def serve(
    gateway: GatewayState,
    market: Any,
    journal: Any,
    socket: int,
    poll: Any,
    deadline_ns: int,
    limit: int,
    feed: FeedState,
    publisher: int,
) -> int:
    """Serves the orders socket until `deadline_ns` (monotonic) or until Python is needed. Returns the reason.

    journal = (commands, words, command bytes, events, event bytes). poll = POLL_ITEM rows: the orders socket first, and after all sockets
    the pipe of WAKE_FD if commands wait to be durable; all but the first are polled in every call, however early the deadline.
    limit: messages between two polls, 0 = receive none. publisher: who publishes events, see `feed_state`. It returns for PYTHON, and
    if events may change what is due next.
    """
    published = gateway.counter[EVENTS]
    sockets = poll.size if poll[poll.size - 1].socket != 0 else poll.size - 1
    clock = gateway.clock[6:8]
    while True:
        now_ns = system_ns(MONOTONIC, clock)
        done, status = _drain(gateway, market, journal, socket, limit, now_ns)
        if status == JOURNAL_FAILURE:
            return status  # without sending: nothing more is acknowledged
        _request_commit(gateway)
        send_reports(gateway, socket, now_ns)
        if status != IDLE:
            return status
        if limit == 0:
            return TIMEOUT
        if gateway.counter[EVENTS] != published:
            found = _consequence(journal[3], published, gateway.counter[EVENTS])
            if found == RESCHEDULED or market.counters.next_expiry_ns < gateway.counter[NEXT_DUE_NS]:
                return NEED_PUBLISH
            if (
                found == CHANGED
                and publisher != NOBODY
                and (publisher == PYTHON or not publish_unpublished(feed, market, journal[3], gateway.counter[EVENTS]))
            ):
                return NEED_PUBLISH
            published = gateway.counter[EVENTS]
        over = now_ns >= deadline_ns
        wait_ms = 0 if over or done == limit else (deadline_ns - now_ns) // 1_000_000 + 1
        if _poll(gateway, poll, wait_ms) < 0 and zmq_errno() != EAGAIN:
            return TIMEOUT
        if sockets < poll.size and poll[sockets].revents != 0:
            read_file(np.int32(gateway.counter[WAKE_FD]), gateway.scratch.ctypes.data, gateway.scratch.size)
        for index in range(1, sockets):
            if poll[index].revents != 0:
                return OTHER_SOCKET_READY
        if over:
            return TIMEOUT
