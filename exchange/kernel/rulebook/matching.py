"""Matching: the counterparty of an incoming order, trades, icebergs, self-trade prevention, pro-rata allocation."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel import order_index
from serl.exchange.kernel.accounting import settle_trade, share_of
from serl.exchange.kernel.book import crosses
from serl.exchange.kernel.events import begin_active_event, begin_event
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rows import CommandRow, LevelRow
from serl.exchange.kernel.rulebook.order_events import (
    active_partner_to_update,
    begin_order_event,
    cancel,
    cancel_linked,
    hidden_flag,
    is_linked,
    make_children_due,
    partner_to_update,
    reduce_resting,
    unlink_pair,
    update_partner,
)
from serl.exchange.kernel.rulebook.orders import (
    minimum_lots,
    remove_from_everywhere,
    requeue,
    schedule_triggers,
    watch_minimum,
)
from serl.exchange.kernel.rulebook.pricing import first_tradable_price, in_band, limit_within_band
from serl.exchange.kernel.rulebook.reducing import is_not_reducing
from serl.exchange.kernel.rulebook.reserves import count_open, order_limit, release, reserve, total_open_lots
from serl.exchange.kernel.state import BID, RESERVES, State
from serl.exchange.records import Rows

TRADING_QUEUES = 3
"""DISPLAYED, HIDDEN and MIN_QTY."""


@inner
def first_slot(state: State, book: int, side: int, price: int) -> int:
    """The oldest order of a price."""
    return int64(state.levels[find_level(state, book, side, price)].first)


@inner
def is_better(side: Any, one: Any, other: Any) -> Any:
    """Whether price `one` of a side goes before `other`; 0 is none."""
    if one == 0:
        return False
    return other == 0 or (one > other if side == BID else one < other)


@inner
def smallest_minimum(state: State, book: int, side: int, price: int) -> int:
    """Of the orders of MIN_QTY at a price."""
    return -state.extras[state.levels[find_level(state, book, side, price)].heap].key


@inner
def _first_min_qty(state: State, symbol: int, side: int, limit: int, leaves_lots: int, before: int) -> int:
    """The first order of MIN_QTY that `leaves_lots` are enough for, at a price better than `before` (0 = any); -1 if none. O(prices)."""
    book, other = k.MIN_QTY_QUEUE * state.halted.size + symbol, 1 - side
    price = first_tradable_price(state, symbol, book, other)
    while crosses(side, limit, price) and is_better(other, price, before):
        if smallest_minimum(state, book, other, price) <= leaves_lots:
            slot = first_slot(state, book, other, price)
            while minimum_lots(state, slot) > leaves_lots:
                slot = int64(state.orders[slot].next)
            return slot
        price = next_price(state, book, other, price)
    return -1


@inner
def counterparty(state: State, symbol: int, side: int, limit: int, leaves_lots: int) -> int:
    """The slot of the order that an incoming one meets next, -1 if there is none. O(prices of conditional orders that are passed over).

    Outside a band of action 1 it is the one that interrupts trading.
    """
    other, hidden_book = 1 - side, k.HIDDEN_QUEUE * state.halted.size + symbol
    limit = limit_within_band(state, symbol, side, limit)
    displayed, hidden = (
        first_tradable_price(state, symbol, symbol, other),
        first_tradable_price(state, symbol, hidden_book, other),
    )
    price = hidden if is_better(other, hidden, displayed) else displayed
    if not crosses(side, limit, price):
        price = 0
    found = _first_min_qty(state, symbol, side, limit, leaves_lots, price)
    if found >= 0 or price == 0:
        return found
    return first_slot(state, symbol if price == displayed else hidden_book, other, price)


@inner
def best_tradable_price(state: State, symbol: int, side: int) -> int:
    """The best price of a side at which an incoming order could trade, in any queue; 0 = none."""
    best = 0
    for queue in range(TRADING_QUEUES):
        price = first_tradable_price(state, symbol, queue * state.halted.size + symbol, side)
        best = price if is_better(side, price, best) else best
    return best


@inner
def lots_within(state: State, symbol: int, side: int, limit: int) -> int:
    """How many lots an incoming order could trade at most: all up to its limit, and all reserves of the other side. O(prices)."""
    other = 1 - side
    lots = state.settled[symbol, RESERVES + other]
    for queue in range(TRADING_QUEUES):
        book = queue * state.halted.size + symbol
        price = first_tradable_price(state, symbol, book, other)
        while crosses(side, limit, price) and lots < state.counters.qty_lots_max:  # no minimum is larger
            lots += state.levels[find_level(state, book, other, price)].qty_lots
            price = next_price(state, book, other, price)
    return lots


@inner
def _count_level(
    state: State, book: int, side: int, price: int, leaves_lots: int, participant: int, mode: int, link: int
) -> tuple[int, bool]:
    """(what is left of `left` lots after trading with a level, whether the count ends there)."""
    slot = first_slot(state, book, side, price)
    reserve, min_qty = 0, book // state.halted.size == k.MIN_QTY_QUEUE
    ends = mode != 0 and mode != k.OLDEST
    if ends and book < state.halted.size and state.symbols[book].matching != 0 and _has_own(state, slot, participant):
        return leaves_lots, True
    while slot >= 0 and leaves_lots > 0:
        order = state.orders[slot]
        own = mode != 0 and order.participant == participant
        partner = link != 0 and order.participant == participant and order.order_id == link
        enough = not min_qty or minimum_lots(state, slot) <= leaves_lots
        if enough and (partner or (own and ends) or order.flags & k.REDUCE_ONLY or _has_linked_here(state, slot)):
            return leaves_lots, True
        if enough and not own:
            leaves_lots -= min(leaves_lots, order.open_lots)
            reserve += total_open_lots(state, slot) - order.open_lots
        slot = int64(order.next)
    return leaves_lots - min(leaves_lots, reserve), False


@inner
def _has_linked_here(state: State, slot: int) -> bool:
    """Whether the linked order, which goes when this one trades, is one that could trade as well."""
    order = state.orders[slot]
    if not order.special or state.extras[slot].link == 0:
        return False
    other = state.orders[order_index.find(state, int64(order.participant), state.extras[slot].link)]
    return other.symbol == order.symbol and other.side == order.side and other.queue <= k.MIN_QTY_QUEUE


@inner
def _has_own(state: State, slot: int, participant: int) -> bool:
    """Whether the participant has an order in a level that begins with `slot`."""
    while slot >= 0 and state.orders[slot].participant != participant:
        slot = int64(state.orders[slot].next)
    return slot >= 0


@inner
def obtainable_lots(
    state: State, symbol: int, side: int, limit: int, wanted: int, participant: int, mode: int, link: int
) -> int:
    """How many of `wanted` lots an incoming order could trade at once. O(orders it would meet)."""
    count, other, leaves_lots = state.halted.size, 1 - side, wanted
    hidden_book, min_qty_book = k.HIDDEN_QUEUE * count + symbol, k.MIN_QTY_QUEUE * count + symbol
    limit = limit_within_band(state, symbol, side, limit)
    displayed, hidden, min_qty = (
        first_tradable_price(state, symbol, symbol, other),
        first_tradable_price(state, symbol, hidden_book, other),
        first_tradable_price(state, symbol, min_qty_book, other),
    )
    done = False
    while leaves_lots > 0 and not done:
        price = hidden if is_better(other, hidden, displayed) else displayed
        if not crosses(side, limit, price):
            price = 0
        if is_better(other, min_qty, price) and crosses(side, limit, min_qty):
            if not in_band(state, symbol, min_qty):
                break
            leaves_lots, done = _count_level(state, min_qty_book, other, min_qty, leaves_lots, participant, mode, link)
            min_qty = next_price(state, min_qty_book, other, min_qty)
        elif price == 0 or not in_band(state, symbol, price):
            break
        elif price == displayed:
            leaves_lots, done = _count_level(state, symbol, other, displayed, leaves_lots, participant, mode, link)
            displayed = next_price(state, symbol, other, displayed)
        else:
            leaves_lots, done = _count_level(state, hidden_book, other, hidden, leaves_lots, participant, mode, link)
            hidden = next_price(state, hidden_book, other, hidden)
    return wanted - leaves_lots


# -- trades -----------------------------------------------------------------------------------------------------------


@inner
def record_trade_price(state: State, symbol: int, price: int) -> None:
    """Records the last, highest and lowest price, which trigger stops."""
    instrument = state.symbols[symbol]
    instrument.last_ticks = price
    instrument.high_ticks = max(instrument.high_ticks, price)
    instrument.low_ticks = price if instrument.low_ticks == 0 else min(instrument.low_ticks, price)


@inner
def fill_resting(
    state: State, command: CommandRow, events: Rows, count: int, slot: int, price: int, qty: int, flags: int
) -> int:
    """The fill of an order in a queue; its lots are off, but it is still there, even if nothing is left."""
    order = state.orders[slot]
    leaves = total_open_lots(state, slot) - qty
    event = begin_order_event(state, command, events, count, k.FILL, slot)
    event.price_ticks = price
    event.qty_lots = qty
    event.leaves_lots = leaves
    event.flags = flags | hidden_flag(state, slot)
    event.match_id = state.counters.match_id
    count += 1
    release(state, slot)
    order.open_lots -= qty
    state.levels[order.level].qty_lots -= qty
    count_open(state, slot, -qty, 0)
    reserve(state, slot)
    if order.special:
        state.extras[slot].min_lots = min(state.extras[slot].min_lots, leaves)
        watch_minimum(state, slot)
    return count


@inner
def replenish_or_remove(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> int:
    """Takes out an order of which nothing is displayed any more, or brings the next part of an iceberg."""
    order = state.orders[slot]
    if order.open_lots > 0:
        return count
    if not order.special or state.extras[slot].reserve_lots == 0:
        if order.special and state.extras[slot].child != 0:
            make_children_due(state, int64(order.participant), state.extras[slot].child)
        remove_from_everywhere(state, slot)
        return count
    extra = state.extras[slot]
    part = min(extra.display_lots, extra.reserve_lots)
    extra.reserve_lots -= part
    state.settled[order.symbol, RESERVES + int64(order.side)] -= part
    order.open_lots = part
    state.levels[order.level].qty_lots += part
    requeue(state, slot, int64(order.queue), order.price_ticks)
    leaves = part + extra.reserve_lots
    event = begin_order_event(state, command, events, count, k.RESTED, slot)
    event.price_ticks = order_limit(state, slot)
    event.qty_lots = part
    event.leaves_lots = leaves
    event.flags = hidden_flag(state, slot)
    return count + 1


@inner
def _leave_linked(state: State, command: CommandRow, events: Rows, count: int, slot: int, qty: int) -> int:
    """`replenish_or_remove` for an order of a linked pair: the other one is reduced or cancelled."""
    maker, partner = int64(state.orders[slot].participant), partner_to_update(state, slot, qty)
    link = unlink_pair(state, slot) if partner < 0 else 0
    count = replenish_or_remove(state, command, events, count, slot)
    if partner >= 0:
        return update_partner(state, command, events, count, partner, qty)
    return cancel_linked(state, command, events, count, maker, link) if link != 0 else count


@inner
def trade(state: State, command: CommandRow, events: Rows, count: int, slot: int, qty: int) -> int:
    """The active order trades with a resting one. At most seven events."""
    active, order = state.active_order, state.orders[slot]
    symbol, side, price = active.symbol, active.side, order.price_ticks
    maker, taker = int64(order.participant), active.participant
    state.counters.match_id += 1
    active.leaves_lots -= qty
    count = fill_resting(state, command, events, count, slot, price, qty, k.MAKER)
    event = begin_event(state, command, events, count, k.FILL, taker, symbol, side)
    event.order_id = active.order_id
    event.command_id = active.command_id
    event.price_ticks = price
    event.qty_lots = qty
    event.leaves_lots = active.leaves_lots
    event.match_id = state.counters.match_id
    count += 1
    if side == BID:
        settle_trade(state, symbol, taker, maker, price, qty, k.TAKER_FEES, k.MAKER_FEES)
    else:
        settle_trade(state, symbol, maker, taker, price, qty, k.MAKER_FEES, k.TAKER_FEES)
    record_trade_price(state, symbol, price)
    if active.flags & k.TO_LIMIT:
        active.price_ticks = active.limit_ticks = price
        active.flags &= ~(k.MARKET | k.TO_LIMIT)
    if is_linked(state, slot):
        count = _leave_linked(state, command, events, count, slot, qty)
    else:
        count = replenish_or_remove(state, command, events, count, slot)
    if active.link != 0:
        partner = active_partner_to_update(state, qty)
        if partner >= 0:
            return update_partner(state, command, events, count, partner, qty)
        link, active.link = active.link, 0
        count = cancel_linked(state, command, events, count, taker, link)
    return count


@inner
def _prevent_self_trade(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> int:
    """An incoming order has met one of its own participant. At most six events."""
    active, mode = state.active_order, state.active_order.self_trade
    if mode != k.NEWEST and mode != k.DECREMENT:
        count = cancel(state, command, events, count, slot, 0, k.REASON_SELF_TRADE)
    if mode == k.NEWEST or mode == k.BOTH:
        active.cancel_reason = k.REASON_SELF_TRADE if active.cancel_reason == 0 else active.cancel_reason
    if mode != k.DECREMENT:
        return count
    resting = total_open_lots(state, slot)
    qty = min(resting, active.leaves_lots)
    if resting == qty:
        count = cancel(state, command, events, count, slot, 0, k.REASON_SELF_TRADE)
    else:
        count = reduce_resting(state, command, events, count, slot, qty, 0, k.REASON_SELF_TRADE)
    if active.cancel_reason != 0:  # the two were linked
        return count
    if active.leaves_lots == qty:
        active.cancel_reason = k.REASON_SELF_TRADE if active.cancel_reason == 0 else active.cancel_reason
        return count
    active.leaves_lots -= qty
    active.total_lots -= qty
    event = begin_active_event(state, command, events, count, k.REDUCED)
    event.command_id = active.command_id
    event.price_ticks = active.price_ticks
    event.qty_lots = qty
    event.leaves_lots = active.leaves_lots
    event.reason = k.REASON_SELF_TRADE
    event.flags = k.HIDDEN
    return count + 1


# -- pro-rata ---------------------------------------------------------------------------------------------------------


@inner
def _begin_round(state: State, level: LevelRow) -> None:
    """Every order that is in a displayed level now gets its share of the active order; what that leaves goes to the oldest."""
    active = state.active_order
    lots = min(active.leaves_lots, level.qty_lots)
    rest, slot = lots, int64(level.first)
    while slot >= 0:
        rest -= share_of(state.orders[slot].open_lots, lots, level.qty_lots)
        slot = int64(state.orders[slot].next)
    active.round_lots, active.round_level_lots, active.round_spare_lots = lots, level.qty_lots, rest
    active.round_price_ticks, active.round_served_number = level.price_ticks, 0
    active.round_last_number = state.orders[level.last].order_number


@inner
def _next_share(state: State, slot: int) -> tuple[int, int]:
    """(slot, lots) of the next order of a displayed level that gets something of the active order; a new round begins behind the last."""
    active, level = state.active_order, state.levels[state.orders[slot].level]
    if active.round_price_ticks != level.price_ticks:
        active.round_lots = 0
    while True:
        if active.round_lots == 0:
            _begin_round(state, level)
        slot, served = int64(level.first), state.orders[active.round_served_slot]
        if served.open_lots > 0 and served.order_number == active.round_served_number:
            slot = int64(served.next)  # from the first one each time, a round would take the square of its orders
        while slot >= 0:
            order = state.orders[slot]
            if active.round_served_number < order.order_number <= active.round_last_number:
                share = share_of(order.open_lots, active.round_lots, active.round_level_lots)
                more = min(active.round_spare_lots, order.open_lots - share)
                if share + more > 0:
                    active.round_spare_lots -= more
                    active.round_served_number, active.round_served_slot = order.order_number, slot
                    return slot, share + more
            slot = int64(order.next)
        active.round_lots = 0


@inner
def meet_counterparty(state: State, command: CommandRow, events: Rows, count: int, slot: int) -> int:
    """The active order meets its counterparty: trade or self-trade prevention. At most seven events."""
    active = state.active_order
    symbol = active.symbol
    qty = min(active.leaves_lots, state.orders[slot].open_lots)
    if state.symbols[symbol].matching != 0 and state.orders[slot].queue == k.DISPLAYED_QUEUE:
        slot, qty = _next_share(state, slot)
    schedule_triggers(state, symbol)
    if active.self_trade != 0 and state.orders[slot].participant == active.participant:
        active.round_lots = 0
        return _prevent_self_trade(state, command, events, count, slot)
    if is_not_reducing(state, slot):
        active.round_lots = 0
        return cancel(state, command, events, count, slot, 0, k.REASON_NOT_REDUCING)
    after = trade(state, command, events, count, slot, qty)
    if active.round_lots != 0 and _has_displayed_cancel(
        events, count, after, events[count].side, events[count].price_ticks
    ):
        active.round_lots = 0
    return after


@inner
def _has_displayed_cancel(events: Rows, first: int, stop: int, side: int, price: int) -> bool:
    """Whether one of these events takes lots of another order off a displayed price: shares are computed again."""
    found, symbol = False, events[first].symbol
    for index in range(first, stop):
        event = events[index]
        cancelled = event.kind == k.CANCELLED and event.flags == k.RESTING
        reduced = event.kind == k.REDUCED and event.reason == k.REASON_LINKED and event.flags == 0
        if (cancelled or reduced) and event.symbol == symbol:
            found = found or (event.side == side and event.price_ticks == price)
    return found
