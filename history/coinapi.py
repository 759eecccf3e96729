"""Reads a day of order-by-order updates (Level 3) of CoinAPI's flat files T-LIMITBOOK_FULL; docs/history.md has the rules."""

import re
from collections.abc import Callable, Iterable
from datetime import date as calendar_date
from decimal import Decimal
from itertools import groupby
from pathlib import Path

from serl.history.coinapi_rows import (
    ADD,
    DELETE,
    MATCH,
    SET,
    SNAPSHOT,
    UNIT,
    UPDATES,
    Row,
    read_rows,
    steps_of,
    time_of,
)
from serl.history.day import Reference, SymbolReference
from serl.history.errors import CoinApiError
from serl.history.order_writer import OPENING_ROW, InvalidOrder, OrderWriter
from serl.history.source import DEFAULTS, Options, Sink, is_date, source_file, units_of
from serl.history.stream_book import BUY, SELL

DAY_NS = 86_400 * 1_000_000_000
NAME = re.compile(r"SC-([A-Za-z0-9_]+)\+")
"""CoinAPI's symbol in a file name."""
FOLDER = re.compile(r"D-(\d{4})(\d\d)(\d\d)")
"""The folder of a day."""
COUNT_NAMES = ("snapshots", "sizes_rounded", "adds_repeated", "sizes_beyond_open")


