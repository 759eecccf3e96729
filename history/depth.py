"""A recording of Binance's public streams: a snapshot of the book, depth diffs, trades; one line each, behind its time of arrival.

`1723161253937085768 {"stream":"btcusdt@depth@100ms","data":{...}}`: nanoseconds since 1970, then the message as it came.
"""

from bisect import bisect_left, bisect_right, insort
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, int64
from serl.exchange.records import Side
from serl.history import named_book
from serl.history.day import Reference, SymbolReference
from serl.history.depth_lines import Diff, Line, Snapshot, Trade, Units, read_lines, told
from serl.history.errors import DepthError
from serl.history.named_book import BUY, FIRST_NS, ROW, SELL, TIME_NS, NamedBook, level_of, room
from serl.history.named_play import aggress, settle_level
from serl.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file

TICK, LOT = "0.01", "0.00001"
DAY_NS = 86_400 * 1_000_000_000


class SourceBook:
    """Levels as the diffs say them."""

    def __init__(self) -> None:
        self.lots: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.prices: tuple[list[int], list[int]] = ([], [])
        self.update_id = -1

    def change(self, side: int, price_ticks: int, lots: int) -> None:
        """Sets a level; 0 lots take it away."""
        levels, prices = self.lots[side], self.prices[side]
        if lots and price_ticks not in levels:
            insort(prices, price_ticks)
        if not lots and price_ticks in levels:
            del prices[bisect_left(prices, price_ticks)], levels[price_ticks]
        if lots:
            levels[price_ticks] = lots

    def uncrossed(self) -> None:
        """ValueError if the best bid is not below the best ask."""
        bids, asks = self.prices
        if bids and asks and bids[-1] >= asks[0]:
            raise ValueError(f"a best bid below the best ask, got {bids[-1]} and {asks[0]} ticks")

    def through(self, side: int, price_ticks: int) -> list[int]:
        """Prices of a side from its best to this one."""
        prices = self.prices[side]
        return (
            prices[bisect_left(prices, price_ticks) :] if side == BUY else prices[: bisect_right(prices, price_ticks)]
        )


@compiled
def _settle(book: NamedBook, targets: Any) -> bool:
    """Makes levels [(side, price_ticks, lots)] what they are due; False for want of room: then again from the start."""
    for adding in range(2):  # first off, then on: what is gone must not trade with what came
        for index in range(targets.shape[0]):
            side, price_ticks, lots = targets[index]
            at = level_of(book, 0, side, price_ticks)
            if not room(book, int64(book.levels[at].orders) if at else 0):
                return False
            settle_level(book, 0, side, price_ticks, lots, adding == 1)
    return True


class _Player:
    """Lines in, commands out."""

    def __init__(self, path: Path, sink: Sink, units: Units) -> None:
        self.path = path
        self.units = units
        self.source = SourceBook()
        self.book = named_book.named_book(1)
        self.midnight_ns = self.last_ns = 0
        self.symbol = ""
        self.counts = dict.fromkeys(
            ("opening_orders", "diffs", "diffs_before_snapshot", "trades", "trades_unfilled", "other_messages"), 0
        )
        self._sink = sink
        self._early: list[Line] = []
        self._traded: dict[int, int] = {}
        """Side: worst price at which trades took something since the last diff."""

    def play(self, line: Line) -> None:
        """Any line; DepthError says what is wrong with it."""
        self.midnight_ns = self.midnight_ns or line.time_ns // DAY_NS * DAY_NS
        self.last_ns = line.time_ns - self.midnight_ns
        try:
            self._take(line, told(line))
        except KeyError as error:
            raise DepthError(f"{self.path}: line {line.number}: a field {error} is due") from None
        except ValueError as error:
            raise DepthError(f"{self.path}: line {line.number}: due is {error}") from None
        if self.source.update_id >= 0:
            early, self._early = self._early, []
            for one in early:
                self.play(one._replace(time_ns=line.time_ns))

    def _take(self, line: Line, message: Snapshot | Diff | Trade | None) -> None:
        if isinstance(message, Snapshot):
            self._open(line, message)
            return
        if message is None:
            self.counts["other_messages"] += 1
            return
        self.symbol = self.symbol or message.symbol
        if message.symbol != self.symbol:
            raise ValueError(
                f"{self.symbol}, the symbol of the lines above, got {message.symbol}; give a recording of one"
            )
        if isinstance(message, Trade):
            self._trade(line, message)
        else:
            self._diff(line, message)

    def _at(self, line: Line, row: int) -> None:
        self.book.counter[ROW], self.book.counter[TIME_NS] = row, line.time_ns - self.midnight_ns

    def _open(self, line: Line, snapshot: Snapshot) -> None:
        if self.source.update_id >= 0:
            raise ValueError("one snapshot, this is another; cut the file before it")
        targets = self._changed(snapshot.bids, snapshot.asks)
        self.source.update_id = snapshot.update_id
        self._at(line, -1)
        self._settle(targets)
        self.counts["opening_orders"] = len(targets)

    def _changed(self, bids: Any, asks: Any) -> list[tuple[int, int, int]]:
        """The levels of a message, now those of the source."""
        changes = self.units.levels(Side.BUY, bids) + self.units.levels(Side.SELL, asks)
        for change in changes:
            self.source.change(*change)
        self.source.uncrossed()
        return changes

    def _diff(self, line: Line, diff: Diff) -> None:
        known = self.source.update_id
        if known < 0:
            self._early.append(line)
            return
        if diff.last <= known and not self.counts["diffs"]:
            self.counts["diffs_before_snapshot"] += 1
            return
        if diff.first > known + 1 or (self.counts["diffs"] and diff.first != known + 1):
            raise ValueError(
                f"update {known + 1}, got {diff.first} to {diff.last}: diffs are missing; cut the file there"
            )
        changes = self._changed(diff.bids, diff.asks)
        self.source.update_id = diff.last
        changes += [
            (side, price, self.source.lots[side][price])
            for side, worst in self._traded.items()
            for price in self.source.through(side, worst)
        ]
        self._traded.clear()
        self._at(line, line.number - 1)
        self._settle(changes)
        self.counts["diffs"] += 1

    def _settle(self, changes: list[tuple[int, int, int]]) -> None:
        targets = np.array(changes, np.int64).reshape(-1, 3)
        while not _settle(self.book, targets):
            self.book = make_room(self.book, self._sink)

    def _trade(self, line: Line, trade: Trade) -> None:
        if self.source.update_id < 0:
            return
        ticks, lots = self.units.level(trade.price, trade.size)
        if lots == 0:
            raise ValueError(f"a size above 0, got {trade.size}")
        resting = BUY if trade.buyer_rests else SELL
        while not room(self.book, 0):
            self.book = make_room(self.book, self._sink)
        self._at(line, line.number - 1)
        self.counts["trades"] += 1
        self.counts["trades_unfilled"] += int(aggress(self.book, 0, 1 - resting, ticks, lots) > 0)
        worst = self._traded.get(resting, ticks)
        self._traded[resting] = min(worst, ticks) if resting == BUY else max(worst, ticks)

    def finish(self) -> None:
        """Hands over what is left; DepthError if there was no snapshot."""
        if self.source.update_id < 0:
            raise DepthError(
                f"{self.path}: a snapshot (lastUpdateId, bids, asks) is due, the file has none; a book cannot begin"
            )
        flush(self.book, self._sink)


