"""The book of a source that shows levels instead of orders, and the commands that give the market the same levels."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, int64
from serl.history.source import Sink, flush, make_room
from serl.history.stream_book import BUY, FIRST_NS, ROW, TIME_NS, StreamBook, empty_book, find_level, has_room
from serl.history.stream_commands import halt, print_trade, resume, send_ioc, set_level_lots

Level = tuple[int, int, int]
"""(side, price_ticks, qty_lots)."""
TRADE_COUNTS = ("trades", "trades_unfilled", "lots_traded", "lots_unfilled")
"""Counts of `LevelWriter.trade`: trades of the source, those that found too few lots in its levels, and the lots of both."""


class SourceBook:
    """The source's book, from its snapshot and diffs."""

    def __init__(self) -> None:
        self.lots: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.prices: tuple[list[int], list[int]] = ([], [])
        self.update_id = -1

    def change(self, side: int, price_ticks: int, lots: int) -> None:
        """Sets a level; 0 lots remove it."""
        levels, prices = self.lots[side], self.prices[side]
        if lots and price_ticks not in levels:
            insort(prices, price_ticks)
        if not lots and price_ticks in levels:
            del prices[bisect_left(prices, price_ticks)], levels[price_ticks]
        if lots:
            levels[price_ticks] = lots

    def require_uncrossed(self) -> None:
        """Raises ValueError if the best bid is not below the best ask."""
        bids, asks = self.prices
        if bids and asks and bids[-1] >= asks[0]:
            raise ValueError(f"expected a best bid below the best ask, got {bids[-1]} and {asks[0]} ticks")

    def prices_up_to(self, side: int, price_ticks: int) -> list[int]:
        """Prices of a side from this one to the best."""
        prices = self.prices[side]
        return (
            prices[bisect_left(prices, price_ticks) :] if side == BUY else prices[: bisect_right(prices, price_ticks)]
        )

    def crossing(self, side: int) -> list[int]:
        """Prices of a side at or beyond the best of the other side."""
        bids, asks = self.prices
        if not bids or not asks:
            return []
        return bids[bisect_left(bids, asks[0]) :] if side == BUY else asks[: bisect_right(asks, bids[-1])]

    def uncross(self, newer: int) -> list[Level]:
        """Removes the levels that the best price of side `newer`, which was updated last, locks or crosses; returns the removals."""
        stale = [(1 - newer, price, 0) for price in self.crossing(1 - newer)]
        for level in stale:
            self.change(*level)
        return stale


@compiled
def _set_levels_of(book: StreamBook, targets: Any) -> bool:
    """Sets levels [(side, price_ticks, lots)]. Returns False if the book needs room; call it again then."""
    for adding in range(2):  # first remove, then add, so that removed lots do not trade
        for index in range(targets.shape[0]):
            side, price_ticks, lots = targets[index]
            at = find_level(book, 0, side, price_ticks)
            if not has_room(book, int64(book.levels[at].orders) if at else 0):
                return False
            set_level_lots(book, 0, side, price_ticks, lots, adding == 1)
    return True


class LevelWriter:
    """Writes the commands that give the market a source's levels. A trade takes lots from them at once; the next change, which may already
    reflect that trade at the source, corrects them."""

    def __init__(self, sink: Sink) -> None:
        self.source = SourceBook()
        self.book = empty_book(1)
        self._sink = sink
        self._traded: dict[int, int] = {}
        """By side: the worst price at which trades took lots since the last change."""

    @property
    def first_time_ns(self) -> int:
        """Time of the first command."""
        return int(self.book.counter[FIRST_NS])

    def stamp(self, row: int, time_ns: int) -> None:
        """Sets the source row and the time after midnight of the next commands."""
        self.book.counter[ROW], self.book.counter[TIME_NS] = row, time_ns

    def set_levels(self, levels: Sequence[Level]) -> None:
        """Sets levels to the quantities of the source's book, which already contains them, and also the levels from which trades took lots."""
        places = dict.fromkeys([*((side, price) for side, price, _ in levels), *self._taken()])
        self._traded.clear()
        targets = np.array(
            [(*place, self.source.lots[place[0]].get(place[1], 0)) for place in places], np.int64
        ).reshape(-1, 3)
        while not _set_levels_of(self.book, targets):
            self.book = make_room(self.book, self._sink)

    def _taken(self) -> list[tuple[int, int]]:
        """(side, price) of the levels from which trades took lots."""
        return [
            (side, price) for side, worst in self._traded.items() for price in self.source.prices_up_to(side, worst)
        ]

    def trade(self, counts: dict[str, int], resting: int, price_ticks: int, lots: int) -> None:
        """Sends an IOC order that takes lots from the resting side, and counts it in TRADE_COUNTS."""
        self._make_room()
        unfilled = int(send_ioc(self.book, 0, 1 - resting, price_ticks, lots))
        worst = self._traded.get(resting, price_ticks)
        self._traded[resting] = min(worst, price_ticks) if resting == BUY else max(worst, price_ticks)
        for name, value in zip(TRADE_COUNTS, (1, unfilled > 0, lots, unfilled), strict=True):
            counts[name] += value

    def print(self, side: int, price_ticks: int, lots: int) -> None:
        """Prints a trade outside the displayed book; side: that of the resting order."""
        self._make_room()
        print_trade(self.book, 0, side, price_ticks, lots)

    def halt(self) -> None:
        """Halts the symbol. Until `resume` no levels are set and nothing trades."""
        self._make_room()
        halt(self.book, 0)

    def resume(self) -> None:
        """Resumes the symbol."""
        self._make_room()
        resume(self.book, 0)

    def _make_room(self) -> None:
        while not has_room(self.book, 0):
            self.book = make_room(self.book, self._sink)

    def finish(self) -> None:
        """Writes the last block."""
        flush(self.book, self._sink)
