"""The order that comes to the market: from a command, a trigger, a peg that moves or a minimum that can be met; what becomes of its rest."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.book import crosses
from serl.exchange.kernel.events import begin_active_event
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.balance_checks import affordable_price
from serl.exchange.kernel.rulebook.capacity import has_far_room, has_room_for_pegs, is_full
from serl.exchange.kernel.rulebook.matching import (
    counterparty,
    meet_counterparty,
    obtainable_lots,
)
from serl.exchange.kernel.rulebook.order_events import (
    begin_order_event,
    cancel_child,
    cancel_linked,
    hidden_flag,
    make_children_due,
    unlink_pair,
)
from serl.exchange.kernel.rulebook.orders import (
    add_expiry,
    enqueue,
    make_special,
    remove_from_everywhere,
    requeue,
    schedule_triggers,
    watch,
)
from serl.exchange.kernel.rulebook.pegs import float_peg, make_pegs_due
from serl.exchange.kernel.rulebook.pricing import collar_limit, in_band, peg_price, worst_price
from serl.exchange.kernel.rulebook.reducing import is_active_order_not_reducing
from serl.exchange.kernel.rulebook.reserves import order_limit, reserve, total_open_lots
from serl.exchange.kernel.state import (
    BID,
    DUE_PEGS,
    PEGS,
    RESERVES,
    SPECIAL_RULES,
    State,
)
from serl.exchange.records import ACCOUNT_SELF_TRADE, Rows

ROOM = 20
"""Events that a step may make."""
FROM_NEW, FROM_REPLACE, FROM_QUEUE = 0, 1, 2
"""Incoming by a command, or out of a queue: then it may find no room, and its events answer no command."""
NO_TRADE = -1
"""CANCEL_REASON of an order that does not trade now, but may rest."""


@inner
def phase_of(state: State, symbol: int) -> int:
    """The symbol's phase."""
    return state.symbols[symbol].phase


@inner
def cancel_unplaced(state: State, command: CommandRow, events: Rows, count: int, slot: int, reason: int) -> int:
    """Cancels an order that was taken out of its queue and found no other."""
    order = state.orders[slot]
    participant, link, child = int64(order.participant), unlink_pair(state, slot), state.extras[slot].child
    event = begin_order_event(state, command, events, count, k.CANCELLED, slot)
    event.order_number = 0  # it stands nowhere
    event.price_ticks = order_limit(state, slot)
    event.qty_lots = order.open_lots
    event.reason = reason
    count += 1
    schedule_triggers(state, int64(order.symbol))
    remove_from_everywhere(state, slot)
    if child != 0:
        count = cancel_child(state, command, events, count, participant, child)
    return cancel_linked(state, command, events, count, participant, link) if link != 0 else count


@inner
def dequeue(state: State, slot: int) -> None:
    """Removes an order from its queue and makes it the active order."""
    make_special(state, slot)  # a plain one has nothing to say there yet
    active, order, extra = state.active_order, state.orders[slot], state.extras[slot]
    participant = int64(order.participant)
    active.symbol, active.side, active.participant = order.symbol, order.side, participant
    active.order_id, active.time_in_force, active.flags = order.order_id, order.time_in_force, order.flags
    active.price_ticks = extra.limit_ticks
    active.leaves_lots, active.total_lots = total_open_lots(state, slot), order.total_lots
    active.display_lots, active.min_lots, active.link = extra.display_lots, extra.min_lots, extra.link
    active.updates, active.waits, active.child = extra.updates, 0, extra.child
    active.peg, active.offset_ticks, active.expire_ns = extra.peg, extra.offset_ticks, extra.expire_ns
    active.self_trade_term = extra.self_trade
    active.stop_ticks = active.touch_ticks = active.trail_ticks = 0
    active.command_id, active.origin = 0, FROM_QUEUE
    remove_from_everywhere(state, slot)
    activate(state)


