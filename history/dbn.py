"""Databento's market-by-order records (DBN, plain or zstd), decoded by the package databento-dbn (extra `history`)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, int64
from serl.extras import require
from serl.history import named_book
from serl.history.day import Reference, SymbolReference
from serl.history.decompress import BLOCK_BYTES, blocks
from serl.history.errors import DbnError
from serl.history.named_book import BUY, FIRST_NS, ROW, SELL, TIME_NS, NamedBook, find, room
from serl.history.named_play import (
    clear,
    crosses,
    crowd,
    enter,
    enter_waiting,
    execute,
    hold,
    publish,
    retire,
    take_off,
)
from serl.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file, whole_units

MAGIC = b"DBN"
PRICE_UNIT = Decimal("0.000000001")
NO_PRICE = (1 << 63) - 1
LAST, SNAPSHOT = 128, 32
"""Flags: the last record of an event; a record of the book as it was before."""
DAY_NS = 86_400 * 1_000_000_000
COLUMNS = ("ts_recv", "action", "side", "price", "size", "order_id", "flags", "instrument_id")
TIME, ACTION, SIDE, PRICE, SIZE, ORDER, FLAGS, INSTRUMENT = range(len(COLUMNS))
ADD, CANCEL, MODIFY, FILL, TRADE, CLEAR, NONE = (ord(letter) for letter in "ACMFTRN")
BID, ASK = ord("B"), ord("A")
INSTRUMENTS_MAX = 1 << 10

COUNT_NAMES = (
    "modifies",
    "modifies_unknown",  # taken as new orders
    "fills_unknown",  # printed
    "fills_other_price",  # at another price than that of the order: printed
    "fills_beyond_shown",  # of an iceberg: what it did not show is printed
    "auction_fills",  # the auction's trade is printed
    "orders_held",  # crossing orders of a call phase, which enter when they cross no more
    "cancels_unknown",
    "clears",
    "records_left_out",
)
(
    MODIFIES, MODIFIES_UNKNOWN, FILLS_UNKNOWN, FILLS_OTHER_PRICE, FILLS_BEYOND_SHOWN, AUCTION_FILLS, ORDERS_HELD, CANCELS_UNKNOWN, CLEARS,
    RECORDS_LEFT_OUT,
) = range(len(COUNT_NAMES))  # fmt: skip
PLAYED, MORE_ROOM, TIME_BACK, NO_SIZE, NO_SIDE, BAD_PRICE, ORDER_TWICE = range(7)
WRONG = {
    TIME_BACK: "a ts_recv that is not before that of the record ahead",
    NO_SIZE: "a size above 0",
    NO_SIDE: "side A or B",
    BAD_PRICE: "a price above 0 that is a multiple of the tick",
    ORDER_TWICE: "an order_id that is not open, above 0",
}


@inlined
def _enter(book: NamedBook, name: int, symbol: int, side: int, ticks: int, lots: int, counts: Any) -> None:
    """An order that crosses came in a call phase, for in continuous trading what trades is gone before: it is held."""
    if crosses(book, symbol, side, ticks):
        counts[ORDERS_HELD] += 1
        hold(book, name, symbol, side, ticks, lots)
    else:
        enter(book, name, symbol, side, ticks, lots)


@compiled
def _fill(book: NamedBook, slot: int, record: Any, symbol: int, ticks: int, counts: Any) -> None:
    """F trades and does not change the source's book: the cancel or modify that follows does, and finds done what was traded here."""
    side = SELL if record[SIDE] == ASK else BUY
    if slot == 0:
        counts[FILLS_UNKNOWN] += 1
        if record[SIDE] != NONE:
            publish(book, symbol, side, ticks, record[SIZE])
        return
    order = book.orders[slot]
    if record[SIDE] == NONE:
        counts[AUCTION_FILLS] += 1
        return
    shown, printed = min(record[SIZE], order.known_lots), record[SIZE]
    counts[FILLS_BEYOND_SHOWN] += printed > shown
    if order.price_ticks != ticks or order.waits:
        counts[FILLS_OTHER_PRICE] += 1
    elif shown > 0 and execute(book, slot, shown):
        order.filled_lots += shown
        printed -= shown
    if printed > 0:
        publish(book, symbol, side, ticks, printed)


@compiled
def _cancel(book: NamedBook, slot: int, lots: int) -> None:
    """C: what was filled comes first; the rest is taken off."""
    order = book.orders[slot]
    filled = min(lots, order.filled_lots)
    order.filled_lots -= filled
    lots = min(lots - filled, order.known_lots)
    if lots > 0:
        take_off(book, slot, lots)
    if order.known_lots == 0 and order.filled_lots == 0:
        retire(book, slot)


