"""What operators and the exchange itself command; a phase begins."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.constants import (
    ACCOUNT,
    CLOSED,
    CLOSING,
    CONTINUOUS,
    DONE,
    END_DAY,
    EVENTS_FULL,
    GROW,
    HALT,
    HALT_REASON_MAX,
    HALTED,
    OWN,
    PHASED,
    PURGE,
    R_FLAGS,
    R_HALTED,
    R_OPERATOR,
    R_PHASE,
    R_SETTING,
    R_SYMBOL,
    RESUME,
    RESUMED,
    RULE,
    S_KILLED,
    SET,
    SET_PHASE,
    STAGE_CANCEL,
    STAGE_PHASE,
    STAGE_TRIGGERS,
    STAGE_UNCROSS,
    TIME,
    UNCROSS,
)
from serl.exchange.kernel.rulebook.active_order import ROOM, leave_continuous, phase_of
from serl.exchange.kernel.rulebook.auction import activate_closing_orders, is_collecting
from serl.exchange.kernel.rulebook.capacity import has_room_for_pegs
from serl.exchange.kernel.rulebook.command_events import answer_command, reject_and_finish
from serl.exchange.kernel.rulebook.orders import schedule_triggers
from serl.exchange.kernel.rulebook.settings import set_account, set_rule, update_special_rules
from serl.exchange.kernel.state import (
    AUCTION_FIRST_TICKS,
    AUCTION_LOTS,
    AUCTION_TICKS,
    STAGE,
    State,
)  # fmt: skip
from serl.exchange.records import (
    ALL_SYMBOLS,
    HALT_REASON,
    PHASE,
)  # fmt: skip


@inner
def begin_operator_command(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """HALT, RESUME, PHASE, UNCROSS, TIME, RULE, ACCOUNT, PURGE, END_DAY."""
    kind, symbol, flags = int64(row.kind), int64(row.symbol), int64(row.flags)
    own = kind == ACCOUNT and flags == OWN and row.order_id == row.participant
    if not state.operator[row.participant] and not own:
        return reject_and_finish(state, row, events, count, R_OPERATOR)
    everywhere = kind == END_DAY or kind == TIME or kind == ACCOUNT or (kind == PURGE and symbol == ALL_SYMBOLS)
    if symbol >= state.halted.size and not everywhere:
        return reject_and_finish(state, row, events, count, R_SYMBOL)
    if kind == TIME:
        return count, DONE
    if kind == END_DAY:
        state.counter[STAGE] = STAGE_CANCEL
        return count, DONE
    if (kind == SET_PHASE and flags > CLOSED) or (kind == HALT and flags > HALT_REASON_MAX):
        return reject_and_finish(state, row, events, count, R_FLAGS)
    if kind == PURGE:
        return _purge(state, row, events, count)
    if _holds_auction(state, row) and state.halted[symbol]:
        return reject_and_finish(state, row, events, count, R_HALTED)
    if kind == UNCROSS and not is_collecting(phase_of(state, symbol)):
        return reject_and_finish(state, row, events, count, R_PHASE)
    if (kind == RULE and not set_rule(state, row)) or (kind == ACCOUNT and not set_account(state, row)):
        return reject_and_finish(state, row, events, count, R_SETTING)
    state.counter[STAGE] = STAGE_TRIGGERS
    if kind == ACCOUNT:
        if flags == S_KILLED and row.price_ticks != 0:
            state.counter[STAGE] = STAGE_CANCEL
            return count, DONE
        return answer_command(state, row, events, count, SET, row.order_id, row.price_ticks, 0, 0, flags), DONE
    schedule_triggers(state, symbol)
    if kind == RULE:
        update_special_rules(state, symbol)
        return answer_command(state, row, events, count, SET, row.order_id, row.price_ticks, 0, 0, flags), DONE
    if kind == HALT or kind == RESUME:
        return _set_halt(state, row, events, count), DONE
    state.counter[AUCTION_TICKS] = state.counter[AUCTION_FIRST_TICKS] = state.counter[AUCTION_LOTS] = 0
    state.counter[STAGE] = STAGE_UNCROSS if _holds_auction(state, row) else STAGE_PHASE
    return count, DONE


@inner
def _holds_auction(state: State, row: Any) -> bool:
    """Whether a command is an auction, or ends a phase with one."""
    if row.kind != SET_PHASE:
        return row.kind == UNCROSS
    return is_collecting(phase_of(state, int64(row.symbol))) and (row.flags == CONTINUOUS or row.flags == CLOSED)


@inner
def _purge(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Checks a PURGE; the stage that follows cancels."""
    if row.flags > 2:
        return reject_and_finish(state, row, events, count, R_FLAGS)
    if not 0 <= row.order_id < state.accounts.shape[0]:
        return reject_and_finish(state, row, events, count, R_SETTING)
    state.counter[STAGE] = STAGE_CANCEL
    return count, DONE


@inner
def _set_halt(state: State, row: Any, events: Any, count: int) -> int:
    """HALT and RESUME."""
    symbol, halts = int64(row.symbol), row.kind == HALT
    why = int64(row.flags) if halts else 0
    state.halted[symbol], state.symbols[symbol, HALT_REASON] = halts, why
    return answer_command(state, row, events, count, HALTED if halts else RESUMED, row.order_id, 0, 0, 0, why)


@inner
def enter_phase(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """The new phase begins: (new count, DONE, EVENTS_FULL or GROW)."""
    symbol = int64(row.symbol)
    if row.kind == SET_PHASE:
        if phase_of(state, symbol) == CONTINUOUS and row.flags != CONTINUOUS:
            if not has_room_for_pegs(state, symbol):
                return count, GROW
            leave_continuous(state, symbol)
        state.symbols[symbol, PHASE] = row.flags
        update_special_rules(state, symbol)
        if row.flags == CLOSING:
            count, status = activate_closing_orders(state, row, events, count, symbol)
            if status != DONE:
                return count, status
    if count + ROOM > events.size:
        return count, EVENTS_FULL
    price, lots = state.counter[AUCTION_FIRST_TICKS], state.counter[AUCTION_LOTS]
    phase = phase_of(state, symbol)
    return answer_command(state, row, events, count, PHASED, row.order_id, price, lots, 0, phase), DONE