@inner
def _limit_to_balance(state: State) -> None:
    """Limits a market order to buy, which reserves nothing, to what its account can pay."""
    active = state.active_order
    if active.stop_ticks | active.touch_ticks | active.waits or phase_of(state, active.symbol) != k.CONTINUOUS:
        return
    back = 0 if active.origin == FROM_NEW else active.order_id
    most = affordable_price(state, active.participant, active.symbol, active.leaves_lots, active.link, back)
    active.limit_ticks = min(active.limit_ticks, most)


@inner
def activate(state: State) -> None:
    """Sets what follows from the active order's own terms."""
    active = state.active_order
    symbol, side = active.symbol, active.side
    active.is_active, active.cancel_reason, active.round_lots = 1, 0, 0
    limit = active.price_ticks if active.price_ticks != 0 else collar_limit(state, active.participant, symbol, side)
    active.limit_ticks = limit if limit != 0 else worst_price(state, side)
    if active.peg != 0:
        active.limit_ticks = peg_price(state, symbol, side, active.peg, active.offset_ticks, limit)
    if side == BID and active.flags & k.MARKET and state.accounts[active.participant, k.SETTING_BALANCE_CHECKS] != 0:
        _limit_to_balance(state)
    mode = active.self_trade_term
    active.self_trade = state.accounts[active.participant, k.SETTING_SELF_TRADE] if mode == ACCOUNT_SELF_TRADE else mode


@inner
def can_rest(state: State) -> bool:
    """Whether the rest of the active order goes into a queue."""
    active = state.active_order
    if active.stop_ticks | active.touch_ticks | active.waits:
        return True
    time_in_force = active.time_in_force
    if time_in_force == k.IOC or time_in_force == k.FOK:
        return False
    if active.flags & k.MARKET == 0 or time_in_force == k.AT_CLOSE:
        return True
    return active.origin == FROM_NEW and phase_of(state, active.symbol) != k.CONTINUOUS


@inner
def target_queue(state: State) -> tuple[int, int]:
    """(queue, price) where the rest of the active order belongs."""
    active = state.active_order
    symbol, side = active.symbol, active.side
    price = active.price_ticks if active.price_ticks != 0 else worst_price(state, side)
    phase = phase_of(state, symbol)
    if active.waits:
        return k.INACTIVE_QUEUE, price
    if active.stop_ticks | active.touch_ticks:
        return k.STOP_QUEUE, active.stop_ticks | active.touch_ticks  # never both
    if active.origin == FROM_REPLACE and active.min_lots == 0:
        return (k.HIDDEN_QUEUE if active.flags & k.HIDE else k.DISPLAYED_QUEUE), price
    if active.time_in_force == k.AT_CLOSE and phase != k.CLOSING:
        return k.INACTIVE_QUEUE, price
    if active.peg != 0:
        if phase != k.CONTINUOUS or active.limit_ticks == 0:
            return k.INACTIVE_QUEUE, price
        return k.HIDDEN_QUEUE, active.limit_ticks
    if active.min_lots != 0:
        return k.MIN_QTY_QUEUE, price
    hidden = active.flags & k.HIDE or active.flags & (k.MARKET | k.TO_LIMIT) == k.MARKET
    return (k.HIDDEN_QUEUE if hidden else k.DISPLAYED_QUEUE), price


@inner
def wants_to_trade(state: State) -> bool:
    """Whether the active order meets anybody now."""
    active = state.active_order
    symbol, side, leaves_lots = active.symbol, active.side, active.leaves_lots
    if active.stop_ticks | active.touch_ticks | active.waits:
        return False
    if phase_of(state, symbol) != k.CONTINUOUS or active.limit_ticks == 0:
        return False
    if active.time_in_force == k.AT_CLOSE and active.origin == FROM_NEW:
        return False
    if counterparty(state, symbol, side, active.limit_ticks, leaves_lots) < 0:
        return False
    required = leaves_lots if active.time_in_force == k.FOK else min(active.min_lots, leaves_lots)
    if required == 0:
        return True
    return (
        obtainable_lots(
            state, symbol, side, active.limit_ticks, leaves_lots, active.participant, active.self_trade, active.link
        )
        >= required
    )


