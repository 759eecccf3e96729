"""Reads and checks the event CSV, column by column."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from serl.exchange.records import CASH_MAX
from serl.history.decompress import read_blocks
from serl.history.errors import L3CsvError
from serl.history.table_rows import BYTE_ORDER_MARK, RowCheck, read_columns

COLUMNS = ("id", "timestamp", "exchange.timestamp", "price", "volume", "action", "direction")
HEADER = ",".join(COLUMNS).encode()
HEADERS = (HEADER, HEADER.replace(b"exchange.", b"exchange_"))
ACTIONS = ("created", "changed", "deleted")
DIRECTIONS = ("bid", "ask")
CREATED, CHANGED, DELETED = range(3)
TICK, LOT = Decimal("0.01"), Decimal("0.00000001")
"""The unit of volumes."""
DAY_MS = 86_400_000
TIME_MS_MIN = 315_532_800_000
"""The year 1980: seconds since 1970 are below it."""
TIME_MS_MAX = 4_102_444_800_000
"""The year 2100, so that times in ns stay within 64 bits."""
DECIMAL = pa.decimal128(38, 12)
EVENT_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(), "timestamp": pa.int64(), "price": DECIMAL, "volume": pa.string(), "action": pa.string(),
    "direction": pa.string(),
}  # fmt: skip
"""Types of the columns that are read."""
ID, TIME_MS, KIND, SIDE, PRICE_TICKS, LOTS = range(6)


def is_l3_csv(head: bytes) -> bool:
    """Whether a file begins with the header."""
    return [line.replace(b'"', b"") for line in head.removeprefix(BYTE_ORDER_MARK).splitlines()[:1]] in (
        [header] for header in HEADERS
    )


def read_events(path: Path, tick_size: Decimal, lot_units: int) -> tuple[NDArray[np.int64], int]:
    """(rows, midnight): [row, column] of ID .. LOTS, with times in ms after midnight UTC of the first row; that midnight in ms since 1970."""
    data = b"".join(read_blocks(path))
    table = read_columns(path, data, EVENT_TYPES, L3CsvError)
    if table.num_rows == 0:
        raise L3CsvError(f"{path}: row 1: expected at least one event, got a header alone")
    check = RowCheck(path, L3CsvError)
    ids, time_ms = (table[name].to_numpy() for name in ("id", "timestamp"))
    volume = _volume(table["volume"], check)
    kind = check.codes("action", table["action"], ACTIONS)
    side = check.codes("direction", table["direction"], DIRECTIONS)
    ticks = _multiples(check, "price", table["price"], tick_size, f"1 to 2^53 ticks of {tick_size}", least=1)
    check("id", ids <= 0, "a number above 0", ids)
    check("volume", volume % lot_units != 0, f"a multiple of the lot size ({lot_units})", volume)
    check("volume of a created order", (kind == CREATED) & (volume == 0), "a number above 0", volume)
    bad_ms = (time_ms < TIME_MS_MIN) | (time_ms > TIME_MS_MAX)
    check("timestamp", bad_ms, "ms since 1970, before 2100 and not before 1980 (as seconds would be)", time_ms)
    check("timestamp", np.diff(time_ms, prepend=time_ms[0]) < 0, "a time not before the row above", time_ms)
    check("id of a created order", _created_twice(ids, kind), "one that is not open", ids)
    check("direction", _changed_side(ids, kind, side), "the direction that the order has had", table["direction"])
    midnight_ms = int(time_ms[0]) // DAY_MS * DAY_MS
    return np.stack([ids, time_ms - midnight_ms, kind, side, ticks, volume // lot_units], 1), midnight_ms


def _volume(column: Any, check: RowCheck) -> NDArray[np.int64]:
    """Volumes in hundred-millionths. A file of integers is taken as such units; if any volume has a decimal point, all are decimals."""
    unit = LOT if pc.any(pc.match_substring(column, ".")).as_py() else Decimal(1)
    decimals = check.cast("volume", column, DECIMAL, f"a decimal with up to {DECIMAL.scale} places")
    return _multiples(check, "volume", decimals, unit, f"0 to 2^53 of {unit:f}", least=0)


def _multiples(check: RowCheck, name: str, column: Any, unit: Decimal, expected: str, least: int) -> NDArray[np.int64]:
    """A column of decimals as exact multiples of a unit, at least `least` and at most 2^53."""
    encoded = column.combine_chunks().dictionary_encode()  # a day has few distinct prices
    units = [value / unit for value in encoded.dictionary.to_pylist()]
    row = encoded.indices.to_numpy()
    check(name, np.array([not least <= one <= CASH_MAX for one in units])[row], expected, column)
    check(name, np.array([one != int(one) for one in units])[row], f"a multiple of {unit:f}", column)
    return np.array([int(one) for one in units], np.int64)[row]


def _created_twice(ids: NDArray[np.int64], kind: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[row] whether the row creates an order that is already open."""
    ends = np.flatnonzero(kind != CHANGED)
    before, after = _successive(ids, ends)
    bad = np.zeros(len(ids), np.bool_)
    bad[after] = (kind[before] == CREATED) & (kind[after] == CREATED)
    return bad


def _changed_side(ids: NDArray[np.int64], kind: NDArray[np.int64], side: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[row] whether the order's side changes without the order being created again."""
    before, after = _successive(ids, np.arange(len(ids)))
    bad = np.zeros(len(ids), np.bool_)
    bad[after] = (side[before] != side[after]) & (kind[after] != CREATED)
    return bad


def _successive(ids: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs (row, next row of the same order) within these rows."""
    ordered = rows[np.argsort(ids[rows], kind="stable")]
    before, after = ordered[:-1], ordered[1:]
    same = ids[before] == ids[after]
    return before[same], after[same]
