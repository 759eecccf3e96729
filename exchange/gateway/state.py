"""The gateway's state: sessions, unsent reports and the position in the journal. Arrays only, no sockets."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.config import LimitsConfig
from serl.exchange.gateway.codec import copy_bytes, write_array, write_bin, write_event, write_int
from serl.exchange.kernel.state import NEVER
from serl.exchange.records import COMMAND
from serl.exchange.struct_pointer import passed_by_pointer, with_handle

ROUTING_ID_BYTES = 5
"""A routing id that ZeroMQ generates: a zero byte and a 32-bit number. Clients cannot choose theirs."""
HEADER_BYTES = 16
"""Bytes reserved in front of a session's outgoing body for the REPORTS header, whose size is known only at the send."""
EVENT_BYTES_MAX = 128
CLOSED_REMEMBERED = 64
MUTED_REMEMBERED, MUTE_NS = 1024, 100_000_000
"""Number of muted connections whose messages are dropped, like those of the last CLOSED_REMEMBERED closed ones, because libzmq may have a thousand
messages of each; and for how long a connection is muted."""

# Indices of GatewayState.counter
APPENDED = 0  # rows of the command segment that are written
EXECUTED = 1  # rows of the command segment that are executed
EVENTS = 2  # rows of the event segment that are written
REPORTED = 3  # rows of the event segment whose reports are encoded
NEXT_SEQUENCE = 4  # sequence number of the next command in the journal
STAGED = 5  # rows that wait for their arrival time: all in lockstep, otherwise those of sessions with a latency
DIRTY = 6  # sessions with unsent reports
PENDING_SIZE = 7  # bytes of the message that waits for Python
PENDING_SESSION = 8  # the session that sent it, -1 = not logged in
PENDING_ROUTE = 9  # the routing number that it came from
LAST_COMMAND_NS = 10  # exchange time of the last command
MESSAGES_RECEIVED = 11  # messages on the orders socket since the start
SLOW_SESSIONS = 12  # sessions marked SLOW since the last check
SALT = 13  # of the journal's row checksums: a row from elsewhere does not pass
BULK_ROWS_MAX = 14  # per message
UNDELAYED = 15  # number of rows at the end of the staged ones that have no latency added yet
NEXT_DUE_NS = 16  # live and scaled clocks: exchange time at which the next waiting command is due
JOURNAL_FAILED = 17  # 1: the journal no longer reaches the disk
DURABLE = 18  # the last command that may be executed: with --durability batch the last one on the disk, otherwise NEVER
COMMIT_TARGET = 19  # the last command whose sync was requested
COMMIT_FD = 20  # a byte written here requests a sync
WAKE_FD = 21  # a byte is read here after each sync
ROWS_USABLE = 22  # rows of the command segment for the commands of participants; 0: the disk is full
CLOSED_ROUTES = 23  # connections that the exchange closed
DROPPED = 24  # messages of closed and muted connections that were dropped since the start
DRAINED = 25  # number of times that the orders socket was empty
MUTED_ROUTES = 26  # connections that were told that they are not logged in
DROPPED_BYTES = 27  # total size of the messages counted by DROPPED
THROTTLED_MESSAGES = 28  # messages beyond a rate limit that the compiled loop refused since the start
AHEAD_NS_MAX = 29  # lockstep: a command arrives at most this much after the exchange's time
STAGED_EACH_MAX = 30  # rows of one participant that may wait for their arrival time
STAGED_RESERVED = 31  # rows that each participant may have waiting whatever the others do
STAGED_LEFT = 32  # rows that are neither taken nor reserved: for whoever comes first
COUNTERS = 33

RESERVED_SHARE = 0.25
"""Share of staged_rows_max reserved in equal parts for all participants_max; whoever comes first gets the rest."""

# GatewayState.status
FREE, LIVE, SLOW = 0, 1, 2

