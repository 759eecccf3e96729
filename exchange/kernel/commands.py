"""Executes commands one by one: on the fast path, or by the full rule book where anything is special."""

from serl.exchange.compiling import apart, compiled, inlined, int64, merged
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.constants import DONE, EVENTS_FULL, GROW
from serl.exchange.kernel.events import reject_command
from serl.exchange.kernel.fast_path import (
    cancel_displayed,
    execute_operator_command,
    mass_cancel_displayed,
    match_and_finish,
    place_order,
    reduce_order,
    replace_order,
)
from serl.exchange.kernel.handle import commands_at, events_at, state_at
from serl.exchange.kernel.intrinsics import call
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.state import FAST_BOOK, FULL_BOOK, State
from serl.exchange.records import ALL_SYMBOLS, Rows

__all__ = ["DONE", "EVENTS_FULL", "GROW", "execute", "execute_batch", "execute_fast", "prefetch_commands"]

EVENT_ROOM = 24
"""Rows that must be free for a command to begin."""

EXPIRE, EXECUTE = 0, 1
"""What the full rule book is asked for: what is due before a command, or what is left of one; the command itself."""

ENTRY_AHEAD, ORDER_AHEAD, LINKS_AHEAD = 12, 7, 3
"""Commands between asking for a line of memory and needing it: about the time that memory takes."""


@merged
def _execute(state: State, commands: Rows, index: int, events: Rows, count: int) -> tuple[int, int]:
    """Executes COMMAND row `index`: (new count, DONE, EVENTS_FULL or GROW)."""
    command = commands[index]
    if count + EVENT_ROOM > events.size:
        return count, EVENTS_FULL
    kind = int64(command.kind)
    if state.counters.stage != 0 or command.time_ns >= state.counters.next_expiry_ns:
        count, status = _call_full_book(state, commands, index, events, count, EXPIRE)
        if status != k.PROCEED:
            return count, status
    if state.active_order.is_active:
        if kind == k.MASS_CANCEL or kind == k.END_DAY:
            return mass_cancel_displayed(state, command, events, count)
        return match_and_finish(state, command, events, count)
    state.counters.command_sequence = command.sequence
    participant = int64(command.participant)
    previous = state.last_command_id[participant]
    if command.command_id != 0:
        if command.command_id <= previous:
            return reject_command(state, command, events, count, k.REASON_STALE_COMMAND_ID), DONE
        state.last_command_id[participant] = command.command_id
    elif kind == k.NEW:  # nothing would name the order
        return reject_command(state, command, events, count, k.REASON_STALE_COMMAND_ID), DONE
    result = _dispatch(state, commands, index, events, count)
    if result[1] == GROW and state.counters.stage == 0:
        state.last_command_id[participant] = previous
    return result


@apart
def _call_full_book(state: State, commands: Rows, index: int, events: Rows, count: int, how: int) -> tuple[int, int]:
    """Calls the full rule book; GROW while it is not loaded. It is called through a pointer, so no other code contains it."""
    if state.handle[FULL_BOOK] == 0:
        state.counters.wants_full_book = 1
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
def _is_plain(state: State, command: CommandRow) -> bool:
    """Whether a NEW needs no more than the plain rules."""
    special = command.flags & ~(k.POST_ONLY | k.MARKET) | (command.time_in_force > k.FOK)
    return (state.needs_full_book[command.symbol] | state.has_limits[command.participant] | special) == 0


