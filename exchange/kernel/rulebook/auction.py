"""Auctions: the price at which most trades, the trades at it, and what does not outlive it; docs/orders.md, Phases and auctions."""

from typing import Any

from serl.exchange.compiling import compiled, inner, int64
from serl.exchange.kernel.accounting import settle_trade
from serl.exchange.kernel.constants import (
    AT_CLOSE,
    AT_OPEN,
    AUCTION,
    CLOSING,
    DONE,
    EVENTS_FULL,
    FIRST_COLLECTING,
    GROW,
    HIDDEN_QUEUE,
    LAST_COLLECTING,
    MAKER,
    MARKET,
    R_MARKET,
    R_NO_ROOM,
    R_NOT_REDUCING,
    R_REMAINDER,
    RESTED,
    SEEN,
)
from serl.exchange.kernel.levels import better_price, find_level, next_price
from serl.exchange.kernel.rulebook.active_order import ROOM, cancel_unplaced
from serl.exchange.kernel.rulebook.capacity import far_room, no_room
from serl.exchange.kernel.rulebook.matching import (
    after_fill,
    better,
    fill_resting,
    first_slot,
    not_reducing,
    note_trade,
)
from serl.exchange.kernel.rulebook.order_events import cancel, cancel_linked, tell, unlink_pair, veil
from serl.exchange.kernel.rulebook.orders import FIRST, limit_of, mark, move, open_of, unlist
from serl.exchange.kernel.rulebook.pricing import worst
from serl.exchange.kernel.state import (
    ASK,
    AUCTION_FIRST_TICKS,
    AUCTION_LOTS,
    AUCTION_TICKS,
    BID,
    CLOSERS,
    MATCH_ID,
    State,
)  # fmt: skip
from serl.exchange.records import AUCTION_FEE, LAST_TICKS


@inner
def collects(phase: int) -> bool:
    """Whether orders are collected for an auction."""
    return FIRST_COLLECTING <= phase <= LAST_COLLECTING


@inner
def _first(state: State, symbol: int, side: int) -> int:
    """The best price of a side, displayed or hidden; 0 = none."""
    seen, hidden = state.best[symbol, side], state.best[HIDDEN_QUEUE * state.halted.size + symbol, side]
    return hidden if better(side, hidden, seen) else seen


@inner
def _worse(state: State, symbol: int, side: int, price: int) -> int:
    """The next worse price of a side, displayed or hidden; 0 = none."""
    seen = next_price(state, symbol, side, price)
    hidden = next_price(state, HIDDEN_QUEUE * state.halted.size + symbol, side, price)
    return hidden if better(side, hidden, seen) else seen


@inner
def _better(state: State, symbol: int, side: int, price: int) -> int:
    """The next better price of a side, displayed or hidden; 0 = none."""
    seen = better_price(state, symbol, side, price)
    hidden = better_price(state, HIDDEN_QUEUE * state.halted.size + symbol, side, price)
    return seen if hidden == 0 or (seen != 0 and better(side, hidden, seen)) else hidden


@inner
def _lots(state: State, symbol: int, side: int, price: int) -> tuple[int, bool]:
    """(lots at a price of a side, reserves included; whether an order with that limit is among them)."""
    lots, limited = 0, False
    for queue in range(2):
        book = queue * HIDDEN_QUEUE * state.halted.size + symbol
        if _has(state, book, side, price):
            slot = first_slot(state, book, side, price)
            while slot >= 0:
                lots += open_of(state, slot)
                limited = limited or state.orders[slot].flags & MARKET == 0
                slot = int64(state.orders[slot].next)
    return lots, limited


@inner
def _has(state: State, book: int, side: int, price: int) -> bool:
    return find_level(state, book, side, price) >= 0


@inner
def _volume(state: State, symbol: int) -> tuple[int, int, int]:
    """(most lots that can trade, lowest and highest price at which they do): the best bids against the best asks, while they cross."""
    bid, ask = _first(state, symbol, BID), _first(state, symbol, ASK)
    demand = supply = volume = low = high = 0
    while bid != 0 and ask != 0 and bid >= ask:
        if demand == 0:
            demand = _lots(state, symbol, BID, bid)[0]
        if supply == 0:
            supply = _lots(state, symbol, ASK, ask)[0]
        lots = min(demand, supply)
        volume, low, high = volume + lots, ask, bid
        demand -= lots
        supply -= lots
        if demand == 0:
            bid = _worse(state, symbol, BID, bid)
        if supply == 0:
            ask = _worse(state, symbol, ASK, ask)
    return volume, low, high


@inner
def _next_candidate(state: State, symbol: int, price: int) -> int:
    """The next higher price at which demand, supply or the reference is; 0 = none."""
    ask, bid, reference = (
        _worse(state, symbol, ASK, price), _better(state, symbol, BID, price), state.symbols[symbol, LAST_TICKS]
    )  # fmt: skip
    found = ask if bid == 0 or (ask != 0 and ask < bid) else bid
    return reference if reference > price and (found == 0 or reference < found) else found


@inner
def _scan(state: State, symbol: int, low: int, high: int, target: int, wanted: int) -> tuple[int, int, int]:
    """Candidates from `low` to `high`: with target 0, (smallest |imbalance|, lowest and highest price that has it); else (imbalance,
    price, 0) of the one nearest to the target among those with |imbalance| = wanted. Prices 0: there is none."""
    demand = supply = 0
    price = _first(state, symbol, BID)
    while price != 0 and price >= low:
        demand += _lots(state, symbol, BID, price)[0]
        price = _worse(state, symbol, BID, price)
    least, first, last = -1, 0, 0
    price = _first(state, symbol, ASK)
    while price != 0 and price < low:
        supply += _lots(state, symbol, ASK, price)[0]
        price = _worse(state, symbol, ASK, price)
    price = low
    while price != 0 and price <= high:
        offered, is_ask = _lots(state, symbol, ASK, price)
        bids, is_bid = _lots(state, symbol, BID, price)
        supply += offered
        size = abs(demand - supply)
        if is_ask or is_bid or price == state.symbols[symbol, LAST_TICKS]:
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
    reference = state.symbols[symbol, LAST_TICKS]
    target = reference if reference != 0 else (first + last) >> 1
    imbalance, price, _ = _scan(state, symbol, low, high, target, size)
    return price, volume, imbalance