def read_depth(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a recording to the sink; DepthError names the line of what is wrong."""
    tick_size, lot_size = options.tick_size or TICK, options.lot_size or LOT
    options.only(path, "Binance depth", "symbols", "tick_size", "lot_size")
    name = options.symbol(path)
    player = _Player(path, sink, Units(tick_size, lot_size))
    rows = 0
    for line in read_lines(path):
        player.play(line)
        rows = line.number
    player.finish()
    if not (name or player.symbol):
        raise DepthError(f"{path}: a diff or trade, which say the symbol, is due, or `--symbols NAME`")
    date = datetime.fromtimestamp(player.midnight_ns // 1_000_000_000, UTC).date().isoformat()
    return Reference(
        symbols=(SymbolReference(name or player.symbol, tick_size, lot_size),),
        date=date,
        source="depth",
        files=(source_file(path),),
        first_time_ns=int(player.book.counter[FIRST_NS]),
        last_time_ns=player.last_ns,
        source_rows=rows,
        counts=player.counts | {"sizes_rounded": player.units.sizes_rounded},
    )


def depth_view(path: Path, symbol: SymbolReference, levels: int = 20) -> tuple[Any, Any, Any]:
    """(price_ticks, qty_lots) after each diff that a day follows, [diff, side (bids first), level], 0 for no level; and their rows."""
    units, source = Units(symbol.tick_size, symbol.lot_size), SourceBook()
    views: list[Any] = []
    rows: list[int] = []
    early: list[Diff] = []
    for line in read_lines(path):
        message = told(line)
        if isinstance(message, Snapshot):
            source.update_id = message.update_id
            _set_levels(source, units, message)
            for one in early:
                if one.last > source.update_id:
                    _set_levels(source, units, one)
        elif isinstance(message, Diff) and source.update_id < 0:
            early.append(message)
        elif isinstance(message, Diff) and message.last > source.update_id:
            _set_levels(source, units, message)
            rows.append(line.number - 1)
            views.append([_best(source, side, levels) for side in range(2)])
    view = np.array(views, np.int64).reshape(-1, 2, levels, 2)
    return np.ascontiguousarray(view[..., 0]), np.ascontiguousarray(view[..., 1]), np.array(rows, np.int64)


def _set_levels(source: SourceBook, units: Units, message: Snapshot | Diff) -> None:
    for change in units.levels(Side.BUY, message.bids) + units.levels(Side.SELL, message.asks):
        source.change(*change)


def _best(source: SourceBook, side: int, count: int) -> list[tuple[int, int]]:
    prices = source.prices[side][-count:][::-1] if side == BUY else source.prices[side][:count]
    return [(price, source.lots[side][price]) for price in prices] + [(0, 0)] * (count - len(prices))