@inner
def rest_remainder(state: State, command: CommandRow, events: Rows, count: int, kind: int) -> int:
    """Rests what is left of the active order in its queue, reported as `kind` (ACCEPTED or RESTED)."""
    active = state.active_order
    queue, price = target_queue(state)
    leaves_lots, display, side = active.leaves_lots, active.display_lots, active.side
    part = display if queue == k.DISPLAYED_QUEUE and 0 < display < leaves_lots else leaves_lots
    special = (
        display
        | active.link
        | active.child
        | active.expire_ns
        | (active.flags & k.REDUCE_ONLY)
        | (active.time_in_force > k.FOK)
    ) != 0 or active.self_trade_term != ACCOUNT_SELF_TRADE
    slot = enqueue(
        state, active.symbol, queue, active.side, price, leaves_lots, active.total_lots, active.participant,
        active.order_id, active.time_in_force, active.flags, special, active.touch_ticks,
    )  # fmt: skip
    order = state.orders[slot]
    if order.special:
        extra = state.extras[slot]
        extra.limit_ticks, extra.display_lots, extra.min_lots = (
            active.price_ticks,
            display,
            min(active.min_lots, leaves_lots),
        )
        extra.stop_ticks, extra.touch_ticks = active.stop_ticks, active.touch_ticks
        extra.trail_ticks = active.trail_ticks
        extra.peg, extra.offset_ticks = active.peg, active.offset_ticks
        extra.link, extra.updates, extra.self_trade = active.link, active.updates, active.self_trade_term
        extra.waits, extra.child = active.waits, active.child
        if active.expire_ns != 0:
            extra.expire_ns = active.expire_ns
            add_expiry(state, slot)
        if part < leaves_lots:
            extra.reserve_lots = leaves_lots - part
            order.open_lots = part
            state.levels[order.level].qty_lots -= leaves_lots - part
            state.settled[active.symbol, RESERVES + side] += leaves_lots - part
        state.settled[active.symbol, PEGS] += active.peg != 0
        watch(state, slot)
    reserve(state, slot)
    schedule_triggers(state, active.symbol)
    if active.peg != 0 and active.origin == FROM_QUEUE and active.cancel_reason == NO_TRADE:
        return count  # it has moved, no more
    flags = hidden_flag(state, slot) | (k.RESTING if kind == k.ACCEPTED else 0)
    event = begin_order_event(state, command, events, count, kind, slot)
    event.command_id = active.command_id
    event.price_ticks = active.price_ticks
    event.qty_lots = part
    event.leaves_lots = leaves_lots
    event.flags = flags
    return count + 1


@inner
def blocked_by_band(state: State) -> bool:
    """Whether the rest of the active order would cross another that stands outside a band of action 0."""
    active = state.active_order
    symbol, side = active.symbol, active.side
    queue, price = target_queue(state)
    if queue > k.MIN_QTY_QUEUE or phase_of(state, symbol) != k.CONTINUOUS:
        return False
    return crosses_outside(state, symbol, side, price)


@inner
def crosses_outside(state: State, symbol: int, side: int, limit: int) -> bool:
    """Whether a limit crosses an order of DISPLAYED or HIDDEN that stands outside a band of action 0."""
    if state.symbols[symbol].band_action != 0:
        return False
    hidden_book = k.HIDDEN_QUEUE * state.halted.size + symbol
    return _crosses_outside(state, symbol, symbol, side, limit) or _crosses_outside(
        state, symbol, hidden_book, side, limit
    )


@inner
def _crosses_outside(state: State, symbol: int, book: int, side: int, limit: int) -> bool:
    """Whether a limit crosses an order of a book that stands outside the band: before it, or behind it."""
    other = 1 - side
    best = state.best[book, other]
    if not crosses(side, limit, best):
        return False
    edge = state.symbols[symbol].band_high_ticks if side == BID else state.symbols[symbol].band_low_ticks
    return not in_band(state, symbol, best) or (
        edge != 0 and crosses(side, limit, next_price(state, book, other, edge))
    )


