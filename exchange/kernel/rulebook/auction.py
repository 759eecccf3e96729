"""Auctions: the price at which most trades, the trades at it, and what does not outlive it; docs/orders.md, Phases and auctions."""

from serl.exchange.compiling import compiled, inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.accounting import settle_trade
from serl.exchange.kernel.levels import better_price, find_level, next_price
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import ROOM, cancel_unplaced
from serl.exchange.kernel.rulebook.capacity import has_far_room, is_full_for_move
from serl.exchange.kernel.rulebook.matching import (
    fill_resting,
    first_slot,
    is_better,
    record_trade_price,
    replenish_or_remove,
)
from serl.exchange.kernel.rulebook.order_events import (
    begin_order_event,
    cancel,
    cancel_linked,
    hidden_flag,
    is_linked,
    partner_to_update,
    unlink_pair,
    update_partner,
)
from serl.exchange.kernel.rulebook.orders import requeue, schedule_triggers
from serl.exchange.kernel.rulebook.pricing import worst_price
from serl.exchange.kernel.rulebook.reducing import is_not_reducing
from serl.exchange.kernel.rulebook.reserves import order_limit, total_open_lots
from serl.exchange.kernel.state import ASK, BID, CLOSERS, State
from serl.exchange.records import Rows


@inner
def is_collecting(phase: int) -> bool:
    """Whether orders are collected for an auction."""
    return k.FIRST_COLLECTING <= phase <= k.LAST_COLLECTING


@inner
def _best_price(state: State, symbol: int, side: int) -> int:
    """The best price of a side, displayed or hidden; 0 = none."""
    displayed, hidden = state.best[symbol, side], state.best[k.HIDDEN_QUEUE * state.halted.size + symbol, side]
    return hidden if is_better(side, hidden, displayed) else displayed


@inner
def _worse_price(state: State, symbol: int, side: int, price: int) -> int:
    """The next worse price of a side, displayed or hidden; 0 = none."""
    displayed = next_price(state, symbol, side, price)
    hidden = next_price(state, k.HIDDEN_QUEUE * state.halted.size + symbol, side, price)
    return hidden if is_better(side, hidden, displayed) else displayed


@inner
def _better_price(state: State, symbol: int, side: int, price: int) -> int:
    """The next better price of a side, displayed or hidden; 0 = none."""
    displayed = better_price(state, symbol, side, price)
    hidden = better_price(state, k.HIDDEN_QUEUE * state.halted.size + symbol, side, price)
    return displayed if hidden == 0 or (displayed != 0 and is_better(side, hidden, displayed)) else hidden


@inner
def _lots_at(state: State, symbol: int, side: int, price: int) -> tuple[int, bool]:
    """(lots at a price of a side, reserves included; whether an order with that limit is among them)."""
    lots, limited = 0, False
    for queue in range(2):
        book = queue * k.HIDDEN_QUEUE * state.halted.size + symbol
        if _has_level(state, book, side, price):
            slot = first_slot(state, book, side, price)
            while slot >= 0:
                lots += total_open_lots(state, slot)
                limited = limited or state.orders[slot].flags & k.MARKET == 0
                slot = int64(state.orders[slot].next)
    return lots, limited


@inner
def _has_level(state: State, book: int, side: int, price: int) -> bool:
    return find_level(state, book, side, price) >= 0


@inner
def _volume(state: State, symbol: int) -> tuple[int, int, int]:
    """(most lots that can trade, lowest and highest price at which they do): the best bids against the best asks, while they cross."""
    bid, ask = _best_price(state, symbol, BID), _best_price(state, symbol, ASK)
    demand = supply = volume = low = high = 0
    while bid != 0 and ask != 0 and bid >= ask:
        if demand == 0:
            demand = _lots_at(state, symbol, BID, bid)[0]
        if supply == 0:
            supply = _lots_at(state, symbol, ASK, ask)[0]
        lots = min(demand, supply)
        volume, low, high = volume + lots, ask, bid
        demand -= lots
        supply -= lots
        if demand == 0:
            bid = _worse_price(state, symbol, BID, bid)
        if supply == 0:
            ask = _worse_price(state, symbol, ASK, ask)
    return volume, low, high


@inner
def _next_candidate(state: State, symbol: int, price: int) -> int:
    """The next higher price at which demand, supply or the reference is; 0 = none."""
    ask, bid, reference = (
        _worse_price(state, symbol, ASK, price), _better_price(state, symbol, BID, price), state.symbols[symbol].last_ticks
    )  # fmt: skip
    found = ask if bid == 0 or (ask != 0 and ask < bid) else bid
    return reference if reference > price and (found == 0 or reference < found) else found