# Indices of GatewayState.clock, and the values of CLOCK_KIND. The base of a live clock is its lead over the system clock
CLOCK_KIND, CLOCK_BASE_NS, CLOCK_MONOTONIC_NS, CLOCK_SPEED_MICRO, CLOCK_HELD = 0, 1, 2, 3, 4
LIVE_CLOCK, SCALED_CLOCK, LOCKSTEP_CLOCK = 0, 1, 2


@passed_by_pointer
class GatewayState(NamedTuple):
    """Arrays of the gateway for S sessions, P participants and messages of up to M bytes."""

    counter: NDArray[np.int64]  # (COUNTERS,)
    route_number: NDArray[np.int64]  # (4 S,) open addressing: routing number + 1, 0 = free
    route_session: NDArray[np.int32]  # (4 S,)
    route: NDArray[np.int64]  # (S,) routing number of a session
    status: NDArray[np.uint8]  # (S,)
    participant: NDArray[np.int32]  # (S,)
    live_session: NDArray[np.int32]  # (P,) session that receives a participant's reports without latency, -1 = none
    delayed: NDArray[np.uint8]  # (S,) commands have a latency
    last_sent_id: NDArray[np.int64]  # (P,) last command id that waits: for its arrival time, or to be on the disk
    staged_rows: NDArray[np.int64]  # (P,) number of the participant's staged rows
    as_rows: NDArray[np.uint8]  # (S,) reports as EVENT rows
    first_report: NDArray[np.int64]  # (S,) number of the first unsent report
    pending: NDArray[np.int64]  # (S,) number of unsent reports
    out_end: NDArray[np.int64]  # (S,) end of the body in `out`
    out: NDArray[np.uint8]  # (S, bytes) HEADER_BYTES for the header, then the body
    dirty: NDArray[np.int32]  # (S,) sessions with unsent reports
    last_in_ns: NDArray[np.int64]  # (S,) monotonic time of the last message received
    last_out_ns: NDArray[np.int64]  # (S,) monotonic time of the last message sent
    promise_ns: NDArray[np.int64]  # (S,) lockstep: the session's last promise
    last_command_time_ns: NDArray[np.int64]  # (S,) lockstep: arrival time of the session's last command
    rate_tokens: NDArray[np.float64]  # (S,) token bucket of the message rate limit
    messages_per_s: NDArray[np.float64]  # (S,) message rate limit, 0 = none
    cancel_tokens: NDArray[np.float64]  # (S,) token bucket of the limit of CANCEL, REDUCE and MASS_CANCEL
    cancels_per_s: NDArray[np.float64]  # (S,) that limit, 0 = none
    staged: NDArray[np.void]  # COMMAND rows that wait for their arrival time
    staged_bytes: NDArray[np.uint8]  # the same memory as bytes
    clock: NDArray[np.int64]  # (8,)
    message: NDArray[np.uint8]  # (M,) the message that waits for Python
    scratch: NDArray[np.uint8]  # (64,) routing ids, message headers
    closed_route: NDArray[np.int64]  # (CLOSED_REMEMBERED,) ring of the last connections that were closed
    muted_route: NDArray[np.int64]  # (MUTED_REMEMBERED,) ring of the last ones told that they are not logged in
    muted_ns: NDArray[np.int64]  # (MUTED_REMEMBERED,) monotonic time at which they were told
    muted_messages: NDArray[np.int64]  # (MUTED_REMEMBERED,) number of their messages dropped since then
    answer: NDArray[np.uint8]  # (256,) an answer of refusals.py
    answers_left: NDArray[np.int64]  # (S,) number of such answers that the session has paid for
    throttled: NDArray[np.uint8]  # (S, 2, bytes) text of an ERROR `throttled` after the number: for orders, for cancels
    throttled_bytes: NDArray[np.int64]  # (S, 2) size of that text
    zmq_message: NDArray[np.int64]  # (8,) a zmq_msg_t, initialised once
    handle: NDArray[np.int64]  # address and shape of each array


