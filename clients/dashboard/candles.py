"""Candles of a symbol: first, highest, lowest and last price of each period of exchange time, and the lots traded in it."""

from typing import Any

import numpy as np

from serl.exchange.calendar import SECOND_NS

PERIODS_S = 1, 10, 60, 300
CANDLES = 300
"""Number of candles kept for each period."""
PRINTED, CROSSED = 1, 2
"""off_book of a trade: a print, outside the book, which is not part of any candle; an auction, which has no aggressor."""
Candle = list[int]
"""[number, open_ticks, high_ticks, low_ticks, close_ticks, qty_lots]; number: periods since 1970, so `number * period_s` is its start."""


class Candles:
    """The newest candles of each of PERIODS_S, in memory that does not grow."""

    def __init__(self) -> None:
        self._series = {period_s: _Series() for period_s in PERIODS_S}

    def add(self, trades: list[list[Any]]) -> None:
        """Adds trades as on the feed, oldest first; aggregates them by second once."""
        seconds = by_second(trades)
        for period_s, series in self._series.items():
            for second, *prices_and_lots in seconds:
                series.add([second // period_s, *prices_and_lots])

    @property
    def counts(self) -> dict[int, tuple[int, int]]:
        """For each period a value that changes with every trade; `since` returns the changes after it."""
        return {period_s: series.count for period_s, series in self._series.items()}

    def since(self, counts: dict[int, tuple[int, int]]) -> dict[str, list[Candle]]:
        """By period, the candles that are new or have changed since `counts`; periods without such candles are left out."""
        new = {period_s: series.since(counts.get(period_s, (0, 0))) for period_s, series in self._series.items()}
        return {str(period_s): candles for period_s, candles in new.items() if candles}


class _Series:
    """The candles of one period: complete ones as rows of an array, the newest one, which may still change, as a list."""

    def __init__(self) -> None:
        self._rows = np.zeros((CANDLES, 6), np.int64)  # candle n in row n % CANDLES
        self._complete = 0
        self._newest: Candle = []

    @property
    def count(self) -> tuple[int, int]:
        """(number of complete candles, lots of the newest)."""
        return self._complete, self._newest[5] if self._newest else 0

    def add(self, candle: Candle) -> None:
        """Merges a candle of a part of the period; `candle` is kept."""
        newest = self._newest
        if not newest or candle[0] > newest[0]:
            if newest:
                self._rows[self._complete % CANDLES] = newest
                self._complete += 1
            self._newest = candle
            return
        newest[2], newest[3] = max(newest[2], candle[2]), min(newest[3], candle[3])
        newest[4] = candle[4]
        newest[5] += candle[5]

    def since(self, count: tuple[int, int]) -> list[Candle]:
        """The candles that are new or have changed since `count` was read, oldest first."""
        if count == self.count:
            return []
        first = max(count[0], self._complete - CANDLES + 1)
        rows: list[Candle] = self._rows[np.arange(first, self._complete) % CANDLES].tolist()
        return [*rows, list(self._newest)]


def by_second(trades: list[list[Any]]) -> list[Candle]:
    """The one-second candles of trades as on the feed, oldest first."""
    candles: list[Candle] = []
    for _, time_ns, price, qty, _, off_book in trades:
        if off_book == PRINTED:
            continue
        second = time_ns // SECOND_NS
        if not candles or candles[-1][0] != second:
            candles.append([second, price, price, price, price, 0])
        candle = candles[-1]
        if price > candle[2]:
            candle[2] = price
        if price < candle[3]:
            candle[3] = price
        candle[4] = price
        candle[5] += qty
    return candles
