"""Prices of orders that say none: without a limit, within the collar of an account, of a peg."""

from serl.exchange.compiling import inner
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.state import ASK, BID, State


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
def peg_price(state: State, symbol: int, side: int, peg: int, offset: int, limit: int) -> int:
    """Where a pegged order should stand, 0 = nowhere: docs/orders.md, Pegs."""
    bid, ask = state.best[symbol, BID], state.best[symbol, ASK]
    if peg == k.PRIMARY:
        price = bid if side == BID else ask
        if price == 0:
            return 0
    else:
        if bid == 0 or ask == 0:
            return 0
        price = (bid + ask) >> 1 if side == BID else (bid + ask + 1) >> 1
    price += -offset if side == BID else offset
    if limit != 0:
        price = min(price, limit) if side == BID else max(price, limit)
    return max(1, min(state.counters.price_ticks_max, price))