def new_gateway(limits: LimitsConfig) -> GatewayState:
    """A gateway without sessions. Its memory pages are allocated on first use."""
    sessions, participants = limits.sessions_max, limits.participants_max
    routes = 1 << (4 * sessions - 1).bit_length()
    staged = np.zeros(limits.staged_rows_max, COMMAND)
    gateway = GatewayState(
        counter=np.zeros(COUNTERS, np.int64),
        route_number=np.zeros(routes, np.int64),
        route_session=np.zeros(routes, np.int32),
        route=np.zeros(sessions, np.int64),
        status=np.zeros(sessions, np.uint8),
        participant=np.zeros(sessions, np.int32),
        live_session=np.full(participants, -1, np.int32),
        delayed=np.zeros(sessions, np.uint8),
        last_sent_id=np.zeros(participants, np.int64),
        staged_rows=np.zeros(participants, np.int64),
        as_rows=np.zeros(sessions, np.uint8),
        first_report=np.zeros(sessions, np.int64),
        pending=np.zeros(sessions, np.int64),
        out_end=np.full(sessions, HEADER_BYTES, np.int64),
        out=np.zeros((sessions, limits.session_out_bytes), np.uint8),
        dirty=np.zeros(sessions + 1, np.int32),
        last_in_ns=np.zeros(sessions, np.int64),
        last_out_ns=np.zeros(sessions, np.int64),
        promise_ns=np.zeros(sessions, np.int64),
        last_command_time_ns=np.zeros(sessions, np.int64),
        rate_tokens=np.zeros(sessions, np.float64),
        messages_per_s=np.zeros(sessions, np.float64),
        cancel_tokens=np.zeros(sessions, np.float64),
        cancels_per_s=np.zeros(sessions, np.float64),
        staged=staged,
        staged_bytes=staged.view(np.uint8),
        clock=np.zeros(8, np.int64),
        message=np.zeros(limits.message_bytes_max, np.uint8),
        scratch=np.zeros(64, np.uint8),
        closed_route=np.full(CLOSED_REMEMBERED, -1, np.int64),
        muted_route=np.full(MUTED_REMEMBERED, -1, np.int64),
        muted_ns=np.zeros(MUTED_REMEMBERED, np.int64),
        muted_messages=np.zeros(MUTED_REMEMBERED, np.int64),
        answer=np.zeros(256, np.uint8),
        answers_left=np.zeros(sessions, np.int64),
        throttled=np.zeros((sessions, 2, 128), np.uint8),
        throttled_bytes=np.zeros((sessions, 2), np.int64),
        zmq_message=np.zeros(8, np.int64),
        handle=np.zeros(0, np.int64),
    )
    gateway.counter[PENDING_SESSION] = -1
    gateway.counter[BULK_ROWS_MAX] = limits.bulk_rows_max
    gateway.counter[AHEAD_NS_MAX] = round(limits.lockstep_ahead_s_max * 1e9)
    gateway.counter[STAGED_EACH_MAX] = limits.staged_rows_per_participant_max
    reserved = int(RESERVED_SHARE * limits.staged_rows_max) // participants
    gateway.counter[STAGED_RESERVED] = reserved
    gateway.counter[STAGED_LEFT] = limits.staged_rows_max - reserved * participants
    gateway.counter[NEXT_DUE_NS] = gateway.counter[DURABLE] = NEVER
    return with_handle(gateway)


@inlined
def find_session(gateway: GatewayState, route: int) -> int:
    """The session of a routing number, -1 if that connection is not logged in. O(1)."""
    mask = gateway.route_number.size - 1
    slot = (route * 0x9E3779B1) & mask
    while gateway.route_number[slot] != 0:
        if gateway.route_number[slot] == route + 1:
            return int64(gateway.route_session[slot])
        slot = (slot + 1) & mask
    return -1


@inlined
def is_closed(gateway: GatewayState, route: int) -> bool:
    """Whether the exchange has closed the connection of a routing number."""
    for index in range(min(gateway.counter[CLOSED_ROUTES], CLOSED_REMEMBERED)):
        if gateway.closed_route[index] == route:
            return True
    return False