@merged
def _dispatch(state: State, commands: Rows, index: int, events: Rows, count: int) -> tuple[int, int]:
    command = commands[index]
    kind = int64(command.kind)
    known = command.symbol < state.halted.size
    if kind == k.NEW:
        if not known:
            if command.flags & k.HAS_TERMS:
                state.terms[command.participant, :] = 0
            return reject_command(state, command, events, count, k.REASON_UNKNOWN_SYMBOL), DONE
        if not _is_plain(state, command):
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        return place_order(state, command, events, count)
    if k.CANCEL <= kind <= k.REPLACE:
        slot = order_index.find(state, int64(command.participant), command.order_id)
        if slot < 0:
            if kind == k.REPLACE and command.flags & k.HAS_TERMS:
                state.terms[command.participant, :] = 0
            return reject_command(state, command, events, count, k.REASON_UNKNOWN_ORDER), DONE
        if state.needs_full_book[state.orders[slot].symbol] | state.has_limits[command.participant]:
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        if kind == k.CANCEL:
            return cancel_displayed(state, command, events, count, slot, command.command_id, k.REASON_REQUESTED), DONE
        if kind == k.REDUCE:
            return reduce_order(state, command, events, count, slot), DONE
        if command.flags & k.HAS_TERMS:
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        return replace_order(state, command, events, count, slot)
    if kind == k.MASS_CANCEL:
        if not known and command.symbol != ALL_SYMBOLS:
            return reject_command(state, command, events, count, k.REASON_UNKNOWN_SYMBOL), DONE
        if command.flags != 0 or state.extras.size > 0:
            return _call_full_book(state, commands, index, events, count, EXECUTE)
        return mass_cancel_displayed(state, command, events, count)
    if kind == k.TERM or k.SET_PHASE <= kind <= k.DEPOSIT or (k.END_DAY <= kind <= k.RESUME and state.extras.size > 0):
        return _call_full_book(state, commands, index, events, count, EXECUTE)
    if not k.END_DAY <= kind <= k.PRINT:
        return reject_command(state, command, events, count, k.REASON_UNKNOWN_KIND), DONE
    if not state.operator[command.participant]:
        return reject_command(state, command, events, count, k.REASON_NOT_PERMITTED), DONE
    if kind == k.END_DAY:
        return mass_cancel_displayed(state, command, events, count)
    if not known:
        return reject_command(state, command, events, count, k.REASON_UNKNOWN_SYMBOL), DONE
    return execute_operator_command(state, command, events, count), DONE


@merged
def prefetch_commands(state: State, commands: Rows, index: int, stop: int) -> None:
    """Prefetches what the commands after `index` will touch: with a million orders each would miss the caches three times."""
    if index + ENTRY_AHEAD < stop:
        command = commands[index + ENTRY_AHEAD]
        name = command.command_id if command.kind == k.NEW else command.order_id
        order_index.prefetch_entry(state, int64(command.participant), name)
    if index + ORDER_AHEAD < stop:
        command = commands[index + ORDER_AHEAD]
        if command.kind != k.NEW:
            order_index.prefetch_order(state, int64(command.participant), command.order_id)
    if index + LINKS_AHEAD < stop:
        command = commands[index + LINKS_AHEAD]
        if command.kind != k.NEW:
            order_index.prefetch_neighbours(state, int64(command.participant), command.order_id)


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
    state.active_order.next_row = index
    return count << 2 | status


@inlined
def _execute_rows(state: State, commands: Rows, start: int, stop: int, events: Rows, count: int) -> int:
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
def execute(state: State, commands: Rows, index: int, events: Rows, count: int) -> tuple[int, int]:
    """Executes COMMAND row `index`, appending EVENT rows from `count` on: (new count, DONE, EVENTS_FULL or GROW).

    After EVENTS_FULL or GROW it must be called again with the same row. O(log far levels + fills) a command.
    """
    result = _execute_rows(state, commands, index, index + 1, events, count)
    return result >> 2, result & 3


@inlined
def execute_rows(state: State, commands: Rows, start: int, stop: int, events: Rows, count: int) -> tuple[int, int, int]:
    """Executes rows start..stop: (the next row to execute, new event count, DONE, EVENTS_FULL or GROW)."""
    result = _execute_rows(state, commands, start, stop, events, count)
    return state.active_order.next_row, result >> 2, result & 3


@compiled
def execute_batch(
    state: State, commands: Rows, start: int, stop: int, events: Rows, count: int
) -> tuple[int, int, int]:
    """`execute_rows` for Python."""
    return execute_rows(state, commands, start, stop, events, count)
