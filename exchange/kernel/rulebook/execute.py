"""One command by the full rule book, in stages that can be taken up again where events or memory ran out."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.constants import (
    ACCOUNT,
    CANCEL,
    CLEARING,
    DAY_ENDED,
    DONE,
    END_DAY,
    ENTERING,
    EVENTS_FULL,
    EXPIRED,
    EXPIRING,
    MASS_CANCEL,
    MASS_CANCELLED,
    NEW,
    R_FLAGS,
    R_REQUESTED,
    REDUCE,
    REPLACE,
    SET,
    SETTLING,
    SWEEPING,
    TERM,
    UNCROSSING,
    UNTOUCHED,
)
from serl.exchange.kernel.handle import commands_at, events_at, state_at
from serl.exchange.kernel.rulebook.active_order import ROOM, phase_of
from serl.exchange.kernel.rulebook.auction import uncross
from serl.exchange.kernel.rulebook.command_events import answer, reject
from serl.exchange.kernel.rulebook.mass_cancel import sweep
from serl.exchange.kernel.rulebook.operator_commands import enter, operate
from serl.exchange.kernel.rulebook.order_entry import keep_term, new, reduce, replace
from serl.exchange.kernel.rulebook.order_events import cancel
from serl.exchange.kernel.rulebook.triggers import expire, settle
from serl.exchange.kernel.state import (
    CANCELLED_COUNT,
    STAGE,
    State,
)  # fmt: skip

EXPIRE_FIRST = 0
"""The caller asks for what is due before a command, or for the rest of one; else for the command."""


@inner
def _begin(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Checks the command and does what is at once; sets the stage that follows. GROW: nothing was changed."""
    kind = int64(row.kind)
    if kind == NEW:
        return new(state, row, events, count)
    if CANCEL <= kind <= REPLACE:
        slot = order_index.find(state, int64(row.participant), row.order_id)
        if kind == REDUCE:
            return reduce(state, row, events, count, slot)
        if kind == REPLACE:
            return replace(state, row, events, count, slot)
        state.counter[STAGE] = SETTLING
        return cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
    if kind == TERM:
        keep_term(state, row)
        return count, DONE
    if kind == MASS_CANCEL:
        if row.flags > 2:
            return reject(state, row, events, count, R_FLAGS)
        state.counter[STAGE] = SWEEPING
        return count, DONE
    return operate(state, row, events, count)


@inner
def _swept(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """A sweep, and its answer: (new count, DONE or EVENTS_FULL)."""
    count, status = sweep(state, row, events, count, 0)
    if status != DONE or count + ROOM > events.size:
        return count, EVENTS_FULL
    cancelled = state.counter[CANCELLED_COUNT]
    state.counter[CANCELLED_COUNT] = 0
    if row.kind == ACCOUNT:
        return answer(
            state, row, events, count, SET, row.order_id, row.price_ticks, cancelled, 0, int64(row.flags)
        ), DONE
    kind = DAY_ENDED if row.kind == END_DAY else MASS_CANCELLED
    return answer(state, row, events, count, kind, row.order_id, 0, cancelled, 0, 0), DONE


@inner
def _stage(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Goes through one stage: (new count, DONE, EVENTS_FULL or GROW); after DONE the next one is set."""
    counter = state.counter
    stage = counter[STAGE]
    if stage == EXPIRING:
        count, status = expire(state, row, events, count)
    elif stage == SWEEPING:
        count, status = _swept(state, row, events, count)
    elif stage == UNCROSSING:
        count, status = uncross(state, row, events, count, int64(row.symbol))
    elif stage == CLEARING:
        count, status = sweep(state, row, events, count, phase_of(state, int64(row.symbol)))
        if status == DONE:
            counter[CANCELLED_COUNT] = 0
    elif stage == ENTERING:
        count, status = enter(state, row, events, count)
    else:
        count, status = settle(state, row, events, count)
    if status == DONE:
        if stage == EXPIRING or stage == UNCROSSING or stage == CLEARING:
            counter[STAGE] = stage + 1
        else:
            counter[STAGE] = 0 if stage == EXPIRED or stage == SETTLING else SETTLING
    return count, status


def execute_fully(handle: int, commands: int, index: int, events: int, size: int, count: int, how: int) -> int:
    """`execute` by the full rule book, of arrays at addresses: new count << 2 | status; UNTOUCHED if what was due before the command is done."""
    state = state_at(handle)
    rows, written = commands_at(commands, index + 1), events_at(events, size)
    row = rows[index]
    status = DONE
    before = how == EXPIRE_FIRST
    if before and state.counter[STAGE] == 0:
        state.counter[STAGE] = EXPIRING
    first = state.counter[STAGE]
    if not before:
        count, status = _begin(state, row, written, count)
    while status == DONE and state.counter[STAGE] != 0:
        count, status = _stage(state, row, written, count)
    if before and status == DONE and (first == EXPIRING or first == EXPIRED):
        status = UNTOUCHED
    return count << 2 | status
