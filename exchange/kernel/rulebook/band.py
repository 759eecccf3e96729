"""The band of a symbol: which prices it lets trade, and how incoming orders pass over what stands outside."""

from serl.exchange.compiling import inner
from serl.exchange.kernel.levels import next_price
from serl.exchange.kernel.state import BID, State


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
