"""From a message to journaled commands to reports, in compiled code and without a socket."""

from typing import Any

import numpy as np

from serl.exchange.compiling import inlined
from serl.exchange.gateway.codec import INVALID, copy_bytes, read_bin, read_order
from serl.exchange.gateway.state import (
    APPENDED,
    BULK_ROWS_MAX,
    CLOCK_KIND,
    DUE,
    EVENTS,
    EXECUTED,
    FRESH,
    LIVE,
    LOCKSTEP_CLOCK,
    NEXT_SEQUENCE,
    NOW,
    REPORTED,
    SALT,
    STAGED,
    Gate,
    report,
)  # fmt: skip
from serl.exchange.gateway.timing import clock_now_ns
from serl.exchange.journal.rows import check_of
from serl.exchange.kernel.commands import DONE, execute_rows
from serl.exchange.records import COMMAND

# What `accept` made of a message
TAKEN, FOR_PYTHON, NO_ROOM, ON_ITS_WAY, AFTER_DUE = 0, 1, 2, 3, 4
# How `advance` ended
IDLE, FULL_EVENTS, GROW, FULL_OUT = 0, 1, 2, 3

ROW_BYTES = COMMAND.itemsize
BULK = 32
BULK_HEAD_BYTES = 7


@inlined
def append(gate: Gate, commands: Any, words: Any, participant: int, time_ns: int) -> None:
    """Journals the row that lies at APPENDED: sequence, participant, time, and the check that makes it whole."""
    index = gate.counter[APPENDED]
    row = commands[index]
    row.sequence = gate.counter[NEXT_SEQUENCE]
    row.participant = participant
    row.time_ns = time_ns
    row.check = check_of(words, index, gate.counter[SALT])
    gate.counter[NEXT_SEQUENCE] += 1
    gate.counter[APPENDED] = index + 1
    gate.counter[NOW] = time_ns


@inlined
def _stage(gate: Gate, last_command_id: Any, session: int, count: int, now_ns: int) -> int:
    """Keeps `count` decoded rows that lie at STAGED until their time: in lockstep what they state, else now and a latency."""
    participant = gate.participant[session]
    first = gate.counter[STAGED]
    if gate.clock[CLOCK_KIND] == LOCKSTEP_CLOCK:
        earliest = max(gate.promise_ns[session], gate.last_time_ns[session])
        for index in range(first, first + count):
            row = gate.staged[index]
            if row.time_ns < earliest:
                return FOR_PYTHON
            earliest = row.time_ns
            row.participant = participant
        gate.last_time_ns[session] = earliest
    else:
        previous = max(last_command_id[participant], gate.sent_id[participant])
        for index in range(first, first + count):
            row = gate.staged[index]
            if row.command_id <= previous:
                return FOR_PYTHON
            previous = row.command_id
            row.participant = participant
            row.time_ns = now_ns
        gate.sent_id[participant] = previous
    gate.counter[STAGED] += count
    if gate.delayed[session] == 0:
        return TAKEN
    gate.counter[FRESH] += count
    return ON_ITS_WAY


@inlined
def _take(gate: Gate, last_command_id: Any, commands: Any, words: Any, session: int, count: int, now_ns: int) -> int:
    """Takes `count` decoded rows that lie at APPENDED of the journal."""
    participant = gate.participant[session]
    previous = last_command_id[participant]
    for index in range(gate.counter[APPENDED], gate.counter[APPENDED] + count):
        if commands[index].command_id <= previous:
            return FOR_PYTHON
        previous = commands[index].command_id
    for _ in range(count):
        append(gate, commands, words, participant, now_ns)
    return TAKEN


@inlined
def _heard(gate: Gate, session: int, now_ns: int) -> None:
    """Notes that the session spoke, and gives it what its rate limit allows for the time since it last did."""
    rate = gate.rate[session]
    waited_s = (now_ns - gate.last_in_ns[session]) * 1e-9
    gate.tokens[session] = min(max(rate, 1.0), gate.tokens[session] + waited_s * rate)
    gate.last_in_ns[session] = now_ns


