"""Order-by-order events as CSV, with the columns in which Bitstamp's public stream is recorded.

`created`, `changed` and `deleted` say what is open of an order; the trades between them are the market's own (docs/history.md).
"""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.compiling import compiled
from serl.history import named_book
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
from serl.history.named_book import FIRST_NS, ROW, TIME_NS, NamedBook, find, room
from serl.history.named_play import enter, retire, settle
from serl.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file, whole_units

COUNT_NAMES = ("orders_repriced", "events_unknown")
ORDERS_REPRICED, EVENTS_UNKNOWN = range(len(COUNT_NAMES))


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


def read_l3_csv(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; L3CsvError names the row (from 1, behind the header) of what is wrong."""
    options.only(path, "L3 event CSV", "symbols", "tick_size", "lot_size")
    tick_size, lot_size = options.tick_size or str(TICK), options.lot_size or f"{LOT:f}"
    events, midnight_ms = read_events(path, Decimal(tick_size), whole_units("lot-size", lot_size, LOT))
    book = named_book.named_book(1)
    counts = np.zeros(len(COUNT_NAMES), np.int64)
    at = 0
    while (at := _play(book, events, at, counts)) < len(events):
        book = make_room(book, sink)
    flush(book, sink)
    words = path.name.split(".")[0].split("_")
    name = options.symbol(path) or words[min(1, len(words) - 1)].upper()
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
