"""NEW, REDUCE, REPLACE and TERM."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import emit
from serl.exchange.kernel.constants import (
    ACCEPTED,
    ALL_OR_NONE,
    CONTINUOUS,
    DONE,
    GROW,
    HIDDEN,
    POST_ONLY,
    R_CROSS,
    R_FILLED,
    R_FULL,
    R_QTY,
    R_REQUESTED,
    REDUCED,
    REPLACED,
    STAGE_TRIGGERS,
    T_DISPLAY,
    T_EXPIRE,
    T_LINK,
    T_MIN,
    T_OFFSET,
    T_PEG,
    T_SELF,
    T_TRAIL,
    TERMED,
)
from serl.exchange.kernel.rulebook.active_order import (
    FROM_NEW,
    FROM_REPLACE,
    NO_TRADE,
    activate,
    blocked_by_band,
    can_rest,
    check_dequeued,
    dequeue,
    phase_of,
    rest_remainder,
    target_queue,
    wants_to_trade,
)
from serl.exchange.kernel.rulebook.capacity import has_far_room, is_full
from serl.exchange.kernel.rulebook.checks import (
    SENT_TERMS,
    UNKNOWN_TERM,
    check_new,
    check_replace,
    could_rest,
    initial_stop_ticks,
    is_book_full,
    is_valid_qty,
    term_value,
)
from serl.exchange.kernel.rulebook.command_events import reject_and_finish
from serl.exchange.kernel.rulebook.matching import counterparty
from serl.exchange.kernel.rulebook.order_events import cancel, hidden_flag, reduce_resting, tell
from serl.exchange.kernel.rulebook.orders import make_special, order_limit, schedule_triggers, total_open_lots
from serl.exchange.kernel.state import ACCOUNT_MODE as OWN_MODE
from serl.exchange.kernel.state import (
    ACTIVE,
    CANCEL_REASON,
    COMMAND_ID,
    DISPLAY,
    EXPIRE,
    FLAGS,
    FREE_LEVEL,
    FREE_ORDER,
    LEAVES_LOTS,
    LINK,
    MIN,
    OFFSET,
    ORDER_ID,
    ORIGIN,
    PARTICIPANT,
    PEG,
    PRICE,
    SIDE,
    STAGE,
    STOP,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    TRAIL,
    State,
)  # fmt: skip
from serl.exchange.records import ACCOUNT_SELF_TRADE


@inner
def _activate_new(state: State, row: Any) -> None:
    """Makes a NEW the active order."""
    active, symbol, side = state.active_order, int64(row.symbol), int64(row.side)
    active[SYMBOL], active[SIDE], active[PARTICIPANT] = symbol, side, int64(row.participant)
    active[ORDER_ID], active[COMMAND_ID] = row.command_id, row.command_id
    active[TIME_IN_FORCE], active[FLAGS] = int64(row.time_in_force), int64(row.flags)
    active[PRICE], active[LEAVES_LOTS], active[TOTAL] = row.price_ticks, row.qty_lots, row.qty_lots
    active[ORIGIN] = FROM_NEW
    active[DISPLAY], active[MIN] = term_value(state, row, T_DISPLAY), term_value(state, row, T_MIN)
    active[STOP], active[TRAIL] = initial_stop_ticks(state, row), term_value(state, row, T_TRAIL)
    active[PEG], active[OFFSET] = term_value(state, row, T_PEG), term_value(state, row, T_OFFSET)
    active[EXPIRE], active[LINK] = term_value(state, row, T_EXPIRE), term_value(state, row, T_LINK)
    if row.flags & ALL_OR_NONE:
        active[MIN] = row.qty_lots
    sent = state.terms[row.participant, SENT_TERMS] if row.flags & TERMED else 0
    own = sent & 1 << T_SELF != 0
    active[OWN_MODE] = state.terms[row.participant, T_SELF] if own else ACCOUNT_SELF_TRADE
    activate(state)


@inner
def enter_new(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Checks a NEW; it rests, or is the active order of the stage that follows."""
    active, symbol = state.active_order, int64(row.symbol)
    reason = check_new(state, row)
    if reason == 0:
        _activate_new(state, row)
        if row.flags & POST_ONLY and wants_to_trade(state):
            reason = R_CROSS
        elif is_book_full(state, row, target_queue(state)[0]):
            reason = R_FULL
        elif not has_far_room(state, symbol) or (
            could_rest(state, row) and (state.counter[FREE_ORDER] < 0 or state.counter[FREE_LEVEL] < 0)
        ):
            active[ACTIVE] = 0
            return count, GROW
    if row.flags & TERMED:
        state.terms[row.participant, :] = 0
    if reason != 0:
        active[ACTIVE] = 0
        return reject_and_finish(state, row, events, count, reason)
    if active[LINK] != 0:
        partner = order_index.find(state, active[PARTICIPANT], active[LINK])
        make_special(state, partner)
        state.extras[partner].link = row.command_id
    schedule_triggers(state, symbol)
    state.counter[STAGE] = STAGE_TRIGGERS
    trades = wants_to_trade(state)
    if not trades and can_rest(state) and not blocked_by_band(state):
        active[ACTIVE] = 0
        return rest_remainder(state, row, events, count, ACCEPTED), DONE
    if not trades:
        active[CANCEL_REASON] = NO_TRADE
    return int64(emit(
        state, row, events, count, ACCEPTED, active[PARTICIPANT], symbol, active[SIDE], row.command_id, 0,
        row.command_id, row.price_ticks, row.qty_lots, row.qty_lots, 0, 0, 0,
    )), DONE  # fmt: skip