@inner
def _scan(state: State, symbol: int, low: int, high: int, target: int, wanted: int) -> tuple[int, int, int]:
    """Candidates from `low` to `high`: with target 0, (smallest |imbalance|, lowest and highest price that has it); else (imbalance,
    price, 0) of the one nearest to the target among those with |imbalance| = wanted. Prices 0: there is none."""
    demand = supply = 0
    price = _best_price(state, symbol, BID)
    while price != 0 and price >= low:
        demand += _lots_at(state, symbol, BID, price)[0]
        price = _worse_price(state, symbol, BID, price)
    least, first, last = -1, 0, 0
    price = _best_price(state, symbol, ASK)
    while price != 0 and price < low:
        supply += _lots_at(state, symbol, ASK, price)[0]
        price = _worse_price(state, symbol, ASK, price)
    price = low
    while price != 0 and price <= high:
        offered, is_ask = _lots_at(state, symbol, ASK, price)
        bids, is_bid = _lots_at(state, symbol, BID, price)
        supply += offered
        size = abs(demand - supply)
        if is_ask or is_bid or price == state.symbols[symbol].last_ticks:
            if target == 0:
                if least < 0 or size < least:
                    least, first = size, price
                if size == least:
                    last = price
            elif size == wanted and (first == 0 or abs(price - target) < abs(first - target)):
                least, first = demand - supply, price
        demand -= bids
        price = _next_candidate(state, symbol, price)
    return least, first, last


@compiled
def indicative(state: State, symbol: int) -> tuple[int, int, int]:
    """(price, volume, imbalance) of an auction that were held now; zeros if there is none. O(orders that cross)."""
    volume, low, high = _volume(state, symbol)
    if volume == 0:
        return 0, 0, 0
    size, first, last = _scan(state, symbol, low, high, 0, 0)
    if first == 0:
        return 0, 0, 0
    reference = state.symbols[symbol].last_ticks
    target = reference if reference != 0 else (first + last) >> 1
    imbalance, price, _ = _scan(state, symbol, low, high, target, size)
    return price, volume, imbalance


@inner
def _first_market_order(state: State, symbol: int, side: int, before: int, number: int) -> tuple[int, int, int]:
    """(the first market order of a side, which goes before all others, -1 if there is none; the order in front of it, -1 if there is none;
    the number of that). `before` and `number` of the last call: the orders up to there are not passed again."""
    book, price = k.HIDDEN_QUEUE * state.halted.size + symbol, worst_price(state, side)
    if state.best[book, side] != price:
        return -1, -1, 0
    if before >= 0 and state.orders[before].open_lots > 0 and state.orders[before].order_number == number:
        slot = int64(state.orders[before].next)
    else:
        slot, before, number = first_slot(state, book, side, price), -1, 0
    while slot >= 0 and state.orders[slot].flags & k.MARKET == 0:
        before, number = slot, state.orders[slot].order_number
        slot = int64(state.orders[slot].next)
    return slot, before, number


@inner
def _first_order(state: State, symbol: int, side: int, price: int, before: int, number: int) -> tuple[int, int, int]:
    """(the first order of a side whose limit allows `price`, -1 if there is none; `before` and `number` as in `_first_market_order`)."""
    best = _best_price(state, symbol, side)
    if best == 0 or is_better(side, price, best):
        return -1, before, number
    market, before, number = _first_market_order(state, symbol, side, before, number)
    if market >= 0:
        return market, before, number
    book = symbol if best == state.best[symbol, side] else k.HIDDEN_QUEUE * state.halted.size + symbol
    return first_slot(state, book, side, best), before, number


@inner
def _leave_linked(state: State, command: CommandRow, events: Rows, count: int, sell: int, buy: int, qty: int) -> int:
    """`replenish_or_remove` for two orders that have traded, one of them of a linked pair: the other of that is reduced or cancelled."""
    one, other = state.orders[sell], state.orders[buy]
    seller, buyer = int64(one.participant), int64(other.participant)
    sell_partner = buy_partner = -1
    if not (seller == buyer and one.special and state.extras[sell].link == other.order_id):
        sell_partner, buy_partner = partner_to_update(state, sell, qty), partner_to_update(state, buy, qty)
    sell_link = unlink_pair(state, sell) if sell_partner < 0 else 0
    if sell_link == other.order_id and seller == buyer:
        unlink_pair(state, buy)
    buy_link = unlink_pair(state, buy) if buy_partner < 0 else 0
    count = replenish_or_remove(state, command, events, count, sell)
    count = replenish_or_remove(state, command, events, count, buy)
    if sell_partner >= 0:
        count = update_partner(state, command, events, count, sell_partner, qty)
    elif sell_link != 0:
        count = cancel_linked(state, command, events, count, seller, sell_link)
    if buy_partner >= 0:
        count = update_partner(state, command, events, count, buy_partner, qty)
    elif buy_link != 0:
        count = cancel_linked(state, command, events, count, buyer, buy_link)
    return count


