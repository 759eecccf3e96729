"""Exports days to a NautilusTrader catalogue for its backtest: instruments, order book deltas, quotes, trades and market status."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from nautilus_trader.model.data import InstrumentStatus, OrderBookDelta, QuoteTick, TradeTick
from nautilus_trader.model.enums import RecordFlag
from nautilus_trader.model.identifiers import TradeId
from nautilus_trader.persistence.catalog import ParquetDataCatalog
from numpy.typing import NDArray

from serl.exchange.errors import ConfigError
from serl.exchange.market import Market
from serl.exchange.records import EventFlag, EventKind, HaltReason, Phase, Rows
from serl.gateways.nautilus.book_changes import BookTracker, Detail
from serl.gateways.nautilus.instruments import SymbolUnits, instrument_of
from serl.gateways.nautilus.status import instrument_status
from serl.history import tables
from serl.history.accounts import market_of_accounts
from serl.history.day import Day, read_day
from serl.history.verify import market_of

DATELESS = "2000-01-03"
"""The date given to a generated or simulated day, which has none of its own."""
BLOCK_COMMANDS = 1 << 16
FILE_ROWS = 1 << 18
"""Number of rows after which a file ends at the next new time: a catalogue's files must not overlap."""
BUYER, SELLER, NO_AGGRESSOR = 1, 2, 0
"""Values of nautilus_trader's AggressorSide."""


@dataclass
class Exported:
    """The result of exporting one symbol: the number of deltas, quotes, trades and status changes written."""

    instrument: Any
    """The `Instrument`."""
    deltas: int = 0
    quotes: int = 0
    trades: int = 0
    statuses: int = 0


@dataclass
class _Series:
    """Buffers data of one kind, in order of time, on its way into the catalogue."""

    catalog: Any
    waiting: list[Any] = field(default_factory=list)
    count: int = 0

    def add(self, items: list[Any]) -> None:
        """Adds items; writes a file once enough have accumulated."""
        self.waiting += items
        if len(self.waiting) >= FILE_ROWS:
            self._write(_last_new_time(self.waiting))

    def close(self) -> None:
        """Writes the remaining items."""
        self._write(len(self.waiting))

    def _write(self, stop: int) -> None:
        if stop:
            self.catalog.write_data(self.waiting[:stop])
            self.count += stop
            del self.waiting[:stop]


def export_day(
    day_path: Path | str, catalog_path: Path | str, *, book: Detail = "l3", symbol: str | None = None, date: str = "", time_zone: str = "UTC",
    currency: str = "USD",
) -> list[Exported]:  # fmt: skip
    """Writes a day to a NautilusTrader catalogue, which may already have other data. The day appears completely or not at all.

    Args:
        day_path: a day file, including one from `serl record --accounts`.
        catalog_path: folder of the `ParquetDataCatalog`.
        book: "l3" for an order book delta for each order (for `BookType.L3_MBO`), "l2" for one for each price level (`BookType.L2_MBP`).
        symbol: the symbol to export; None for all.
        date: YYYY-MM-DD for a day that has no date (default: `DATELESS`).
        time_zone: the time zone of the day's times; NautilusTrader uses UTC.
        currency: the currency of prices and profits if the symbol's name is not a pair.

    Raises:
        DayError: the file is not a day file.
        ConfigError: the day has no such symbol, a setting is invalid, or the catalogue already has data of these symbols at that time.
    """
    day = read_day(day_path, accounts=True)
    names = [one.name for one in day.reference.symbols]
    if symbol is not None and symbol not in names:
        raise ConfigError(f"symbol: expected one of {', '.join(names)}, got {symbol}; give a symbol of the day")
    midnight_ns = _midnight_ns(day.reference.date or date or DATELESS, time_zone)
    target = Path(catalog_path).resolve()
    target.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".export-", dir=target) as folder:
        written = ParquetDataCatalog(folder)
        symbols = [
            _SymbolExport(written, day, number, book, midnight_ns, currency)
            for number, name in enumerate(names)
            if symbol in (None, name)
        ]
        for one in symbols:
            _check_free(ParquetDataCatalog(str(target)), one.instrument.id.value, day, midnight_ns)
        for events in _events(day):
            for one in symbols:
                one.add(events)
        exported = [one.close() for one in symbols]
        _move(Path(folder), target)
    return exported


