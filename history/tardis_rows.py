"""Parses Tardis's CSV files of book updates and trades (docs.tardis.dev, "Data Types") block by block."""

from collections.abc import Iterator
from decimal import Decimal
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from serl.exchange.records import CASH_MAX
from serl.history.errors import TardisError
from serl.history.table_rows import RowCheck, read_tables

BOOK_HEADER = b"exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount"
TRADES_HEADER = b"exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
DECIMAL = pa.decimal128(38, 12)
TYPES = {"symbol": pa.string(), "local_timestamp": pa.int64(), "side": pa.string(), "price": DECIMAL, "amount": DECIMAL}
BOOK_SIDES, TRADE_SIDES = ("bid", "ask"), ("buy", "sell", "unknown")
SNAPSHOT = "is_snapshot"
TIME_US_MAX = 4_102_444_800_000_000
"""The year 2100, so that times in ns stay within 64 bits."""
PRICE_UNIT = Decimal("0.000000001")


class Rows(NamedTuple):
    """Consecutive rows of a file, as columns."""

    first: int
    """Number of the first row, from 0."""
    symbol: str
    local_us: NDArray[np.int64]
    """Time of arrival since 1970."""
    is_snapshot: NDArray[np.bool_]
    """False for trades."""
    side: NDArray[np.int64]
    """Position in BOOK_SIDES or TRADE_SIDES."""
    price_ticks: NDArray[np.int64]
    lots: NDArray[np.int64]
    sizes_rounded: int


def is_tardis(head: bytes) -> bool:
    """Whether a file begins with the header of book updates, or of trades."""
    return head.partition(b"\n")[0].rstrip(b"\r") in (BOOK_HEADER, TRADES_HEADER)


def read_rows(path: Path, tick_size: Decimal, lot_size: Decimal) -> Iterator[Rows]:
    """The rows of a file, block by block. Sizes are rounded to the nearest lot, at least 1 if not 0.

    Raises `TardisError` for an invalid row, a time that runs backwards, and several symbols.
    """
    symbol, last_us = "", 0
    for first, table, check in _tables(path):
        rows = _columns(table, check, first, tick_size, lot_size)
        symbol = symbol or rows.symbol
        check(
            "symbol",
            pc.not_equal(table["symbol"], symbol).to_numpy(),
            f"{symbol}, the symbol of the rows above",
            table["symbol"],
        )
        backwards = np.diff(rows.local_us, prepend=last_us) < 0
        check("local_timestamp", backwards, "a time not before the row above", rows.local_us)
        last_us = int(rows.local_us[-1])
        yield rows


def tick_size_of(path: Path) -> Decimal:
    """The largest step that divides all prices. Raises as `read_rows`."""
    unit = 0
    for _, table, check in _tables(path):
        for price in pc.unique(table["price"]).to_pylist():
            units = price / PRICE_UNIT
            if units <= 0 or units != int(units):
                row = pc.index(table["price"], pa.scalar(price, DECIMAL)).as_py()
                check(
                    "price", np.arange(len(table)) == row, "a decimal above 0 with at most nine places", table["price"]
                )
            unit = gcd(unit, int(units))  # numpy's gcd is limited to 64 bits
    if not unit:
        raise TardisError(f"{path}: expected at least one row, got a header alone; download the day again")
    return unit * PRICE_UNIT


def _tables(path: Path) -> Iterator[tuple[int, pa.Table, RowCheck]]:
    return read_tables(path, _kinds, TardisError)


def _kinds(header: bytes) -> dict[str, pa.DataType]:
    return TYPES | ({SNAPSHOT: pa.string()} if header == BOOK_HEADER else {})


def _columns(table: pa.Table, check: RowCheck, first: int, tick_size: Decimal, lot_size: Decimal) -> Rows:
    is_book = SNAPSHOT in table.column_names
    local_us = table["local_timestamp"].to_numpy()
    check(
        "local_timestamp", (local_us < 0) | (local_us > TIME_US_MAX), "microseconds since 1970, before 2100", local_us
    )
    sides = BOOK_SIDES if is_book else TRADE_SIDES
    side = check.codes("side", table["side"], sides)
    price_ticks, lots = _units(table["price"], tick_size), _units(table["amount"], lot_size)
    check("price", price_ticks <= 0, "a price above 0", table["price"])
    check("price", price_ticks != np.floor(price_ticks), f"a multiple of the tick {tick_size:f}", table["price"])
    check(
        "amount",
        lots < 0 if is_book else lots <= 0,
        f"an amount {'not below' if is_book else 'above'} 0",
        table["amount"],
    )
    check(
        "amount", lots * price_ticks > CASH_MAX, "at most 2^53 ticks x lots; give a larger --lot-size", table["amount"]
    )
    rounded = np.where(lots > 0, np.maximum(np.rint(lots), 1), 0).astype(np.int64)
    return Rows(
        first, table["symbol"][0].as_py(), local_us, _is_snapshot(table, check), side, price_ticks.astype(np.int64), rounded,
        int(np.count_nonzero(rounded != lots)),
    )  # fmt: skip


def _is_snapshot(table: pa.Table, check: RowCheck) -> NDArray[np.bool_]:
    if SNAPSHOT not in table.column_names:
        return np.zeros(len(table), np.bool_)
    flags = table[SNAPSHOT]
    check(SNAPSHOT, pc.invert(pc.is_in(flags, pa.array(["true", "false"]))).to_numpy(), "true or false", flags)
    return pc.equal(flags, "true").to_numpy().astype(np.bool_)


def _units(column: Any, unit: Decimal) -> NDArray[np.float64]:
    """A column of decimals in units of a tick or lot; whole numbers up to 2^53 are exact."""
    encoded = column.combine_chunks().dictionary_encode()  # prices and sizes repeat often
    return np.array([float(value / unit) for value in encoded.dictionary.to_pylist()])[encoded.indices.to_numpy()]
