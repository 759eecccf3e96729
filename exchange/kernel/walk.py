"""Walks through a whole market: for snapshots, not for matching."""

from typing import Any

from serl.exchange.compiling import compiled, int64
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.matching import rest
from serl.exchange.kernel.state import BID, FREE_LEVEL, FREE_ORDER, State


@compiled
def list_orders(state: State, only: int, out: Any) -> int:
    """Writes the resting orders of symbol `only` (-1: of all) to the ORDER rows of `out`, in canonical order; how many."""
    count = 0
    for symbol in range(state.base.size):
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


@compiled
def restore_orders(state: State, rows: Any, start: int) -> int:
    """Puts ORDER rows into the book from `start` on; the first one there was no room for (rows.size: none)."""
    width = state.window.shape[1]
    for index in range(start, rows.size):
        row = rows[index]
        symbol, side = int64(row.symbol), int64(row.side)
        if max(state.far_count[symbol, BID], state.far_count[symbol, 1]) + width + 1 > state.far_price.shape[2]:
            return index
        if state.counter[FREE_ORDER] < 0 or state.counter[FREE_LEVEL] < 0:
            return index
        slot = rest(
            state, symbol, side, row.price_ticks, row.open_lots, row.total_lots, int64(row.participant), row.order_id
        )
        order = state.orders[slot]
        order.order_number = row.order_number
        order.time_in_force = row.time_in_force
        order.flags = row.flags
    return int64(rows.size)
