"""Events about orders, and what leaves the market with them: cancels, their linked orders, what is taken off."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.events import begin_event
from serl.exchange.kernel.rows import CommandRow, EventRow
from serl.exchange.kernel.rulebook.orders import remove_from_everywhere, schedule_triggers, watch, watch_minimum
from serl.exchange.kernel.rulebook.reserves import count_open, order_limit, release, reserve, total_open_lots, unshare
from serl.exchange.kernel.state import RESERVES, State
from serl.exchange.records import Rows


@inner
def hidden_flag(state: State, slot: int) -> int:
    """HIDDEN for an order that is not displayed."""
    return 0 if state.orders[slot].queue == k.DISPLAYED_QUEUE else k.HIDDEN


@inner
def begin_order_event(state: State, command: CommandRow, events: Rows, count: int, kind: int, slot: int) -> EventRow:
    """`begin_event` about an order in a queue."""
    order = state.orders[slot]
    event = begin_event(
        state, command, events, count, kind, int64(order.participant), int64(order.symbol), int64(order.side)
    )
    event.order_id = order.order_id
    event.order_number = order.order_number
    return event


@inner
def _cancel_alone(
    state: State, command: CommandRow, events: Rows, count: int, slot: int, command_id: int, reason: int
) -> int:
    order, limit = state.orders[slot], order_limit(state, slot)
    reserve = total_open_lots(state, slot) - order.open_lots
    if reserve > 0:
        event = begin_order_event(state, command, events, count, k.REDUCED, slot)
        event.command_id = command_id
        event.price_ticks = limit
        event.qty_lots = reserve
        event.leaves_lots = order.open_lots
        event.reason = reason
        event.flags = k.HIDDEN
        count += 1
    flags = k.RESTING | hidden_flag(state, slot)
    event = begin_order_event(state, command, events, count, k.CANCELLED, slot)
    event.command_id = command_id
    event.price_ticks = limit
    event.qty_lots = order.open_lots
    event.reason = reason
    event.flags = flags
    count += 1
    schedule_triggers(state, int64(order.symbol))
    remove_from_everywhere(state, slot)
    return count


@inner
def cancel_child(state: State, command: CommandRow, events: Rows, count: int, participant: int, child: int) -> int:
    """Cancels the order that waits for a cancelled one, and the one linked to it, which waits too. At most two events."""
    slot = order_index.find(state, participant, child)
    state.extras[slot].parent = 0
    link = unlink_pair(state, slot)
    count = _cancel_alone(state, command, events, count, slot, 0, k.REASON_LINKED)
    if link == 0:
        return count
    slot = order_index.find(state, participant, link)
    state.extras[slot].link = 0
    return _cancel_alone(state, command, events, count, slot, 0, k.REASON_LINKED)


@inner
def _leave_parent(state: State, slot: int) -> None:
    """Of an order that is cancelled: no order has it as its child any more."""
    participant, parent = int64(state.orders[slot].participant), state.extras[slot].parent
    other, active = order_index.find(state, participant, parent), state.active_order
    if other >= 0:
        state.extras[other].child = 0
    elif active.is_active and active.participant == participant and active.order_id == parent:
        active.child = 0


@inner
def _cancel_one(
    state: State, command: CommandRow, events: Rows, count: int, slot: int, command_id: int, reason: int
) -> int:
    """Cancels an order, and what waits for it. At most four events."""
    if not state.orders[slot].special:
        return _cancel_alone(state, command, events, count, slot, command_id, reason)
    participant, child = int64(state.orders[slot].participant), state.extras[slot].child
    if state.extras[slot].parent != 0:
        _leave_parent(state, slot)
    count = _cancel_alone(state, command, events, count, slot, command_id, reason)
    return cancel_child(state, command, events, count, participant, child) if child != 0 else count


@inner
def make_children_due(state: State, participant: int, child: int) -> None:
    """An order is filled: the one that waits for it, and the one linked to that, come to the market."""
    slot = order_index.find(state, participant, child)
    state.extras[slot].parent = 0
    _make_due(state, slot)
    if state.extras[slot].link != 0:
        _make_due(state, order_index.find(state, participant, state.extras[slot].link))


@inner
def _make_due(state: State, slot: int) -> None:
    state.extras[slot].waits = k.DUE
    watch(state, slot)
    schedule_triggers(state, int64(state.orders[slot].symbol))


@inner
def cancel(state: State, command: CommandRow, events: Rows, count: int, slot: int, command_id: int, reason: int) -> int:
    """Cancels an order in a queue, the order linked to it, and what waits for them. At most eight events."""
    participant = int64(state.orders[slot].participant)
    link = state.extras[slot].link if state.orders[slot].special else 0
    count = _cancel_one(state, command, events, count, slot, command_id, reason)
    return cancel_linked(state, command, events, count, participant, link) if link != 0 else count


@inner
def cancel_linked(state: State, command: CommandRow, events: Rows, count: int, participant: int, order_id: int) -> int:
    """Cancels the other of two linked orders: one in a queue, or the active order, whose rest is then cut. The link is gone."""
    slot = order_index.find(state, participant, order_id)
    if slot >= 0:
        state.extras[slot].link = 0
        return _cancel_one(state, command, events, count, slot, 0, k.REASON_LINKED)
    active = state.active_order
    if active.is_active and active.participant == participant and active.order_id == order_id:
        active.link = 0
        active.cancel_reason = k.REASON_LINKED
    return count


@inner
def is_linked(state: State, slot: int) -> bool:
    """Whether an order is one of a linked pair."""
    return state.orders[slot].special != 0 and state.extras[slot].link != 0


@inner
def unlink_pair(state: State, slot: int) -> int:
    """Ends the link of an order: the order_id of the other one, 0 if there is none."""
    if not state.orders[slot].special:
        return 0
    unshare(state, slot)
    link = state.extras[slot].link
    state.extras[slot].link = 0
    return link


@inner
def reduce_resting(
    state: State, command: CommandRow, events: Rows, count: int, slot: int, qty: int, command_id: int, reason: int
) -> int:
    """Reduces an order by fewer lots than are open, from its reserve first; it keeps its place. At most two events."""
    order = state.orders[slot]
    leaves, limit, flags = total_open_lots(state, slot), order_limit(state, slot), hidden_flag(state, slot)
    from_reserve = 0
    release(state, slot)
    order.total_lots -= qty
    count_open(state, slot, -qty, 0)
    if order.special:
        extra = state.extras[slot]
        from_reserve = min(qty, extra.reserve_lots)
        extra.reserve_lots -= from_reserve
        state.settled[order.symbol, RESERVES + int64(order.side)] -= from_reserve
        extra.min_lots = min(extra.min_lots, leaves - qty)
    if from_reserve > 0:
        leaves -= from_reserve
        event = begin_order_event(state, command, events, count, k.REDUCED, slot)
        event.command_id = command_id
        event.price_ticks = limit
        event.qty_lots = from_reserve
        event.leaves_lots = leaves
        event.reason = reason
        event.flags = k.HIDDEN
        count += 1
    shown = qty - from_reserve
    if shown > 0 or qty == 0:
        order.open_lots -= shown
        state.levels[order.level].qty_lots -= shown
        event = begin_order_event(state, command, events, count, k.REDUCED, slot)
        event.command_id = command_id
        event.price_ticks = limit
        event.qty_lots = shown
        event.leaves_lots = leaves - shown
        event.reason = reason
        event.flags = flags
        count += 1
    reserve(state, slot)
    watch_minimum(state, slot)
    schedule_triggers(state, int64(order.symbol))
    return count


@inner
def partner_to_update(state: State, slot: int, qty: int) -> int:
    """The order that a fill of `qty` lots of an order takes as many lots off, -1 if there is none: the two are no such pair, or the other
    one is the active order. Their link ends where nothing is left of one."""
    if not is_linked(state, slot) or state.extras[slot].updates == 0:
        return -1
    partner = order_index.find(state, int64(state.orders[slot].participant), state.extras[slot].link)
    if partner >= 0 and (total_open_lots(state, slot) == 0 or qty >= total_open_lots(state, partner)):
        unshare(state, slot)
        state.extras[slot].link = state.extras[partner].link = 0
    return partner


@inner
def active_partner_to_update(state: State, qty: int) -> int:
    """The same for a fill of the active order."""
    active = state.active_order
    if active.link == 0 or active.updates == 0:
        return -1
    partner = order_index.find(state, active.participant, active.link)
    if active.leaves_lots == 0 or qty >= total_open_lots(state, partner):
        active.link = state.extras[partner].link = 0
    return partner


@inner
def update_partner(state: State, command: CommandRow, events: Rows, count: int, slot: int, qty: int) -> int:
    """Takes lots off an order whose linked order has traded them. At most two events.

    They stay in its total, as filled ones do: a REPLACE that a fill of the linked order has overtaken does not bring them back.
    """
    if qty >= total_open_lots(state, slot):
        return _cancel_one(state, command, events, count, slot, 0, k.REASON_LINKED)
    state.orders[slot].total_lots += qty
    return reduce_resting(state, command, events, count, slot, qty, 0, k.REASON_LINKED)
