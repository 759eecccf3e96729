"""One symbol in the form that pages show, in bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.clients.book import L2Book
from serl.clients.dashboard.candles import CROSSED, PRINTED, Candles
from serl.clients.dashboard.ring import Ring
from serl.clients.trade_feed import TradeFeed
from serl.exchange.calendar import SECOND_NS
from serl.exchange.records import COLLECTING, EVENT, EventFlag, EventKind, HaltReason, Phase
from serl.exchange.wire import FeedKind

CHANNELS = ("l2", "trade", "status", "rows")
"""Feed channels to subscribe to: l2 for the book, rows for the order flow."""
LADDER_LEVELS, COLUMN_LEVELS, IMBALANCE_LEVELS = 24, 40, 5
COLUMNS, TRADES = 960, 200
DAY_S = 86_400
LEANS_S = 10.0
"""An older forecast, in exchange time, is no longer drawn."""
COLUMN_BYTES, TRADE_BYTES = 3072, 64
"""Bytes reserved for one column or trade; larger ones leave room for fewer."""
HISTORY_BYTES = COLUMNS * COLUMN_BYTES
"""Memory for the columns of a symbol, unless there are very many symbols."""


def time_of_day_s(time_ns: int) -> float:
    """Exchange time as seconds since midnight; a float64 is precise enough for these, but not for nanoseconds since 1970."""
    return time_ns % (DAY_S * SECOND_NS) / SECOND_NS


class SymbolView:
    """Book, trades, and columns: a column summarises the time since the previous column, with the book at its end and the last trade (`match`)."""

    def __init__(
        self, number: int, name: str, tick_size: str, lot_size: str = "1", history_bytes: int = HISTORY_BYTES
    ) -> None:
        self.number, self.name, self.tick_size, self.lot_size = number, name, tick_size, lot_size
        self.book = L2Book()
        self.halted: bool | None = None
        self.phase: Phase | None = None
        self.reason = HaltReason.NONE
        #: [price_ticks, volume_lots, imbalance_lots] if the auction were held now; None until known
        self.indicative: list[int] | None = None
        #: order flow by kind of trader (`Flow.as_json`); a new object whenever it changes
        self.traders: dict[str, Any] | None = None
        #: [match_id, time_s, price_ticks, qty_lots, aggressor_side, off_book]
        self.trades: Ring[list[Any]] = Ring(TRADES, TRADES * TRADE_BYTES)
        self.columns: Ring[dict[str, Any]] = Ring(COLUMNS, history_bytes)
        self.candles = Candles()
        self.trade_feed = TradeFeed()
        #: P(up) - P(down) of the last forecast, by horizon
        self._leans: dict[str, float] = {}
        self._leans_ns = 0
        self._column_ns = -1
        self._column: dict[str, Any] | None = None
        self._column_version: tuple[object, ...] = ()
        self._last_ticks = self._last_match = 0
        #: reference price for the change: the last price at the start, otherwise the first one after it
        self._first_ticks = 0
        #: lots traded in the book since the start
        self._volume_lots = 0
        self._clear_column()

    def _clear_column(self) -> None:
        self._traded: list[list[int]] = []
        self._rows: list[bytes] = []

    def set_depth_max(self, depth_max: int) -> None:
        """Sets the maximum number of levels per side in a snapshot; the book of another exchange starts again."""
        if depth_max != self.book.depth_max:
            self.book = L2Book(depth_max)

    def apply(self, message: list[Any]) -> None:
        """Applies a feed message [kind, epoch, previous, sequence, time_ns, items]."""
        kind, items = message[0], message[5]
        if kind == FeedKind.L2:
            self.book.apply(message)
        elif kind == FeedKind.ROWS:
            if items:  # none in a repeat
                self._rows.append(items)
        elif kind == FeedKind.TRADE:
            self.trade_feed.apply(message)
            self._add_traded(self.trade_feed.take())
        elif kind == FeedKind.STATUS:
            self.set_status(items)

    def _add_traded(self, items: list[list[Any]]) -> None:
        self.add_trades(items)
        self._traded.extend(items)

    def set_status(self, items: list[int]) -> None:
        """Sets [halted, phase, reason], as on the feed."""
        self.halted, self.phase, self.reason = bool(items[0]), Phase(items[1]), HaltReason(items[2])
        if not self.is_collecting:
            self.indicative = None

    def set_leans(self, leans: dict[str, float], time_ns: int) -> None:
        """Sets P(up) - P(down) of a forecast by horizon, and when it was published."""
        self._leans, self._leans_ns = leans, time_ns

    def _leans_at(self, time_ns: int) -> dict[str, float]:
        return self._leans if time_ns - self._leans_ns <= LEANS_S * SECOND_NS else {}

    @property
    def is_collecting(self) -> bool:
        """Whether the phase collects orders for an auction."""
        return self.phase in COLLECTING

    def set_indicative(self, items: list[int]) -> None:
        """Sets the indicative auction from the reply to INDICATIVE; ignored if the auction is over by now."""
        if self.is_collecting:
            self.indicative = items

    @property
    def version(self) -> tuple[object, ...]:
        """A value that changes whenever the ladder changes."""
        return self.book.sequence, self._last_ticks, self.halted, self.phase, self.reason, self.indicative

    @property
    def mid_ticks(self) -> float | None:
        """(bid + ask) / 2; None while a side is empty."""
        bid, ask = self.book.bid_ticks, self.book.ask_ticks
        return (bid + ask) / 2 if bid and ask else None

    def add_trades(self, items: list[list[int]]) -> None:
        """Adds trades as on the feed, oldest first."""
        for match_id, time_ns, *rest in items[-TRADES:]:
            self.trades.append([match_id, time_of_day_s(time_ns), *rest])
            self._last_match = match_id
        on_book = [price for _, _, price, _, _, off_book in items if off_book != PRINTED]
        if on_book:
            self._first_ticks = self._first_ticks or on_book[0]
            self._last_ticks = on_book[-1]

    def apply_trades(self, reply: list[Any]) -> None:
        """Applies a reply to TRADES: at first it has the trades before the start, later those that the feed missed."""
        before = len(reply[5]) if self.trade_feed.sequence < 0 else 0
        self.trade_feed.apply_snapshot(reply)
        items = self.trade_feed.take()
        if before:
            self.add_trades(items[:before])
            self._first_ticks = self._last_ticks
            self.candles.add(items[:before])
        self._add_traded(items[before:])

    @property
    def needs_snapshot(self) -> bool:
        """Whether the book or trades are missing."""
        return self.book.needs_snapshot or self.trade_feed.needs_snapshot

    def add_column(self, time_ns: int) -> None:
        """Completes a column at time_ns; does nothing if time stands still and nothing happened."""
        if time_ns <= self._column_ns and not self._rows:
            return
        self._column_ns = time_ns
        self.candles.add(self._traded)
        leans = self._leans_at(time_ns)
        if (
            self._column is None
            or self._column_version != self.version
            or self._rows
            or self._traded
            or self._column["leans"] != leans
        ):
            self._column = self._new_column() | {"leans": leans}
            # the next column is the same if nothing happens until then
            self._column_version = () if self._rows or self._traded else self.version
        # not the time of day: charts need times that increase, also at midnight
        self._column["t"] = time_ns / SECOND_NS
        self.columns.append(self._column)
        self._clear_column()

    def _new_column(self) -> dict[str, Any]:
        bids, asks = (self.book.levels(side, COLUMN_LEVELS) for side in (0, 1))
        traded = traded_by_price(self._traded)
        self._volume_lots += sum(sum(lots) for _, *lots in traded)
        return {
            "bid": bids[0][0] if bids else None,
            "ask": asks[0][0] if asks else None,
            "match": self._last_match,
            "traded": traded,
            "imbalance": imbalance(bids, asks),
            "flow": order_flow(b"".join(self._rows)),
            "bids": bids,
            "asks": asks,
        } | self._status()

    def reset(self) -> None:
        """Starts again after the exchange was restarted: its time, book, halts and phases may differ."""
        self.book, self.trade_feed = L2Book(self.book.depth_max), TradeFeed()
        self.halted = self.phase = self.indicative = None
        self._leans = {}
        self.reason = HaltReason.NONE
        self._column_ns, self._column, self._last_match = -1, None, 0
        self._last_ticks = 0
        self.columns.clear()
        self.trades.clear()
        self.candles = Candles()
        self._first_ticks = self._volume_lots = 0
        self._clear_column()

    def ladder(self) -> dict[str, Any]:
        """The best levels of the book, and the status."""
        bids, asks = (self.book.levels(side, LADDER_LEVELS) for side in (0, 1))
        return {"bids": bids, "asks": asks, "sequence": self.book.sequence} | self._status()

    def watch_row(self) -> list[Any]:
        """For the watchlist: [name, last_ticks, change_ticks, bid_ticks, ask_ticks, volume_lots, halted, phase, reason], at the last column."""
        status, column = self._status(), self._column or {}
        change = self._last_ticks - self._first_ticks if self._last_ticks else None
        quote = column.get("bid"), column.get("ask")
        return [self.name, status["last"], change, *quote, self._volume_lots, self.halted, status["phase"], status["reason"]]  # fmt: skip

    def _status(self) -> dict[str, Any]:
        return {
            "last": self._last_ticks or None,
            "halted": self.halted,
            "phase": None if self.phase is None else self.phase.name.lower(),
            "indicative": self.indicative,
            "reason": self.reason.name.lower() if self.reason else None,
        }


def traded_by_price(trades: list[list[int]]) -> list[list[int]]:
    """For each price that traded in the book: [price_ticks, lots bought by aggressors, lots sold by aggressors, lots in auctions]."""
    by_price: dict[int, list[int]] = {}
    for _, _, price, qty, aggressor, off_book in trades:
        if off_book != PRINTED:
            by_price.setdefault(price, [price, 0, 0, 0])[3 if off_book == CROSSED else 1 + aggressor] += qty
    return sorted(by_price.values())


def imbalance(bids: Sequence[tuple[int, int, int]], asks: Sequence[tuple[int, int, int]]) -> float | None:
    """(bid - ask) / (bid + ask) in lots of the best IMBALANCE_LEVELS levels; None for an empty book."""
    bid, ask = (sum(level[1] for level in side[:IMBALANCE_LEVELS]) for side in (bids, asks))
    return (bid - ask) / (bid + ask) if bid + ask else None


def order_flow(rows: bytes) -> dict[str, int]:
    """Lots added to the book and cancelled from it, by side, from EVENT rows of channel `rows`."""
    events = np.frombuffer(rows, EVENT)
    events = events[events["flags"] & EventFlag.HIDDEN == 0]
    rested = (events["kind"] == EventKind.RESTED) | (
        (events["kind"] == EventKind.ACCEPTED) & (events["flags"] & EventFlag.RESTING > 0)
    )
    cancelled = np.isin(events["kind"], (EventKind.REDUCED, EventKind.REPLACED)) | (
        (events["kind"] == EventKind.CANCELLED) & (events["flags"] & EventFlag.RESTING > 0)
    )
    buys = events["side"] == 0

    def lots(mask: Any, column: str) -> int:
        return int(events[column][mask].sum())

    return {
        "added_bid": lots(rested & buys, "qty_lots"), "added_ask": lots(rested & ~buys, "qty_lots"),
        "cancelled_bid": lots(cancelled & buys, "qty_lots"), "cancelled_ask": lots(cancelled & ~buys, "qty_lots"),
    }  # fmt: skip
