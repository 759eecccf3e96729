"""Orders in and out of the book, and the match itself. Events are appended as they happen; docs/orders.md is the rule."""

from typing import Any

from serl.exchange.compiling import inlined, inner, int64, merged
from serl.exchange.kernel import order_index
from serl.exchange.kernel.accounting import settle_trade
from serl.exchange.kernel.constants import DISPLAYED_QUEUE, FILL, MAKER, RESTED, RESTING, STOP_QUEUE
from serl.exchange.kernel.levels import close_level, find_level, next_price, open_level
from serl.exchange.kernel.state import (
    BID,
    EVENT_SEQUENCE,
    FLAGS,
    FREE_ORDER,
    LEAVES_LOTS,
    LIMIT,
    MATCH_ID,
    ORDER_ID,
    ORDER_NUMBER,
    ORDERS_OPEN,
    PARTICIPANT,
    SIDE,
    SYMBOL,
    TIME_IN_FORCE,
    TOTAL,
    State,
)  # fmt: skip
from serl.exchange.records import HIGH_TICKS, LAST_TICKS, LOW_TICKS, MAKER_FEE, TAKER_FEE


@inlined
def emit(
    state: State, row: Any, events: Any, count: Any, kind: Any, participant: Any, symbol: Any, side: Any,
    order_id: Any, order_number: Any, command_id: Any, price: Any, qty: Any, leaves: Any, reason: Any, flags: Any, match_id: Any,
) -> Any:  # fmt: skip
    """Appends one event; the new count."""
    event = events[count]
    state.counter[EVENT_SEQUENCE] += 1
    state.report[participant] += 1
    event.time_ns = row.time_ns
    event.sequence = state.counter[EVENT_SEQUENCE]
    event.command_sequence = row.sequence
    event.report = state.report[participant]
    event.command_id = command_id
    event.order_id = order_id
    event.order_number = order_number
    event.price_ticks = price
    event.qty_lots = qty
    event.leaves_lots = leaves
    event.match_id = match_id
    event.symbol = symbol
    event.participant = participant
    event.kind = kind
    event.side = side
    event.reason = reason
    event.flags = flags
    return count + 1


@inlined
def append_to_level(state: State, slot: int, book: int, side: int, price: int) -> None:
    """Puts an order with its open lots behind the others of a price, under a new number."""
    order = state.orders[slot]
    state.counter[ORDER_NUMBER] += 1
    level = find_level(state, book, side, price)
    if level < 0:
        level = open_level(state, book, side, price)
    row = state.levels[level]
    order.order_number = state.counter[ORDER_NUMBER]
    order.price_ticks = price
    order.level = level
    order.next = -1
    order.previous = row.last
    if row.last >= 0:
        state.orders[row.last].next = slot
    else:
        row.first = slot
    row.last = slot
    row.qty_lots += order.open_lots
    row.orders += 1


@inlined
def rest_order(
    state: State,
    symbol: int,
    queue: int,
    side: int,
    price: int,
    leaves_lots: int,
    total: int,
    participant: int,
    order_id: int,
) -> int:
    """Puts an order behind the others of its price; its slot (time in force and flags are the caller's to set)."""
    slot = state.counter[FREE_ORDER]
    order = state.orders[slot]
    state.counter[FREE_ORDER] = order.next
    state.counter[ORDERS_OPEN] += 1
    order.order_id = order_id
    order.open_lots = leaves_lots
    order.total_lots = total
    order.symbol = symbol
    order.participant = participant
    order.side = side
    order.queue = queue
    order.special = 0
    append_to_level(state, slot, queue * state.halted.size + symbol, side_of(queue, side), price)
    order_index.insert(state, participant, order_id, slot)
    return slot


@merged
def side_of(queue: int, side: int) -> int:
    """The side of a queue's book where orders of `side` stand: the first buy stop is the lowest, so they stand where asks do."""
    return 1 - side if queue == STOP_QUEUE else side


@inlined
def remove_from_level(state: State, slot: int) -> None:
    """Takes an order out of its level."""
    order = state.orders[slot]
    level = int64(order.level)
    row = state.levels[level]
    if order.previous >= 0:
        state.orders[order.previous].next = order.next
    else:
        row.first = order.next
    if order.next >= 0:
        state.orders[order.next].previous = order.previous
    else:
        row.last = order.previous
    row.qty_lots -= order.open_lots
    row.orders -= 1
    if row.orders == 0:
        queue = int64(order.queue)
        close_level(state, queue * state.halted.size + int64(order.symbol), side_of(queue, int64(order.side)), level)