@compiled
def _modify(book: NamedBook, slot: int, record: Any, symbol: int, side: int, ticks: int, counts: Any) -> None:
    """M: a smaller size keeps the place in the queue, all else loses it."""
    counts[MODIFIES] += 1
    name, lots = record[ORDER], record[SIZE]
    if slot == 0:
        counts[MODIFIES_UNKNOWN] += 1
    else:
        order = book.orders[slot]
        order.filled_lots = 0
        if order.price_ticks == ticks and order.side == side and lots <= order.known_lots:
            if lots < order.known_lots:
                take_off(book, slot, order.known_lots - lots)
            return
        if order.known_lots > 0:
            take_off(book, slot, order.known_lots)
        retire(book, slot)
    _enter(book, name, symbol, side, ticks, lots, counts)


@compiled
def _record(book: NamedBook, record: Any, symbol: int, units: int, counts: Any) -> int:
    """One record; PLAYED, MORE_ROOM or what is wrong with it."""
    action = record[ACTION]
    slot = find(book, record[ORDER]) if record[ORDER] else 0
    if not room(book, crowd(book, slot) if slot else 0):
        return MORE_ROOM
    if action == NONE:
        return PLAYED
    if action == CLEAR:
        if clear(book, symbol, 1) < book.orders.size:
            return MORE_ROOM
        counts[CLEARS] += 1
        return PLAYED
    if action == CANCEL:
        if slot == 0:
            counts[CANCELS_UNKNOWN] += 1
        else:
            _cancel(book, slot, record[SIZE])
        return PLAYED
    if record[SIZE] <= 0:
        return NO_SIZE
    if record[PRICE] <= 0 or record[PRICE] == NO_PRICE or record[PRICE] % units:
        return BAD_PRICE
    ticks = record[PRICE] // units
    if action == FILL:
        _fill(book, slot, record, symbol, ticks, counts)
        return PLAYED
    if action == TRADE:
        if record[SIDE] == NONE:
            publish(book, symbol, BUY, ticks, record[SIZE])
        return PLAYED
    if record[SIDE] != BID and record[SIDE] != ASK:
        return NO_SIDE
    side = BUY if record[SIDE] == BID else SELL
    if action == MODIFY:
        _modify(book, slot, record, symbol, side, ticks, counts)
        return PLAYED
    if slot != 0 or record[ORDER] == 0:
        return ORDER_TWICE
    _enter(book, record[ORDER], symbol, side, ticks, record[SIZE], counts)
    return PLAYED


@compiled
def _play(
    book: NamedBook, records: Any, first: int, row: int, numbers: Any, units: int, midnight_ns: int, counts: Any
) -> tuple[int, int]:
    """Plays records[first:]: (where it stopped, why). row: of records[0] in the file. numbers: [record] symbol, -1 = left out."""
    for index in range(first, records.shape[0]):
        record, symbol = records[index], int64(numbers[index])
        time_ns = record[TIME] - midnight_ns
        if time_ns < book.counter[TIME_NS]:
            return index, TIME_BACK
        action = record[ACTION]
        known = (
            action == ADD
            or action == CANCEL
            or action == MODIFY
            or action == FILL
            or action == TRADE
            or action == CLEAR
            or action == NONE
        )
        if symbol < 0 or not known:
            counts[RECORDS_LEFT_OUT] += 1
            continue
        book.counter[ROW] = -1 if record[FLAGS] & SNAPSHOT else row + index
        book.counter[TIME_NS] = time_ns
        result = _record(book, record, symbol, units, counts)
        if result != PLAYED:
            return index, result
        if record[FLAGS] & LAST and book.waiting[symbol, 2]:
            if not room(book, int64(book.waiting[symbol, 2])):
                return index + 1, MORE_ROOM
            enter_waiting(book, symbol)
    return records.shape[0], PLAYED


def is_dbn(head: bytes) -> bool:
    """Whether the first (unpacked) bytes of a file are DBN's."""
    return head.startswith(MAGIC)


def decoder_type(path: Path) -> Any:
    """The decoder of databento-dbn; MissingPackageError if it is not installed."""
    require(f"the DBN file {path}", "databento_dbn")
    from databento_dbn import DBNDecoder

    return DBNDecoder