class _SymbolExport:
    def __init__(self, catalog: Any, day: Day, number: int, book: Detail, midnight_ns: int, currency: str) -> None:
        reference = day.reference.symbols[number]
        self._units = SymbolUnits.of(reference.name, reference.tick_size, reference.lot_size)
        start_ns = midnight_ns + (int(day.commands["time_ns"][0]) if len(day) else 0)
        self.instrument = instrument_of(
            reference.name, reference.tick_size, reference.lot_size, currency, time_ns=start_ns
        )
        self._catalog, self._day, self._number, self._midnight_ns = catalog, day, number, midnight_ns
        self._tracker = BookTracker(book)
        self._halted, self._phase = False, Phase.CONTINUOUS
        self._deltas, self._trades, self._statuses = _Series(catalog), _Series(catalog), _Series(catalog)

    def add(self, events: Rows) -> None:
        own = events[events["symbol"] == self._number]
        self._deltas.add(self._book_deltas(own))
        self._trades.add(self._trade_ticks(own))
        self._statuses.add([self._status(event) for event in own[np.isin(own["kind"], STATUS_KINDS)]])

    def close(self) -> Exported:
        quotes = _Series(self._catalog)
        for items in self._quote_ticks():
            quotes.add(items)
        for series in (self._deltas, quotes, self._trades, self._statuses):
            series.close()
        self._catalog.write_data([self.instrument])
        return Exported(self.instrument, self._deltas.count, quotes.count, self._trades.count, self._statuses.count)

    def _book_deltas(self, events: Rows) -> list[Any]:
        changes = self._tracker.update(events)
        rows = events[changes.event]
        times_ns = (rows["time_ns"] + self._midnight_ns).tolist()
        flags = np.where(changes.is_last, RecordFlag.F_LAST.value, 0)
        columns = zip(
            changes.action.tolist(), (changes.side + 1).tolist(), changes.price_ticks.tolist(), changes.qty_lots.tolist(),
            changes.key.tolist(), flags.tolist(), rows["sequence"].tolist(), times_ns, strict=True,
        )  # fmt: skip
        units, name = self._units, self.instrument.id
        tick, lot, price_places, size_places = units.tick_raw, units.lot_raw, units.price_places, units.size_places
        make = OrderBookDelta.from_raw
        return [
            make(name, action, side, ticks * tick, price_places, lots * lot, size_places, key, flag, sequence, time_ns, time_ns)
            for action, side, ticks, lots, key, flag, sequence, time_ns in columns
        ]  # fmt: skip

    def _trade_ticks(self, events: Rows) -> list[Any]:
        kind, flags = events["kind"], events["flags"]
        rows = events[((kind == EventKind.FILL) & (flags & EventFlag.MAKER > 0)) | (kind == EventKind.PRINT)]
        aggressor = np.where(
            rows["flags"] & EventFlag.AUCTION > 0, NO_AGGRESSOR, np.where(rows["side"] == 0, SELLER, BUYER)
        )
        units, name = self._units, self.instrument.id
        times_ns = (rows["time_ns"] + self._midnight_ns).tolist()
        columns = (rows[column].tolist() for column in ("price_ticks", "qty_lots", "match_id"))
        return [
            TradeTick(name, units.price(ticks), units.quantity(lots), side, TradeId(str(match)), time_ns, time_ns)
            for ticks, lots, match, side, time_ns in zip(*columns, aggressor.tolist(), times_ns, strict=True)
        ]

    def _quote_ticks(self) -> Iterator[list[Any]]:
        """Quotes after each command that changed the best bid or ask, while both sides have orders."""
        table = tables.quotes(self._day, self.instrument.raw_symbol.value)
        table = table.rows((table["bid_lots"] > 0) & (table["ask_lots"] > 0))
        units, name = self._units, self.instrument.id
        tick, lot, price_places, size_places = units.tick_raw, units.lot_raw, units.price_places, units.size_places
        make = QuoteTick.from_raw
        for first in range(0, len(table), BLOCK_COMMANDS):
            part = table.rows(slice(first, first + BLOCK_COMMANDS))
            times_ns = (part["time_ns"] + self._midnight_ns).tolist()
            columns = (part[column].tolist() for column in ("bid_ticks", "ask_ticks", "bid_lots", "ask_lots"))
            yield [
                make(name, bid * tick, ask * tick, price_places, price_places, bids * lot, asks * lot, size_places, size_places, time_ns, time_ns)
                for bid, ask, bids, asks, time_ns in zip(*columns, times_ns, strict=True)
            ]  # fmt: skip

    def _status(self, event: Any) -> Any:
        kind, flags, reason = int(event["kind"]), int(event["flags"]), 0
        if kind == EventKind.PHASED:
            self._phase = Phase(flags)
            reason = HaltReason.VOLATILITY if self._phase == Phase.VOLATILITY else HaltReason.NONE
        else:
            self._halted = kind == EventKind.HALTED
            reason = flags if self._halted else HaltReason.NONE
        time_ns = int(event["time_ns"]) + self._midnight_ns
        return instrument_status(self.instrument.id, self._halted, self._phase, reason, time_ns, time_ns)


