"""Reads a day of CoinAPI's flat files T-LIMITBOOK_FULL: updates of orders or of levels. docs/history.md has the rules."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date as calendar_date
from itertools import chain, groupby
from pathlib import Path

from serl.history.coinapi_levels import CoinApiLevels
from serl.history.coinapi_orders import CoinApiOrders
from serl.history.coinapi_rows import SNAPSHOT, TIME, UNIT, Row, Steps, read_rows, steps_of, time_of
from serl.history.day import Reference, SymbolReference
from serl.history.errors import CoinApiError
from serl.history.order_writer import OPENING_ROW, InvalidOrder
from serl.history.source import DEFAULTS, Options, Sink, is_date, source_file, units_of

DAY_NS = 86_400 * 1_000_000_000
NAME = re.compile(r"SC-([A-Za-z0-9_]+)\+")
"""CoinAPI's symbol in a file name."""
FOLDER = re.compile(r"D-(\d{4})(\d\d)(\d\d)")
"""The folder of a day."""
LATE = "23:59"
"""Start of times of day that may belong to the day before."""
NOON_NS = DAY_NS // 2


def read_coinapi(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; reads the file twice unless --tick-size and --lot-size are given. Raises `CoinApiError`."""
    options.allow_only(path, "CoinAPI", "symbols", "tick_size", "lot_size", "date")
    name = options.single_symbol(path) or _symbol(path)
    given = options.tick_size and options.lot_size
    tick_units, lot_units = (0, 0) if given else steps_of(path)
    steps = Steps(
        units_of("tick-size", options.tick_size, UNIT) if options.tick_size else tick_units,
        units_of("lot-size", options.lot_size, UNIT) if options.lot_size else lot_units,
    )
    reader = _Reader(path, sink, steps)
    reader.read()
    first_ns, last_ns = reader.book.times_ns
    return Reference(
        symbols=(SymbolReference(name, steps.tick_size, steps.lot_size),),
        date=options.date or reader.date or _folder_date(path),
        source="coinapi",
        files=(source_file(path),),
        first_time_ns=first_ns,
        last_time_ns=last_ns,
        source_rows=reader.rows,
        counts=reader.book.counts() | {"snapshots": reader.snapshots, "sizes_rounded": steps.rounded},
    )


def _symbol(path: Path) -> str:
    match = NAME.search(path.name)
    return match[1] if match else path.name.split(".")[0]


def _folder_date(path: Path) -> str:
    matches = (FOLDER.search(part) for part in reversed(path.absolute().parts))
    dates = ["-".join(match.groups()) for match in matches if match]
    return next(filter(is_date, dates), "")


class _Reader:
    """Passes rows on to a book of orders, or of levels if the first row names no order."""

    def __init__(self, path: Path, sink: Sink, steps: Steps) -> None:
        self.rows = 0
        self.snapshots = 0
        self.date = ""
        self.book: CoinApiOrders | CoinApiLevels = CoinApiOrders(sink, steps)
        self._path, self._sink = path, sink
        self._opening: list[Row] = []
        self._days = ("", 0)
        """Date of the last row, and how many days it is after the first."""
        self._rows_before = 0
        """Number of first rows in the file that belong to the day before; files without dates do not show this."""

    def read(self) -> None:
        """Reads the file. Raises `CoinApiError`."""
        for is_snapshot, rows in groupby(self._read_rows(), key=lambda row: row.kind == SNAPSHOT):
            if is_snapshot:
                self._snapshot(list(rows))
            else:
                self._each(rows, self._update)
        if self._opening:
            self._each(self._opening[:1], self._enter_opening)
        if not self.rows:
            raise CoinApiError(f"{self._path}: row 1: expected at least one update, got a header alone")
        self.book.finish()

    def _read_rows(self) -> Iterator[Row]:
        """The rows of the file. Updates of the last minute before midnight belong to the day before if an update of the morning follows them."""
        rows = read_rows(self._path)
        late: list[Row] = []
        for row in rows:
            late.append(row)
            if row.kind != SNAPSHOT and not row.time.startswith(LATE):
                if TIME.fullmatch(row.time) and time_of(row.time) < ("", NOON_NS):
                    self._rows_before = row.number
                break
        return chain(late, rows)

    def _each(self, rows: Iterable[Row], apply: Callable[[Row], None]) -> None:
        for row in rows:
            try:
                apply(row)
            except InvalidOrder as error:
                raise CoinApiError(f"{self._path}: row {row.number + 1}: expected {error}, got {row}") from None

    def _choose(self, first: Row) -> None:
        if not self.rows and not first.order_id:
            self.book = CoinApiLevels(self._sink, self.book.steps)

    def _snapshot(self, rows: list[Row]) -> None:
        """Replaces the book by a snapshot: whatever is not in it is removed. The first snapshot waits for the time of the first update. A later
        snapshot shows what was missed during a lost connection; its rows are not new orders at that moment."""
        self._choose(rows[0])
        self.snapshots += 1
        is_opening = self.rows == 0
        self.rows = rows[-1].number + 1
        if is_opening:
            self._opening = rows
            return
        # its rows may be older than the last update
        self._each(rows[:1], lambda row: self._stamp(row, OPENING_ROW, self.book.times_ns[1]))
        self._each(rows[:1], lambda row: self.book.remove_others(rows))
        self._each(rows, self.book.enter)

    def _enter_opening(self, first: Row) -> None:
        """Enters the opening book, whose own times belong to the day before."""
        self._stamp(first, OPENING_ROW)
        rows, self._opening = self._opening, []
        self._each(rows, self.book.enter)

    def _update(self, row: Row) -> None:
        self._choose(row)
        if self._opening:
            self._enter_opening(row)
        self.rows = row.number + 1
        self._stamp(row, row.number)
        self.book.update(row)

    def _stamp(self, row: Row, number: int, least_ns: int = 0) -> None:
        date, time_ns = time_of(row.time)
        if not date and row.number < self._rows_before:
            time_ns = 0
        if date != self._days[0]:
            self._days = date, self._days_after_first(date)
        self.book.stamp(number, max(least_ns, self._days[1] * DAY_NS + time_ns))

    def _days_after_first(self, date: str) -> int:
        if not is_date(date):
            raise InvalidOrder("a date")
        self.date = self.date or date
        days = (calendar_date.fromisoformat(date) - calendar_date.fromisoformat(self.date)).days
        if abs(days) > 1:
            raise InvalidOrder(f"a time of {self.date}, the day of the first update")
        return days