@inner
def _market_order(state: State, symbol: int, side: int) -> int:
    """The first market order of a side, which goes before all others; -1 if there is none."""
    book, price = HIDDEN_QUEUE * state.halted.size + symbol, worst(state, side)
    if state.best[book, side] != price:
        return -1
    slot = first_slot(state, book, side, price)
    while slot >= 0 and state.orders[slot].flags & MARKET == 0:
        slot = int64(state.orders[slot].next)
    return slot


@inner
def _head(state: State, symbol: int, side: int, price: int) -> int:
    """The first order of a side whose limit allows `price`, -1 if there is none."""
    best = _first(state, symbol, side)
    if best == 0 or better(side, price, best):
        return -1
    market = _market_order(state, symbol, side)
    if market >= 0:
        return market
    book = symbol if best == state.best[symbol, side] else HIDDEN_QUEUE * state.halted.size + symbol
    return first_slot(state, book, side, best)


@inner
def _pair(state: State, row: Any, events: Any, count: int, sell: int, buy: int, price: int) -> int:
    """Two orders trade. At most eight events."""
    one, other = state.orders[sell], state.orders[buy]
    seller, buyer, symbol = int64(one.participant), int64(other.participant), int64(one.symbol)
    qty = min(one.open_lots, other.open_lots)
    state.counter[MATCH_ID] += 1
    state.counter[AUCTION_LOTS] += qty
    count = fill_resting(state, row, events, count, sell, price, qty, MAKER | AUCTION)
    count = fill_resting(state, row, events, count, buy, price, qty, AUCTION)
    settle_trade(state, symbol, buyer, seller, price, qty, AUCTION_FEE, AUCTION_FEE)
    note_trade(state, symbol, price)
    sell_link = unlink_pair(state, sell)
    if sell_link == other.order_id and seller == buyer:
        unlink_pair(state, buy)
    buy_link = unlink_pair(state, buy)
    count = after_fill(state, row, events, count, sell)
    count = after_fill(state, row, events, count, buy)
    if sell_link != 0:
        count = cancel_linked(state, row, events, count, seller, sell_link)
    if buy_link != 0:
        count = cancel_linked(state, row, events, count, buyer, buy_link)
    return count


@inner
def uncross(state: State, row: Any, events: Any, count: int, symbol: int) -> tuple[int, int]:
    """Holds an auction, and again where what was cancelled in it left the book crossed: (new count, DONE, EVENTS_FULL or GROW).

    The trades of the first go at AUCTION_FIRST_TICKS; the lots of all are in AUCTION_LOTS.
    """
    counter = state.counter
    mark(state, symbol)
    while True:
        if counter[AUCTION_TICKS] == 0:
            price, volume, _ = indicative(state, symbol)
            if volume == 0:
                return count, DONE
            counter[AUCTION_TICKS] = price
            if counter[AUCTION_FIRST_TICKS] == 0:
                counter[AUCTION_FIRST_TICKS] = price
        price = counter[AUCTION_TICKS]
        sell, buy = _head(state, symbol, ASK, price), _head(state, symbol, BID, price)
        if count + ROOM > events.size:
            return count, EVENTS_FULL
        if not far_room(state, symbol):
            return count, GROW
        if sell < 0 or buy < 0:
            counter[AUCTION_TICKS] = 0
        elif not_reducing(state, sell) or not_reducing(state, buy):
            if not_reducing(state, sell):
                count = cancel(state, row, events, count, sell, 0, R_NOT_REDUCING)
            else:
                count = cancel(state, row, events, count, buy, 0, R_NOT_REDUCING)
        else:
            count = _pair(state, row, events, count, sell, buy, price)


@inner
def enter_close(state: State, row: Any, events: Any, count: int, symbol: int) -> tuple[int, int]:
    """AT_CLOSE orders come into the auction: (new count, DONE, EVENTS_FULL or GROW)."""
    while state.lists[symbol, CLOSERS, FIRST] >= 0:
        if count + ROOM > events.size:
            return count, EVENTS_FULL
        if not far_room(state, symbol):
            return count, GROW
        slot = int64(state.lists[symbol, CLOSERS, FIRST])
        queue = HIDDEN_QUEUE if state.orders[slot].flags & MARKET else SEEN
        if no_room(state, slot, queue):
            count = cancel_unplaced(state, row, events, count, slot, R_NO_ROOM)
        else:
            unlist(state, slot)
            move(state, slot, queue, state.orders[slot].price_ticks)
            lots = state.orders[slot].open_lots
            count = tell(
                state, row, events, count, slot, RESTED, 0, limit_of(state, slot), lots, lots, 0, veil(state, slot), 0
            )
    mark(state, symbol)
    return count, DONE


@inner
def leftover(state: State, slot: int, phase: int) -> int:
    """Why an order does not outlive the auction of a phase, 0 if it does."""
    order = state.orders[slot]
    if order.flags & MARKET:
        return R_MARKET
    if order.time_in_force == AT_OPEN or (order.time_in_force == AT_CLOSE and phase == CLOSING):
        return R_REMAINDER
    return 0
