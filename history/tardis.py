"""Reads a day of Tardis: the CSV file of book updates (incremental_book_L2), and the file of trades next to it.

Rows with the same time of arrival are one message. A row's amount is the new quantity of its level; 0 removes the level. A snapshot after other rows
resets the book: the connection was lost in between (docs.tardis.dev, "Order Books").
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from serl.history.day import Reference, SymbolReference
from serl.history.decompress import read_head
from serl.history.errors import TardisError
from serl.history.level_book import TRADE_COUNTS, Level, LevelWriter
from serl.history.source import DEFAULTS, Options, Sink, source_file
from serl.history.stream_book import BUY, SELL
from serl.history.tardis_rows import TRADES_HEADER, Rows, read_rows, tick_size_of

LOT = "0.00001"
OPENING_ROW = -1
BOOK_NAME, TRADES_NAME = "_incremental_book_L2_", "_trades_"
ENDINGS = (".csv.gz", ".csv", ".csv.zst", ".csv.xz")
DAY_US = 86_400_000_000


class _Update(NamedTuple):
    """The rows of one message."""

    row: int
    local_us: int
    is_snapshot: bool
    levels: list[Level]


class _Trade(NamedTuple):
    local_us: int
    resting: int
    """Side of the resting order; -1 if the aggressor is unknown."""
    price_ticks: int
    lots: int


def _updates(blocks: Iterator[Rows]) -> Iterator[_Update]:
    """Joins the rows that arrived together, also across blocks."""
    held: _Update | None = None
    for rows in blocks:
        breaks = np.flatnonzero((np.diff(rows.local_us) != 0) | (np.diff(rows.is_snapshot) != 0)) + 1
        levels = np.stack([rows.side, rows.price_ticks, rows.lots], 1).tolist()
        starts = [0, *breaks.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(levels)], strict=True):
            found = _Update(
                rows.first + start, int(rows.local_us[start]), bool(rows.is_snapshot[start]), [tuple(level) for level in levels[start:stop]]
            )  # fmt: skip
            if held and (held.local_us, held.is_snapshot) == (found.local_us, found.is_snapshot):
                held = held._replace(levels=held.levels + found.levels)
                continue
            if held:
                yield held
            held = found
    if held:
        yield held


def _trades(path: Path, tick_size: Decimal, lot_size: Decimal, counts: dict[str, int]) -> Iterator[_Trade]:
    """The trades of a file, which contains the aggressor's side. bid and buy are 0, like BUY."""
    for rows in read_rows(path, tick_size, lot_size):
        counts["sizes_rounded"] += rows.sizes_rounded
        resting = np.array([SELL, BUY, -1])[rows.side]
        for values in zip(
            rows.local_us.tolist(), resting.tolist(), rows.price_ticks.tolist(), rows.lots.tolist(), strict=True
        ):
            yield _Trade(*values)


class _Reader:
    """Converts updates and trades to commands."""

    def __init__(self, path: Path, sink: Sink) -> None:
        self.path = path
        self.writer = LevelWriter(sink)
        self.midnight_us = self.last_us = self.row = 0
        self.counts = dict.fromkeys(
            (
                "opening_orders", "updates", "snapshots", "levels_crossed", *TRADE_COUNTS, "trades_of_unknown_side",
                "sizes_rounded",
            ), 0,
        )  # fmt: skip
        self._in_snapshot = False

    def _stamp(self, row: int, local_us: int) -> None:
        self.last_us = local_us
        self.writer.stamp(row, (local_us - self.midnight_us) * 1000)

    def update(self, update: _Update) -> None:
        """Applies a message of the book."""
        opening = not self.midnight_us
        if opening and not update.is_snapshot:
            raise TardisError(
                f"{self.path}: row 1: expected a snapshot, with which each day begins, got a change; download the day again"
            )
        self.midnight_us = self.midnight_us or update.local_us // DAY_US * DAY_US
        self.row = update.row
        begins_anew = update.is_snapshot and not self._in_snapshot
        self._in_snapshot = update.is_snapshot
        self.counts["snapshots"] += begins_anew
        self.counts["updates"] += not update.is_snapshot
        levels = (self._gone(update.levels) if begins_anew else []) + update.levels
        for level in levels:
            self.writer.source.change(*level)
        stale = self.writer.source.uncross(update.levels[-1][0])
        self.counts["levels_crossed"] += len(stale)
        levels += stale
        # corrections by a snapshot after a lost connection are not orders of that moment
        self._stamp(OPENING_ROW if update.is_snapshot else update.row, update.local_us)
        self.writer.set_levels(levels)
        if opening:
            self.counts["opening_orders"] = len(update.levels)

    def _gone(self, snapshot: list[Level]) -> list[Level]:
        """Removals of the levels that are not in a snapshot."""
        kept = {(side, price) for side, price, _ in snapshot}
        return [
            (side, price, 0) for side in (BUY, SELL) for price in self.writer.source.prices[side] if (side, price) not in kept
        ]  # fmt: skip

    def trade(self, trade: _Trade) -> None:
        """Applies a trade. Before the first message of the book, there is nothing to take from."""
        if not self.midnight_us:
            return
        if trade.resting < 0:
            self.counts["trades_of_unknown_side"] += 1
            return
        self._stamp(self.row, trade.local_us)
        self.writer.trade(self.counts, trade.resting, trade.price_ticks, trade.lots)


def _trades_path(path: Path) -> Path | None:
    """The file of trades in the same folder, compressed like that of the book or otherwise; None if there is none."""
    name = path.name.replace(BOOK_NAME, TRADES_NAME)
    if name == path.name:
        return None
    stem = name.partition(".csv")[0]
    beside = (path.with_name(each) for each in (name, *(stem + ending for ending in ENDINGS)))
    return next((each for each in beside if each.exists()), None)


def read_tardis(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a day to the sink. Raises `TardisError`."""
    options.allow_only(path, "Tardis", "symbols", "tick_size", "lot_size")
    if read_head(path).startswith(TRADES_HEADER):
        raise TardisError(
            f"{path}: expected the file of book updates, got trades; give {BOOK_NAME.strip('_')}, trades beside it are read"
        )
    tick = Decimal(options.tick_size) if options.tick_size else tick_size_of(path)
    lot, trades_path = Decimal(options.lot_size or LOT), _trades_path(path)
    reader, symbol, rows_read = _Reader(path, sink), "", 0

    def blocks() -> Iterator[Rows]:
        nonlocal symbol, rows_read
        for rows in read_rows(path, tick, lot):
            symbol, rows_read = rows.symbol, rows.first + len(rows.local_us)
            reader.counts["sizes_rounded"] += rows.sizes_rounded
            yield rows

    name = options.single_symbol(path)
    trades = _trades(trades_path, tick, lot, reader.counts) if trades_path else iter(())
    trade = next(trades, None)
    for update in _updates(blocks()):
        while trade and trade.local_us <= update.local_us:  # the update already reflects the trade
            reader.trade(trade)
            trade = next(trades, None)
        reader.update(update)
    while trade:
        reader.trade(trade)
        trade = next(trades, None)
    reader.writer.finish()
    return Reference(
        symbols=(SymbolReference(name or symbol, f"{tick.normalize():f}", f"{lot.normalize():f}"),),
        date=datetime.fromtimestamp(reader.midnight_us // 1_000_000, UTC).date().isoformat(),
        source="tardis",
        files=tuple(source_file(one) for one in (path, trades_path) if one),
        first_time_ns=reader.writer.first_time_ns,
        last_time_ns=(reader.last_us - reader.midnight_us) * 1000,
        source_rows=rows_read,
        counts=reader.counts,
    )
