"""Converts tables of bars to the canonical table that training and execution read.

The canonical table is Parquet with symbol, date, ToD (the start of the bar), open, high, low, close, volume and, if known, amount.
"""

import io
from collections import Counter
from csv import reader as csv_reader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file
from serl.history.bar_times import date_and_time
from serl.history.decompress import read_blocks, read_head
from serl.history.errors import BarsError
from serl.history.source import DEFAULTS, Options
from serl.history.table_rows import BYTE_ORDER_MARK, RowCheck, first_malformed_row

PRICES = ("open", "high", "low", "close")
MOMENT = "moment"
"""Column that tells equal bars of an hour that is repeated when daylight saving time ends; it is not written."""
ALIASES = {
    "open": ("open", "o", "open_price"),
    "high": ("high", "h", "high_price"),
    "low": ("low", "l", "low_price"),
    "close": ("close", "c", "close_price", "last"),
    "volume": ("volume", "vol", "v"),
    "amount": ("amount", "turnover", "quote_volume", "quote asset volume"),
    "symbol": ("symbol", "ticker", "sym", "code", "stock", "instrument"),
    "moment": ("timestamp", "datetime", "date_time", "open_time", "open time", "ts", "ts_event", "time_ns"),
    "date": ("date", "day", "trading_day"),
    "clock": ("tod", "time", "time_of_day"),
}
"""Lower-case column names of other tables, by canonical name."""


def _names(columns: list[str]) -> dict[str, str]:
    """The table's column names by canonical name."""
    lower = {name.strip().lower(): name for name in columns}
    return {
        canonical: next(lower[alias] for alias in aliases if alias in lower)
        for canonical, aliases in ALIASES.items()
        if any(alias in lower for alias in aliases)
    }


def _require_once(path: Path, columns: list[str]) -> None:
    """BarsError if two columns have one of the names of ALIASES."""
    known = {alias for aliases in ALIASES.values() for alias in aliases}
    for name, count in Counter(column.strip().lower() for column in columns).items():
        if name in known and count > 1:
            raise BarsError(
                f"{path}: expected one column {name}, got {count} ({', '.join(columns)}); remove or rename the others"
            )


def _columns(path: Path, start: bytes) -> list[str]:
    """Column names of a Parquet or CSV file; empty if it is neither."""
    if start.startswith(b"PAR1"):
        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError):
            return []
    header = b"".join(start.removeprefix(BYTE_ORDER_MARK).splitlines()[:1])
    return next(csv_reader([header.decode(errors="replace")]), [])


def is_bars(path: Path, start: bytes) -> bool:
    """Whether a file has columns of bars: prices and their times. start: its first decompressed bytes."""
    names = _names(_columns(path, start))
    return set(PRICES) <= names.keys() and bool({"moment", "date"} & names.keys())


def is_canonical(path: Path, start: bytes) -> bool:
    """Whether a file is the canonical table, which training reads directly."""
    columns = set(_columns(path, start))
    needed = {"symbol", "date", *PRICES, "volume"}
    return start.startswith(b"PAR1") and needed <= columns and ("ToD" in columns or {"time", "period"} <= columns)


def bars_advice(path: Path) -> str:
    """The error text for a file of bars where a day with an order book is expected."""
    if is_canonical(path, read_head(path)):
        return f"{path}: expected orders to replay, got bars; `serl train`, `serl evaluate` and `serl data` read this file directly"
    return (
        f"{path}: expected orders to replay, got bars; `serl day import {path.name} -o bars.parquet` converts them to the table that "
        "`serl train`, `serl evaluate` and `serl data` read"
    )


def import_bars(path: Path, output: Path, options: Options = DEFAULTS) -> dict[str, int]:
    """Writes the canonical table of a file of bars; returns the number of bars, symbols and dates. Raises `BarsError`."""
    options.allow_only(path, "bars", "symbols", "time_zone")
    start = read_head(path)
    if is_canonical(path, start):
        raise BarsError(bars_advice(path))
    if not is_bars(path, start):
        raise BarsError(
            f"{path}: expected columns open, high, low, close and times, got {', '.join(_columns(path, start))}"
        )
    table = _read(path, start)
    if table.num_rows == 0:
        raise BarsError(f"{path}: expected at least one bar, got an empty table")
    names = _names(table.column_names)
    _require_once(path, table.column_names)
    if "volume" not in names:
        raise BarsError(f"{path}: expected a column of volumes, got {', '.join(table.column_names)}")
    check = RowCheck(path, BarsError)
    date, clock, moment = date_and_time(table, names, options.time_zone, check)
    symbols = _symbols(table, names, options, check)
    numeric = (*PRICES, "volume", *(["amount"] if "amount" in names else []))
    selected = pc.is_valid(symbols).to_numpy(zero_copy_only=False)
    numbers = _numbers({name: table[names[name]] for name in numeric}, selected, check)
    bars, duplicates = _unique(
        path, pa.table({"symbol": symbols, "date": date, "ToD": clock} | numbers | {MOMENT: moment})
    )
    with atomic_file(output) as file:
        pq.write_table(bars, file, compression="zstd")
    counts = {name: len(pc.unique(bars[name])) for name in ("symbol", "date")}
    return {
        "bars": bars.num_rows, "symbols": counts["symbol"], "dates": counts["date"], "rows_twice": duplicates,
        "bars_beyond_high_low": _beyond_high_low(bars),
    }  # fmt: skip


