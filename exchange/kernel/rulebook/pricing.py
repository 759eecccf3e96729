"""Prices at which orders may trade: the band of a symbol, the collar of an account, orders without a limit, pegs."""

from serl.exchange.compiling import inner
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.state import ASK, BID, State


@inner
def in_band(state: State, symbol: int, price: int) -> bool:
    """Whether the symbol may trade at a price."""
    instrument = state.symbols[symbol]
    return price >= instrument.band_low_ticks and (
        instrument.band_high_ticks == 0 or price <= instrument.band_high_ticks
    )


@inner
def first_tradable_price(state: State, symbol: int, book: int, side: int) -> int:
    """The best price of a queue's side that a band of action 0 does not pass over, 0 if there is none."""
    instrument, price = state.symbols[symbol], state.best[book, side]
    if instrument.band_action != 0:
        return price
    if side == BID:
        edge = instrument.band_high_ticks
        return next_price(state, book, side, edge + 1) if edge != 0 and price > edge else price
    edge = instrument.band_low_ticks
    return next_price(state, book, side, edge - 1) if price != 0 and price < edge else price


@inner
def limit_within_band(state: State, symbol: int, side: int, limit: int) -> int:
    """How far an incoming order goes: to its limit, but not beyond a band of action 0."""
    instrument = state.symbols[symbol]
    if instrument.band_action != 0:
        return limit
    if side == BID:
        return limit if instrument.band_high_ticks == 0 else min(limit, instrument.band_high_ticks)
    return max(limit, instrument.band_low_ticks)


@inner
def worst_price(state: State, side: int) -> int:
    """The limit of an order without one."""
    return state.counters.price_ticks_max if side == BID else 1


@inner
def collar_limit(state: State, participant: int, symbol: int, side: int) -> int:
    """The limit that the collar of an account sets for its orders without one now; 0 = none, or no trade so far."""
    collar, last = state.accounts[participant, k.SETTING_COLLAR_TICKS], state.symbols[symbol].last_ticks
    if collar == 0 or last == 0:
        return 0
    highest = state.counters.price_ticks_max
    distance = min(collar, highest)
    return min(last + distance, highest) if side == BID else max(last - distance, 1)


@inner
def reference(side: int, peg: int, bid: int, ask: int) -> int:
    """The price that a kind of pegged orders follows, 0 = there is none."""
    if peg == k.PRIMARY:
        return bid if side == BID else ask
    if bid == 0 or ask == 0:
        return 0
    return (bid + ask) >> 1 if side == BID else (bid + ask + 1) >> 1


@inner
def peg_price(state: State, symbol: int, side: int, peg: int, offset: int, limit: int) -> int:
    """Where a pegged order should stand, 0 = nowhere: docs/orders.md, Pegs."""
    price = reference(side, peg, state.best[symbol, BID], state.best[symbol, ASK])
    if price == 0:
        return 0
    price += -offset if side == BID else offset
    price = max(1, min(state.counters.price_ticks_max, price))
    if limit != 0:  # last: the highest price may be below the limit of an order from before it was lowered
        price = min(price, limit) if side == BID else max(price, limit)
    return price