def read_coinapi(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; reads the file twice unless --tick-size and --lot-size are given. Raises `CoinApiError`."""
    options.allow_only(path, "CoinAPI", "symbols", "tick_size", "lot_size", "date")
    name = options.single_symbol(path) or _symbol(path)
    steps = (0, 0) if options.tick_size and options.lot_size else steps_of(path)
    tick_units = units_of("tick-size", options.tick_size, UNIT) if options.tick_size else steps[0]
    lot_units = units_of("lot-size", options.lot_size, UNIT) if options.lot_size else steps[1]
    reader = _Reader(path, sink, tick_units, lot_units)
    reader.read()
    return Reference(
        symbols=(SymbolReference(name, _size(tick_units), _size(lot_units)),),
        date=options.date or reader.date or _folder_date(path),
        source="coinapi",
        files=(source_file(path),),
        first_time_ns=reader.writer.first_time_ns,
        last_time_ns=reader.writer.last_time_ns,
        source_rows=reader.rows,
        counts=reader.writer.all_counts() | reader.counts,
    )


def _size(units: int) -> str:
    return f"{(units * UNIT).normalize():f}"


def _symbol(path: Path) -> str:
    match = NAME.search(path.name)
    return match[1] if match else path.name.split(".")[0]


def _folder_date(path: Path) -> str:
    matches = (FOLDER.search(part) for part in reversed(path.absolute().parts))
    dates = ["-".join(match.groups()) for match in matches if match]
    return next(filter(is_date, dates), "")


class _Reader:
    """Converts rows to events of orders. Sizes are kept exactly, and rounded to lots per order."""

    def __init__(self, path: Path, sink: Sink, tick_units: int, lot_units: int) -> None:
        self.writer = OrderWriter(sink, 1, removes_crossed=False)
        self.counts = dict.fromkeys(COUNT_NAMES, 0)
        self.rows = 0
        self.date = ""
        self._path = path
        self._tick_units, self._lot_units = tick_units, lot_units
        self._open_units: dict[str, int] = {}
        """[order_id] exact open size."""
        self._opening: list[Row] = []
        self._days = ("", 0)
        """Date of the last row, and how many days it is after the first."""

    def read(self) -> None:
        """Reads the file. Raises `CoinApiError`."""
        for is_snapshot, rows in groupby(read_rows(self._path), key=lambda row: row.kind == SNAPSHOT):
            if is_snapshot:
                self._snapshot(list(rows))
            else:
                self._each(rows, self._update)
        if self._opening:
            self._enter_opening(self._opening[0])
        if not self.rows:
            raise CoinApiError(f"{self._path}: row 1: expected at least one update, got a header alone")
        self.writer.flush()

    def _each(self, rows: Iterable[Row], apply: Callable[[Row], None]) -> None:
        for row in rows:
            try:
                apply(row)
            except InvalidOrder as error:
                cells = f"{row.time}, {UPDATES[row.kind]}, {row.price_units * UNIT:f}, {row.size_units * UNIT:f}, {row.order_id!r}"
                raise CoinApiError(f"{self._path}: row {row.number + 1}: expected {error}, got {cells}") from None

    def _snapshot(self, orders: list[Row]) -> None:
        """Everything before it is discarded: what is not in it is gone. The first one waits for the time of the first update."""
        self.counts["snapshots"] += 1
        is_opening = self.rows == 0
        self.rows = orders[-1].number + 1
        if is_opening:
            self._opening = orders
            return
        self._each(orders[:1], lambda row: self._stamp(row, row.number))
        kept = {row.order_id for row in orders}
        for order_id in [order_id for order_id in self._open_units if order_id not in kept]:
            self._leave(order_id, 0, traded=False)
        self._each(orders, self._set)

    def _enter_opening(self, first: Row) -> None:
        """The opening book, whose own times are of the day before."""
        self._stamp(first, OPENING_ROW)
        self._each(self._opening, self._set)
        self._opening = []

    def _update(self, row: Row) -> None:
        if self._opening:
            self._enter_opening(row)
        self.rows = row.number + 1
        self._stamp(row, row.number)
        self._apply(row)

    def _stamp(self, row: Row, number: int) -> None:
        date, time_ns = time_of(row.time)
        if date != self._days[0]:
            if not is_date(date):
                raise InvalidOrder("a date")
            self.date = self.date or date
            self._days = date, (calendar_date.fromisoformat(date) - calendar_date.fromisoformat(self.date)).days
        self.writer.stamp(number, max(0, self._days[1] * DAY_NS + time_ns))

    def _apply(self, row: Row) -> None:
        open_units = self._open_units.get(row.order_id)
        if row.kind == ADD or (row.kind == SET and row.size_units):
            self.counts["adds_repeated"] += row.kind == ADD and open_units is not None
            self._set(row)
        elif open_units is None:
            _require_order(row)
            self.writer.counts["orders_unknown"] += 1
        elif row.kind == DELETE or row.kind == SET:
            self._leave(row.order_id, 0, traded=False)
        else:
            self.counts["sizes_beyond_open"] += row.size_units > open_units
            self._leave(row.order_id, max(0, open_units - row.size_units), traded=row.kind == MATCH)

    def _set(self, row: Row) -> None:
        """An order enters, or gets another size or price."""
        _require_order(row)
        ticks, between = divmod(row.price_units, self._tick_units)
        if between:
            raise InvalidOrder(f"a price at a multiple of the tick {_size(self._tick_units)}")
        side, lots = BUY if row.side == 0 else SELL, self._lots(row.size_units)
        order = self.writer.orders.get(row.order_id)
        if order is None:
            self.writer.add(row.order_id, 0, side, ticks, lots)
        elif order.side != side:
            raise InvalidOrder("the side that the order has")
        else:
            self.writer.modify(row.order_id, ticks, lots, keeps_priority=True)
        self._open_units[row.order_id] = row.size_units

    def _leave(self, order_id: str, units: int, *, traded: bool) -> None:
        """Leaves an order so much of its size."""
        lots = self.writer.orders[order_id].lots - self._lots(units)
        if lots and traded:
            self.writer.execute(order_id, lots)
        elif lots:
            self.writer.reduce(order_id, lots)
        if units:
            self._open_units[order_id] = units
        else:
            del self._open_units[order_id]

    def _lots(self, units: int) -> int:
        """To the nearest lot, at least 1 if not 0."""
        lots, between = divmod(units, self._lot_units)
        self.counts["sizes_rounded"] += between != 0
        return max(1, round(Decimal(units) / self._lot_units)) if between else lots


def _require_order(row: Row) -> None:
    if not row.order_id:
        raise InvalidOrder("an order_id (Level 3); this file shows levels, not orders")
