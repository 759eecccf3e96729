"""Parses CoinAPI's flat files of full limit order books (docs.coinapi.io, Flat Files, "Full Limit Order Book") block by block.

The documentation shows commas and complete times; files of the bucket T-LIMITBOOK_FULL have semicolons and times of day. Both are read, with
their columns in any order.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from serl.exchange.records import CASH_MAX
from serl.history.errors import CoinApiError
from serl.history.order_writer import InvalidOrder
from serl.history.table_rows import BYTE_ORDER_MARK, RowCheck, read_tables

COLUMNS = ("time_exchange", "time_coinapi", "is_buy", "update_type", "entry_px", "entry_sx", "order_id")
DECIMAL = pa.decimal128(38, 12)
UNIT = Decimal("0.000000000001")
TYPES: dict[str, pa.DataType] = {
    "time_exchange": pa.string(), "is_buy": pa.string(), "update_type": pa.string(), "entry_px": DECIMAL, "entry_sx": DECIMAL,
    "order_id": pa.string(),
}  # fmt: skip
"""Types of the columns that are read."""
SIDES = ("1", "0", "true", "false", "True", "False")
UPDATES = ("SNAPSHOT", "ADD", "SUB", "MATCH", "SET", "DELETE")
SNAPSHOT, ADD, SUB, MATCH, SET, DELETE = range(len(UPDATES))
TIME = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\d)[T ])?(?P<hours>[01]\d|2[0-3]):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)(?:\.(?P<fraction>\d{1,9}))?Z?"
)


class Row(NamedTuple):
    """An update. Prices and sizes in UNIT, sides as of `stream_book`."""

    number: int
    """Row number, from 0."""
    time: str
    side: int
    kind: int
    price_units: int
    size_units: int
    order_id: str

    def __str__(self) -> str:
        price, size = (f"{(units * UNIT).normalize():f}" for units in (self.price_units, self.size_units))
        return f"{self.time}, {UPDATES[self.kind]}, {price}, {size}, {self.order_id!r}"


@dataclass
class Steps:
    """Tick and lot, in UNIT."""

    tick_units: int
    lot_units: int
    rounded: int = 0
    """Number of sizes that were rounded."""

    @property
    def tick_size(self) -> str:
        """The tick size as a decimal."""
        return f"{(self.tick_units * UNIT).normalize():f}"

    @property
    def lot_size(self) -> str:
        """The lot size as a decimal."""
        return f"{(self.lot_units * UNIT).normalize():f}"

    def ticks(self, row: Row) -> int:
        """The price of a row in ticks. Raises `InvalidOrder` for a price off the tick."""
        ticks, between = divmod(row.price_units, self.tick_units)
        if between:
            raise InvalidOrder(f"a price at a multiple of the tick {self.tick_size}")
        return ticks

    def lots(self, units: int) -> int:
        """A size rounded to the nearest lot; at least 1 lot unless the size is 0."""
        lots, between = divmod(units, self.lot_units)
        self.rounded += between != 0
        return max(1, lots + (2 * between >= self.lot_units)) if between else lots


def is_coinapi(head: bytes) -> bool:
    """Whether a file begins with the names of the columns, in any order."""
    names = head.partition(b"\n")[0].removeprefix(BYTE_ORDER_MARK).strip().replace(b";", b",").split(b",")
    return sorted(names) == sorted(name.encode() for name in COLUMNS)


def time_of(text: str) -> tuple[str, int]:
    """(date, or '' if the text has none; time in ns after midnight). Raises `InvalidOrder`."""
    match = TIME.fullmatch(text)
    if match is None:
        raise InvalidOrder("hours, minutes and seconds with up to nine decimals, perhaps after a date")
    seconds = int(match["hours"]) * 3600 + int(match["minutes"]) * 60 + int(match["seconds"])
    return match["date"] or "", seconds * 1_000_000_000 + int((match["fraction"] or "").ljust(9, "0"))


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file. Raises `CoinApiError` for an invalid one."""
    for first, table, check in _tables(path):
        side = check.codes("is_buy", table["is_buy"], SIDES) % 2
        kind = check.codes("update_type", table["update_type"], UPDATES)
        price = _units(check, "entry_px", table["entry_px"])
        size = _units(check, "entry_sx", table["entry_sx"])
        columns = (
            table["time_exchange"].to_pylist(),
            side.tolist(),
            kind.tolist(),
            price,
            size,
            table["order_id"].to_pylist(),
        )
        for number, cells in enumerate(zip(*columns, strict=True), first):
            yield Row(number, *cells)


def steps_of(path: Path) -> tuple[int, int]:
    """(the largest step that divides all prices, the largest that divides all sizes), in UNIT. Raises `CoinApiError`."""
    price_step = size_step = 0
    for _, table, check in _tables(path):
        price_step = gcd(price_step, *set(_units(check, "entry_px", table["entry_px"])))
        size_step = gcd(size_step, *set(_units(check, "entry_sx", table["entry_sx"])))
    if not price_step or not size_step:
        raise CoinApiError(f"{path}: expected rows with prices and sizes above 0, got none; download the day again")
    return price_step, size_step


def _tables(path: Path) -> Iterator[tuple[int, pa.Table, RowCheck]]:
    return read_tables(
        path, lambda header: TYPES, CoinApiError, lambda lines: lines.replace(b";", b",")
    )  # no cell has either


def _units(check: RowCheck, name: str, column: Any) -> list[int]:
    """A column of decimals in UNIT, 0 to 2^53 of the whole."""
    encoded = column.combine_chunks().dictionary_encode()  # prices and sizes repeat often
    values = [int(value / UNIT) for value in encoded.dictionary.to_pylist()]
    rows = encoded.indices.to_numpy()
    bad = np.array([not 0 <= value <= CASH_MAX * int(1 / UNIT) for value in values])[rows]
    check(name, bad, "a decimal not below 0, at most 2^53", column)
    return [values[row] for row in rows.tolist()]