@inlined
def _read_rows(target: Any, target_bytes: Any, place: int, buffer: Any, size: int) -> int:
    """Copies the rows of a bulk message to `place` of target: how many, 0 if it is malformed, -1 if they have no room."""
    start, length = read_bin(buffer, 2, size)
    if buffer[0] != 0x92 or start == INVALID or length == 0 or length % ROW_BYTES:
        return 0
    count = length // ROW_BYTES
    if place + count > target.size:
        return -1
    copy_bytes(target_bytes, place * ROW_BYTES, buffer, start, length)
    for index in range(place, place + count):
        row = target[index]
        if row.command_id <= 0:
            return 0
        row.sequence = 0
        row.reason = 0
        row.check = 0
    return count


@inlined
def accept(
    gate: Gate,
    last_command_id: Any,
    commands: Any,
    words: Any,
    row_bytes: Any,
    session: int,
    buffer: Any,
    monotonic_ns: int,
) -> int:
    """Takes one message of a live session.

    TAKEN: journaled, or staged in lockstep. ON_ITS_WAY: staged, and Python adds the latency. FOR_PYTHON: anything but
    fresh, well-formed orders. NO_ROOM: in the journal. AFTER_DUE: what waits has come due and is executed first.
    A message that is neither TAKEN nor ON_ITS_WAY has changed nothing. row_bytes is `commands` as bytes (rows, ROW_BYTES).
    A rate limit counts what is taken; what only takes orders out is free.
    """
    size = buffer.size
    if gate.status[session] != LIVE or size < 3:
        return FOR_PYTHON
    lockstep = gate.clock[CLOCK_KIND] == LOCKSTEP_CLOCK
    staged = lockstep or gate.delayed[session] != 0
    place = gate.counter[STAGED] if staged else gate.counter[APPENDED]
    target = gate.staged if staged else commands
    kind = np.int64(buffer[1])
    _heard(gate, session, monotonic_ns)
    price = 0.0 if gate.rate[session] == 0.0 or 2 <= kind <= 3 or kind == 5 else 1.0
    if gate.tokens[session] < price:
        return FOR_PYTHON
    full = FOR_PYTHON if staged else NO_ROOM  # what waits for its time is refused where it has no room
    count = 1
    if place >= target.size:
        return full
    if kind == BULK:
        if size > gate.counter[BULK_ROWS_MAX] * ROW_BYTES + BULK_HEAD_BYTES:
            return FOR_PYTHON
        count = _read_rows(target, gate.staged_bytes if staged else row_bytes, place, buffer, size)
        if count <= 0:
            return FOR_PYTHON if count == 0 else full
    elif not read_order(buffer, size, target[place]):
        return FOR_PYTHON
    now_ns = 0 if lockstep else clock_now_ns(gate)
    if not lockstep and now_ns >= gate.counter[DUE]:
        return AFTER_DUE
    if staged:
        result = _stage(gate, last_command_id, session, count, now_ns)
    else:
        result = _take(gate, last_command_id, commands, words, session, count, now_ns)
    if result == TAKEN or result == ON_ITS_WAY:
        gate.tokens[session] -= price
    return result


@inlined
def advance(gate: Gate, state: Any, commands: Any, events: Any, event_bytes: Any) -> int:
    """Executes what is journaled and encodes the reports; stops early with a reason and can be called again."""
    counter = gate.counter
    while True:
        while counter[REPORTED] < counter[EVENTS]:
            if not report(gate, events, event_bytes, counter[REPORTED]):
                return FULL_OUT
            counter[REPORTED] += 1
        if counter[EXECUTED] == counter[APPENDED]:
            return IDLE
        counter[EXECUTED], counter[EVENTS], status = execute_rows(
            state, commands, counter[EXECUTED], counter[APPENDED], events, counter[EVENTS]
        )
        if status != DONE and counter[REPORTED] == counter[EVENTS]:
            return status
