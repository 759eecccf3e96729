"""What follows from a command: trailing stops follow, stops are triggered, pegs move, minimums are met; and what expires before it."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.book import crosses
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook import heaps
from serl.exchange.kernel.rulebook.active_order import (
    ROOM,
    activate,
    cancel_unplaced,
    check_dequeued,
    crosses_outside,
    dequeue,
    phase_of,
    trade_active_order,
)
from serl.exchange.kernel.rulebook.balance_checks import active_exceeds_balance
from serl.exchange.kernel.rulebook.capacity import has_far_room, is_full_for_move
from serl.exchange.kernel.rulebook.matching import (
    best_tradable_price,
    counterparty,
    first_slot,
    lots_within,
    obtainable_lots,
    smallest_minimum,
)
from serl.exchange.kernel.rulebook.order_events import begin_order_event, cancel, cancel_linked, unlink_pair
from serl.exchange.kernel.rulebook.orders import minimum_lots, requeue
from serl.exchange.kernel.rulebook.pegs import find_due_pegs, settle_peg
from serl.exchange.kernel.rulebook.pricing import collar_limit, peg_price, worst_price
from serl.exchange.kernel.rulebook.reserves import release, reserve, total_open_lots
from serl.exchange.kernel.state import ASK, BID, DUE_CHILDREN, DUE_PEGS, DUE_TRAILS, WAITING_TRAILS, State
from serl.exchange.records import ACCOUNT_SELF_TRADE, Rows

IDLE, CHANGED, ACTIVATED, NEEDS_MEMORY = 0, 1, 2, 3
"""What a step of the triggers did: none applies; changed something in place; activated an order; nothing yet, it needs more memory."""


@inner
def _move_trailing_stop(state: State, command: CommandRow, events: Rows, count: int, symbol: int) -> tuple[int, int]:
    """Trailing stops take their new stop prices: (new count, NOTHING, NO_MEMORY or TOUCHED if it has to go on)."""
    last = state.symbols[symbol].last_ticks
    if last == 0:
        return count, IDLE
    _find_due_trails(state, symbol, last)
    while state.roots[symbol, DUE_TRAILS] >= 0:
        slot = int64(state.roots[symbol, DUE_TRAILS])
        order, extra = state.orders[slot], state.extras[slot]
        if order.side == k.BUY:
            stop = min(extra.stop_ticks, last + extra.trail_ticks)
        else:
            stop = max(extra.stop_ticks, last - extra.trail_ticks)
        if stop != extra.stop_ticks:
            if not has_far_room(state, symbol):
                return count, NEEDS_MEMORY
            if is_full_for_move(state, slot, k.STOP_QUEUE):
                return cancel_unplaced(state, command, events, count, slot, k.REASON_NO_ROOM), CHANGED
            release(state, slot)
            extra.stop_ticks = stop
            reserve(state, slot)
            requeue(state, slot, k.STOP_QUEUE, stop)
        turn = stop - extra.trail_ticks if order.side == k.BUY else -(stop + extra.trail_ticks)
        heaps.remove(state, slot)
        heaps.push(state, slot, WAITING_TRAILS + int64(order.side), turn)
    return count, IDLE


@inner
def _find_due_trails(state: State, symbol: int, last: int) -> None:
    """Makes the trailing stops due that the last trade moves."""
    for side in range(2):
        signed = last if side == k.BUY else -last
        slot = int64(state.roots[symbol, WAITING_TRAILS + side])
        while slot >= 0 and state.extras[slot].key > signed:
            heaps.remove(state, slot)
            heaps.push(state, slot, DUE_TRAILS, -state.orders[slot].order_number)
            slot = int64(state.roots[symbol, WAITING_TRAILS + side])


@inner
def _next_stop(state: State, symbol: int) -> int:
    """The stop order that is triggered next, -1 if none is due."""
    book, instrument = k.STOP_QUEUE * state.halted.size + symbol, state.symbols[symbol]
    buy, sell = state.best[book, ASK], state.best[book, BID]
    if buy != 0 and instrument.last_ticks != 0 and buy <= instrument.high_ticks:
        return first_slot(state, book, ASK, buy)
    if sell != 0 and instrument.last_ticks != 0 and sell >= instrument.low_ticks:
        return first_slot(state, book, BID, sell)
    instrument.high_ticks = instrument.low_ticks = instrument.last_ticks
    return -1


@inner
def _activate_child(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> int:
    """An order whose parent is filled comes to the market as a NEW of its kind would."""
    active, extra, qty = state.active_order, state.extras[slot], total_open_lots(state, slot)
    event = begin_order_event(state, command, events, count, k.TRIGGERED, slot)
    event.price_ticks = extra.limit_ticks
    event.qty_lots = qty
    event.leaves_lots = qty
    event.flags = k.HIDDEN
    dequeue(state, slot)
    active.stop_ticks, active.touch_ticks = extra.stop_ticks, extra.touch_ticks
    activate(state)
    check_dequeued(state)
    if state.accounts[active.participant, k.SETTING_BALANCE_CHECKS] != 0 and active_exceeds_balance(state):
        active.cancel_reason = k.REASON_LIMIT_BALANCE
    return count + 1


@inner
def _trigger_stop(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> int:
    order = state.orders[slot]
    participant, qty = int64(order.participant), total_open_lots(state, slot)
    event = begin_order_event(state, command, events, count, k.TRIGGERED, slot)
    event.price_ticks = state.extras[slot].limit_ticks
    event.qty_lots = qty
    event.leaves_lots = qty
    event.flags = k.HIDDEN
    count += 1
    link = unlink_pair(state, slot) if state.extras[slot].updates == 0 else 0
    dequeue(state, slot)
    if link != 0:
        count = cancel_linked(state, command, events, count, participant, link)
        activate(state)  # what the other one reserved is free
    check_dequeued(state)
    return count


@inner
def _move_peg(state: State, command: CommandRow, events: Rows, count: int, symbol: int) -> tuple[int, int]:
    """The first pegged order that is not at its price: (new count, what it did)."""
    find_due_pegs(state, symbol)
    while state.roots[symbol, DUE_PEGS] >= 0:
        slot = int64(state.roots[symbol, DUE_PEGS])
        order, extra = state.orders[slot], state.extras[slot]
        side, limit = int64(order.side), extra.limit_ticks
        farthest = limit if limit != 0 else collar_limit(state, int64(order.participant), symbol, side)
        price = peg_price(state, symbol, side, int64(extra.peg), extra.offset_ticks, farthest)
        queue = k.HIDDEN_QUEUE if price != 0 else k.INACTIVE_QUEUE
        if price != order.price_ticks if order.queue == k.HIDDEN_QUEUE else price != 0:
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
                return cancel_unplaced(state, command, events, count, slot, k.REASON_NO_ROOM), CHANGED
            if price == 0:
                price = limit if limit != 0 else worst_price(state, side)
            requeue(state, slot, queue, price)
            return count, CHANGED
        settle_peg(state, slot)
    return count, IDLE


@inner
def _is_fillable(state: State, symbol: int, side: int, price: int, slot: int) -> bool:
    """Whether the minimum of an order of MIN_QTY can be met. O(what it would meet)."""
    order, extra = state.orders[slot], state.extras[slot]
    if counterparty(state, symbol, side, price, order.open_lots) < 0:
        return False
    participant, mode, wanted = int64(order.participant), int64(extra.self_trade), order.open_lots
    if mode == ACCOUNT_SELF_TRADE:
        mode = state.accounts[participant, k.SETTING_SELF_TRADE]
    obtainable = obtainable_lots(state, symbol, side, price, wanted, participant, mode, extra.link)
    return obtainable >= minimum_lots(state, slot)


@inner
def _first_fillable(state: State, symbol: int) -> int:
    """The first order of MIN_QTY whose minimum can be met, -1 if there is none. O(prices that cross, and orders for which there are lots)."""
    book = k.MIN_QTY_QUEUE * state.halted.size + symbol
    for side in range(2):
        price, lots = state.best[book, side], -1
        while price != 0 and crosses(side, price, best_tradable_price(state, symbol, 1 - side)):
            least = smallest_minimum(state, book, side, price)
            if lots < 0 or lots >= least:  # at a worse price there are no more
                lots = lots_within(state, symbol, side, price)
            if lots >= least:
                slot = first_slot(state, book, side, price)
                while slot >= 0:
                    if minimum_lots(state, slot) <= lots and _is_fillable(state, symbol, side, price, slot):
                        return slot
                    slot = int64(state.orders[slot].next)
            price = next_price(state, book, side, price)
    return -1


@inner
def _run_first_trigger(state: State, command: CommandRow, events: Rows, count: int, symbol: int) -> tuple[int, int]:
    """Runs the first trigger that applies: (new count, what it did)."""
    if not has_far_room(state, symbol):
        return count, NEEDS_MEMORY
    slot = int64(state.roots[symbol, DUE_CHILDREN])
    if slot >= 0:
        return _activate_child(state, command, events, count, slot), ACTIVATED
    slot = _next_stop(state, symbol)
    if slot >= 0:
        return _trigger_stop(state, command, events, count, slot), ACTIVATED
    count, did = _move_trailing_stop(state, command, events, count, symbol)
    if did != IDLE:
        return count, did
    count, did = _move_peg(state, command, events, count, symbol)
    if did != IDLE:
        return count, did
    slot = _first_fillable(state, symbol)
    if slot >= 0:
        dequeue(state, slot)
        check_dequeued(state)
        return count, ACTIVATED
    return count, IDLE


@inner
def run_triggers(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Runs the triggers of every marked symbol: (new count, DONE, EVENTS_FULL or GROW); to be called again if not DONE."""
    while True:
        if state.active_order.is_active:
            count, status = trade_active_order(state, command, events, count)
            if status != k.DONE:
                return count, status
        symbol = _next_pending_symbol(state)
        if symbol < 0:
            return count, k.DONE
        if count + ROOM > events.size:
            return count, k.EVENTS_FULL
        did = IDLE
        if phase_of(state, symbol) == k.CONTINUOUS and not state.halted[symbol]:
            count, did = _run_first_trigger(state, command, events, count, symbol)
        if did == NEEDS_MEMORY:
            return count, k.GROW
        if did == IDLE:
            state.triggers_pending[symbol] = 0
            state.counters.symbols_pending -= 1


@inner
def _next_pending_symbol(state: State) -> int:
    """The symbol that is settled now: pass by pass, by number; -1 if all are."""
    if state.counters.symbols_pending == 0:
        state.counters.triggers_symbol = 0
        return -1
    symbol = state.counters.triggers_symbol
    while not state.triggers_pending[symbol]:
        symbol = (symbol + 1) % state.halted.size
    state.counters.triggers_symbol = symbol
    return symbol


@inner
def cancel_expired(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Cancels what expires up to the command's time: (new count, DONE or EVENTS_FULL)."""
    while state.counters.expiring_orders > 0:
        slot = int64(state.heap[0])
        if state.extras[slot].expire_ns > command.time_ns:
            break
        if count + ROOM > events.size:
            return count, k.EVENTS_FULL
        count = cancel(state, command, events, count, slot, 0, k.REASON_EXPIRED)
    return count, k.DONE
