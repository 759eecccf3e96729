"""Whom an incoming order meets, and what happens then: trades, icebergs, self-trade prevention, shares by pro-rata."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.accounting import settle_trade
from serl.exchange.kernel.book import crosses, emit
from serl.exchange.kernel.constants import (
    BOTH,
    CANCELLED,
    DECREMENT,
    DISPLAYED_QUEUE,
    FILL,
    HIDDEN,
    HIDDEN_QUEUE,
    MAKER,
    MIN_QTY_QUEUE,
    NEWEST,
    OLDEST,
    R_NOT_REDUCING,
    R_SELF_TRADE,
    REDUCE_ONLY,
    REDUCED,
    RESTED,
    RESTING,
)
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rulebook.band import first_tradable_price, in_band, limit_within_band
from serl.exchange.kernel.rulebook.order_events import (
    cancel,
    cancel_linked,
    hidden_flag,
    reduce_resting,
    tell,
    unlink_pair,
)
from serl.exchange.kernel.rulebook.orders import (
    count_open,
    order_limit,
    remove_from_everywhere,
    requeue,
    schedule_triggers,
    total_open_lots,
)
from serl.exchange.kernel.state import (
    BID,
    CANCEL_REASON,
    COMMAND_ID,
    FLAGS,
    LEAVES_LOTS,
    LINK,
    MATCH_ID,
    ORDER_ID,
    PARTICIPANT,
    PRICE,
    SELF_TRADE,
    SHARE_AFTER,
    SHARE_AT,
    SHARE_LAST,
    SHARE_OF,
    SHARE_REST,
    SHARED,
    SIDE,
    SYMBOL,
    TOTAL,
    State,
)  # fmt: skip
from serl.exchange.records import (
    HIGH_TICKS,
    LAST_TICKS,
    LOW_TICKS,
    MAKER_FEE,
    MATCHING,
    POSITION,
    TAKER_FEE,
)  # fmt: skip


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
def reducing_lots(state: State, participant: int, symbol: int, side: int) -> int:
    """How much of that side brings the position nearer to 0."""
    position = state.balances[participant, symbol, POSITION]
    return max(0, -position if side == BID else position)


@inner
def is_not_reducing(state: State, slot: int) -> bool:
    """Whether an order that may only reduce a position would do more."""
    order = state.orders[slot]
    if order.flags & REDUCE_ONLY == 0:
        return False
    return total_open_lots(state, slot) > reducing_lots(
        state, int64(order.participant), int64(order.symbol), int64(order.side)
    )


@inner
def _first_min_qty(state: State, symbol: int, side: int, limit: int, leaves_lots: int, before: int) -> int:
    """The first order of MIN_QTY that `left` lots are enough for, at a price better than `before` (0 = any); -1 if none."""
    book, other = MIN_QTY_QUEUE * state.halted.size + symbol, 1 - side
    price = first_tradable_price(state, symbol, book, other)
    while crosses(side, limit, price) and is_better(other, price, before):
        slot = first_slot(state, book, other, price)
        while slot >= 0:
            order = state.orders[slot]
            if min(state.extras[slot].min_lots, order.open_lots) <= leaves_lots:
                return slot
            slot = int64(order.next)
        price = next_price(state, book, other, price)
    return -1


@inner
def counterparty(state: State, symbol: int, side: int, limit: int, leaves_lots: int) -> int:
    """The slot of the order that an incoming one meets next, -1 if there is none. O(conditional orders that are passed over).

    Outside a band of action 1 it is the one that interrupts trading.
    """
    other, hidden_book = 1 - side, HIDDEN_QUEUE * state.halted.size + symbol
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
def _count_level(
    state: State, book: int, side: int, price: int, leaves_lots: int, participant: int, mode: int, link: int
) -> tuple[int, bool]:
    """(what is left of `left` lots after trading with a level, whether the count ends there)."""
    slot = first_slot(state, book, side, price)
    reserve, min_qty = 0, book // state.halted.size == MIN_QTY_QUEUE
    ends = mode != 0 and mode != OLDEST
    if ends and book < state.halted.size and state.symbols[book, MATCHING] != 0 and _has_own(state, slot, participant):
        return leaves_lots, True
    while slot >= 0 and leaves_lots > 0:
        order = state.orders[slot]
        own = mode != 0 and order.participant == participant
        partner = link != 0 and order.participant == participant and order.order_id == link
        enough = not min_qty or min(state.extras[slot].min_lots, order.open_lots) <= leaves_lots
        if enough and (partner or (own and ends) or order.flags & REDUCE_ONLY or _has_linked_here(state, slot)):
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
    return other.symbol == order.symbol and other.side == order.side and other.queue <= MIN_QTY_QUEUE


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
    hidden_book, min_qty_book = HIDDEN_QUEUE * count + symbol, MIN_QTY_QUEUE * count + symbol
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
    """What stops wait for."""
    instrument = state.symbols[symbol]
    instrument[LAST_TICKS] = price
    instrument[HIGH_TICKS] = max(instrument[HIGH_TICKS], price)
    instrument[LOW_TICKS] = price if instrument[LOW_TICKS] == 0 else min(instrument[LOW_TICKS], price)


@inner
def fill_resting(state: State, row: Any, events: Any, count: int, slot: int, price: int, qty: int, flags: int) -> int:
    """The fill of an order in a queue; its lots are off, but it is still there, even if nothing is left."""
    order = state.orders[slot]
    leaves = total_open_lots(state, slot) - qty
    count = tell(
        state,
        row,
        events,
        count,
        slot,
        FILL,
        0,
        price,
        qty,
        leaves,
        0,
        flags | hidden_flag(state, slot),
        state.counter[MATCH_ID],
    )
    order.open_lots -= qty
    state.levels[order.level].qty_lots -= qty
    count_open(state, slot, -qty, 0)
    if order.special:
        state.extras[slot].min_lots = min(state.extras[slot].min_lots, leaves)
    return count


@inner
def replenish_or_remove(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """Takes out an order of which nothing is displayed any more, or brings the next part of an iceberg."""
    order = state.orders[slot]
    if order.open_lots > 0:
        return count
    if not order.special or state.extras[slot].reserve_lots == 0:
        remove_from_everywhere(state, slot)
        return count
    extra = state.extras[slot]
    part = min(extra.display_lots, extra.reserve_lots)
    extra.reserve_lots -= part
    order.open_lots = part
    state.levels[order.level].qty_lots += part
    requeue(state, slot, int64(order.queue), order.price_ticks)
    leaves = part + extra.reserve_lots
    return tell(
        state,
        row,
        events,
        count,
        slot,
        RESTED,
        0,
        order_limit(state, slot),
        part,
        leaves,
        0,
        hidden_flag(state, slot),
        0,
    )


@inner
def trade(state: State, row: Any, events: Any, count: int, slot: int, qty: int) -> int:
    """The active order trades with a resting one. At most seven events."""
    active, order = state.active_order, state.orders[slot]
    symbol, side, price = active[SYMBOL], active[SIDE], order.price_ticks
    maker, taker = int64(order.participant), active[PARTICIPANT]
    state.counter[MATCH_ID] += 1
    active[LEAVES_LOTS] -= qty
    count = fill_resting(state, row, events, count, slot, price, qty, MAKER)
    count = int64(emit(
        state, row, events, count, FILL, taker, symbol, side, active[ORDER_ID], 0, active[COMMAND_ID], price, qty,
        active[LEAVES_LOTS], 0, 0, state.counter[MATCH_ID],
    ))  # fmt: skip
    if side == BID:
        settle_trade(state, symbol, taker, maker, price, qty, TAKER_FEE, MAKER_FEE)
    else:
        settle_trade(state, symbol, maker, taker, price, qty, MAKER_FEE, TAKER_FEE)
    record_trade_price(state, symbol, price)
    link = unlink_pair(state, slot)
    count = replenish_or_remove(state, row, events, count, slot)
    if link != 0:
        count = cancel_linked(state, row, events, count, maker, link)
    if active[LINK] != 0:
        link, active[LINK] = active[LINK], 0
        count = cancel_linked(state, row, events, count, taker, link)
    return count


@inner
def _prevent_self_trade(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """An incoming order has met one of its own participant. At most six events."""
    active, mode = state.active_order, state.active_order[SELF_TRADE]
    if mode != NEWEST and mode != DECREMENT:
        count = cancel(state, row, events, count, slot, 0, R_SELF_TRADE)
    if mode == NEWEST or mode == BOTH:
        active[CANCEL_REASON] = R_SELF_TRADE if active[CANCEL_REASON] == 0 else active[CANCEL_REASON]
    if mode != DECREMENT:
        return count
    resting = total_open_lots(state, slot)
    qty = min(resting, active[LEAVES_LOTS])
    if resting == qty:
        count = cancel(state, row, events, count, slot, 0, R_SELF_TRADE)
    else:
        count = reduce_resting(state, row, events, count, slot, qty, 0, R_SELF_TRADE)
    if active[CANCEL_REASON] != 0:  # the two were linked
        return count
    if active[LEAVES_LOTS] == qty:
        active[CANCEL_REASON] = R_SELF_TRADE if active[CANCEL_REASON] == 0 else active[CANCEL_REASON]
        return count
    active[LEAVES_LOTS] -= qty
    active[TOTAL] -= qty
    return int64(emit(
        state, row, events, count, REDUCED, active[PARTICIPANT], active[SYMBOL], active[SIDE], active[ORDER_ID], 0,
        active[COMMAND_ID], active[PRICE], qty, active[LEAVES_LOTS], R_SELF_TRADE, HIDDEN, 0,
    ))  # fmt: skip


# -- pro-rata ---------------------------------------------------------------------------------------------------------


@inner
def _begin_round(state: State, level: Any) -> None:
    """Every order that is in a displayed level now gets its share of the active order; what that leaves goes to the oldest."""
    active = state.active_order
    lots = min(active[LEAVES_LOTS], level.qty_lots)
    rest, slot = lots, int64(level.first)
    while slot >= 0:
        rest -= lots * state.orders[slot].open_lots // level.qty_lots
        slot = int64(state.orders[slot].next)
    active[SHARE_OF], active[SHARED], active[SHARE_REST] = lots, level.qty_lots, rest
    active[SHARE_AT], active[SHARE_AFTER] = level.price_ticks, 0
    active[SHARE_LAST] = state.orders[level.last].order_number


@inner
def _next_share(state: State, slot: int) -> tuple[int, int]:
    """(slot, lots) of the next order of a displayed level that gets something of the active order; a new round begins behind the last."""
    active, level = state.active_order, state.levels[state.orders[slot].level]
    if active[SHARE_AT] != level.price_ticks:
        active[SHARE_OF] = 0
    while True:
        if active[SHARE_OF] == 0:
            _begin_round(state, level)
        slot = int64(level.first)
        while slot >= 0:
            order = state.orders[slot]
            if active[SHARE_AFTER] < order.order_number <= active[SHARE_LAST]:
                share = active[SHARE_OF] * order.open_lots // active[SHARED]
                more = min(active[SHARE_REST], order.open_lots - share)
                if share + more > 0:
                    active[SHARE_REST] -= more
                    active[SHARE_AFTER] = order.order_number
                    return slot, share + more
            slot = int64(order.next)
        active[SHARE_OF] = 0


@inner
def meet_counterparty(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """What happens between the active order and the one that it meets. At most seven events."""
    active = state.active_order
    symbol = active[SYMBOL]
    qty = min(active[LEAVES_LOTS], state.orders[slot].open_lots)
    if state.symbols[symbol, MATCHING] != 0 and state.orders[slot].queue == DISPLAYED_QUEUE:
        slot, qty = _next_share(state, slot)
    schedule_triggers(state, symbol)
    if active[SELF_TRADE] != 0 and state.orders[slot].participant == active[PARTICIPANT]:
        active[SHARE_OF] = 0
        return _prevent_self_trade(state, row, events, count, slot)
    if is_not_reducing(state, slot):
        active[SHARE_OF] = 0
        return cancel(state, row, events, count, slot, 0, R_NOT_REDUCING)
    after = trade(state, row, events, count, slot, qty)
    if active[SHARE_OF] != 0 and _has_displayed_cancel(
        events, count, after, events[count].side, events[count].price_ticks
    ):
        active[SHARE_OF] = 0
    return after


@inner
def _has_displayed_cancel(events: Any, first: int, stop: int, side: int, price: int) -> bool:
    """Whether one of these events is a cancel at a displayed price: shares are computed again."""
    found, symbol = False, events[first].symbol
    for index in range(first, stop):
        event = events[index]
        if event.kind == CANCELLED and event.flags == RESTING and event.symbol == symbol:
            found = found or (event.side == side and event.price_ticks == price)
    return found


@inner
def is_active_order_not_reducing(state: State) -> bool:
    """The same of the active order."""
    active = state.active_order
    if active[FLAGS] & REDUCE_ONLY == 0:
        return False
    return active[LEAVES_LOTS] > reducing_lots(state, active[PARTICIPANT], active[SYMBOL], active[SIDE])