@inlined
def remove_order(state: State, slot: int) -> None:
    """Takes an order out of its level, its table entry and the pool."""
    order = state.orders[slot]
    remove_from_level(state, slot)
    order_index.remove(state, int64(order.participant), order.order_id, slot)
    order.open_lots = 0
    order.next = state.counter[FREE_ORDER]
    state.counter[FREE_ORDER] = slot
    state.counter[ORDERS_OPEN] -= 1


@merged
def crosses(side: Any, limit: Any, price: Any) -> Any:
    """Whether an order of `side` with `limit` trades at the other side's `price` (0 = nobody there)."""
    if price == 0:
        return False
    return limit >= price if side == BID else limit <= price


@inner
def has_available_lots(state: State, symbol: int, side: int, limit: int, wanted: int) -> bool:
    """Whether `wanted` lots can be had on the other side up to `limit`. O(levels it needs)."""
    other = 1 - side
    price = state.best[symbol, other]
    while crosses(side, limit, price):
        wanted -= state.levels[find_level(state, symbol, other, price)].qty_lots
        if wanted <= 0:
            return True
        price = next_price(state, symbol, other, price)
    return False


@inlined
def match_displayed(state: State, row: Any, events: Any, count: int) -> int:
    """Trades the active order while prices cross and there is room for events; the new count."""
    active = state.active_order
    symbol, side, limit = active[SYMBOL], active[SIDE], active[LIMIT]
    taker, order_id, leaves_lots = active[PARTICIPANT], active[ORDER_ID], active[LEAVES_LOTS]
    other = 1 - side
    traded_at = 0
    while leaves_lots > 0 and count + 4 <= events.size:
        price = state.best[symbol, other]
        if not crosses(side, limit, price):
            break
        slot = int64(state.levels[find_level(state, symbol, other, price)].first)
        traded_at = price
        while slot >= 0 and leaves_lots > 0 and count + 4 <= events.size:
            order = state.orders[slot]
            following = int64(order.next)
            qty = min(leaves_lots, order.open_lots)
            leaves_lots -= qty
            state.counter[MATCH_ID] += 1
            match_id = state.counter[MATCH_ID]
            maker = int64(order.participant)
            leaves = order.open_lots - qty
            count = emit(
                state, row, events, count, FILL, maker, symbol, other, order.order_id, order.order_number, 0, price,
                qty, leaves, 0, MAKER, match_id,
            )  # fmt: skip
            count = emit(
                state, row, events, count, FILL, taker, symbol, side, order_id, 0, row.command_id, price,
                qty, leaves_lots, 0, 0, match_id,
            )  # fmt: skip
            buyer, seller = (taker, maker) if side == BID else (maker, taker)
            bought, sold = (TAKER_FEE, MAKER_FEE) if side == BID else (MAKER_FEE, TAKER_FEE)
            settle_trade(state, symbol, buyer, seller, price, qty, bought, sold)
            if leaves == 0:
                remove_order(state, slot)
            else:
                order.open_lots = leaves
                state.levels[order.level].qty_lots -= qty
            slot = following
    active[LEAVES_LOTS] = leaves_lots
    if traded_at != 0:  # no stop is near: what a trade means for them is the full rule book's
        instrument = state.symbols[symbol]
        instrument[LAST_TICKS] = instrument[HIGH_TICKS] = instrument[LOW_TICKS] = traded_at
    return count


@inlined
def rest_displayed(state: State, row: Any, events: Any, count: int, kind: int) -> int:
    """What is left of the active order goes into the book, told as `kind` (ACCEPTED or RESTED); the new count."""
    active = state.active_order
    symbol, side, leaves_lots = active[SYMBOL], active[SIDE], active[LEAVES_LOTS]
    participant, order_id = active[PARTICIPANT], active[ORDER_ID]
    slot = rest_order(
        state, symbol, DISPLAYED_QUEUE, side, active[LIMIT], leaves_lots, active[TOTAL], participant, order_id
    )
    order = state.orders[slot]
    order.time_in_force = active[TIME_IN_FORCE]
    order.flags = active[FLAGS]
    return int64(emit(
        state, row, events, count, kind, participant, symbol, side, order_id, order.order_number, row.command_id,
        active[LIMIT], leaves_lots, leaves_lots, 0, 0 if kind == RESTED else RESTING, 0,
    ))  # fmt: skip
