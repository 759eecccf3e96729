"""The reference price that a symbol's band follows, by the rule of the LULD Plan.

The National Market System Plan to Address Extraordinary Market Volatility ("Limit Up-Limit Down", https://www.luldplan.com), section V: the
reference is the mean price of the trades of the last five minutes, or of those since the last opening or reopening, whose price it is
first; without trades it stays; a new one comes in if it is at least 1 % away, and stays for at least 30 seconds.
"""

import numpy as np
from numpy.typing import NDArray

SECOND_NS = 1_000_000_000
WINDOW_S = 300
HOLD_NS = 30 * SECOND_NS
MOVE_PERCENT = 1
PPM = 1_000_000


def band_around(reference_ticks: int, band_ppm: int, price_ticks_max: int) -> tuple[int, int]:
    """(low, high) around a reference, in ticks: band_ppm millionths of it away, to the nearest tick, at least one; (0, 0), no band_around, around
    none. As far below as above, also at the highest price that there is, so that the reference is what `band_midpoint` says."""
    if not reference_ticks:
        return 0, 0
    away = max(1, (reference_ticks * band_ppm + PPM // 2) // PPM)
    away = min(away, price_ticks_max - reference_ticks)
    return reference_ticks - away, reference_ticks + away


def band_midpoint(low_ticks: NDArray[np.int64], high_ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The references that bands are around, in ticks; 0 where there is none."""
    return (low_ticks + high_ticks) // 2


def is_replaced(mean_ticks: NDArray[np.int64], reference_ticks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a mean, 0 without trades, is far enough from the reference to come in its place."""
    return (mean_ticks > 0) & (100 * np.abs(mean_ticks - reference_ticks) >= MOVE_PERCENT * reference_ticks)


class TradeWindow:
    """The trades of the last five minutes of each symbol, summed up by the second."""

    def __init__(self, symbols: int) -> None:
        self._sum_ticks = np.zeros((symbols, WINDOW_S))
        self._trades = np.zeros((symbols, WINDOW_S), np.int64)
        self._newest_s = 0

    def add(self, symbols: NDArray[np.int64], times_ns: NDArray[np.int64], prices_ticks: NDArray[np.int64]) -> None:
        """One trade each, (n,)."""
        seconds = times_ns // SECOND_NS
        self.advance(int(seconds.max(initial=self._newest_s)))
        kept = seconds > self._newest_s - WINDOW_S
        places = symbols[kept], seconds[kept] % WINDOW_S
        np.add.at(self._sum_ticks, places, prices_ticks[kept])
        np.add.at(self._trades, places, 1)

    def advance(self, second: int) -> None:
        """Forgets what is five minutes older than this second's end."""
        passed = np.arange(max(self._newest_s, second - WINDOW_S) + 1, second + 1) % WINDOW_S
        self._sum_ticks[:, passed], self._trades[:, passed] = 0.0, 0
        self._newest_s = max(self._newest_s, second)

    def clear(self, symbols: NDArray[np.int64]) -> None:
        """Forgets all trades of some symbols."""
        self._sum_ticks[symbols], self._trades[symbols] = 0.0, 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no trade."""
        return not self._trades.any()

    def means(self) -> NDArray[np.int64]:
        """The mean price of the trades of each symbol, each trade counting once, to the nearest tick; 0 without trades. int64 (symbols,)."""
        trades = self._trades.sum(axis=1)
        return np.floor(self._sum_ticks.sum(axis=1) / np.maximum(trades, 1) + 0.5).astype(np.int64)
