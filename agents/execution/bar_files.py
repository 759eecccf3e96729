"""Files of bars: Parquet with the columns symbol, date, open, high, low, close, volume, a time, and optionally amount.

The time is either `ToD`, when the bar begins, or `time`, when it ends, with its length in minutes in `period`.

Rows without a price (suspended stocks), rows with contradictory prices, and stock-days with fewer than BARS_MIN of the day's bars (half
days, long gaps) or without volume (trading halts) are dropped and counted. A missing bar within a day becomes a bar of volume 0 at the last price.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.environment.bars import CLOSE, HIGH, LOW, OPEN, PRICE, VOLUME, BarDays
from serl.agents.execution.errors import DataError
from serl.exchange.config import time_of_day_ns
from serl.extras import require_day_files

BARS_MIN = 0.8
TICK_SIZE = 0.01
"""Unit of the prices in a table of bars; costs in bps do not depend on it."""
UNITS_SHARE = 1e-3
"""How far beyond the range of its bar a VWAP may be for rounding, as a share of the price."""
MINUTE_NS, DAY_MINUTES = 60_000_000_000, 1440
SORTED_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}(?!\d)")
"""A date whose order as text is that of time."""
NUMBERS = ("open", "high", "low", "close", "volume")


@dataclasses.dataclass(frozen=True)
class BarTable:
    """Bars, with the stock and date of each of their days."""

    bars: BarDays
    symbols: tuple[str, ...]
    dates: tuple[str, ...]
    symbol: Any
    """(D,) index in `symbols`."""
    date: Any
    """(D,) index in `dates`, which are sorted."""
    counts: dict[str, int]
    """How many rows, stock-days or bars each rule affected."""


def read_bars(path: Path) -> BarTable:
    """Reads a file of bars. Raises DataError if it is not one or no stock-day is complete enough, and MissingPackageError without the extra
    `history`."""
    require_day_files()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: expected a Parquet file of bars, got a file that cannot be read ({error})") from None
    time_name = "ToD" if "ToD" in table.column_names else "time"
    expected = ["symbol", "date", *NUMBERS, *(["ToD"] if time_name == "ToD" else ["time", "period"])]
    missing = [name for name in expected if name not in table.column_names]
    if missing:
        raise DataError(f"{path}: expected the columns {', '.join(expected)}; {', '.join(missing)} are missing")
    (symbols, symbol), (dates, date), (times, time) = (_codes(table[name]) for name in ("symbol", "date", time_name))
    unnamed = table["symbol"].null_count + int(np.array([not name.strip() for name in symbols])[symbol].sum())
    if unnamed:  # they would all be one stock
        raise DataError(
            f"{path}: symbol: expected a name in each of the {len(symbol):,} rows, got {unnamed:,} without one; name them, or leave them out"
        )
    for text in dates:
        if not SORTED_DATE.match(text):
            raise DataError(
                f"{path}: date: expected dates like 2020-01-31, by whose order training and test are split, got {text!r}; convert them"
            )
    values = np.stack([_numbers(path, table, name) for name in NUMBERS], axis=1)
    amount = _numbers(path, table, "amount") if "amount" in table.column_names else None
    opened, high, low, close, volume = values.T
    priced = np.isfinite(values).all(axis=1) & (values[:, :4] > 0).all(axis=1) & (volume >= 0)
    valid = priced & (low <= np.minimum(opened, close)) & (high >= np.maximum(opened, close))
    price = (high + low + close) / 3
    if amount is not None:
        traded = valid & (volume > 0) & (amount > 0)
        vwap = amount[traded] / volume[traded]
        _check_units(path, vwap, low[traded], high[traded])
        price[traded] = np.clip(vwap, low[traded], high[traded])
    columns = np.stack([opened, high, low, close, price], axis=1) / TICK_SIZE
    columns = np.concatenate([columns, volume[:, None]], axis=1)[valid]
    grid = np.full((len(symbols) * len(dates), len(times), 6), np.nan)
    grid[symbol[valid] * len(dates) + date[valid], time[valid]] = columns
    present = np.isfinite(grid[:, :, 0]).sum(axis=1)
    long_enough = present >= BARS_MIN * len(times)
    traded_day = np.nansum(grid[:, :, VOLUME], axis=1) > 0
    complete = np.flatnonzero(long_enough & traded_day)
    if not len(complete):
        raise DataError(
            f"{path}: expected stock-days with at least {BARS_MIN:.0%} of the day's {len(times)} bars and volume, got none; use whole days"
        )
    counts = {
        "rows": len(values), "rows_without_price": int((~priced).sum()), "rows_contradictory": int((priced & ~valid).sum()),
        "rows_twice": int(valid.sum() - present.sum()), "stock_days": len(complete),
        "stock_days_short": int(((present > 0) & ~long_enough).sum()),
        "stock_days_without_volume": int((long_enough & ~traded_day).sum()),
        "bars_missing": int(len(complete) * len(times) - present[complete].sum()),
    }  # fmt: skip
    starts_ns = np.array([time_of_day_ns(text, f"{path}: {time_name}") for text in times])
    bar_ns = int(np.diff(starts_ns).min()) if len(starts_ns) > 1 else MINUTE_NS
    if time_name == "time":
        periods = np.unique(_numbers(path, table, "period"))
        if len(periods) > 1 or not (1 <= periods[0] <= DAY_MINUTES and periods[0] % 1 == 0):
            raise DataError(
                f"{path}: period: expected the same whole minutes from 1 to {DAY_MINUTES} in all rows, got "
                f"{', '.join(f'{minutes:g}' for minutes in periods[:5])}; correct the column"
            )
        bar_ns = int(periods[0]) * MINUTE_NS
        starts_ns -= bar_ns
    bars = BarDays(starts_ns, bar_ns, _fill_gaps(grid[complete]))
    return BarTable(bars, tuple(symbols), tuple(dates), complete // len(dates), complete % len(dates), counts)


def _numbers(path: Path, table: Any, name: str) -> Any:
    """The column of a name as floats. Raises DataError if it has other values than numbers."""
    try:
        return table[name].to_numpy().astype(float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{path}: {name}: expected numbers, got a column of {table[name].type} ({error}); convert it"
        ) from None


def _check_units(path: Path, vwap: Any, low: Any, high: Any) -> None:
    """Raises DataError if amount / volume is beyond the bar's range in most bars: then their units differ, and all VWAPs would be its low or high."""
    beyond = (vwap < low * (1 - UNITS_SHARE)) | (vwap > high * (1 + UNITS_SHARE))
    if beyond.sum() > len(beyond) / 2:
        bar = int(np.argmax(beyond))
        raise DataError(
            f"{path}: amount: expected amount / volume within the prices of its bar, got {vwap[bar]:.6g} where they are {low[bar]:g} to "
            f"{high[bar]:g}; multiply amount by what volume was multiplied by, or leave the column out"
        )


def _codes(column: Any) -> tuple[list[str], Any]:
    """Returns (sorted distinct values, index of each row's value among them)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names, codes = np.unique(np.asarray(pc.cast(column, pa.string()).to_pylist(), dtype=str), return_inverse=True)
    return names.tolist(), codes


def _fill_gaps(grid: Any) -> Any:
    """Replaces missing bars by bars of volume 0 at the last close; before the first bar, at its open."""
    present = np.isfinite(grid[:, :, 0])
    number = np.where(present, np.arange(grid.shape[1]), -1)
    last = np.maximum.accumulate(number, axis=1)
    first = present.argmax(axis=1)
    rows = np.arange(len(grid))[:, None]
    price = np.where(last >= 0, grid[rows, np.maximum(last, 0), CLOSE], grid[rows[:, 0], first, OPEN][:, None])
    filled = grid.copy()
    for column in (OPEN, HIGH, LOW, CLOSE, PRICE):
        filled[:, :, column] = np.where(present, grid[:, :, column], price)
    filled[:, :, VOLUME] = np.where(present, grid[:, :, VOLUME], 0.0)
    return filled
