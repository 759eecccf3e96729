"""Walks through a whole market: for snapshots, not for matching."""

from serl.exchange.compiling import compiled, inlined, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.book import rest_order
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rows import SpecialRow
from serl.exchange.kernel.state import BID, QUEUES, State
from serl.exchange.records import ACCOUNT_SELF_TRADE, Rows


@compiled(nogil=True)
def list_orders(state: State, only: int, out: Rows) -> int:
    """Writes the resting orders of symbol `only` (-1: of all) to the ORDER rows of `out`, in canonical order; how many."""
    count = 0
    for symbol in range(state.halted.size):
        if only >= 0 and symbol != only:
            continue
        for side in range(2):
            price = state.best[symbol, side]
            while price != 0:
                slot = int64(state.levels[find_level(state, symbol, side, price)].first)
                while slot >= 0:
                    order, row = state.orders[slot], out[count]
                    row.order_number = order.order_number
                    row.order_id = order.order_id
                    row.price_ticks = order.price_ticks
                    row.open_lots = order.open_lots
                    row.total_lots = order.total_lots
                    row.symbol = order.symbol
                    row.participant = order.participant
                    row.side = order.side
                    row.time_in_force = order.time_in_force
                    row.flags = order.flags
                    count += 1
                    slot = int64(order.next)
                price = next_price(state, symbol, side, price)
    return count


@inlined
def _needs_special_row(state: State, slot: int) -> bool:
    """Whether an ORDER row cannot describe an order in full."""
    order = state.orders[slot]
    if order.queue != k.DISPLAYED_QUEUE or not order.special:
        return order.queue != k.DISPLAYED_QUEUE
    extra = state.extras[slot]
    return (
        extra.display_lots | extra.expire_ns | extra.link | extra.child
    ) != 0 or extra.self_trade != ACCOUNT_SELF_TRADE


@inlined
def _write_special(state: State, slot: int, row: SpecialRow) -> None:
    order, extra = state.orders[slot], state.extras[slot]
    row.order_number = order.order_number
    row.order_id = order.order_id
    row.price_ticks = extra.limit_ticks
    row.queue_ticks = order.price_ticks
    row.open_lots = order.open_lots
    row.reserve_lots = extra.reserve_lots
    row.total_lots = order.total_lots
    row.display_lots = extra.display_lots
    row.min_lots = 0 if order.flags & k.ALL_OR_NONE else extra.min_lots
    row.stop_ticks, row.touch_ticks = extra.stop_ticks, extra.touch_ticks
    row.trail_ticks = extra.trail_ticks
    row.offset_ticks = extra.offset_ticks
    row.expire_ns = extra.expire_ns
    row.link = extra.link
    row.updates = extra.updates if extra.link != 0 else 0
    row.waits, row.child, row.parent = extra.waits, extra.child, extra.parent
    row.symbol = order.symbol
    row.participant = order.participant
    row.side = order.side
    row.time_in_force = order.time_in_force
    row.flags = order.flags
    row.queue = order.queue
    row.peg = extra.peg
    row.self_trade = extra.self_trade


@compiled(nogil=True)
def list_specials(state: State, out: Rows) -> int:
    """Writes the orders that an ORDER row cannot describe to the SPECIAL rows of `out`, in canonical order; how many."""
    count, symbols = 0, state.halted.size
    for symbol in range(symbols):
        for queue in range(QUEUES):
            for side in range(2):
                book, place = queue * symbols + symbol, 1 - side if queue == k.STOP_QUEUE else side
                price = state.best[book, place]
                while price != 0:
                    slot = int64(state.levels[find_level(state, book, place, price)].first)
                    while slot >= 0:
                        if _needs_special_row(state, slot):
                            _write_special(state, slot, out[count])
                            count += 1
                        slot = int64(state.orders[slot].next)
                    price = next_price(state, book, place, price)
    return count


@inlined
def _same_level(rows: Rows, index: int, other: int) -> bool:
    one, two = rows[index], rows[other]
    return one.price_ticks == two.price_ticks and one.side == two.side and one.symbol == two.symbol


@inlined
def _has_free(state: State, orders: int) -> bool:
    """Whether there are slots for a level with so many orders."""
    slot = int64(state.counters.free_order)
    while slot >= 0 and orders > 1:
        slot = int64(state.orders[slot].next)
        orders -= 1
    return slot >= 0 and state.counters.free_level >= 0


@compiled
def restore_orders(state: State, rows: Rows, done: int) -> int:
    """Puts ORDER rows into the book, all but the last `done`, which are in it; how many are in it then (rows.size: all fit).

    It begins with the last level, the worst one: far levels are kept with the worst first, so none has to make room.
    """
    width = state.window.shape[2]
    stop = rows.size - done
    while stop > 0:
        row = rows[stop - 1]
        symbol, side = int64(row.symbol), int64(row.side)
        if max(state.far_count[symbol, BID], state.far_count[symbol, 1]) + width + 1 > state.far_price.shape[2]:
            return int64(rows.size) - stop
        first = stop - 1
        while first > 0 and _same_level(rows, first - 1, stop - 1):
            first -= 1
        if not _has_free(state, stop - first):
            return int64(rows.size) - stop
        for index in range(first, stop):
            row = rows[index]
            slot = rest_order(
                state,
                symbol,
                k.DISPLAYED_QUEUE,
                side,
                side,
                row.price_ticks,
                row.open_lots,
                row.total_lots,
                int64(row.participant),
                row.order_id,
            )
            order = state.orders[slot]
            order.order_number = row.order_number
            order.time_in_force = row.time_in_force
            order.flags = row.flags
        stop = first
    return int64(rows.size)
