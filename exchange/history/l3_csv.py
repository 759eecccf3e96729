"""Order-by-order events as CSV, with the columns in which Bitstamp's public stream is recorded.

`created`, `changed` and `deleted` say what is open of an order; the trades between them are the market's own (docs/history.md).
"""

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from serl.exchange.compiling import compiled
from serl.exchange.history import named_book
from serl.exchange.history.day import Reference, SymbolReference
from serl.exchange.history.errors import L3CsvError
from serl.exchange.history.named_book import FIRST_NS, ROW, TIME_NS, NamedBook, find, room
from serl.exchange.history.named_play import enter, retire, settle
from serl.exchange.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file, whole_units
from serl.exchange.history.unpacked import blocks

COLUMNS = ("id", "timestamp", "exchange.timestamp", "price", "volume", "action", "direction")
HEADER = ",".join(COLUMNS).encode()
ACTIONS = ("created", "changed", "deleted")
DIRECTIONS = ("bid", "ask")
CREATED, CHANGED, DELETED = range(3)
TICK, LOT = Decimal("0.01"), Decimal("0.00000001")
"""Volumes are in hundred-millionths."""
DAY_MS = 86_400_000
COUNT_NAMES = ("orders_repriced", "events_unknown")
ORDERS_REPRICED, EVENTS_UNKNOWN = range(len(COUNT_NAMES))
ID, TIME_MS, KIND, SIDE, PRICE_TICKS, LOTS = range(6)


@compiled
def _play(book: NamedBook, events: Any, first: int, counts: Any) -> int:
    """Plays events[first:], columns as ID .. LOTS; where it stopped for room."""
    for index in range(first, events.shape[0]):
        event = events[index]
        slot = find(book, event[ID])
        if not room(book, 2):
            return index
        book.counter[ROW], book.counter[TIME_NS] = index, event[TIME_MS] * 1_000_000
        kind, side, price_ticks, lots = event[KIND], event[SIDE], event[PRICE_TICKS], event[LOTS]
        if kind == CREATED:
            enter(book, event[ID], 0, side, price_ticks, lots)
        elif slot == 0:
            counts[EVENTS_UNKNOWN] += 1
        elif kind == DELETED:
            settle(book, slot, 0)
            retire(book, slot)
        elif book.orders[slot].price_ticks != price_ticks or book.orders[slot].known_lots < lots:
            settle(book, slot, 0)
            retire(book, slot)
            counts[ORDERS_REPRICED] += 1
            if lots > 0:
                enter(book, event[ID], 0, side, price_ticks, lots)
        else:
            settle(book, slot, lots)
            if lots == 0:
                retire(book, slot)
    return events.shape[0]


def is_l3_csv(head: bytes) -> bool:
    """Whether the first bytes of a file are the header."""
    return head.splitlines()[:1] == [HEADER]


def read_l3_csv(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; L3CsvError names the row (from 1, behind the header) of what is wrong."""
    tick_size, lot_size = options.tick_size or str(TICK), options.lot_size or f"{LOT:f}"
    events, midnight_ms = read_events(path, Decimal(tick_size), whole_units("lot-size", lot_size, LOT))
    book = named_book.named_book(1)
    counts = np.zeros(len(COUNT_NAMES), np.int64)
    at = 0
    while (at := _play(book, events, at, counts)) < len(events):
        book = make_room(book, sink)
    flush(book, sink)
    words = path.name.split(".")[0].split("_")
    name = options.symbols[0] if options.symbols else words[min(1, len(words) - 1)].upper()
    date = datetime.fromtimestamp(midnight_ms / 1000, UTC).date().isoformat()
    return Reference(
        symbols=(SymbolReference(name, tick_size, lot_size),),
        date=date,
        source="l3-csv",
        files=(source_file(path),),
        first_time_ns=int(book.counter[FIRST_NS]),
        last_time_ns=int(events[-1, TIME_MS]) * 1_000_000,
        source_rows=len(events),
        counts=dict(zip(named_book.COUNT_NAMES, book.counts.tolist(), strict=True))
        | dict(zip(COUNT_NAMES, counts.tolist(), strict=True)),
    )


def read_events(path: Path, tick_size: Decimal, lot_units: int) -> tuple[NDArray[np.int64], int]:
    """([row, column] of ID .. LOTS, times in ms after midnight UTC of the first one; that midnight in ms since 1970)."""
    types: dict[str, pa.DataType] = {name: pa.int64() for name in ("id", "timestamp", "exchange.timestamp", "volume")}
    types |= {"price": pa.decimal128(38, 12), "action": pa.string(), "direction": pa.string()}
    try:
        table = pc.read_csv(
            io.BytesIO(b"".join(blocks(path))),
            parse_options=pc.ParseOptions(ignore_empty_lines=False),
            convert_options=pc.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise L3CsvError(f"{path}: columns {HEADER.decode()} are due, numbers but for the last two; {error}") from None
    if table.num_rows == 0:
        raise L3CsvError(f"{path}: row 1: at least one event is due, the file has a header alone")
    columns = {name: table[name].to_numpy() for name in ("id", "timestamp", "volume")}
    kind = _codes(path, "action", table["action"], ACTIONS)
    side = _codes(path, "direction", table["direction"], DIRECTIONS)
    prices = [price / tick_size for price in table["price"].to_pylist()]
    ticks = np.array([int(price) for price in prices], np.int64)
    refuse = _Refuse(path)
    refuse(
        np.array([price != int(price) for price in prices]),
        f"price: a multiple of the tick {tick_size}",
        table["price"],
    )
    refuse(ticks <= 0, "price: above 0", table["price"])
    refuse(columns["id"] <= 0, "id: above 0", table["id"])
    refuse(columns["volume"] < 0, "volume: not below 0", table["volume"])
    refuse(columns["volume"] % lot_units != 0, f"volume: a multiple of the lot ({lot_units})", table["volume"])
    refuse((kind == CREATED) & (columns["volume"] == 0), "volume of a created order: above 0", table["volume"])
    refuse(
        np.diff(columns["timestamp"], prepend=columns["timestamp"][0]) < 0,
        "timestamp: not before the row above",
        table["timestamp"],
    )
    refuse(_created_twice(columns["id"], kind), "id of a created order: one that is not open", table["id"])
    midnight_ms = int(columns["timestamp"][0]) // DAY_MS * DAY_MS
    events = [columns["id"], columns["timestamp"] - midnight_ms, kind, side, ticks, columns["volume"] // lot_units]
    return np.stack(events, 1), midnight_ms


class _Refuse:
    """Raises for the first bad row, if there is one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, bad: NDArray[np.bool_], due: str, came: Any) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise L3CsvError(f"{self.path}: row {row + 1}: {due} is due, got {came[row]}")


def _codes(path: Path, name: str, column: Any, values: tuple[str, ...]) -> NDArray[np.int64]:
    cells = column.to_pylist()
    codes = np.array([values.index(cell) if cell in values else -1 for cell in cells], np.int64)
    _Refuse(path)(codes < 0, f"{name}: one of {', '.join(values)}", cells)
    return codes


def _created_twice(ids: NDArray[np.int64], kind: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[row] whether an order is created that is open already."""
    bad = np.zeros(len(ids), np.bool_)
    open_now: set[int] = set()
    for row, (name, what) in enumerate(zip(ids.tolist(), kind.tolist(), strict=True)):
        if what == CREATED:
            bad[row] = name in open_now
            open_now.add(name)
        elif what == DELETED:
            open_now.discard(name)
    return bad