@inner
def _remainder_cancel_reason(state: State) -> int:
    """Why the rest of the active order is cancelled, 0 if it rests."""
    active = state.active_order
    if active.cancel_reason > 0:
        return active.cancel_reason
    if not can_rest(state):
        if active.time_in_force == k.FOK:
            return k.REASON_FOK_UNFILLABLE
        return k.REASON_MARKET_REMAINDER if active.flags & k.MARKET else k.REASON_IOC_REMAINDER
    if blocked_by_band(state):
        return k.REASON_OUTSIDE_BAND
    queue, _ = target_queue(state)
    return k.REASON_NO_ROOM if active.origin == FROM_QUEUE and is_full(state, queue, active.symbol) else 0


@inner
def _finish_active_order(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """The rest of the active order rests or is cancelled. At most three events."""
    active = state.active_order
    active.is_active = 0
    if active.leaves_lots == 0:
        if active.child != 0:
            make_children_due(state, active.participant, active.child)
        return count
    reason = _remainder_cancel_reason(state)
    if reason == 0:
        return rest_remainder(state, command, events, count, k.RESTED)
    participant, link = active.participant, active.link
    command_id = 0 if reason == k.REASON_LINKED else active.command_id
    event = begin_active_event(state, command, events, count, k.CANCELLED)
    event.command_id = command_id
    event.price_ticks = active.price_ticks
    event.qty_lots = active.leaves_lots
    event.reason = reason
    count += 1
    if active.child != 0:
        count = cancel_child(state, command, events, count, participant, active.child)
    return cancel_linked(state, command, events, count, participant, link) if link != 0 else count


@inner
def interrupt(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """A band stops the active order and the symbol's continuous trading."""
    active = state.active_order
    symbol = active.symbol
    leave_continuous(state, symbol)
    if active.flags & k.MARKET:
        active.cancel_reason = k.REASON_MARKET_REMAINDER
    state.symbols[symbol].phase = k.VOLATILITY
    state.needs_full_book[symbol] |= SPECIAL_RULES
    event = begin_active_event(state, command, events, count, k.PHASED)
    event.order_id = 0  # it is about the symbol
    event.flags = k.VOLATILITY
    return count + 1


@inner
def leave_continuous(state: State, symbol: int) -> None:
    """Pegged orders wait, without a price, until trading is continuous again."""
    make_pegs_due(state, symbol)
    while state.roots[symbol, DUE_PEGS] >= 0:
        slot = int64(state.roots[symbol, DUE_PEGS])
        if state.orders[slot].queue == k.HIDDEN_QUEUE:
            limit = state.extras[slot].limit_ticks
            price = limit if limit != 0 else worst_price(state, int64(state.orders[slot].side))
            requeue(state, slot, k.INACTIVE_QUEUE, price)
        float_peg(state, slot)


@inner
def trade_active_order(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """The active order trades on and finishes: (new count, DONE, EVENTS_FULL or GROW); to be called again if not DONE."""
    active = state.active_order
    symbol, side = active.symbol, active.side
    while active.leaves_lots > 0 and active.cancel_reason == 0 and phase_of(state, symbol) == k.CONTINUOUS:
        if count + ROOM > events.size:
            return count, k.EVENTS_FULL
        slot = counterparty(state, symbol, side, active.limit_ticks, active.leaves_lots)
        if slot < 0:
            break
        if not in_band(state, symbol, state.orders[slot].price_ticks):
            if not has_room_for_pegs(state, symbol):
                return count, k.GROW
            count = interrupt(state, command, events, count)
            break
        if not has_far_room(state, symbol):
            return count, k.GROW
        count = meet_counterparty(state, command, events, count, slot)
    if count + ROOM > events.size:
        return count, k.EVENTS_FULL
    if not has_far_room(state, symbol):
        return count, k.GROW
    return _finish_active_order(state, command, events, count), k.DONE


@inner
def check_dequeued(state: State) -> None:
    """Decides whether an order from a queue may trade."""
    if not wants_to_trade(state):
        state.active_order.cancel_reason = NO_TRADE
    elif state.active_order.flags & k.POST_ONLY:
        state.active_order.cancel_reason = k.REASON_WOULD_CROSS
    elif is_active_order_not_reducing(state):
        state.active_order.cancel_reason = k.REASON_NOT_REDUCING
