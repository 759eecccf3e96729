"""Events about orders, and what leaves the market with them: cancels, their linked orders, what is taken off."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.book import emit
from serl.exchange.kernel.constants import CANCELLED, DISPLAYED_QUEUE, HIDDEN, R_LINKED, REDUCED, RESTING
from serl.exchange.kernel.rulebook.orders import (
    count_open,
    order_limit,
    remove_from_everywhere,
    schedule_triggers,
    total_open_lots,
)
from serl.exchange.kernel.state import ACTIVE, CANCEL_REASON, LINK, ORDER_ID, PARTICIPANT, State


@inner
def hidden_flag(state: State, slot: int) -> int:
    """HIDDEN for an order that is not displayed."""
    return 0 if state.orders[slot].queue == DISPLAYED_QUEUE else HIDDEN


@inner
def tell(
    state: State, row: Any, events: Any, count: int, slot: int, kind: int, command_id: int, price: int, qty: int, leaves: int,
    reason: int, flags: int, match_id: int,
) -> int:  # fmt: skip
    """Appends an event about an order in a queue."""
    order = state.orders[slot]
    return int64(emit(
        state, row, events, count, kind, int64(order.participant), int64(order.symbol), int64(order.side), order.order_id,
        order.order_number, command_id, price, qty, leaves, reason, flags, match_id,
    ))  # fmt: skip


@inner
def _cancel_one(state: State, row: Any, events: Any, count: int, slot: int, command_id: int, reason: int) -> int:
    order, limit = state.orders[slot], order_limit(state, slot)
    reserve = total_open_lots(state, slot) - order.open_lots
    if reserve > 0:
        count = tell(
            state, row, events, count, slot, REDUCED, command_id, limit, reserve, order.open_lots, reason, HIDDEN, 0
        )
    flags = RESTING | hidden_flag(state, slot)
    count = tell(state, row, events, count, slot, CANCELLED, command_id, limit, order.open_lots, 0, reason, flags, 0)
    schedule_triggers(state, int64(order.symbol))
    remove_from_everywhere(state, slot)
    return count


@inner
def cancel(state: State, row: Any, events: Any, count: int, slot: int, command_id: int, reason: int) -> int:
    """Takes an order out of its queue and says so; its linked order goes with it. At most four events."""
    participant = int64(state.orders[slot].participant)
    link = state.extras[slot].link if state.orders[slot].special else 0
    count = _cancel_one(state, row, events, count, slot, command_id, reason)
    return cancel_linked(state, row, events, count, participant, link) if link != 0 else count


@inner
def cancel_linked(state: State, row: Any, events: Any, count: int, participant: int, order_id: int) -> int:
    """Cancels the other of two linked orders: one in a queue, or the active order, whose rest is then cut. The link is gone."""
    slot = order_index.find(state, participant, order_id)
    if slot >= 0:
        state.extras[slot].link = 0
        return _cancel_one(state, row, events, count, slot, 0, R_LINKED)
    active = state.active_order
    if active[ACTIVE] and active[PARTICIPANT] == participant and active[ORDER_ID] == order_id:
        active[LINK] = 0
        active[CANCEL_REASON] = R_LINKED
    return count


@inner
def unlink_pair(state: State, slot: int) -> int:
    """Ends the link of an order: the order_id of the other one, 0 if there is none."""
    if not state.orders[slot].special:
        return 0
    link = state.extras[slot].link
    state.extras[slot].link = 0
    return link


@inner
def reduce_resting(
    state: State, row: Any, events: Any, count: int, slot: int, qty: int, command_id: int, reason: int
) -> int:
    """Takes lots off an order that keeps its place, fewer than are open, from its reserve first. At most two events."""
    order = state.orders[slot]
    leaves, limit, flags = total_open_lots(state, slot), order_limit(state, slot), hidden_flag(state, slot)
    from_reserve = 0
    order.total_lots -= qty
    count_open(state, slot, -qty, 0)
    if order.special:
        extra = state.extras[slot]
        from_reserve = min(qty, extra.reserve_lots)
        extra.reserve_lots -= from_reserve
        extra.min_lots = min(extra.min_lots, leaves - qty)
    if from_reserve > 0:
        leaves -= from_reserve
        count = tell(
            state, row, events, count, slot, REDUCED, command_id, limit, from_reserve, leaves, reason, HIDDEN, 0
        )
    shown = qty - from_reserve
    if shown > 0 or qty == 0:
        order.open_lots -= shown
        state.levels[order.level].qty_lots -= shown
        count = tell(
            state, row, events, count, slot, REDUCED, command_id, limit, shown, leaves - shown, reason, flags, 0
        )
    schedule_triggers(state, int64(order.symbol))
    return count
