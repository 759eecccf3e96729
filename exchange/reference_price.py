"""The reference price that a symbol's band follows, by the rule of the LULD Plan.

The National Market System Plan to Address Extraordinary Market Volatility ("Limit Up-Limit Down", https://www.luldplan.com), section V: the
reference is the mean price of the trades of the last five minutes. It starts at the price of the opening or reopening auction and then
counts only trades after that. Without trades it stays the same. A new reference applies if it is at least 1 % away, and for at least 30 seconds.
"""

import numpy as np
from numpy.typing import NDArray

SECOND_NS = 1_000_000_000
WINDOW_S = 300
HOLD_NS = 30 * SECOND_NS
MOVE_PERCENT = 1
PPM = 1_000_000


def band_around(reference_ticks: int, band_ppm: int, price_ticks_max: int) -> tuple[int, int]:
    """(low, high) in ticks: band_ppm millionths around a reference, to the nearest tick, at least one tick. (0, 0), no band, without a
    reference. Symmetric even at the highest price, so that `band_midpoint` returns the reference."""
    if not reference_ticks:
        return 0, 0
    offset_ticks = max(1, (reference_ticks * band_ppm + PPM // 2) // PPM)
    offset_ticks = min(offset_ticks, price_ticks_max - reference_ticks)
    return reference_ticks - offset_ticks, reference_ticks + offset_ticks


def band_midpoint(low_ticks: NDArray[np.int64], high_ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The references of bands, in ticks; 0 where there is no band."""
    return (low_ticks + high_ticks) // 2


def is_replaced(mean_ticks: NDArray[np.int64], reference_ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a mean (0 without trades) is far enough from the reference to replace it."""
    return (mean_ticks > 0) & (100 * np.abs(mean_ticks - reference_ticks) >= MOVE_PERCENT * reference_ticks)


class TradeWindow:
    """The trades of each symbol in the last five minutes, summed per second."""

    def __init__(self, symbols: int) -> None:
        self._sum_ticks = np.zeros((symbols, WINDOW_S))
        self._trades = np.zeros((symbols, WINDOW_S), np.int64)
        self._newest_s = 0

    def add(self, symbols: NDArray[np.int64], times_ns: NDArray[np.int64], prices_ticks: NDArray[np.int64]) -> None:
        """Adds n trades: symbols, times and prices, (n,) each."""
        seconds = times_ns // SECOND_NS
        self.advance(int(seconds.max(initial=self._newest_s)))
        kept = seconds > self._newest_s - WINDOW_S
        cells = symbols[kept], seconds[kept] % WINDOW_S
        np.add.at(self._sum_ticks, cells, prices_ticks[kept])
        np.add.at(self._trades, cells, 1)

    def advance(self, second: int) -> None:
        """Moves the window's end to this second, dropping older trades."""
        passed = np.arange(max(self._newest_s, second - WINDOW_S) + 1, second + 1) % WINDOW_S
        self._sum_ticks[:, passed], self._trades[:, passed] = 0.0, 0
        self._newest_s = max(self._newest_s, second)

    def clear(self, symbols: NDArray[np.int64]) -> None:
        """Drops all trades of some symbols."""
        self._sum_ticks[symbols], self._trades[symbols] = 0.0, 0

    @property
    def is_empty(self) -> bool:
        """Whether the window has no trades."""
        return not self._trades.any()

    def has_trades(self) -> NDArray[np.bool_]:
        """Which symbols have trades in the window. bool (symbols,)."""
        return self._trades.sum(axis=1) > 0

    def means(self) -> NDArray[np.int64]:
        """The mean trade price of each symbol (not weighted by quantity), to the nearest tick; 0 without trades. int64 (symbols,)."""
        trades = self._trades.sum(axis=1)
        return np.floor(self._sum_ticks.sum(axis=1) / np.maximum(trades, 1) + 0.5).astype(np.int64)
