"""Orders in and out of the book, and the match itself. Events are appended as they happen; docs/orders.md is the rule."""

from typing import Any

from serl.exchange.compiling import apart, inlined, int64, merged
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.accounting import settle_trade
from serl.exchange.kernel.events import begin_event
from serl.exchange.kernel.levels import close_level, find_level, next_price, open_level
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.state import BID, State
from serl.exchange.records import Rows


@inlined
def append_to_level(state: State, slot: int, book: int, side: int, price: int) -> None:
    """Puts an order with its open lots behind the others of a price, under a new number."""
    order = state.orders[slot]
    state.counters.order_number += 1
    level = find_level(state, book, side, price)
    if level < 0:
        level = open_level(state, book, side, price)
    row = state.levels[level]
    order.order_number = state.counters.order_number
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
    place: int,
    side: int,
    price: int,
    leaves_lots: int,
    total: int,
    participant: int,
    order_id: int,
) -> int:
    """Puts an order behind the others of its price, at the side `place` of the queue's book; its slot (time in force and flags are the
    caller's to set)."""
    slot = state.counters.free_order
    order = state.orders[slot]
    state.counters.free_order = order.next
    state.counters.orders_open += 1
    order.order_id = order_id
    order.open_lots = leaves_lots
    order.total_lots = total
    order.symbol = symbol
    order.participant = participant
    order.side = side
    order.queue = queue
    order.special = 0
    append_to_level(state, slot, queue * state.halted.size + symbol, place, price)
    order_index.insert(state, participant, order_id, slot)
    return slot


@inlined
def remove_from_level(state: State, slot: int, book: int, place: int) -> None:
    """Removes an order from its level, which is one of the side `place` of a book."""
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
        close_level(state, book, place, level)


@inlined
def remove_order(state: State, slot: int) -> None:
    """Removes a displayed order from its level, the index and the pool."""
    order = state.orders[slot]
    remove_from_level(state, slot, int64(order.symbol), int64(order.side))
    order_index.remove(state, int64(order.participant), order.order_id, slot)
    order.open_lots = 0
    order.next = state.counters.free_order
    state.counters.free_order = slot
    state.counters.orders_open -= 1


@merged
def crosses(side: Any, limit: Any, price: Any) -> Any:
    """Whether an order of `side` with `limit` trades at the other side's `price` (0 = nobody there)."""
    if price == 0:
        return False
    return limit >= price if side == BID else limit <= price


@apart
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
def match_displayed(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """Trades the active order while prices cross and there is room for events; the new count."""
    active = state.active_order
    symbol, side, limit = active.symbol, active.side, active.limit_ticks
    taker, order_id, leaves_lots = active.participant, active.order_id, active.leaves_lots
    other, command_id = 1 - side, command.command_id
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
            state.counters.match_id += 1
            match_id = state.counters.match_id
            maker = int64(order.participant)
            leaves = order.open_lots - qty
            maker_order_id, maker_order_number = order.order_id, order.order_number
            event = begin_event(state, command, events, count, k.FILL, maker, symbol, other)
            event.order_id = maker_order_id
            event.order_number = maker_order_number
            event.price_ticks = price
            event.qty_lots = qty
            event.leaves_lots = leaves
            event.flags = k.MAKER
            event.match_id = match_id
            count += 1
            event = begin_event(state, command, events, count, k.FILL, taker, symbol, side)
            event.command_id = command_id
            event.order_id = order_id
            event.price_ticks = price
            event.qty_lots = qty
            event.leaves_lots = leaves_lots
            event.match_id = match_id
            count += 1
            buyer, seller = (taker, maker) if side == BID else (maker, taker)
            bought, sold = (k.TAKER_FEES, k.MAKER_FEES) if side == BID else (k.MAKER_FEES, k.TAKER_FEES)
            settle_trade(state, symbol, buyer, seller, price, qty, bought, sold)
            if leaves == 0:
                remove_order(state, slot)
            else:
                order.open_lots = leaves
                state.levels[order.level].qty_lots -= qty
            slot = following
    active.leaves_lots = leaves_lots
    if traded_at != 0:  # no stop is near: what a trade means for them is the full rule book's
        instrument = state.symbols[symbol]
        instrument.last_ticks = instrument.high_ticks = instrument.low_ticks = traded_at
    return count


@inlined
def rest_displayed(state: State, command: CommandRow, events: Rows, count: int, kind: int) -> int:
    """Rests what is left of the active order in the book, reported as `kind` (ACCEPTED or RESTED); the new count."""
    active = state.active_order
    symbol, side, limit, leaves_lots = active.symbol, active.side, active.limit_ticks, active.leaves_lots
    participant, order_id = active.participant, active.order_id
    slot = rest_order(
        state, symbol, k.DISPLAYED_QUEUE, side, side, limit, leaves_lots, active.total_lots, participant, order_id
    )
    order = state.orders[slot]
    order.time_in_force = active.time_in_force
    order.flags = active.flags
    order_number, command_id = order.order_number, command.command_id
    event = begin_event(state, command, events, count, kind, participant, symbol, side)
    event.command_id = command_id
    event.order_id = order_id
    event.order_number = order_number
    event.price_ticks = limit
    event.qty_lots = leaves_lots
    event.leaves_lots = leaves_lots
    event.flags = 0 if kind == k.RESTED else k.RESTING
    return count + 1
