"""Events of orders in a CSV: read and checked, by column."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from numpy.typing import NDArray

from serl.exchange.records import CASH_MAX
from serl.history.decompress import blocks
from serl.history.errors import L3CsvError
from serl.history.table_rows import Refuse, first_wrong

COLUMNS = ("id", "timestamp", "exchange.timestamp", "price", "volume", "action", "direction")
HEADER = ",".join(COLUMNS).encode()
ACTIONS = ("created", "changed", "deleted")
DIRECTIONS = ("bid", "ask")
CREATED, CHANGED, DELETED = range(3)
TICK, LOT = Decimal("0.01"), Decimal("0.00000001")
"""Volumes are in hundred-millionths."""
DAY_MS = 86_400_000
TIME_MS_MAX = 4_102_444_800_000
"""The year 2100: times in ns after a midnight stay within 64 bits."""
UTF8_MARK = b"\xef\xbb\xbf"
"""What some programs write at the start of a text."""
ID, TIME_MS, KIND, SIDE, PRICE_TICKS, LOTS = range(6)


def is_l3_csv(head: bytes) -> bool:
    """Whether the first bytes of a file are the header."""
    return [line.replace(b'"', b"") for line in head.removeprefix(UTF8_MARK).splitlines()[:1]] == [HEADER]


def read_events(path: Path, tick_size: Decimal, lot_units: int) -> tuple[NDArray[np.int64], int]:
    """([row, column] of ID .. LOTS, times in ms after midnight UTC of the first one; that midnight in ms since 1970)."""
    types: dict[str, pa.DataType] = {name: pa.int64() for name in ("id", "timestamp", "exchange.timestamp", "volume")}
    types |= {"price": pa.decimal128(38, 12), "action": pa.string(), "direction": pa.string()}
    data = b"".join(blocks(path))
    try:
        table = csv.read_csv(
            io.BytesIO(data),
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise L3CsvError(f"{path}: {first_wrong(data, types) or error}") from None
    if table.num_rows == 0:
        raise L3CsvError(f"{path}: row 1: at least one event is due, the file has a header alone")
    refuse = Refuse(path, L3CsvError)
    ids, time_ms, volume = (table[name].to_numpy() for name in ("id", "timestamp", "volume"))
    kind = _codes(refuse, "action", table["action"], ACTIONS)
    side = _codes(refuse, "direction", table["direction"], DIRECTIONS)
    ticks = _ticks(refuse, table["price"], tick_size)
    refuse(ids <= 0, "id: above 0", ids)
    refuse((volume < 0) | (volume > CASH_MAX), "volume: 0 to 2^53", volume)
    refuse(volume % lot_units != 0, f"volume: a multiple of the lot ({lot_units})", volume)
    refuse((kind == CREATED) & (volume == 0), "volume of a created order: above 0", volume)
    refuse((time_ms < 0) | (time_ms > TIME_MS_MAX), "timestamp: ms since 1970, before 2100,", time_ms)
    refuse(np.diff(time_ms, prepend=time_ms[0]) < 0, "timestamp: not before the row above", time_ms)
    refuse(_created_twice(ids, kind), "id of a created order: one that is not open", ids)
    refuse(_turned(ids, kind, side), "direction: that of the order so far", table["direction"])
    midnight_ms = int(time_ms[0]) // DAY_MS * DAY_MS
    return np.stack([ids, time_ms - midnight_ms, kind, side, ticks, volume // lot_units], 1), midnight_ms


def _codes(refuse: Refuse, name: str, column: Any, values: tuple[str, ...]) -> NDArray[np.int64]:
    codes = pc.fill_null(pc.index_in(column, pa.array(values)), -1).to_numpy().astype(np.int64)
    refuse(codes < 0, f"{name}: one of {', '.join(values)}", column)
    return codes


def _ticks(refuse: Refuse, prices: Any, tick_size: Decimal) -> NDArray[np.int64]:
    """Prices in ticks, exactly; L3CsvError for one that is no whole number of them."""
    encoded = prices.combine_chunks().dictionary_encode()  # a day has few prices
    ticks = [price / tick_size for price in encoded.dictionary.to_pylist()]
    row = encoded.indices.to_numpy()
    refuse(np.array([one <= 0 or one > CASH_MAX for one in ticks])[row], "price: above 0, at most 2^53 ticks,", prices)
    refuse(np.array([one != int(one) for one in ticks])[row], f"price: a multiple of the tick {tick_size}", prices)
    return np.array([int(one) for one in ticks], np.int64)[row]


def _created_twice(ids: NDArray[np.int64], kind: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[row] whether an order is created that is open already."""
    ends = np.flatnonzero(kind != CHANGED)
    before, after = _in_turn(ids, ends)
    bad = np.zeros(len(ids), np.bool_)
    bad[after] = (kind[before] == CREATED) & (kind[after] == CREATED)
    return bad


def _turned(ids: NDArray[np.int64], kind: NDArray[np.int64], side: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[row] whether an order that was on one side is on the other, without being created anew."""
    before, after = _in_turn(ids, np.arange(len(ids)))
    bad = np.zeros(len(ids), np.bool_)
    bad[after] = (side[before] != side[after]) & (kind[after] != CREATED)
    return bad


def _in_turn(ids: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(row, the next one of the same order) for all pairs of these rows."""
    turn = rows[np.argsort(ids[rows], kind="stable")]
    before, after = turn[:-1], turn[1:]
    same = ids[before] == ids[after]
    return before[same], after[same]
