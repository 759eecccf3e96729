"""Turns messages into journaled commands, and those into reports. Compiled, without a socket."""

from typing import Any

import numpy as np

from serl.exchange.compiling import inlined
from serl.exchange.gateway.codec import INVALID, copy_bytes, read_bin, read_order
from serl.exchange.gateway.state import (
    AHEAD_NS_MAX,
    APPENDED,
    BULK_ROWS_MAX,
    CLOCK_KIND,
    DURABLE,
    EVENTS,
    EXECUTED,
    LAST_COMMAND_NS,
    LIVE,
    LOCKSTEP_CLOCK,
    NEXT_DUE_NS,
    NEXT_SEQUENCE,
    REPORTED,
    ROWS_USABLE,
    SALT,
    STAGED,
    STAGED_EACH_MAX,
    STAGED_LEFT,
    STAGED_RESERVED,
    UNDELAYED,
    GatewayState,
    append_report,
    count_undurable,
)  # fmt: skip
from serl.exchange.gateway.timing import clock_now_ns
from serl.exchange.kernel.commands import DONE, execute_rows
from serl.exchange.kernel.state import NEVER
from serl.exchange.records import COMMAND
from serl.exchange.row_checksum import row_checksum

# Results of `accept`
ACCEPTED, NEEDS_PYTHON, SEGMENT_FULL, DELAYED, DUE_FIRST, NEEDS_ANSWER = 0, 1, 2, 3, 4, 5
# Results of `advance`, in addition to EVENTS_FULL and GROW of `execute`
IDLE, OUT_FULL = 0, 3

END_NS = 1 << 62
"""Later than every arrival: the promise of a participant that sends nothing more."""
ROW_BYTES = COMMAND.itemsize
BULK, PING = 32, 66
BULK_HEADER_BYTES = 7


@inlined
def append_row(gateway: GatewayState, commands: Any, words: Any, participant: int, time_ns: int) -> None:
    """Journals the row at index APPENDED: sets its sequence, participant, time and checksum."""
    index = gateway.counter[APPENDED]
    row = commands[index]
    row.sequence = gateway.counter[NEXT_SEQUENCE]
    row.participant = participant
    row.time_ns = time_ns
    row.check = row_checksum(words, index, gateway.counter[SALT])
    gateway.counter[NEXT_SEQUENCE] += 1
    gateway.counter[APPENDED] = index + 1
    gateway.counter[LAST_COMMAND_NS] = time_ns


@inlined
def latest_arrival_ns(gateway: GatewayState) -> int:
    """Lockstep: the latest arrival time of a command that is accepted now."""
    return min(END_NS - 1, clock_now_ns(gateway) + gateway.counter[AHEAD_NS_MAX])


@inlined
def _stageable(gateway: GatewayState, participant: int) -> int:
    """How many more of a participant's rows may wait."""
    own = gateway.staged_rows[participant]
    reserved = max(0, gateway.counter[STAGED_RESERVED] - own)
    return min(gateway.counter[STAGED_EACH_MAX] - own, reserved + gateway.counter[STAGED_LEFT])


@inlined
def _stage(gateway: GatewayState, last_command_id: Any, session: int, count: int, now_ns: int) -> int:
    """Stages the `count` decoded rows from index STAGED on until they arrive: in lockstep at their own time, otherwise now plus a latency."""
    participant = gateway.participant[session]
    first = gateway.counter[STAGED]
    lockstep = gateway.clock[CLOCK_KIND] == LOCKSTEP_CLOCK
    earliest = max(gateway.promise_ns[session], gateway.last_command_time_ns[session])
    latest = latest_arrival_ns(gateway) if lockstep else 0
    previous = max(last_command_id[participant], gateway.last_sent_id[participant])
    for index in range(first, first + count):
        row = gateway.staged[index]
        if row.command_id <= previous:
            return NEEDS_PYTHON
        previous = row.command_id
        row.participant = participant
        if not lockstep:
            row.time_ns = now_ns
        elif row.time_ns < earliest or row.time_ns > latest:
            return NEEDS_PYTHON
        else:
            earliest = row.time_ns
    if lockstep:
        gateway.last_command_time_ns[session] = earliest
    gateway.last_sent_id[participant] = previous
    own = gateway.staged_rows[participant] + count
    reserved = gateway.counter[STAGED_RESERVED]
    gateway.counter[STAGED_LEFT] -= max(own, reserved) - max(own - count, reserved)
    gateway.staged_rows[participant] = own
    gateway.counter[STAGED] += count
    if gateway.delayed[session] == 0:
        return ACCEPTED
    gateway.counter[UNDELAYED] += count
    return DELAYED


@inlined
def _journal(
    gateway: GatewayState, last_command_id: Any, commands: Any, words: Any, session: int, count: int, now_ns: int
) -> int:
    """Journals the `count` decoded rows from index APPENDED on."""
    participant = gateway.participant[session]
    previous = last_command_id[participant]
    waits = gateway.counter[DURABLE] != NEVER
    if waits:
        previous = max(previous, gateway.last_sent_id[participant])
    for index in range(gateway.counter[APPENDED], gateway.counter[APPENDED] + count):
        if commands[index].command_id <= previous:
            return NEEDS_PYTHON
        previous = commands[index].command_id
    if waits:
        gateway.last_sent_id[participant] = previous
    for _ in range(count):
        append_row(gateway, commands, words, participant, now_ns)
    return ACCEPTED


@inlined
def is_cancellation(kind: int) -> bool:
    """Whether messages of a kind count against the rate of cancels."""
    return 2 <= kind <= 3 or kind == 5


