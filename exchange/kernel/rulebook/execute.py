"""Executes a command by the full rule book, in stages that resume after events or memory ran out."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.events import begin_answer, reject_command
from serl.exchange.kernel.handle import commands_at, events_at, state_at
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import ROOM, phase_of
from serl.exchange.kernel.rulebook.auction import uncross
from serl.exchange.kernel.rulebook.mass_cancel import cancel_selected
from serl.exchange.kernel.rulebook.operator_commands import begin_operator_command, enter_phase
from serl.exchange.kernel.rulebook.order_entry import enter_new, enter_reduce, enter_replace, store_term
from serl.exchange.kernel.rulebook.order_events import cancel
from serl.exchange.kernel.rulebook.triggers import cancel_expired, run_triggers
from serl.exchange.kernel.state import State
from serl.exchange.records import Rows

EXPIRE_FIRST = 0
"""The caller asks for what is due before a command, or for the rest of one; else for the command."""


@inner
def _begin_command(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Checks the command and does what is at once; sets the stage that follows. GROW: nothing was changed."""
    kind = int64(command.kind)
    if kind == k.NEW:
        return enter_new(state, command, events, count)
    if k.CANCEL <= kind <= k.REPLACE:
        slot = order_index.find(state, int64(command.participant), command.order_id)
        if kind == k.REDUCE:
            return enter_reduce(state, command, events, count, slot)
        if kind == k.REPLACE:
            return enter_replace(state, command, events, count, slot)
        state.counters.stage = k.STAGE_TRIGGERS
        return cancel(state, command, events, count, slot, command.command_id, k.REASON_REQUESTED), k.DONE
    if kind == k.TERM:
        store_term(state, command)
        return count, k.DONE
    if kind == k.MASS_CANCEL:
        if command.flags > 2:
            return reject_command(state, command, events, count, k.REASON_BAD_FLAGS), k.DONE
        state.counters.stage = k.STAGE_CANCEL
        return count, k.DONE
    return begin_operator_command(state, command, events, count)


@inner
def _cancel_and_answer(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """A sweep, and its answer: (new count, DONE or EVENTS_FULL)."""
    count, status = cancel_selected(state, command, events, count, 0)
    if status != k.DONE or count + ROOM > events.size:
        return count, k.EVENTS_FULL
    cancelled = state.counters.cancelled_orders
    state.counters.cancelled_orders = 0
    if command.kind == k.ACCOUNT:
        event = begin_answer(state, command, events, count, k.SET)
        event.price_ticks = command.price_ticks
        event.qty_lots = cancelled
        event.flags = int64(command.flags)
        return count + 1, k.DONE
    kind = k.DAY_ENDED if command.kind == k.END_DAY else k.MASS_CANCELLED
    event = begin_answer(state, command, events, count, kind)
    event.qty_lots = cancelled
    return count + 1, k.DONE


@inner
def _run_stage(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Goes through one stage: (new count, DONE, EVENTS_FULL or GROW); after DONE the next one is set."""
    counters = state.counters
    stage = counters.stage
    if stage == k.STAGE_EXPIRE:
        count, status = cancel_expired(state, command, events, count)
    elif stage == k.STAGE_CANCEL:
        count, status = _cancel_and_answer(state, command, events, count)
    elif stage == k.STAGE_UNCROSS:
        count, status = uncross(state, command, events, count, int64(command.symbol))
    elif stage == k.STAGE_AUCTION_CANCEL:
        count, status = cancel_selected(state, command, events, count, phase_of(state, int64(command.symbol)))
        if status == k.DONE:
            counters.cancelled_orders = 0
    elif stage == k.STAGE_PHASE:
        count, status = enter_phase(state, command, events, count)
    else:
        count, status = run_triggers(state, command, events, count)
    if status == k.DONE:
        if stage == k.STAGE_EXPIRE or stage == k.STAGE_UNCROSS or stage == k.STAGE_AUCTION_CANCEL:
            counters.stage = stage + 1
        else:
            counters.stage = 0 if stage == k.STAGE_EXPIRY_TRIGGERS or stage == k.STAGE_TRIGGERS else k.STAGE_TRIGGERS
    return count, status


def execute_full(handle: int, commands: int, index: int, events: int, size: int, count: int, how: int) -> int:
    """`execute` by the full rule book, of arrays at addresses: new count << 2 | status; PROCEED if what was due before the command is done."""
    state = state_at(handle)
    rows, written = commands_at(commands, index + 1), events_at(events, size)
    command = rows[index]
    status = k.DONE
    before = how == EXPIRE_FIRST
    if before and state.counters.stage == 0:
        state.counters.stage = k.STAGE_EXPIRE
    first = state.counters.stage
    if not before:
        count, status = _begin_command(state, command, written, count)
    while status == k.DONE and state.counters.stage != 0:
        count, status = _run_stage(state, command, written, count)
    if before and status == k.DONE and (first == k.STAGE_EXPIRE or first == k.STAGE_EXPIRY_TRIGGERS):
        status = k.PROCEED
    return count << 2 | status