@inner
def enter_reduce(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    """Takes lots off, or cancels."""
    if not is_valid_qty(state, int64(state.orders[slot].symbol), row.qty_lots):
        return reject_and_finish(state, row, events, count, R_QTY)
    state.counter[STAGE] = STAGE_TRIGGERS
    if row.qty_lots >= total_open_lots(state, slot):
        return cancel(state, row, events, count, slot, row.command_id, R_REQUESTED), DONE
    return reduce_resting(state, row, events, count, slot, row.qty_lots, row.command_id, 0), DONE


@inner
def _crosses(state: State, symbol: int, side: int, price: int, leaves_lots: int) -> bool:
    """Whether a post-only order at a new price would trade."""
    if phase_of(state, symbol) != CONTINUOUS:
        return False
    return counterparty(state, symbol, side, price, leaves_lots) >= 0


@inner
def enter_replace(state: State, row: Any, events: Any, count: int, slot: int) -> tuple[int, int]:
    """Keeps its place, or becomes the active order of the stage that follows."""
    order, active = state.orders[slot], state.active_order
    symbol, side = int64(order.symbol), int64(order.side)
    reason = check_replace(state, row, slot)
    if reason != 0:
        return reject_and_finish(state, row, events, count, reason)
    leaves_lots = row.qty_lots - (order.total_lots - total_open_lots(state, slot))
    if leaves_lots <= 0:
        state.counter[STAGE] = STAGE_TRIGGERS
        return cancel(state, row, events, count, slot, row.command_id, R_FILLED), DONE
    if row.price_ticks == order.price_ticks and row.qty_lots <= order.total_lots:
        state.counter[STAGE] = STAGE_TRIGGERS
        return reduce_resting(state, row, events, count, slot, order.total_lots - row.qty_lots, row.command_id, 0), DONE
    if order.flags & POST_ONLY and _crosses(state, symbol, side, row.price_ticks, leaves_lots):
        return reject_and_finish(state, row, events, count, R_CROSS)
    if is_full(state, int64(order.queue), symbol):
        return reject_and_finish(state, row, events, count, R_FULL)
    if not has_far_room(state, symbol):
        return count, GROW
    reserve, limit = total_open_lots(state, slot) - order.open_lots, order_limit(state, slot)
    if reserve > 0:
        count = tell(
            state, row, events, count, slot, REDUCED, row.command_id, limit, reserve, order.open_lots, 0, HIDDEN, 0
        )
    count = tell(
        state,
        row,
        events,
        count,
        slot,
        REPLACED,
        row.command_id,
        limit,
        order.open_lots,
        leaves_lots,
        0,
        hidden_flag(state, slot),
        0,
    )
    dequeue(state, slot)
    schedule_triggers(state, symbol)
    active[PRICE], active[LEAVES_LOTS], active[TOTAL] = row.price_ticks, leaves_lots, row.qty_lots
    active[COMMAND_ID], active[ORIGIN] = row.command_id, FROM_REPLACE
    activate(state)
    check_dequeued(state)
    state.counter[STAGE] = STAGE_TRIGGERS
    return count, DONE


@inner
def store_term(state: State, row: Any) -> None:
    """One more term for the participant's next order."""
    terms, which = state.terms[row.participant], int64(row.flags)
    if which < SENT_TERMS:
        terms[which] = row.price_ticks
        terms[SENT_TERMS] |= 1 << which
    else:
        terms[SENT_TERMS] |= UNKNOWN_TERM