def read_records(path: Path) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """(metadata, [record, column] of COLUMNS) part by part; DbnError if it is not market-by-order or ends in a record."""
    decoder, metadata = decoder_type(path)(), None
    rows: list[tuple[int, ...]] = []
    for block in blocks(path, BLOCK_BYTES):
        decoder.write(block)
        try:
            records = decoder.decode()
        except Exception as error:  # databento-dbn raises DBNError, which is no exception class of its stubs
            raise DbnError(f"{path}: cannot be decoded ({error}); download it again") from None
        if metadata is None and records:
            metadata = records.pop(0)
            if str(metadata.schema) != "mbo":
                raise DbnError(f"{path}: schema mbo (market by order) is due, got {metadata.schema}")
        rows = [
            (r.ts_recv, ord(str(r.action)), ord(str(r.side)), r.price, r.size, _signed(r.order_id), int(r.flags), r.instrument_id)
            for r in records if type(r).__name__ == "MBOMsg"
        ]  # fmt: skip
        yield metadata, np.array(rows, np.int64).reshape(-1, len(COLUMNS))
    if decoder.buffer():
        raise DbnError(f"{path}: ends within a record ({len(decoder.buffer())} bytes of one); download it again")


def _signed(number: int) -> int:
    """The same 64 bits."""
    return number - (1 << 64) if number >> 63 else number


def _step(path: Path) -> int:
    """The greatest step of which every price is a multiple."""
    step = 0
    for _, records in read_records(path):
        prices = records[records[:, PRICE] != NO_PRICE, PRICE]
        step = gcd(step, int(np.gcd.reduce(prices)) if len(prices) else 0)
    return step or int(1 / PRICE_UNIT)


class _Reader:
    """Parts of records in, commands out."""

    def __init__(self, path: Path, sink: Sink, options: Options, units: int) -> None:
        self.path = path
        self.symbols: list[str] = []
        self.rows = 0
        self.midnight_ns = -1
        self.book = named_book.named_book(INSTRUMENTS_MAX)
        self.counts = np.zeros(len(COUNT_NAMES), np.int64)
        self._sink = sink
        self._wanted = frozenset(options.symbols)
        self._units = units
        self._numbers: dict[int, int] = {}

    def feed(self, metadata: Any, records: NDArray[np.int64]) -> None:
        """Plays a part of the file."""
        if self.midnight_ns < 0 and len(records):
            self.midnight_ns = int(records[0, TIME]) // DAY_NS * DAY_NS
        numbers = np.array([self._number(metadata, name) for name in records[:, INSTRUMENT].tolist()], np.int64)
        at = 0
        while at < len(records):
            at, why = _play(self.book, records, at, self.rows, numbers, self._units, self.midnight_ns, self.counts)
            if why == MORE_ROOM:
                self.book = make_room(self.book, self._sink)
            elif why != PLAYED:
                cells = ", ".join(
                    f"{name} {chr(value) if name in ('action', 'side') else value}"
                    for name, value in zip(COLUMNS, records[at].tolist(), strict=True)
                )
                raise DbnError(f"{self.path}: record {self.rows + at + 1}: {WRONG[why]} is due, got {cells}")
        self.rows += len(records)

    def _number(self, metadata: Any, instrument: int) -> int:
        if instrument not in self._numbers:
            name = next(
                (
                    raw
                    for raw, spans in metadata.mappings.items()
                    if any(str(span["symbol"]) == str(instrument) for span in spans)
                ),
                str(instrument),
            )
            wanted = not self._wanted or name in self._wanted
            self._numbers[instrument] = len(self.symbols) if wanted else -1
            if wanted:
                self.symbols.append(name)
        return self._numbers[instrument]


def read_dbn(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; DbnError names the record of what is wrong. Reads the file twice."""
    options.only(path, "Databento MBO", "symbols", "tick_size")
    units = whole_units("tick-size", options.tick_size, PRICE_UNIT) if options.tick_size else _step(path)
    reader = _Reader(path, sink, options, units)
    for metadata, records in read_records(path):
        reader.feed(metadata, records)
    flush(reader.book, sink)
    missing = sorted(set(options.symbols) - set(reader.symbols))
    if missing or not reader.symbols:
        raise DbnError(f"{path}: {', '.join(missing) or 'an order'} is due, the file has none of it")
    tick_size = f"{(units * PRICE_UNIT).normalize():f}"
    return Reference(
        symbols=tuple(SymbolReference(name, tick_size) for name in reader.symbols),
        date=datetime.fromtimestamp(reader.midnight_ns // 1_000_000_000, UTC).date().isoformat(),
        source="dbn",
        files=(source_file(path),),
        first_time_ns=int(reader.book.counter[FIRST_NS]),
        last_time_ns=int(reader.book.counter[TIME_NS]),
        source_rows=reader.rows,
        counts=dict(zip(named_book.COUNT_NAMES, reader.book.counts.tolist(), strict=True))
        | dict(zip(COUNT_NAMES, reader.counts.tolist(), strict=True)),
    )
