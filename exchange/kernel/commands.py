"""One command after the other: by the plain rule book, or by the full one where anything is special."""

from typing import Any

from serl.exchange.compiling import compiled, inlined, int64, merged
from serl.exchange.kernel import order_index
from serl.exchange.kernel.constants import (
    CANCEL,
    DONE,
    END_DAY,
    EVENTS_FULL,
    FOK,
    GROW,
    MARKET,
    MASS_CANCEL,
    NEW,
    POST_ONLY,
    PRINT,
    PROCEED,
    PURGE,
    R_KIND,
    R_OPERATOR,
    R_ORDER,
    R_REQUESTED,
    R_STALE,
    R_SYMBOL,
    REDUCE,
    REPLACE,
    RESUME,
    SET_PHASE,
    TERM,
    TERMED,
)
from serl.exchange.kernel.fast_path import (
    cancel_displayed,
    execute_operator_command,
    mass_cancel_displayed,
    match_and_finish,
    place_order,
    reduce_order,
    reject_command,
    replace_order,
)
from serl.exchange.kernel.handle import commands_at, events_at, state_at
from serl.exchange.kernel.intrinsics import call
from serl.exchange.kernel.state import (
    ACTIVE,
    COMMAND_SEQUENCE,
    FAST_BOOK,
    FULL_BOOK,
    NEXT_EXPIRY,
    NEXT_ROW,
    STAGE,
    WANTS_FULL_BOOK,
    State,
)  # fmt: skip
from serl.exchange.records import ALL_SYMBOLS

__all__ = ["DONE", "EVENTS_FULL", "GROW", "execute", "execute_batch", "execute_fast", "prefetch_commands"]

EVENT_ROOM = 16
"""Rows that must be free for a command to begin."""

EXPIRE, EXECUTE = 0, 1
"""What the full rule book is asked for: what is due before a command, or what is left of one; the command itself."""

ENTRY_AHEAD, ORDER_AHEAD, LINKS_AHEAD = 12, 7, 3
"""Commands between asking for a line of memory and needing it: about the time that memory takes."""


@merged
def _execute(state: State, commands: Any, index: int, events: Any, count: int) -> tuple[int, int]:
    """Executes COMMAND row `index`: (new count, DONE, EVENTS_FULL or GROW)."""
    row = commands[index]
    if count + EVENT_ROOM > events.size:
        return count, EVENTS_FULL
    kind = int64(row.kind)
    if state.counter[STAGE] != 0 or row.time_ns >= state.counter[NEXT_EXPIRY]:
        count, status = _call_full_book(state, commands, index, events, count, EXPIRE)
        if status != PROCEED:
            return count, status
    if state.active_order[ACTIVE]:
        if kind == MASS_CANCEL or kind == END_DAY:
            return mass_cancel_displayed(state, row, events, count)
        return match_and_finish(state, row, events, count)
    state.counter[COMMAND_SEQUENCE] = row.sequence
    participant = int64(row.participant)
    previous = state.last_command_id[participant]
    if row.command_id != 0:
        if row.command_id <= previous:
            return reject_command(state, row, events, count, R_STALE), DONE
        state.last_command_id[participant] = row.command_id
    result = _dispatch(state, commands, index, events, count)
    if result[1] == GROW and state.counter[STAGE] == 0:
        state.last_command_id[participant] = previous
    return result


@inlined
def _call_full_book(state: State, commands: Any, index: int, events: Any, count: int, how: int) -> tuple[int, int]:
    """The same by the full rule book; GROW while it is not there. It stands behind a pointer, so that nobody else's code contains it."""
    if state.handle[FULL_BOOK] == 0:
        state.counter[WANTS_FULL_BOOK] = 1
        return count, GROW
    result = call(
        state.handle[FULL_BOOK],
        state.handle.ctypes.data,
        commands.ctypes.data,
        index,
        events.ctypes.data,
        events.size,
        count,
        how,
    )
    return result >> 2, result & 3


@merged
def _is_plain(state: State, row: Any) -> bool:
    """Whether a NEW needs no more than the plain rules."""
    special = row.flags & ~(POST_ONLY | MARKET) | (row.time_in_force > FOK)
    return (state.needs_full_book[row.symbol] | state.has_limits[row.participant] | special) == 0


