"""What follows from a command: trailing stops follow, stops are triggered, pegs move, minimums are met; and what expires before it."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel.constants import (
    BUY,
    CONTINUOUS,
    DONE,
    EVENTS_FULL,
    GROW,
    HIDDEN,
    HIDDEN_QUEUE,
    INACTIVE_QUEUE,
    MIN_QTY_QUEUE,
    OWN,
    R_EXPIRED,
    R_NO_ROOM,
    STOP_QUEUE,
    TRIGGERED,
)
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.rulebook.active_order import (
    ROOM,
    cancel_unplaced,
    check_dequeued,
    crosses_outside,
    dequeue,
    phase_of,
    trade_active_order,
)
from serl.exchange.kernel.rulebook.capacity import has_far_room, is_full_for_move
from serl.exchange.kernel.rulebook.matching import counterparty, first_slot, obtainable_lots
from serl.exchange.kernel.rulebook.order_events import cancel, cancel_linked, tell, unlink_pair
from serl.exchange.kernel.rulebook.orders import FIRST, LAST, requeue, total_open_lots
from serl.exchange.kernel.rulebook.pricing import collar_limit, peg_price, worst_price
from serl.exchange.kernel.state import (
    ACTIVE,
    ASK,
    BID,
    EXPIRING_ORDERS,
    PEGS,
    TRAILS,
    TRIGGERS_PENDING,
    TRIGGERS_SYMBOL,
    State,
)
from serl.exchange.records import (
    ACCOUNT_SELF_TRADE,
    HIGH_TICKS,
    LAST_TICKS,
    LOW_TICKS,
)  # fmt: skip

IDLE, CHANGED, ACTIVATED, NEEDS_MEMORY = 0, 1, 2, 3
"""What a step of settling did: none applies; something in place; an order comes to the market; nothing yet, more memory is due."""


@inner
def _move_trailing_stop(state: State, row: Any, events: Any, count: int, symbol: int) -> tuple[int, int]:
    """Trailing stops take their new stop prices: (new count, NOTHING, NO_MEMORY or TOUCHED if it has to go on)."""
    last = state.symbols[symbol, LAST_TICKS]
    end, slot = int64(state.lists[symbol, TRAILS, LAST]), int64(state.lists[symbol, TRAILS, FIRST])
    while slot >= 0 and last != 0:
        extra, following = state.extras[slot], int64(state.extras[slot].next)
        if state.orders[slot].side == BUY:
            stop = min(extra.stop_ticks, last + extra.trail_ticks)
        else:
            stop = max(extra.stop_ticks, last - extra.trail_ticks)
        if stop != extra.stop_ticks:
            if not has_far_room(state, symbol):
                return count, NEEDS_MEMORY
            if is_full_for_move(state, slot, STOP_QUEUE):
                return cancel_unplaced(state, row, events, count, slot, R_NO_ROOM), CHANGED
            extra.stop_ticks = stop
            requeue(state, slot, STOP_QUEUE, stop)
        if slot == end:
            break
        slot = following
    return count, IDLE


@inner
def _next_stop(state: State, symbol: int) -> int:
    """The stop order that is triggered next, -1 if none is due."""
    book, instrument = STOP_QUEUE * state.halted.size + symbol, state.symbols[symbol]
    buy, sell = state.best[book, ASK], state.best[book, BID]
    if buy != 0 and instrument[LAST_TICKS] != 0 and buy <= instrument[HIGH_TICKS]:
        return first_slot(state, book, ASK, buy)
    if sell != 0 and instrument[LAST_TICKS] != 0 and sell >= instrument[LOW_TICKS]:
        return first_slot(state, book, BID, sell)
    instrument[HIGH_TICKS] = instrument[LOW_TICKS] = instrument[LAST_TICKS]
    return -1


@inner
def _trigger_stop(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    order = state.orders[slot]
    participant, qty = int64(order.participant), total_open_lots(state, slot)
    count = tell(state, row, events, count, slot, TRIGGERED, 0, state.extras[slot].limit_ticks, qty, qty, 0, HIDDEN, 0)
    link = unlink_pair(state, slot)
    dequeue(state, slot)
    if link != 0:
        count = cancel_linked(state, row, events, count, participant, link)
    check_dequeued(state)
    return count


@inner
def _move_peg(state: State, row: Any, events: Any, count: int, symbol: int) -> tuple[int, int]:
    """The first pegged order that is not at its price: (new count, what it did)."""
    slot = int64(state.lists[symbol, PEGS, FIRST])
    while slot >= 0:
        order, extra = state.orders[slot], state.extras[slot]
        side, limit = int64(order.side), extra.limit_ticks
        farthest = limit if limit != 0 else collar_limit(state, int64(order.participant), symbol, side)
        price = peg_price(state, symbol, side, int64(extra.peg), extra.offset_ticks, farthest)
        queue = HIDDEN_QUEUE if price != 0 else INACTIVE_QUEUE
        if price != order.price_ticks if order.queue == HIDDEN_QUEUE else price != 0:
            if not has_far_room(state, symbol):
                return count, NEEDS_MEMORY
            if price != 0 and (
                counterparty(state, symbol, side, price, order.open_lots) >= 0
                or crosses_outside(state, symbol, side, price)
            ):
                dequeue(state, slot)
                check_dequeued(state)
                return count, ACTIVATED
            if is_full_for_move(state, slot, queue):
                return cancel_unplaced(state, row, events, count, slot, R_NO_ROOM), CHANGED
            if price == 0:
                price = limit if limit != 0 else worst_price(state, side)
            requeue(state, slot, queue, price)
            return count, CHANGED
        slot = int64(extra.next)
    return count, IDLE


@inner
def _first_fillable(state: State, symbol: int) -> int:
    """The first order of MIN_QTY whose minimum can be met, -1 if there is none. O(those that cross x what they would meet)."""
    book = MIN_QTY_QUEUE * state.halted.size + symbol
    for side in range(2):
        price = state.best[book, side]
        while price != 0:
            slot = first_slot(state, book, side, price)
            while slot >= 0:
                order, extra = state.orders[slot], state.extras[slot]
                if counterparty(state, symbol, side, price, order.open_lots) >= 0:
                    participant = int64(order.participant)
                    mode = (
                        state.accounts[participant, OWN]
                        if extra.self_trade == ACCOUNT_SELF_TRADE
                        else int64(extra.self_trade)
                    )
                    wanted = order.open_lots
                    if obtainable_lots(state, symbol, side, price, wanted, participant, mode, extra.link) >= min(
                        extra.min_lots, wanted
                    ):
                        return slot
                slot = int64(order.next)
            price = next_price(state, book, side, price)
    return -1


@inner
def _run_first_trigger(state: State, row: Any, events: Any, count: int, symbol: int) -> tuple[int, int]:
    """The first thing that applies: (new count, what it did)."""
    if not has_far_room(state, symbol):
        return count, NEEDS_MEMORY
    slot = _next_stop(state, symbol)
    if slot >= 0:
        return _trigger_stop(state, row, events, count, slot), ACTIVATED
    count, did = _move_trailing_stop(state, row, events, count, symbol)
    if did != IDLE:
        return count, did
    count, did = _move_peg(state, row, events, count, symbol)
    if did != IDLE:
        return count, did
    slot = _first_fillable(state, symbol)
    if slot >= 0:
        dequeue(state, slot)
        check_dequeued(state)
        return count, ACTIVATED
    return count, IDLE


@inner
def run_triggers(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Settles every marked symbol: (new count, DONE, EVENTS_FULL or GROW); to be called again if not DONE."""
    while True:
        if state.active_order[ACTIVE]:
            count, status = trade_active_order(state, row, events, count)
            if status != DONE:
                return count, status
        symbol = _next_pending_symbol(state)
        if symbol < 0:
            return count, DONE
        if count + ROOM > events.size:
            return count, EVENTS_FULL
        did = IDLE
        if phase_of(state, symbol) == CONTINUOUS and not state.halted[symbol]:
            count, did = _run_first_trigger(state, row, events, count, symbol)
        if did == NEEDS_MEMORY:
            return count, GROW
        if did == IDLE:
            state.triggers_pending[symbol] = 0
            state.counter[TRIGGERS_PENDING] -= 1


@inner
def _next_pending_symbol(state: State) -> int:
    """The symbol that is settled now: pass by pass, by number; -1 if all are."""
    if state.counter[TRIGGERS_PENDING] == 0:
        state.counter[TRIGGERS_SYMBOL] = 0
        return -1
    symbol = state.counter[TRIGGERS_SYMBOL]
    while not state.triggers_pending[symbol]:
        symbol = (symbol + 1) % state.halted.size
    state.counter[TRIGGERS_SYMBOL] = symbol
    return symbol


@inner
def cancel_expired(state: State, row: Any, events: Any, count: int) -> tuple[int, int]:
    """Cancels what expires up to the command's time: (new count, DONE or EVENTS_FULL)."""
    while state.counter[EXPIRING_ORDERS] > 0:
        slot = int64(state.heap[0])
        if state.extras[slot].expire_ns > row.time_ns:
            break
        if count + ROOM > events.size:
            return count, EVENTS_FULL
        count = cancel(state, row, events, count, slot, 0, R_EXPIRED)
    return count, DONE