STATUS_KINDS = (EventKind.HALTED, EventKind.RESUMED, EventKind.PHASED)


def _events(day: Day) -> Iterator[Rows]:
    """Yields the EVENT rows of a replay of the day in which nobody else trades, block by block."""
    market, commands = _market(day)
    for first in range(0, len(commands), BLOCK_COMMANDS):
        yield market.submit(commands[first : first + BLOCK_COMMANDS])


def _market(day: Day) -> tuple[Market, Rows]:
    return (market_of_accounts(day), day.commands) if day.reference.participants else market_of(day)


def _midnight_ns(date: str, time_zone: str) -> int:
    try:
        midnight = datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(time_zone))
    except ValueError:
        raise ConfigError(f"date: expected YYYY-MM-DD, got {date!r}") from None
    except (ZoneInfoNotFoundError, OSError):
        raise ConfigError(f"time_zone: expected a name like America/New_York, got {time_zone!r}") from None
    if midnight.timestamp() < 0:
        raise ConfigError(f"date: expected 1970-01-02 or later for nautilus_trader, got {date}")
    return int(midnight.timestamp()) * 1_000_000_000


def _last_new_time(items: list[Any]) -> int:
    """How many of the items come before the last item's time; all of them if there is only one time."""
    last_ns = items[-1].ts_init
    return next((stop for stop in range(len(items) - 1, 0, -1) if items[stop - 1].ts_init != last_ns), 0)


def _check_free(catalog: Any, instrument: str, day: Day, midnight_ns: int) -> None:
    if not len(day):
        return
    times_ns: NDArray[np.int64] = day.commands["time_ns"] + midnight_ns
    for kind in (OrderBookDelta, QuoteTick, TradeTick, InstrumentStatus):
        for first_ns, last_ns in catalog.get_intervals(kind, instrument):
            if first_ns <= times_ns[-1] and last_ns >= times_ns[0]:
                raise ConfigError(
                    f"{catalog.path}: expected no {kind.__name__} of {instrument} at the times of this day, got some; give another folder or date"
                )


def _move(source: Path, target: Path) -> None:
    """Moves the files of one catalogue into another; the instruments last, because a backtest looks for them first."""
    files = sorted(source.rglob("*.parquet"), key=lambda path: path.parent.parent.name in ("equity", "currency_pair"))
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, place)