def _read(path: Path, start: bytes) -> pa.Table:
    if start.startswith(b"PAR1"):
        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise BarsError(
                f"{path}: cannot be read as a table of bars ({error}); give a Parquet or CSV file"
            ) from None
    columns = _columns(path, start)
    text = {name: pa.string() for name in columns if name.strip().lower() in ALIASES["symbol"]}
    data = b"".join([*read_blocks(path), b"\n"])
    try:
        return csv.read_csv(
            io.BytesIO(data),
            read_options=csv.ReadOptions(column_names=columns, skip_rows=1),  # a header may not be in UTF-8
            convert_options=csv.ConvertOptions(column_types=text, strings_can_be_null=False),
        )
    except pa.ArrowException as error:
        raise BarsError(
            f"{path}: cannot be read as a table of bars; {first_malformed_row(data, {}) or error}"
        ) from None


def _symbols(table: pa.Table, names: dict[str, str], options: Options, check: RowCheck) -> Any:
    """[row] the symbol, null if it is not selected."""
    if "symbol" in names:
        symbols = pc.cast(table[names["symbol"]], pa.string())
        check(names["symbol"], pc.equal(pc.fill_null(symbols, ""), "").to_numpy(), "a symbol", symbols)
        return symbols if not options.symbols else _select(check.path, symbols, options.symbols)
    if len(options.symbols) != 1:
        raise BarsError(
            f"{check.path}: expected a column of symbols, got {', '.join(table.column_names)}; give `--symbols NAME` for a table of one symbol"
        )
    return pa.array([options.symbols[0]] * table.num_rows)


def _select(path: Path, symbols: Any, names: tuple[str, ...]) -> Any:
    missing = sorted(set(names) - set(pc.unique(symbols).to_pylist()))
    if missing:
        raise BarsError(f"{path}: --symbols: expected symbols of this file, got {', '.join(missing)}")
    return pc.if_else(pc.is_in(symbols, pa.array(names)), symbols, pa.scalar(None, pa.string()))


def _numbers(columns: dict[str, Any], selected: NDArray[np.bool_], check: RowCheck) -> dict[str, Any]:
    """The columns as floats. Raises `BarsError` if a selected row has invalid numbers."""
    numbers: dict[str, Any] = {}
    for name, column in columns.items():
        numbers[name] = check.cast(name, column, pa.float64(), "a number").to_numpy()
        check(name, selected & ~np.isfinite(numbers[name]), "a number", column)
        check(name, selected & (numbers[name] < 0), "a number not below 0", column)
    check("high", selected & (numbers["high"] < numbers["low"]), "a price not below low", columns["high"])
    return numbers


def _beyond_high_low(bars: pa.Table) -> int:
    """Number of bars that open or close above their high or below their low."""
    low, high = bars["low"].to_numpy(), bars["high"].to_numpy()
    prices = np.stack([bars["open"].to_numpy(), bars["close"].to_numpy()])
    return int(((prices < low) | (prices > high)).any(axis=0).sum())


def _unique(path: Path, bars: pa.Table) -> tuple[pa.Table, int]:
    """The bars sorted by symbol, date and time without duplicates, and the number of duplicates. Raises `BarsError` if two differ."""
    bars = bars.filter(pc.is_valid(bars["symbol"]))
    keys = ["symbol", "date", "ToD"]
    bars = bars.sort_by([(name, "ascending") for name in keys])
    same = _equal_to_next(bars, keys)
    identical = same & _equal_to_next(bars, bars.column_names[3:])
    if (same & ~identical).any():
        row = int(np.argmax(same & ~identical))
        symbol, date, clock = (bars[name][row].as_py() for name in keys)
        raise BarsError(
            f"{path}: {symbol}: expected one bar at {clock} of {date}, got two that differ; if daylight saving time ends on that day, import "
            "with `--time-zone UTC`"
        )
    return bars.filter(pa.array(np.append(True, ~identical))).drop_columns(MOMENT), int(identical.sum())


def _equal_to_next(bars: pa.Table, columns: list[str]) -> Any:
    """[row] whether these columns equal those of the next row."""
    equal = np.ones(max(0, bars.num_rows - 1), np.bool_)
    for name in columns:
        values = bars[name].to_numpy()
        equal &= (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
    return equal