@inner
def _trade_pair(state: State, command: CommandRow, events: Rows, count: int, sell: int, buy: int, price: int) -> int:
    """Two orders trade. At most eight events."""
    one, other = state.orders[sell], state.orders[buy]
    seller, buyer, symbol = int64(one.participant), int64(other.participant), int64(one.symbol)
    qty = min(one.open_lots, other.open_lots)
    state.counters.match_id += 1
    state.counters.auction_lots += qty
    count = fill_resting(state, command, events, count, sell, price, qty, k.MAKER | k.AUCTION)
    count = fill_resting(state, command, events, count, buy, price, qty, k.AUCTION)
    settle_trade(state, symbol, buyer, seller, price, qty, k.AUCTION_FEES, k.AUCTION_FEES)
    record_trade_price(state, symbol, price)
    if is_linked(state, sell) or is_linked(state, buy):
        return _leave_linked(state, command, events, count, sell, buy, qty)
    count = replenish_or_remove(state, command, events, count, sell)
    return replenish_or_remove(state, command, events, count, buy)


@inner
def uncross(state: State, command: CommandRow, events: Rows, count: int, symbol: int) -> tuple[int, int]:
    """Holds an auction, and again where what was cancelled in it left the book crossed: (new count, DONE, EVENTS_FULL or GROW).

    The trades of the first go at AUCTION_FIRST_TICKS; the lots of all are in AUCTION_LOTS.
    """
    counters = state.counters
    sell_before = buy_before = -1
    sell_number = buy_number = 0
    schedule_triggers(state, symbol)
    while True:
        if counters.auction_ticks == 0:
            price, volume, _ = indicative(state, symbol)
            if volume == 0:
                return count, k.DONE
            counters.auction_ticks = price
            if counters.auction_first_ticks == 0:
                counters.auction_first_ticks = price
        price = counters.auction_ticks
        sell, sell_before, sell_number = _first_order(state, symbol, ASK, price, sell_before, sell_number)
        buy, buy_before, buy_number = _first_order(state, symbol, BID, price, buy_before, buy_number)
        if count + ROOM > events.size:
            return count, k.EVENTS_FULL
        if not has_far_room(state, symbol):
            return count, k.GROW
        if sell < 0 or buy < 0:
            counters.auction_ticks = 0
        elif is_not_reducing(state, sell) or is_not_reducing(state, buy):
            if is_not_reducing(state, sell):
                count = cancel(state, command, events, count, sell, 0, k.REASON_NOT_REDUCING)
            else:
                count = cancel(state, command, events, count, buy, 0, k.REASON_NOT_REDUCING)
        else:
            count = _trade_pair(state, command, events, count, sell, buy, price)


@inner
def activate_closing_orders(
    state: State, command: CommandRow, events: Rows, count: int, symbol: int
) -> tuple[int, int]:
    """AT_CLOSE orders come into the auction: (new count, DONE, EVENTS_FULL or GROW)."""
    while state.roots[symbol, CLOSERS] >= 0:
        if count + ROOM > events.size:
            return count, k.EVENTS_FULL
        if not has_far_room(state, symbol):
            return count, k.GROW
        slot = int64(state.roots[symbol, CLOSERS])
        queue = k.HIDDEN_QUEUE if state.orders[slot].flags & k.MARKET else k.DISPLAYED_QUEUE
        if is_full_for_move(state, slot, queue):
            count = cancel_unplaced(state, command, events, count, slot, k.REASON_NO_ROOM)
        else:
            requeue(state, slot, queue, state.orders[slot].price_ticks)
            lots = state.orders[slot].open_lots
            event = begin_order_event(state, command, events, count, k.RESTED, slot)
            event.price_ticks = order_limit(state, slot)
            event.qty_lots = lots
            event.leaves_lots = lots
            event.flags = hidden_flag(state, slot)
            count += 1
    schedule_triggers(state, symbol)
    return count, k.DONE


@inner
def auction_cancel_reason(state: State, slot: int, phase: int) -> int:
    """Why an order does not outlive the auction of a phase, 0 if it does."""
    order = state.orders[slot]
    if order.flags & k.MARKET:
        return k.REASON_MARKET_REMAINDER
    if order.time_in_force == k.AT_OPEN or (order.time_in_force == k.AT_CLOSE and phase == k.CLOSING):
        return k.REASON_AUCTION_REMAINDER
    return 0