@inlined
def is_muted(gateway: GatewayState, route: int, now_ns: int) -> bool:
    """Whether a connection was told within the last MUTE_NS that it is not logged in, so that only a HELLO from it is read. Counts its messages."""
    for index in range(min(gateway.counter[MUTED_ROUTES], MUTED_REMEMBERED)):
        if gateway.muted_route[index] == route and now_ns - gateway.muted_ns[index] < MUTE_NS:
            gateway.muted_messages[index] += 1
            return True
    return False


@inlined
def count_undurable(gateway: GatewayState) -> int:
    """The number of journaled commands that must reach the disk before they are executed."""
    return max(0, gateway.counter[NEXT_SEQUENCE] - 1 - gateway.counter[DURABLE])


@compiled
def index_sessions(gateway: GatewayState) -> None:
    """Rebuilds the table of routing numbers after a session has started or ended (rare)."""
    gateway.route_number[:] = 0
    mask = gateway.route_number.size - 1
    for session in range(gateway.status.size):
        if gateway.status[session] != FREE:
            slot = (gateway.route[session] * 0x9E3779B1) & mask
            while gateway.route_number[slot] != 0:
                slot = (slot + 1) & mask
            gateway.route_number[slot] = gateway.route[session] + 1
            gateway.route_session[slot] = session


@inlined
def append_report(gateway: GatewayState, events: Any, event_bytes: Any, index: int) -> bool:
    """Encodes event `index` into the out buffer of its participant's session; False if the buffer is full."""
    event = events[index]
    session = gateway.live_session[event.participant]
    if session < 0:
        return True
    out = gateway.out[session]
    if gateway.out_end[session] + EVENT_BYTES_MAX > out.size:
        return False
    if gateway.pending[session] == 0:
        gateway.first_report[session] = event.report
        gateway.out_end[session] = HEADER_BYTES
        gateway.dirty[gateway.counter[DIRTY]] = session
        gateway.counter[DIRTY] += 1
    at = gateway.out_end[session]
    if gateway.as_rows[session]:
        size = event_bytes.shape[1]
        copy_bytes(out, at, event_bytes[index], 0, size)
        at += size
    else:
        at = write_event(out, at, event)
    gateway.out_end[session] = at
    gateway.pending[session] += 1
    return True


@inlined
def write_reports_header(gateway: GatewayState, session: int) -> int:
    """Writes the header of the REPORTS message in front of the session's body. Returns the message's start in the buffer."""
    out = gateway.out[session]
    head = gateway.scratch
    head[0] = 0x93
    size = gateway.out_end[session] - HEADER_BYTES
    if gateway.as_rows[session]:
        at = write_int(head, 1, 81)
        at = write_int(head, at, gateway.first_report[session])
        at = write_bin(head, at, size)
    else:
        at = write_int(head, 1, 80)
        at = write_int(head, at, gateway.first_report[session])
        at = write_array(head, at, gateway.pending[session])
    copy_bytes(out, HEADER_BYTES - at, head, 0, at)
    return HEADER_BYTES - at


@compiled
def encode_missed(gateway: GatewayState, session: int, events: Any, event_bytes: Any) -> tuple[int, int, int]:
    """Encodes a REPORTS message of missed events (at least one) into the out buffer of their participant's session, which has no unsent reports.
    Returns (the number of events that fit, the message's start and end in the buffer)."""
    participant, count = events[0].participant, 0
    gateway.live_session[participant] = session
    while count < events.size and append_report(gateway, events, event_bytes, count):
        count += 1
    gateway.live_session[participant] = -1
    start, end = write_reports_header(gateway, session), gateway.out_end[session]
    gateway.pending[session] = 0
    gateway.out_end[session] = HEADER_BYTES
    gateway.counter[DIRTY] -= 1
    return count, start, end
