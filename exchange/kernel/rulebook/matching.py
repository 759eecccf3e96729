"""Whom an incoming order meets, and what happens then: trades, icebergs, self-trade prevention, shares by pro-rata."""

from typing import Any

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import order_index
from serl.exchange.kernel.accounting import settle_trade
from serl.exchange.kernel.book import crosses, emit
from serl.exchange.kernel.constants import (
    BOTH,
    CANCELLED,
    CONDITIONAL,
    DECREMENT,
    FILL,
    HIDDEN,
    HIDDEN_QUEUE,
    MAKER,
    NEWEST,
    OLDEST,
    R_NOT_REDUCING,
    R_SELF_TRADE,
    REDUCE_ONLY,
    REDUCED,
    RESTED,
    RESTING,
    SEEN,
)
from serl.exchange.kernel.levels import find_level, next_price
from serl.exchange.kernel.rulebook.band import first_price, in_band, reach
from serl.exchange.kernel.rulebook.order_events import cancel, cancel_linked, take_off, tell, unlink_pair, veil
from serl.exchange.kernel.rulebook.orders import count_open, drop, limit_of, mark, move, open_of
from serl.exchange.kernel.state import (
    BID,
    COMMAND_ID,
    CUT,
    FLAGS,
    LEFT,
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
def better(side: Any, one: Any, other: Any) -> Any:
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
def not_reducing(state: State, slot: int) -> bool:
    """Whether an order that may only reduce a position would do more."""
    order = state.orders[slot]
    if order.flags & REDUCE_ONLY == 0:
        return False
    return open_of(state, slot) > reducing_lots(state, int64(order.participant), int64(order.symbol), int64(order.side))


@inner
def _conditional(state: State, symbol: int, side: int, limit: int, left: int, before: int) -> int:
    """The first order of CONDITIONAL that `left` lots are enough for, at a price better than `before` (0 = any); -1 if none."""
    book, other = CONDITIONAL * state.halted.size + symbol, 1 - side
    price = first_price(state, symbol, book, other)
    while crosses(side, limit, price) and better(other, price, before):
        slot = first_slot(state, book, other, price)
        while slot >= 0:
            order = state.orders[slot]
            if min(state.extras[slot].min_lots, order.open_lots) <= left:
                return slot
            slot = int64(order.next)
        price = next_price(state, book, other, price)
    return -1


@inner
def counterparty(state: State, symbol: int, side: int, limit: int, left: int) -> int:
    """The slot of the order that an incoming one meets next, -1 if there is none. O(conditional orders that are passed over).

    Outside a band of action 1 it is the one that interrupts trading.
    """
    other, hidden_book = 1 - side, HIDDEN_QUEUE * state.halted.size + symbol
    limit = reach(state, symbol, side, limit)
    seen, hidden = first_price(state, symbol, symbol, other), first_price(state, symbol, hidden_book, other)
    price = hidden if better(other, hidden, seen) else seen
    if not crosses(side, limit, price):
        price = 0
    found = _conditional(state, symbol, side, limit, left, price)
    if found >= 0 or price == 0:
        return found
    return first_slot(state, symbol if price == seen else hidden_book, other, price)


@inner
def _count_level(
    state: State, book: int, side: int, price: int, left: int, participant: int, mode: int, link: int
) -> tuple[int, bool]:
    """(what is left of `left` lots after trading with a level, whether the count ends there)."""
    slot = first_slot(state, book, side, price)
    reserve, conditional = 0, book // state.halted.size == CONDITIONAL
    ends = mode != 0 and mode != OLDEST
    if ends and book < state.halted.size and state.symbols[book, MATCHING] != 0 and _has_own(state, slot, participant):
        return left, True
    while slot >= 0 and left > 0:
        order = state.orders[slot]
        own = mode != 0 and order.participant == participant
        partner = link != 0 and order.participant == participant and order.order_id == link
        enough = not conditional or min(state.extras[slot].min_lots, order.open_lots) <= left
        if enough and (partner or (own and ends) or order.flags & REDUCE_ONLY or _has_partner_here(state, slot)):
            return left, True
        if enough and not own:
            left -= min(left, order.open_lots)
            reserve += open_of(state, slot) - order.open_lots
        slot = int64(order.next)
    return left - min(left, reserve), False


@inner
def _has_partner_here(state: State, slot: int) -> bool:
    """Whether the linked order, which goes when this one trades, is one that could trade as well."""
    order = state.orders[slot]
    if not order.special or state.extras[slot].link == 0:
        return False
    other = state.orders[order_index.find(state, int64(order.participant), state.extras[slot].link)]
    return other.symbol == order.symbol and other.side == order.side and other.queue <= CONDITIONAL


@inner
def _has_own(state: State, slot: int, participant: int) -> bool:
    """Whether the participant has an order in a level that begins with `slot`."""
    while slot >= 0 and state.orders[slot].participant != participant:
        slot = int64(state.orders[slot].next)
    return slot >= 0


@inner
def obtainable(
    state: State, symbol: int, side: int, limit: int, wanted: int, participant: int, mode: int, link: int
) -> int:
    """How many of `wanted` lots an incoming order could trade at once. O(orders it would meet)."""
    count, other, left = state.halted.size, 1 - side, wanted
    hidden_book, conditional_book = HIDDEN_QUEUE * count + symbol, CONDITIONAL * count + symbol
    limit = reach(state, symbol, side, limit)
    seen, hidden, conditional = (
        first_price(state, symbol, symbol, other),
        first_price(state, symbol, hidden_book, other),
        first_price(state, symbol, conditional_book, other),
    )
    done = False
    while left > 0 and not done:
        price = hidden if better(other, hidden, seen) else seen
        if not crosses(side, limit, price):
            price = 0
        if better(other, conditional, price) and crosses(side, limit, conditional):
            if not in_band(state, symbol, conditional):
                break
            left, done = _count_level(state, conditional_book, other, conditional, left, participant, mode, link)
            conditional = next_price(state, conditional_book, other, conditional)
        elif price == 0 or not in_band(state, symbol, price):
            break
        elif price == seen:
            left, done = _count_level(state, symbol, other, seen, left, participant, mode, link)
            seen = next_price(state, symbol, other, seen)
        else:
            left, done = _count_level(state, hidden_book, other, hidden, left, participant, mode, link)
            hidden = next_price(state, hidden_book, other, hidden)
    return wanted - left


# -- trades -----------------------------------------------------------------------------------------------------------


@inner
def note_trade(state: State, symbol: int, price: int) -> None:
    """What stops wait for."""
    known = state.symbols[symbol]
    known[LAST_TICKS] = price
    known[HIGH_TICKS] = max(known[HIGH_TICKS], price)
    known[LOW_TICKS] = price if known[LOW_TICKS] == 0 else min(known[LOW_TICKS], price)


@inner
def fill_resting(state: State, row: Any, events: Any, count: int, slot: int, price: int, qty: int, flags: int) -> int:
    """The fill of an order in a queue; its lots are off, but it is still there, even if nothing is left."""
    order = state.orders[slot]
    leaves = open_of(state, slot) - qty
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
        flags | veil(state, slot),
        state.counter[MATCH_ID],
    )
    order.open_lots -= qty
    state.levels[order.level].qty_lots -= qty
    count_open(state, slot, -qty, 0)
    if order.special:
        state.extras[slot].min_lots = min(state.extras[slot].min_lots, leaves)
    return count


