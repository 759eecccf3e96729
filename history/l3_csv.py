"""Reads a CSV of order events, with the columns of recordings of Bitstamp's public stream.

`created`, `changed` and `deleted` report the open volume of an order; the market itself makes the trades in between (docs/history.md).
"""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.compiling import compiled
from serl.history import stream_book
from serl.history.day import Reference, SymbolReference
from serl.history.l3_events import (
    CREATED,
    DELETED,
    ID,
    KIND,
    LOT,
    LOTS,
    PRICE_TICKS,
    SIDE,
    TICK,
    TIME_MS,
    read_events,
)
from serl.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file, units_of
from serl.history.stream_book import FIRST_NS, ROW, TIME_NS, StreamBook, find_order, has_room
from serl.history.stream_commands import enter_order, forget_order, set_open_lots

COUNT_NAMES = ("orders_repriced", "events_unknown")
ORDERS_REPRICED, EVENTS_UNKNOWN = range(len(COUNT_NAMES))


@compiled
def _apply(book: StreamBook, events: Any, first: int, counts: Any) -> int:
    """Applies events[first:], columns as ID .. LOTS; returns where it stopped because the book needs room."""
    for index in range(first, events.shape[0]):
        event = events[index]
        slot = find_order(book, event[ID])
        if not has_room(book, 2):
            return index
        book.counter[ROW], book.counter[TIME_NS] = index, event[TIME_MS] * 1_000_000
        kind, side, price_ticks, lots = event[KIND], event[SIDE], event[PRICE_TICKS], event[LOTS]
        if kind == CREATED:
            enter_order(book, event[ID], 0, side, price_ticks, lots)
        elif slot == 0:
            counts[EVENTS_UNKNOWN] += 1
        elif kind == DELETED:
            set_open_lots(book, slot, 0)
            forget_order(book, slot)
        elif book.orders[slot].price_ticks != price_ticks or book.orders[slot].source_lots < lots:
            set_open_lots(book, slot, 0)
            forget_order(book, slot)
            counts[ORDERS_REPRICED] += 1
            if lots > 0:
                enter_order(book, event[ID], 0, side, price_ticks, lots)
        else:
            set_open_lots(book, slot, lots)
            if lots == 0:
                forget_order(book, slot)
    return events.shape[0]


def read_l3_csv(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink. Raises `L3CsvError`."""
    options.allow_only(path, "L3 event CSV", "symbols", "tick_size", "lot_size")
    tick_size, lot_size = options.tick_size or str(TICK), options.lot_size or f"{LOT:f}"
    events, midnight_ms = read_events(path, Decimal(tick_size), units_of("lot-size", lot_size, LOT))
    book = stream_book.empty_book(1)
    counts = np.zeros(len(COUNT_NAMES), np.int64)
    at = 0
    while (at := _apply(book, events, at, counts)) < len(events):
        book = make_room(book, sink)
    flush(book, sink)
    name_parts = path.name.split(".")[0].split("_")
    name = options.single_symbol(path) or name_parts[min(1, len(name_parts) - 1)].upper()
    date = datetime.fromtimestamp(midnight_ms / 1000, UTC).date().isoformat()
    return Reference(
        symbols=(SymbolReference(name, tick_size, lot_size),),
        date=date,
        source="l3-csv",
        files=(source_file(path),),
        first_time_ns=int(book.counter[FIRST_NS]),
        last_time_ns=int(events[-1, TIME_MS]) * 1_000_000,
        source_rows=len(events),
        counts=dict(zip(stream_book.COUNT_NAMES, book.counts.tolist(), strict=True))
        | dict(zip(COUNT_NAMES, counts.tolist(), strict=True)),
    )