@merged
def _dispatch(state: State, commands: Any, index: int, events: Any, count: int) -> tuple[int, int]:
    row = commands[index]
    kind = int64(row.kind)
    known = row.symbol < state.halted.size
    if kind == NEW:
        if not known:
            if row.flags & TERMED:
                state.terms[row.participant, :] = 0
            return reject_command(state, row, events, count, R_SYMBOL), DONE
        if not _is_plain(state, row):
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        return place_order(state, row, events, count)
    if CANCEL <= kind <= REPLACE:
        slot = order_index.find(state, int64(row.participant), row.order_id)
        if slot < 0:
            return reject_command(state, row, events, count, R_ORDER), DONE
        if state.needs_full_book[state.orders[slot].symbol] | state.has_limits[row.participant]:
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        if kind == CANCEL:
            return cancel_displayed(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
        if kind == REDUCE:
            return reduce_order(state, row, events, count, slot), DONE
        return replace_order(state, row, events, count, slot)
    if kind == MASS_CANCEL:
        if not known and row.symbol != ALL_SYMBOLS:
            return reject_command(state, row, events, count, R_SYMBOL), DONE
        if row.flags != 0 or state.extras.size > 0:
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        return mass_cancel_displayed(state, row, events, count)
    if kind == TERM or SET_PHASE <= kind <= PURGE or (END_DAY <= kind <= RESUME and state.extras.size > 0):
        return _call_full_book(state, commands, index, events, count, EXECUTE)
    if not END_DAY <= kind <= PRINT:
        return reject_command(state, row, events, count, R_KIND), DONE
    if not state.operator[row.participant]:
        return reject_command(state, row, events, count, R_OPERATOR), DONE
    if kind == END_DAY:
        return mass_cancel_displayed(state, row, events, count)
    if not known:
        return reject_command(state, row, events, count, R_SYMBOL), DONE
    return execute_operator_command(state, row, events, count), DONE


@merged
def prefetch_commands(state: State, commands: Any, index: int, stop: int) -> None:
    """Brings near what the commands behind `index` will touch: with a million orders each would miss the caches thrice."""
    if index + ENTRY_AHEAD < stop:
        row = commands[index + ENTRY_AHEAD]
        name = row.command_id if row.kind == NEW else row.order_id
        order_index.prefetch_entry(state, int64(row.participant), name)
    if index + ORDER_AHEAD < stop:
        row = commands[index + ORDER_AHEAD]
        if row.kind != NEW:
            order_index.prefetch_order(state, int64(row.participant), row.order_id)
    if index + LINKS_AHEAD < stop:
        row = commands[index + LINKS_AHEAD]
        if row.kind != NEW:
            order_index.prefetch_neighbours(state, int64(row.participant), row.order_id)


def execute_fast(handle: int, commands: int, start: int, stop: int, events: int, size: int, count: int) -> int:
    """`execute_batch` of arrays at addresses, and what it calls: new count << 2 | status; the next row is in the state."""
    state, rows, written = state_at(handle), commands_at(commands, stop), events_at(events, size)
    status = DONE
    index = start
    while index < stop:
        prefetch_commands(state, rows, index, stop)
        count, status = _execute(state, rows, index, written, count)
        if status != DONE:
            break
        index += 1
    state.active_order[NEXT_ROW] = index
    return count << 2 | status


@inlined
def _execute_rows(state: State, commands: Any, start: int, stop: int, events: Any, count: int) -> int:
    return call(
        state.handle[FAST_BOOK],
        state.handle.ctypes.data,
        commands.ctypes.data,
        start,
        stop,
        events.ctypes.data,
        events.size,
        count,
    )


@inlined
def execute(state: State, commands: Any, index: int, events: Any, count: int) -> tuple[int, int]:
    """Executes COMMAND row `index`, appending EVENT rows from `count` on: (new count, DONE, EVENTS_FULL or GROW).

    After EVENTS_FULL or GROW it must be called again with the same row. O(log far levels + fills) a command.
    """
    result = _execute_rows(state, commands, index, index + 1, events, count)
    return result >> 2, result & 3


@inlined
def execute_rows(state: State, commands: Any, start: int, stop: int, events: Any, count: int) -> tuple[int, int, int]:
    """Executes rows start..stop: (the next row to execute, new event count, DONE, EVENTS_FULL or GROW)."""
    result = _execute_rows(state, commands, start, stop, events, count)
    return state.active_order[NEXT_ROW], result >> 2, result & 3


@compiled
def execute_batch(state: State, commands: Any, start: int, stop: int, events: Any, count: int) -> tuple[int, int, int]:
    """`execute_rows` for Python."""
    return execute_rows(state, commands, start, stop, events, count)
