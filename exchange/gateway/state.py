"""The gateway's state: who is connected, what waits to be sent, how far the journal has come. Arrays only, no sockets."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.gateway.codec import copy_bytes, write_array, write_bin, write_event, write_int
from serl.exchange.pointed import pointed

IDENTITY_BYTES = 5
"""ZeroMQ's own routing identities: a zero byte and a 32-bit number. Others are refused: they could be forged."""
HEAD_BYTES = 16
"""Room in front of a session's outgoing body for the head of REPORTS, whose size is known only when it is sent."""
EVENT_BYTES_MAX = 128

# Gate.counter: named places
APPENDED = 0  # rows of the command segment that are written
EXECUTED = 1  # rows of the command segment that are executed
EVENTS = 2  # rows of the event segment that are written
REPORTED = 3  # rows of the event segment whose reports are encoded
NEXT_SEQUENCE = 4  # journal sequence of the next command
STAGED = 5  # rows that wait for their time: in lockstep, and of sessions with a latency
DIRTY = 6  # sessions with something to send
PENDING_SIZE = 7  # bytes of the message that waits for Python
PENDING_SESSION = 8  # its session, -1 = nobody
PENDING_ROUTE = 9  # its routing number
NOW = 10  # exchange time of the last command
MESSAGES = 11  # orders messages received, all in all
CUT = 12  # sessions cut for slowness since the last look
SALT = 13  # of the journal's row checks: a row that was not journaled cannot pass for one
BULK_ROWS_MAX = 14  # of one message
FRESH = 15  # the last of the staged rows, whose latency is yet to be added
DUE = 16  # live and scaled clocks: exchange time before which nothing waits to be executed
JOURNAL_BROKEN = 17  # 1: the journal does not reach the disk any more
COUNTERS = 18

# Gate.status
FREE, LIVE, SLOW = 0, 1, 2

# Gate.clock: kind, then what the kind needs
CLOCK_KIND, CLOCK_BASE_NS, CLOCK_REAL_NS, CLOCK_SPEED_MICRO, CLOCK_HELD = 0, 1, 2, 3, 4
LIVE_CLOCK, SCALED_CLOCK, LOCKSTEP_CLOCK = 0, 1, 2


@pointed
class Gate(NamedTuple):
    """Arrays of the gateway; S sessions, P participants, M bytes of the largest message."""

    counter: NDArray[np.int64]  # (COUNTERS,)
    route_number: NDArray[np.int64]  # (4 S,) open addressing: routing number + 1, 0 = free
    route_session: NDArray[np.int32]  # (4 S,)
    route: NDArray[np.int64]  # (S,) routing number of a session
    status: NDArray[np.uint8]  # (S,)
    participant: NDArray[np.int32]  # (S,)
    session_of: NDArray[np.int32]  # (P,) live session that hears of a participant's events at once, -1 = none
    delayed: NDArray[np.uint8]  # (S,) commands have a latency
    sent_id: NDArray[np.int64]  # (P,) last command that went its way to the exchange, with a latency
    as_rows: NDArray[np.uint8]  # (S,) reports as EVENT rows
    first_report: NDArray[np.int64]  # (S,) of what waits
    waiting: NDArray[np.int64]  # (S,) events that wait
    filled: NDArray[np.int64]  # (S,) end of the body
    out: NDArray[np.uint8]  # (S, bytes) HEAD_BYTES of room, then the body
    dirty: NDArray[np.int32]  # (S,) sessions with something to send
    last_in_ns: NDArray[np.int64]  # (S,) monotonic time of the last message
    last_out_ns: NDArray[np.int64]  # (S,)
    promise_ns: NDArray[np.int64]  # (S,) lockstep
    last_time_ns: NDArray[np.int64]  # (S,) lockstep: time that the session's last command stated
    tokens: NDArray[np.float64]  # (S,) of the message rate limit
    rate: NDArray[np.float64]  # (S,) messages a second, 0 = no limit
    staged: NDArray[np.void]  # COMMAND rows that wait for their time
    staged_bytes: NDArray[np.uint8]  # the same memory
    clock: NDArray[np.int64]  # (8,)
    message: NDArray[np.uint8]  # (M,) the message that waits for Python
    scratch: NDArray[np.uint8]  # (64,) identities, heads of messages
    zmq_message: NDArray[np.int64]  # (8,) a zmq_msg_t, initialised once
    handle: NDArray[np.int64]  # address and shape of each array


@inlined
def find_session(gate: Gate, route: int) -> int:
    """The session of a routing number, -1 if nobody logged in from there. O(1)."""
    mask = gate.route_number.size - 1
    place = (route * 0x9E3779B1) & mask
    while gate.route_number[place] != 0:
        if gate.route_number[place] == route + 1:
            return int64(gate.route_session[place])
        place = (place + 1) & mask
    return -1


@compiled
def index_sessions(gate: Gate) -> None:
    """Makes the table of routing numbers anew, after a session came or went (rare)."""
    gate.route_number[:] = 0
    mask = gate.route_number.size - 1
    for session in range(gate.status.size):
        if gate.status[session] != FREE:
            place = (gate.route[session] * 0x9E3779B1) & mask
            while gate.route_number[place] != 0:
                place = (place + 1) & mask
            gate.route_number[place] = gate.route[session] + 1
            gate.route_session[place] = session


@inlined
def report(gate: Gate, events: Any, event_bytes: Any, index: int) -> bool:
    """Adds event `index` to what its participant's session will be sent; False if the session's buffer is full."""
    event = events[index]
    session = gate.session_of[event.participant]
    if session < 0:
        return True
    out = gate.out[session]
    if gate.filled[session] + EVENT_BYTES_MAX > out.size:
        return False
    if gate.waiting[session] == 0:
        gate.first_report[session] = event.report
        gate.filled[session] = HEAD_BYTES
        gate.dirty[gate.counter[DIRTY]] = session
        gate.counter[DIRTY] += 1
    at = gate.filled[session]
    if gate.as_rows[session]:
        size = event_bytes.shape[1]
        copy_bytes(out, at, event_bytes[index], 0, size)
        at += size
    else:
        at = write_event(out, at, event)
    gate.filled[session] = at
    gate.waiting[session] += 1
    return True


@inlined
def head_message(gate: Gate, session: int) -> int:
    """Writes the head of the REPORTS message in front of the session's body; where the message starts in its buffer."""
    out = gate.out[session]
    head = gate.scratch
    head[0] = 0x93
    size = gate.filled[session] - HEAD_BYTES
    if gate.as_rows[session]:
        at = write_int(head, 1, 81)
        at = write_int(head, at, gate.first_report[session])
        at = write_bin(head, at, size)
    else:
        at = write_int(head, 1, 80)
        at = write_int(head, at, gate.first_report[session])
        at = write_array(head, at, gate.waiting[session])
    copy_bytes(out, HEAD_BYTES - at, head, 0, at)
    return HEAD_BYTES - at
