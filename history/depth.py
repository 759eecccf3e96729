"""Reads a recording of Binance's public streams: a snapshot of the book, depth diffs and trades, one message per line.

`1723161253937085768 {"stream":"btcusdt@depth@100ms","data":{...}}`: time of arrival in nanoseconds since 1970, then the message.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.records import Side
from serl.history.day import Reference, SymbolReference
from serl.history.depth_lines import Diff, Line, Snapshot, Trade, Units, parse_message, read_lines
from serl.history.errors import DepthError
from serl.history.level_book import TRADE_COUNTS, LevelWriter, SourceBook
from serl.history.source import DEFAULTS, Options, Sink, source_file
from serl.history.stream_book import BUY, SELL

TICK, LOT = "0.01", "0.00001"
DAY_NS = 86_400 * 1_000_000_000


class _Reader:
    """Converts lines to commands."""

    def __init__(self, path: Path, sink: Sink, units: Units) -> None:
        self.path = path
        self.units = units
        self.writer = LevelWriter(sink)
        self.source = self.writer.source
        self.midnight_ns = self.last_ns = 0
        self.symbol = ""
        self.counts = dict.fromkeys(
            ("opening_orders", "diffs", "diffs_before_snapshot", *TRADE_COUNTS, "other_messages"), 0
        )
        self._early: list[Line] = []
        self._trade_stream = ""
        """The stream whose trades are read: a recording of both streams contains each trade twice."""

    def read(self, line: Line) -> None:
        """Converts a line. Raises `DepthError`."""
        self.midnight_ns = self.midnight_ns or line.time_ns // DAY_NS * DAY_NS
        self.last_ns = line.time_ns - self.midnight_ns
        try:
            self._apply(line, parse_message(line))
        except KeyError as error:
            raise DepthError(f"{self.path}: line {line.number}: expected a field {error}, got none") from None
        except ValueError as error:
            raise DepthError(f"{self.path}: line {line.number}: {error}") from None
        if self.source.update_id >= 0:
            early, self._early = self._early, []
            for early_line in early:
                self.read(early_line._replace(time_ns=line.time_ns))

    def _apply(self, line: Line, message: Snapshot | Diff | Trade | None) -> None:
        if isinstance(message, Snapshot):
            self._apply_snapshot(line, message)
            return
        if message is None:
            self.counts["other_messages"] += 1
            return
        self.symbol = self.symbol or message.symbol
        if message.symbol != self.symbol:
            raise ValueError(
                f"expected {self.symbol}, the symbol of the lines above, got {message.symbol}; give a recording of one symbol"
            )
        if isinstance(message, Trade):
            self._apply_trade(line, message)
        else:
            self._apply_diff(line, message)

    def _set_stamp(self, line: Line, row: int) -> None:
        self.writer.stamp(row, line.time_ns - self.midnight_ns)

    def _apply_snapshot(self, line: Line, snapshot: Snapshot) -> None:
        if self.source.update_id >= 0:
            raise ValueError("expected one snapshot, got another; cut the file before it")
        targets = self._update_source(snapshot.bids, snapshot.asks)
        self.source.update_id = snapshot.update_id
        self._set_stamp(line, -1)
        self.writer.set_levels(targets)
        self.counts["opening_orders"] = len(targets)

    def _update_source(self, bids: Any, asks: Any) -> list[tuple[int, int, int]]:
        """Applies a message's levels to the source's book; returns the levels."""
        changes = self.units.levels(Side.BUY, bids) + self.units.levels(Side.SELL, asks)
        for change in changes:
            self.source.change(*change)
        self.source.require_uncrossed()
        return changes

    def _apply_diff(self, line: Line, diff: Diff) -> None:
        update_id = self.source.update_id
        if update_id < 0:
            self._early.append(line)
            return
        if diff.last <= update_id and not self.counts["diffs"]:
            self.counts["diffs_before_snapshot"] += 1
            return
        if not diff.follows(update_id, first=not self.counts["diffs"]):
            got = f"{diff.first} to {diff.last}" + (f" after {diff.previous}" if diff.previous is not None else "")
            raise ValueError(
                f"expected the diff after update {update_id}, got {got}: diffs are missing; cut the file there"
            )
        changes = self._update_source(diff.bids, diff.asks)
        self.source.update_id = diff.last
        self._set_stamp(line, line.number - 1)
        self.writer.set_levels(changes)
        self.counts["diffs"] += 1

    def _apply_trade(self, line: Line, trade: Trade) -> None:
        if self.source.update_id < 0:
            return
        self._trade_stream = self._trade_stream or trade.stream
        if trade.stream != self._trade_stream:
            self.counts["other_messages"] += 1
            return
        ticks, lots = self.units.level(trade.price, trade.size)
        if lots == 0:
            raise ValueError(f"expected a size above 0, got {trade.size}")
        self._set_stamp(line, line.number - 1)
        self.writer.trade(self.counts, BUY if trade.buyer_rests else SELL, ticks, lots)

    def finish(self) -> None:
        """Flushes the book. Raises `DepthError` if there was no snapshot."""
        if self.source.update_id < 0:
            raise DepthError(
                f"{self.path}: expected a snapshot (lastUpdateId, bids, asks), got none; record one after the diffs begin"
            )
        self.writer.finish()


def read_depth(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a recording to the sink. Raises `DepthError`."""
    tick_size, lot_size = options.tick_size or TICK, options.lot_size or LOT
    options.allow_only(path, "Binance depth", "symbols", "tick_size", "lot_size")
    name = options.single_symbol(path)
    reader = _Reader(path, sink, Units(tick_size, lot_size))
    rows = 0
    for line in read_lines(path):
        reader.read(line)
        rows = line.number
    reader.finish()
    if not (name or reader.symbol):
        raise DepthError(
            f"{path}: expected a diff or a trade, which contain the symbol, got none; give `--symbols NAME`"
        )
    date = datetime.fromtimestamp(reader.midnight_ns // 1_000_000_000, UTC).date().isoformat()
    return Reference(
        symbols=(SymbolReference(name or reader.symbol, tick_size, lot_size),),
        date=date,
        source="depth",
        files=(source_file(path),),
        first_time_ns=reader.writer.first_time_ns,
        last_time_ns=reader.last_ns,
        source_rows=rows,
        counts=reader.counts | {"sizes_rounded": reader.units.sizes_rounded},
    )


def depth_view(path: Path, symbol: SymbolReference, levels: int = 20) -> tuple[Any, Any, Any]:
    """(price_ticks, qty_lots) after each diff, [diff, side (bids first), level], 0 for an empty level; and the diffs' rows."""
    units, source = Units(symbol.tick_size, symbol.lot_size), SourceBook()
    views: list[Any] = []
    rows: list[int] = []
    early: list[Diff] = []
    for line in read_lines(path):
        message = parse_message(line)
        if isinstance(message, Snapshot):
            source.update_id = message.update_id
            _update(source, units, message)
            for diff in early:
                if diff.last > source.update_id:
                    _update(source, units, diff)
        elif isinstance(message, Diff) and source.update_id < 0:
            early.append(message)
        elif isinstance(message, Diff) and message.last > source.update_id:
            _update(source, units, message)
            rows.append(line.number - 1)
            views.append([_best(source, side, levels) for side in range(2)])
    view = np.array(views, np.int64).reshape(-1, 2, levels, 2)
    return np.ascontiguousarray(view[..., 0]), np.ascontiguousarray(view[..., 1]), np.array(rows, np.int64)


def _update(source: SourceBook, units: Units, message: Snapshot | Diff) -> None:
    for change in units.levels(Side.BUY, message.bids) + units.levels(Side.SELL, message.asks):
        source.change(*change)


def _best(source: SourceBook, side: int, count: int) -> list[tuple[int, int]]:
    prices = source.prices[side][-count:][::-1] if side == BUY else source.prices[side][:count]
    return [(price, source.lots[side][price]) for price in prices] + [(0, 0)] * (count - len(prices))
