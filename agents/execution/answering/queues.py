"""Moves live resting orders while history's book shifts.

The book is kept in history's prices: history's commands enter it unchanged, and the price of a live order in it is the real price minus the shift.
When the shift changes by d ticks, all of history moves by d. In the book, the few live orders move by -d instead, which is equivalent
and costs nothing for history's orders. They go to the front of their new level: they were there first, and history's orders moved to them.
"""

from typing import Any

from serl.agents.execution.answering.tape import append_cancellation
from serl.exchange.compiling import inlined, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import append_to_level, remove_from_level, remove_order
from serl.exchange.kernel.levels import find_level
from serl.exchange.kernel.state import ASK, BID


@inlined
def has_room(state: Any, symbol: int, orders: int) -> bool:
    """Whether the book has room for `orders` more levels, wherever its window lies."""
    far = max(state.far_count[symbol, BID], state.far_count[symbol, ASK])
    return far + state.window.shape[2] + orders < state.far_price.shape[2]


@inlined
def _insert_before_history(state: Any, slot: int, symbol: int, side: int, price: int, history: int) -> None:
    """Puts an order at the front of a level, behind older live orders; order numbers keep rising along the queue."""
    order = state.orders[slot]
    number = order.order_number
    level = find_level(state, symbol, side, price)
    if level < 0:
        append_to_level(state, slot, symbol, side, price)
        order.order_number = number
        return
    row = state.levels[level]
    following, previous = int64(row.first), -1
    while following >= 0:
        other = state.orders[following]
        if other.participant == history or other.order_number > number:
            break
        previous, following = following, int64(other.next)
    order.price_ticks, order.level = price, level
    order.previous, order.next = previous, following
    if previous >= 0:
        state.orders[previous].next = slot
    else:
        row.first = slot
    if following >= 0:
        state.orders[following].previous = slot
    else:
        row.last = slot
    row.qty_lots += order.open_lots
    row.orders += 1
    while following >= 0 and state.orders[following].order_number < number:  # order numbers rise along a queue
        order.order_number = state.orders[following].order_number
        state.orders[following].order_number = number
        order, following = state.orders[following], int64(state.orders[following].next)


@inlined
def move_live_orders(
    state: Any, row: Any, answer: Any, symbol: int, resting: Any, first_live: int, ticks: int, tape: Any
) -> None:
    """Moves the resting live orders by `ticks`. The book may be crossed afterwards.

    resting: (live participants, orders) their ids, 0 for none; row s is participant first_live + s. For the other arguments see rules.py.
    """
    for live in range(resting.shape[0]):
        for place in range(resting.shape[1]):
            if resting[live, place] == 0:
                continue
            slot = order_index.find(state, first_live + live, resting[live, place])
            if slot < 0:
                continue
            order = state.orders[slot]
            side, price = int64(order.side), order.price_ticks + ticks
            if 1 <= price <= state.counters.price_ticks_max:
                remove_from_level(state, slot, symbol, side)
                _insert_before_history(state, slot, symbol, side, price, symbol)
            else:  # too far away to have a price in history's book: cancelled
                if tape is not None:
                    append_cancellation(tape, order, row[0].time_ns, answer.shift_ticks)
                remove_order(state, slot)


@inlined
def is_crossed(state: Any, symbol: int) -> bool:
    """Whether the best bid is at or above the best ask."""
    bid, ask = state.best[symbol, BID], state.best[symbol, ASK]
    return bid != 0 and ask != 0 and bid >= ask
