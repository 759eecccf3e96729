"""Price bands that follow the market (docs/orders.md): when a symbol's reference price changes, and the RULE commands that move its band.

It checks every whole second and right after auctions; in between it costs nothing. It reads trades from the event log, and the
reference from the band in force, so a restarted exchange continues where it stopped.
"""

from collections.abc import Callable
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from serl.exchange.config import ExchangeConfig
from serl.exchange.journal.journal import is_trade
from serl.exchange.kernel.state import NEVER
from serl.exchange.records import BAND_HIGH, BAND_LOW, LAST_TICKS, PHASE, EventFlag, EventKind, Phase, Rows
from serl.exchange.reference_price import (
    HOLD_NS,
    SECOND_NS,
    WINDOW_S,
    TradeWindow,
    band_around,
    band_midpoint,
    is_replaced,
)
from serl.exchange.settings import band_rows
from serl.exchange.venue import Venue

CONTINUOUS = int(Phase.CONTINUOUS)


class Bands:
    """The bands of the symbols with a band_ppm. `now_ns` returns the time, `next_arrival_ns` the arrival time of the next waiting command."""

    def __init__(
        self, venue: Venue, config: ExchangeConfig, now_ns: Callable[[], int], next_arrival_ns: Callable[[], int]
    ) -> None:
        self._venue, self._now_ns, self._next_arrival_ns = venue, now_ns, next_arrival_ns
        self._ppm = [symbol.band_ppm or 0 for symbol in config.symbols]
        self._price_ticks_max = config.limits.price_ticks_max
        self._follows = np.array(self._ppm) > 0
        self._is_used = any(self._ppm)
        self._window = TradeWindow(len(self._ppm))
        self._auction_prices = self._zeros()  # prices of auctions that have not moved a band yet
        self._since_ns = self._zeros()  # when each reference was set
        self._idle = False  # no trades in the window: nothing to check

    def _zeros(self) -> NDArray[np.int64]:
        return np.zeros(len(self._ppm), np.int64)

    def start(self, time_ns: int) -> None:
        """Starts with the last five minutes of trades. An auction with no trade after it gives a symbol's reference, even if the exchange was
        killed before the auction moved the band: `auction_rows` are due at once."""
        self._since_ns[:] = time_ns
        self._check_ns = _second_after(time_ns)
        if self._is_used:
            self._events = self._venue.read_events()
            recent = takewhile(
                lambda rows: rows[-1]["time_ns"] >= self._venue.time_ns - WINDOW_S * SECOND_NS, self._events.newest()
            )
            for rows in reversed(list(recent)):
                self._read_rows(rows)
            self._auction_prices[self._window.has_trades()] = 0
        self._last_marks, self._last_sequence = self._auction_marks(), self._venue.event_sequence

    def set_back(self, time_ns: int) -> None:
        """Follows a clock that goes back to a time: the seconds after it are checked again."""
        self._check_ns = _second_after(time_ns)

    @property
    def next_ns(self) -> int:
        """When to check next."""
        if not self._is_used:
            return NEVER
        if self._idle and self._venue.event_sequence != self._last_sequence:
            self._idle, self._check_ns = False, _second_after(self._venue.time_ns)
        if not np.array_equal(self._auction_marks(), self._last_marks):
            return self._venue.time_ns
        return _second_after(self._next_arrival_ns()) if self._idle else self._check_ns

    def _auction_marks(self) -> NDArray[np.int64]:
        """A number per symbol that changes with every auction that changes the phase or the last price, and is -1 throughout continuous
        trading. int64 (symbols,)."""
        symbols = self._venue.market.state.symbols
        phases = symbols[:, PHASE]
        return np.where(phases == CONTINUOUS, -1, symbols[:, LAST_TICKS] * len(Phase) + phases)

    def follows(self, number: int) -> bool:
        """Whether the band of a symbol follows the market."""
        return bool(self._follows[number])

    def rows(self, time_ns: int) -> list[Rows]:
        """RULE rows for the references that change at `time_ns`; everything before that time must have been executed."""
        prices = self._new_auction_prices()
        if time_ns >= self._check_ns:
            prices = np.where(prices, prices, self._new_references(time_ns))
            # a fast clock may be several seconds ahead: the seconds are not checked one by one
            self._check_ns, self._idle = _second_after(max(time_ns, self._now_ns())), self._window.is_empty
        return self._band_rows(prices, time_ns)

    def auction_rows(self, time_ns: int) -> list[Rows]:
        """RULE rows for the auctions so far only, at any time."""
        return self._band_rows(self._new_auction_prices(), time_ns) if self._is_used else []

    def _new_auction_prices(self) -> NDArray[np.int64]:
        """Prices of the auctions since the last call, 0 where there was none."""
        for events in self._events.new():
            self._read_rows(events)
        self._last_marks, self._last_sequence = self._auction_marks(), self._venue.event_sequence
        prices, self._auction_prices = self._auction_prices, self._zeros()
        return prices

    def _band_rows(self, prices: NDArray[np.int64], time_ns: int) -> list[Rows]:
        """RULE rows for new references; 0 where the reference stays."""
        self._since_ns[prices > 0] = time_ns
        current = self._venue.market.state.symbols
        rows: list[Rows] = []
        for number in np.flatnonzero(prices).tolist():
            rows += band_rows(
                number, current[number], band_around(int(prices[number]), self._ppm[number], self._price_ticks_max)
            )
        return rows

    def _new_references(self, time_ns: int) -> NDArray[np.int64]:
        """The mean prices that become new references; 0 where the reference stays."""
        self._window.advance(time_ns // SECOND_NS - 1)
        state, means = self._venue.market.state, self._window.means()
        symbols = state.symbols
        is_trading = (symbols[:, PHASE] == CONTINUOUS) & (state.halted == 0)
        may_change = self._follows & is_trading & (time_ns - self._since_ns >= HOLD_NS)
        return np.where(
            may_change & is_replaced(means, band_midpoint(symbols[:, BAND_LOW], symbols[:, BAND_HIGH])), means, 0
        )

    def _read_rows(self, rows: Rows) -> None:
        """Adds trades to the window, which an auction empties, and notes the price of each symbol's last auction."""
        phased = np.flatnonzero((rows["kind"] == EventKind.PHASED) & (rows["qty_lots"] > 0))
        phased = phased[self._follows[rows["symbol"][phased]]]
        last_auction = np.full(len(self._ppm), -1)
        last_auction[rows["symbol"][phased]] = phased
        self._auction_prices[rows["symbol"][phased]] = rows["price_ticks"][phased]
        self._window.clear(np.flatnonzero(last_auction >= 0))
        continuous = np.flatnonzero(is_trade(rows) & (rows["flags"] & EventFlag.AUCTION == 0))
        symbols = rows["symbol"][continuous].astype(np.int64)
        counts = self._follows[symbols] & (continuous > last_auction[symbols])
        trades = rows[continuous[counts]]
        self._window.add(symbols[counts], trades["time_ns"], trades["price_ticks"])


def _second_after(time_ns: int) -> int:
    """The first whole second after a time, at most NEVER."""
    return min(NEVER, (time_ns // SECOND_NS + 1) * SECOND_NS)