@inner
def after_fill(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """Takes out an order of which nothing is displayed any more, or brings the next part of an iceberg."""
    order = state.orders[slot]
    if order.open_lots > 0:
        return count
    if not order.special or state.extras[slot].reserve_lots == 0:
        drop(state, slot)
        return count
    extra = state.extras[slot]
    part = min(extra.display_lots, extra.reserve_lots)
    extra.reserve_lots -= part
    order.open_lots = part
    state.levels[order.level].qty_lots += part
    move(state, slot, int64(order.queue), order.price_ticks)
    leaves = part + extra.reserve_lots
    return tell(
        state, row, events, count, slot, RESTED, 0, limit_of(state, slot), part, leaves, 0, veil(state, slot), 0
    )


@inner
def trade(state: State, row: Any, events: Any, count: int, slot: int, qty: int) -> int:
    """The incoming order trades with a resting one. At most seven events."""
    incoming, order = state.incoming, state.orders[slot]
    symbol, side, price = incoming[SYMBOL], incoming[SIDE], order.price_ticks
    maker, taker = int64(order.participant), incoming[PARTICIPANT]
    state.counter[MATCH_ID] += 1
    incoming[LEFT] -= qty
    count = fill_resting(state, row, events, count, slot, price, qty, MAKER)
    count = int64(emit(
        state, row, events, count, FILL, taker, symbol, side, incoming[ORDER_ID], 0, incoming[COMMAND_ID], price, qty,
        incoming[LEFT], 0, 0, state.counter[MATCH_ID],
    ))  # fmt: skip
    if side == BID:
        settle_trade(state, symbol, taker, maker, price, qty, TAKER_FEE, MAKER_FEE)
    else:
        settle_trade(state, symbol, maker, taker, price, qty, MAKER_FEE, TAKER_FEE)
    note_trade(state, symbol, price)
    link = unlink_pair(state, slot)
    count = after_fill(state, row, events, count, slot)
    if link != 0:
        count = cancel_linked(state, row, events, count, maker, link)
    if incoming[LINK] != 0:
        link, incoming[LINK] = incoming[LINK], 0
        count = cancel_linked(state, row, events, count, taker, link)
    return count


@inner
def _prevent(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """An incoming order has met one of its own participant. At most six events."""
    incoming, mode = state.incoming, state.incoming[SELF_TRADE]
    if mode != NEWEST and mode != DECREMENT:
        count = cancel(state, row, events, count, slot, 0, R_SELF_TRADE)
    if mode == NEWEST or mode == BOTH:
        incoming[CUT] = R_SELF_TRADE if incoming[CUT] == 0 else incoming[CUT]
    if mode != DECREMENT:
        return count
    resting = open_of(state, slot)
    qty = min(resting, incoming[LEFT])
    if resting == qty:
        count = cancel(state, row, events, count, slot, 0, R_SELF_TRADE)
    else:
        count = take_off(state, row, events, count, slot, qty, 0, R_SELF_TRADE)
    if incoming[CUT] != 0:  # the two were linked
        return count
    if incoming[LEFT] == qty:
        incoming[CUT] = R_SELF_TRADE if incoming[CUT] == 0 else incoming[CUT]
        return count
    incoming[LEFT] -= qty
    incoming[TOTAL] -= qty
    return int64(emit(
        state, row, events, count, REDUCED, incoming[PARTICIPANT], incoming[SYMBOL], incoming[SIDE], incoming[ORDER_ID], 0,
        incoming[COMMAND_ID], incoming[PRICE], qty, incoming[LEFT], R_SELF_TRADE, HIDDEN, 0,
    ))  # fmt: skip


# -- pro-rata ---------------------------------------------------------------------------------------------------------


@inner
def _begin_round(state: State, level: Any) -> None:
    """Every order that is in a displayed level now gets its share of the incoming one; what that leaves goes to the oldest."""
    incoming = state.incoming
    lots = min(incoming[LEFT], level.qty_lots)
    rest, slot = lots, int64(level.first)
    while slot >= 0:
        rest -= lots * state.orders[slot].open_lots // level.qty_lots
        slot = int64(state.orders[slot].next)
    incoming[SHARE_OF], incoming[SHARED], incoming[SHARE_REST] = lots, level.qty_lots, rest
    incoming[SHARE_AT], incoming[SHARE_AFTER] = level.price_ticks, 0
    incoming[SHARE_LAST] = state.orders[level.last].order_number


@inner
def _next_share(state: State, slot: int) -> tuple[int, int]:
    """(slot, lots) of the next order of a displayed level that gets something of the incoming one; a new round begins behind the last."""
    incoming, level = state.incoming, state.levels[state.orders[slot].level]
    if incoming[SHARE_AT] != level.price_ticks:
        incoming[SHARE_OF] = 0
    while True:
        if incoming[SHARE_OF] == 0:
            _begin_round(state, level)
        slot = int64(level.first)
        while slot >= 0:
            order = state.orders[slot]
            if incoming[SHARE_AFTER] < order.order_number <= incoming[SHARE_LAST]:
                share = incoming[SHARE_OF] * order.open_lots // incoming[SHARED]
                more = min(incoming[SHARE_REST], order.open_lots - share)
                if share + more > 0:
                    incoming[SHARE_REST] -= more
                    incoming[SHARE_AFTER] = order.order_number
                    return slot, share + more
            slot = int64(order.next)
        incoming[SHARE_OF] = 0


@inner
def meet(state: State, row: Any, events: Any, count: int, slot: int) -> int:
    """What happens between the incoming order and the one that it meets. At most seven events."""
    incoming = state.incoming
    symbol = incoming[SYMBOL]
    qty = min(incoming[LEFT], state.orders[slot].open_lots)
    if state.symbols[symbol, MATCHING] != 0 and state.orders[slot].queue == SEEN:
        slot, qty = _next_share(state, slot)
    mark(state, symbol)
    if incoming[SELF_TRADE] != 0 and state.orders[slot].participant == incoming[PARTICIPANT]:
        incoming[SHARE_OF] = 0
        return _prevent(state, row, events, count, slot)
    if not_reducing(state, slot):
        incoming[SHARE_OF] = 0
        return cancel(state, row, events, count, slot, 0, R_NOT_REDUCING)
    after = trade(state, row, events, count, slot, qty)
    if incoming[SHARE_OF] != 0 and _took_out(events, count, after, events[count].side, events[count].price_ticks):
        incoming[SHARE_OF] = 0
    return after


@inner
def _took_out(events: Any, first: int, stop: int, side: int, price: int) -> bool:
    """Whether one of these events is a cancel at a displayed price: shares are computed again."""
    found, symbol = False, events[first].symbol
    for index in range(first, stop):
        event = events[index]
        if event.kind == CANCELLED and event.flags == RESTING and event.symbol == symbol:
            found = found or (event.side == side and event.price_ticks == price)
    return found


@inner
def taker_not_reducing(state: State) -> bool:
    """The same of the incoming order."""
    incoming = state.incoming
    if incoming[FLAGS] & REDUCE_ONLY == 0:
        return False
    return incoming[LEFT] > reducing_lots(state, incoming[PARTICIPANT], incoming[SYMBOL], incoming[SIDE])