@inlined
def _refill(tokens: Any, rates: Any, session: int, elapsed_s: float) -> None:
    """Refills a session's token bucket, which holds a second's worth, for the time since its last message."""
    tokens[session] = min(max(rates[session], 1.0), tokens[session] + elapsed_s * rates[session])


@inlined
def _can_pay(tokens: Any, rates: Any, session: int, count: int) -> bool:
    """Whether the bucket holds `count` tokens or is full; in the latter case its balance may become negative."""
    return rates[session] == 0.0 or tokens[session] >= min(float(count), max(rates[session], 1.0))


@inlined
def _count_rows(buffer: Any, size: int) -> int:
    """The number of rows of a bulk message, 0 if malformed."""
    start, length = read_bin(buffer, 2, size)
    if buffer[0] != 0x92 or start == INVALID or length % ROW_BYTES:
        return 0
    return length // ROW_BYTES


@inlined
def _read_rows(target: Any, target_bytes: Any, first: int, count: int, buffer: Any, size: int) -> bool:
    """Copies the `count` rows of a bulk message to index `first` of target. Returns whether all have a command id. Clears the sender's sequences and
    checks: no row in the segment may look journaled before it is."""
    start, length = read_bin(buffer, 2, size)
    copy_bytes(target_bytes, first * ROW_BYTES, buffer, start, length)
    have_ids = True
    for index in range(first, first + count):
        row = target[index]
        row.sequence = 0
        row.reason = 0
        row.check = 0
        have_ids &= row.command_id > 0
    return have_ids


@inlined
def accept(
    gateway: GatewayState,
    last_command_id: Any,
    commands: Any,
    words: Any,
    row_bytes: Any,
    session: int,
    buffer: Any,
    monotonic_ns: int,
) -> int:
    """Accepts one message of a live session.

    ACCEPTED: journaled, or staged in lockstep. DELAYED: staged, and Python adds the latency. NEEDS_PYTHON: anything but
    new, well-formed orders. NEEDS_ANSWER: a PING, or beyond a rate limit. SEGMENT_FULL: the command segment has no free row for
    participants. DUE_FIRST: waiting commands are now due and must be executed first. Unless ACCEPTED or DELAYED, the message has changed nothing.
    row_bytes is `commands` as bytes (rows, ROW_BYTES). Accepted commands, including each row of a bulk message, count
    against the rate limit; CANCEL, REDUCE and MASS_CANCEL count only against a limit of their own.
    """
    size = buffer.size
    if gateway.status[session] != LIVE or size < 3:
        return NEEDS_PYTHON
    lockstep = gateway.clock[CLOCK_KIND] == LOCKSTEP_CLOCK
    staged = lockstep or gateway.delayed[session] != 0
    first = gateway.counter[STAGED] if staged else gateway.counter[APPENDED]
    target = gateway.staged if staged else commands
    usable = gateway.counter[ROWS_USABLE]
    if staged and usable > 0:
        usable = first + _stageable(gateway, gateway.participant[session])
    kind = np.int64(buffer[1])
    elapsed_s = max(0, monotonic_ns - gateway.last_in_ns[session]) * 1e-9
    gateway.last_in_ns[session] = monotonic_ns
    _refill(gateway.rate_tokens, gateway.messages_per_s, session, elapsed_s)
    _refill(gateway.cancel_tokens, gateway.cancels_per_s, session, elapsed_s)
    if kind == PING:
        return NEEDS_ANSWER
    cancels = is_cancellation(kind)
    tokens = gateway.cancel_tokens if cancels else gateway.rate_tokens
    rates = gateway.cancels_per_s if cancels else gateway.messages_per_s
    if not _can_pay(tokens, rates, session, 1):
        return NEEDS_ANSWER
    full = NEEDS_PYTHON if staged else SEGMENT_FULL  # Python rejects what cannot be staged
    count = 1
    if first >= usable:
        return full
    if kind == BULK:
        if size > gateway.counter[BULK_ROWS_MAX] * ROW_BYTES + BULK_HEADER_BYTES:
            return NEEDS_PYTHON
        count = _count_rows(buffer, size)
        if count == 0:
            return NEEDS_PYTHON
        if first + count > usable:
            return full
        if not _can_pay(tokens, rates, session, count):  # before the rows are copied
            return NEEDS_ANSWER
        if not _read_rows(target, gateway.staged_bytes if staged else row_bytes, first, count, buffer, size):
            return NEEDS_PYTHON
    elif not read_order(buffer, size, target[first]):
        return NEEDS_PYTHON
    now_ns = 0 if lockstep else clock_now_ns(gateway)
    if not lockstep and now_ns >= gateway.counter[NEXT_DUE_NS]:
        return DUE_FIRST
    if staged:
        result = _stage(gateway, last_command_id, session, count, now_ns)
    else:
        result = _journal(gateway, last_command_id, commands, words, session, count, now_ns)
    if result == ACCEPTED or result == DELAYED:
        tokens[session] -= count
    return result


@inlined
def advance(gateway: GatewayState, state: Any, commands: Any, events: Any, event_bytes: Any) -> int:
    """Executes durable journaled commands and encodes their reports. If it stops early, it returns the reason; then call it again."""
    counter = gateway.counter
    stop = counter[APPENDED] - count_undurable(gateway)
    while True:
        while counter[REPORTED] < counter[EVENTS]:
            if not append_report(gateway, events, event_bytes, counter[REPORTED]):
                return OUT_FULL
            counter[REPORTED] += 1
        if counter[EXECUTED] == stop:
            return IDLE
        counter[EXECUTED], counter[EVENTS], status = execute_rows(
            state, commands, counter[EXECUTED], stop, events, counter[EVENTS]
        )
        if status != DONE and counter[REPORTED] == counter[EVENTS]:
            return status
