"""Restores special orders from a snapshot into their queues and heaps."""

from serl.exchange.compiling import compiled, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.rulebook.capacity import has_far_room
from serl.exchange.kernel.rulebook.orders import add_expiry, enqueue, make_special, watch
from serl.exchange.kernel.rulebook.pegs import make_pegs_due
from serl.exchange.kernel.rulebook.reserves import start_counting_reserves
from serl.exchange.kernel.rulebook.settings import start_counting_open, update_special_rules
from serl.exchange.kernel.state import PEGS, RESERVES, State
from serl.exchange.records import Rows


@compiled
def restore_specials(state: State, rows: Rows, start: int) -> int:
    """Puts SPECIAL rows into their queues from `start` on; the first one that did not fit (rows.size: none)."""
    for index in range(start, rows.size):
        row = rows[index]
        queue = int64(row.queue)
        if queue == k.DISPLAYED_QUEUE:
            slot = order_index.find(state, int64(row.participant), row.order_id)
            make_special(state, slot)
        else:
            if (
                not has_far_room(state, int64(row.symbol))
                or state.counters.free_order < 0
                or state.counters.free_level < 0
            ):
                return index
            slot = enqueue(
                state, int64(row.symbol), queue, int64(row.side), row.queue_ticks, row.open_lots, row.total_lots,
                int64(row.participant), row.order_id, int64(row.time_in_force), int64(row.flags), True, row.touch_ticks,
            )  # fmt: skip
            state.orders[slot].order_number = row.order_number
        extra = state.extras[slot]
        extra.limit_ticks, extra.reserve_lots, extra.display_lots = row.price_ticks, row.reserve_lots, row.display_lots
        extra.min_lots = row.open_lots if row.flags & k.ALL_OR_NONE else row.min_lots
        extra.stop_ticks, extra.trail_ticks, extra.offset_ticks = row.stop_ticks, row.trail_ticks, row.offset_ticks
        extra.link, extra.peg, extra.self_trade = row.link, row.peg, row.self_trade
        extra.touch_ticks, extra.updates = row.touch_ticks, row.updates
        extra.waits, extra.child, extra.parent = row.waits, row.child, row.parent
        settled = state.settled[row.symbol]
        settled[PEGS] += row.peg != 0
        settled[RESERVES + int64(row.side)] += row.reserve_lots
        extra.expire_ns = row.expire_ns
        if row.expire_ns != 0:
            add_expiry(state, slot)
    return int64(rows.size)


@compiled
def restore_rules(state: State, rows: Rows) -> None:
    """What follows from orders, accounts and rules that are all there; SPECIAL rows in order of order_number."""
    for index in range(rows.size):
        row = rows[index]
        slot = order_index.find(state, int64(row.participant), row.order_id)
        watch(state, slot)
    for slot in range(state.orders.size):
        order = state.orders[slot]
        if order.open_lots > 0 and (order.flags & k.REDUCE_ONLY or order.time_in_force > k.FOK):
            make_special(state, slot)
    for symbol in range(state.halted.size):
        update_special_rules(state, symbol)
    for participant in range(state.accounts.shape[0]):
        if (
            state.accounts[participant, k.SETTING_ORDERS_OPEN_MAX] != 0
            or state.accounts[participant, k.SETTING_POSITION_LOTS_MAX] != 0
        ):
            start_counting_open(state)
            break
    for participant in range(state.accounts.shape[0]):
        if state.accounts[participant, k.SETTING_BALANCE_CHECKS] != 0:
            start_counting_reserves(state)
            break


@compiled
def follow_price_limit(state: State) -> None:
    """Does what a restored market would after a change of price_ticks_max: that is the price at which buys without one reserve, and no peg
    stands beyond it. O(orders)."""
    if state.counters.counts_reserves != 0:
        state.reserves[:] = 0
        state.counters.counts_reserves = 0
        start_counting_reserves(state)
    for symbol in range(state.halted.size):
        make_pegs_due(state, symbol)
