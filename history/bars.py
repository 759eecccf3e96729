"""Bars in other layouts, written as the one table of bars that training and execution read.

The canonical table is Parquet with symbol, date, ToD (when the bar begins), open, high, low, close, volume, and amount if there is one.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from serl.exchange.atomic_file import atomic_file
from serl.history.bar_times import when
from serl.history.decompress import blocks, head
from serl.history.errors import BarsError
from serl.history.source import DEFAULTS, Options
from serl.history.table_rows import Refuse, first_wrong

PRICES = ("open", "high", "low", "close")
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
"""Canonical name: what the column is called in other tables, small letters."""


def _names(columns: list[str]) -> dict[str, str]:
    """Canonical name: column of the table."""
    lower = {name.strip().lower(): name for name in columns}
    return {
        canonical: next(lower[alias] for alias in aliases if alias in lower)
        for canonical, aliases in ALIASES.items()
        if any(alias in lower for alias in aliases)
    }


def _columns(path: Path, start: bytes) -> list[str]:
    """Names of the columns of a Parquet or CSV file; none if it is neither."""
    if start.startswith(b"PAR1"):
        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError):
            return []
    return start.split(b"\n")[0].decode("latin-1").strip().lstrip("\ufeff").split(",")


def is_bars(path: Path, start: bytes) -> bool:
    """Whether a file has columns of bars: prices, and when they were; start: its first unpacked bytes."""
    names = _names(_columns(path, start))
    return set(PRICES) <= names.keys() and bool({"moment", "date"} & names.keys())


def is_canonical(path: Path, start: bytes) -> bool:
    """Whether a file is a table that training reads as it is."""
    columns = set(_columns(path, start))
    needed = {"symbol", "date", *PRICES, "volume"}
    return start.startswith(b"PAR1") and needed <= columns and ("ToD" in columns or {"time", "period"} <= columns)


def bars_advice(path: Path) -> str:
    """What to do with a file of bars where a day with a book is due."""
    if is_canonical(path, head(path)):
        return f"{path}: bars, which have no orders to replay; `serl train`, `serl evaluate` and `serl data` take this file as it is"
    return (
        f"{path}: bars, which have no orders to replay; `serl day import {path.name} -o bars.parquet` makes the table that `serl train`, "
        "`serl evaluate` and `serl data` take"
    )


def import_bars(path: Path, output: Path, options: Options = DEFAULTS) -> dict[str, int]:
    """Writes the canonical table of a file of bars; how many bars, symbols and dates. BarsError says what is wrong with it."""
    options.only(path, "bars", "symbols", "time_zone")
    start = head(path)
    if is_canonical(path, start):
        raise BarsError(bars_advice(path))
    table = _read(path, start)
    if table.num_rows == 0:
        raise BarsError(f"{path}: at least one bar is due, the table is empty")
    names = _names(table.column_names)
    if "volume" not in names:
        raise BarsError(f"{path}: a column of volume is due, got {', '.join(table.column_names)}")
    refuse = Refuse(path, BarsError)
    date, clock = when(table, names, options.time_zone, refuse)
    symbols = _symbols(table, names, options, refuse)
    due = (*PRICES, "volume", *(["amount"] if "amount" in names else []))
    wanted = pc.is_valid(symbols).to_numpy(zero_copy_only=False)
    numbers = _numbers({name: table[names[name]] for name in due}, wanted, refuse)
    bars, twice = _unique(path, pa.table({"symbol": symbols, "date": date, "ToD": clock} | numbers))
    with atomic_file(output) as file:
        pq.write_table(bars, file, compression="zstd")
    counts = {name: len(pc.unique(bars[name])) for name in ("symbol", "date")}
    return {"bars": bars.num_rows, "symbols": counts["symbol"], "dates": counts["date"], "rows_twice": twice}


def _read(path: Path, start: bytes) -> pa.Table:
    if start.startswith(b"PAR1"):
        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise BarsError(f"{path}: cannot be read as a table of bars ({error})") from None
    text = {name: pa.string() for name in _columns(path, start) if name.strip().lower() in ALIASES["symbol"]}
    data = b"".join(blocks(path))
    try:
        return csv.read_csv(
            io.BytesIO(data), convert_options=csv.ConvertOptions(column_types=text, strings_can_be_null=False)
        )
    except pa.ArrowException as error:
        raise BarsError(f"{path}: cannot be read as a table of bars; {first_wrong(data, {}) or error}") from None


def _symbols(table: pa.Table, names: dict[str, str], options: Options, refuse: Refuse) -> Any:
    """[row] the symbol, none where it is not wanted."""
    if "symbol" in names:
        symbols = pc.cast(table[names["symbol"]], pa.string())
        refuse(pc.equal(pc.fill_null(symbols, ""), "").to_numpy(), f"{names['symbol']}: a symbol", symbols)
        return symbols if not options.symbols else _chosen(refuse.path, symbols, options.symbols)
    if len(options.symbols) != 1:
        raise BarsError(
            f"{refuse.path}: a column of symbols is due, or `--symbols NAME` for a table of one; got {', '.join(table.column_names)}"
        )
    return pa.array([options.symbols[0]] * table.num_rows)


def _chosen(path: Path, symbols: Any, wanted: tuple[str, ...]) -> Any:
    missing = sorted(set(wanted) - set(pc.unique(symbols).to_pylist()))
    if missing:
        raise BarsError(f"{path}: {', '.join(missing)} not in this file")
    return pc.if_else(pc.is_in(symbols, pa.array(wanted)), symbols, pa.scalar(None, pa.string()))


def _numbers(columns: dict[str, Any], wanted: NDArray[np.bool_], refuse: Refuse) -> dict[str, Any]:
    """[row] of each column, as floats; BarsError for a wanted row whose numbers cannot be those of a bar."""
    numbers: dict[str, Any] = {}
    for name, column in columns.items():
        numbers[name] = refuse.cast(column, pa.float64(), f"{name}: a number").to_numpy()
        refuse(wanted & ~np.isfinite(numbers[name]), f"{name}: a number", column)
        refuse(wanted & (numbers[name] < 0), f"{name}: a number not below 0", column)
    refuse(wanted & (numbers["high"] < numbers["low"]), "high: a price not below that of low", columns["high"])
    return numbers


def _unique(path: Path, bars: pa.Table) -> tuple[pa.Table, int]:
    """The bars by symbol, date and time, each once, and how many rows were there twice; BarsError where two differ."""
    bars = bars.filter(pc.is_valid(bars["symbol"]))
    keys = ["symbol", "date", "ToD"]
    bars = bars.sort_by([(name, "ascending") for name in keys])
    same = _equal_to_next(bars, keys)
    whole = same & _equal_to_next(bars, bars.column_names[3:])
    if (same & ~whole).any():
        row = int(np.argmax(same & ~whole))
        symbol, date, clock = (bars[name][row].as_py() for name in keys)
        raise BarsError(
            f"{path}: {symbol}: one bar is due at {clock} of {date}, there are two that differ; where the clock goes back that day, import "
            "with `--time-zone UTC`"
        )
    return bars.filter(pa.array(np.append(True, ~whole))), int(whole.sum())


def _equal_to_next(bars: pa.Table, columns: list[str]) -> Any:
    """[row] whether these columns are those of the next row."""
    equal = np.ones(max(0, bars.num_rows - 1), np.bool_)
    for name in columns:
        values = bars[name].to_numpy()
        equal &= (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
    return equal
