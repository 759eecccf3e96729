"""One command by the full rule book, in stages that can be taken up again where events or memory ran out."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.constants import (
    ACCOUNT,
    CANCEL,
    DAY_ENDED,
    DONE,
    END_DAY,
    EVENTS_FULL,
    MASS_CANCEL,
    MASS_CANCELLED,
    NEW,
    PROCEED,
    R_FLAGS,
    R_REQUESTED,
    REDUCE,
    REPLACE,
    SET,
    STAGE_AUCTION_CANCEL,
    STAGE_CANCEL,
    STAGE_EXPIRE,
    STAGE_EXPIRY_TRIGGERS,
    STAGE_PHASE,
    STAGE_TRIGGERS,
    STAGE_UNCROSS,
    TERM,
)
from serl.exchange.kernel.handle import commands_at, events_at, state_at
from serl.exchange.kernel.rulebook.active_order import ROOM, phase_of
from serl.exchange.kernel.rulebook.auction import uncross
from serl.exchange.kernel.rulebook.command_events import answer_command, reject_and_finish
from serl.exchange.kernel.rulebook.mass_cancel import cancel_selected
from serl.exchange.kernel.rulebook.operator_commands import begin_operator_command, enter_phase
from serl.exchange.kernel.rulebook.order_entry import enter_new, enter_reduce, enter_replace, store_term
from serl.exchange.kernel.rulebook.order_events import cancel
from serl.exchange.kernel.rulebook.triggers import cancel_expired, run_triggers
from serl.exchange.kernel.state import (
    CANCELLED_ORDERS,
    STAGE,
    State,
)  # fmt: skip

EXPIRE_FIRST = 0
"""The caller asks for what is due before a command, or for the rest of one; else for the command."""


@inner
def _begin_command(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Checks the command and does what is at once; sets the stage that follows. GROW: nothing was changed."""
    kind = int64(row.kind)
    if kind == NEW:
        return enter_new(state, row, events, count)
    if CANCEL <= kind <= REPLACE:
        slot = order_index.find(state, int64(row.participant), row.order_id)
        if kind == REDUCE:
            return enter_reduce(state, row, events, count, slot)
        if kind == REPLACE:
            return enter_replace(state, row, events, count, slot)
        state.counter[STAGE] = STAGE_TRIGGERS
        return cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
    if kind == TERM:
        store_term(state, row)
        return count, DONE
    if kind == MASS_CANCEL:
        if row.flags > 2:
            return reject_and_finish(state, row, events, count, R_FLAGS)
        state.counter[STAGE] = STAGE_CANCEL
        return count, DONE
    return begin_operator_command(state, row, events, count)


@inner
def _cancel_and_answer(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """A sweep, and its answer: (new count, DONE or EVENTS_FULL)."""
    count, status = cancel_selected(state, row, events, count, 0)
    if status != DONE or count + ROOM > events.size:
        return count, EVENTS_FULL
    cancelled = state.counter[CANCELLED_ORDERS]
    state.counter[CANCELLED_ORDERS] = 0
    if row.kind == ACCOUNT:
        return answer_command(
            state, row, events, count, SET, row.order_id, row.price_ticks, cancelled, 0, int64(row.flags)
        ), DONE
    kind = DAY_ENDED if row.kind == END_DAY else MASS_CANCELLED
    return answer_command(state, row, events, count, kind, row.order_id, 0, cancelled, 0, 0), DONE


@inner
def _run_stage(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Goes through one stage: (new count, DONE, EVENTS_FULL or GROW); after DONE the next one is set."""
    counter = state.counter
    stage = counter[STAGE]
    if stage == STAGE_EXPIRE:
        count, status = cancel_expired(state, row, events, count)
    elif stage == STAGE_CANCEL:
        count, status = _cancel_and_answer(state, row, events, count)
    elif stage == STAGE_UNCROSS:
        count, status = uncross(state, row, events, count, int64(row.symbol))
    elif stage == STAGE_AUCTION_CANCEL:
        count, status = cancel_selected(state, row, events, count, phase_of(state, int64(row.symbol)))
        if status == DONE:
            counter[CANCELLED_ORDERS] = 0
    elif stage == STAGE_PHASE:
        count, status = enter_phase(state, row, events, count)
    else:
        count, status = run_triggers(state, row, events, count)
    if status == DONE:
        if stage == STAGE_EXPIRE or stage == STAGE_UNCROSS or stage == STAGE_AUCTION_CANCEL:
            counter[STAGE] = stage + 1
        else:
            counter[STAGE] = 0 if stage == STAGE_EXPIRY_TRIGGERS or stage == STAGE_TRIGGERS else STAGE_TRIGGERS
    return count, status


def execute_full(handle: int, commands: int, index: int, events: int, size: int, count: int, how: int) -> int:
    """`execute` by the full rule book, of arrays at addresses: new count << 2 | status; PROCEED if what was due before the command is done."""
    state = state_at(handle)
    rows, written = commands_at(commands, index + 1), events_at(events, size)
    row = rows[index]
    status = DONE
    before = how == EXPIRE_FIRST
    if before and state.counter[STAGE] == 0:
        state.counter[STAGE] = STAGE_EXPIRE
    first = state.counter[STAGE]
    if not before:
        count, status = _begin_command(state, row, written, count)
    while status == DONE and state.counter[STAGE] != 0:
        count, status = _run_stage(state, row, written, count)
    if before and status == DONE and (first == STAGE_EXPIRE or first == STAGE_EXPIRY_TRIGGERS):
        status = PROCEED
    return count << 2 | status
