"""Reads Databento's market-by-order records (DBN, plain or zstd) with the package databento-dbn (extra `history`)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.compiling import compiled, inlined, inner, int64
from serl.exchange.limits import SYMBOLS_MAX
from serl.extras import require
from serl.history import stream_book
from serl.history.day import Reference, SymbolReference
from serl.history.decompress import BLOCK_BYTES, read_blocks
from serl.history.errors import DbnError
from serl.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file, units_of
from serl.history.stream_book import (
    BUY,
    FIRST_NS,
    ROW,
    SELL,
    TIME_NS,
    StreamBook,
    find_order_of,
    has_room,
    has_room_to_enter,
)
from serl.history.stream_commands import (
    cancel_all,
    cancel_lots,
    crosses,
    enter_held,
    enter_order,
    execute,
    forget_order,
    hold_order,
    orders_at_price,
    print_trade,
)

MAGIC = b"DBN"
PRICE_UNIT = Decimal("0.000000001")
NO_PRICE = (1 << 63) - 1
LAST, TOP, SNAPSHOT, LEVEL, MAYBE_BAD = 128, 64, 32, 16, 4
"""Flags: the last record of an event; an order that is the whole best level of its side; a record of the initial snapshot; a whole level
instead of an order; a record after an unrecoverable gap in the feed."""
DAY_NS = 86_400 * 1_000_000_000
COLUMNS = ("ts_recv", "action", "side", "price", "size", "order_id", "flags", "instrument_id", "publisher_id")
TIME, ACTION, SIDE, PRICE, SIZE, ORDER, FLAGS, INSTRUMENT, PUBLISHER = range(len(COLUMNS))
ADD, CANCEL, MODIFY, FILL, TRADE, CLEAR, NONE = ACTIONS = tuple(ord(letter) for letter in "ACMFTRN")
BID, ASK = ord("B"), ord("A")

COUNT_NAMES = (
    "modifies",
    "modifies_unknown",  # treated as new orders
    "fills_unknown",  # printed
    "fills_other_price",  # at a price other than the order's: printed
    "fills_beyond_shown",  # of an iceberg: the lots that were not displayed are printed
    "auction_fills",  # the auction's trade is printed
    "orders_held",  # crossing orders of a call phase, which enter when they no longer cross
    "cancels_unknown",
    "cancels_beyond_open",  # of more lots than the order had: it is cancelled
    "records_maybe_bad",  # after a gap in the feed: the source's own book may be wrong
    "clears",
    "records_left_out",
    "prints_rounded",  # trades between ticks
)
(
    MODIFIES, MODIFIES_UNKNOWN, FILLS_UNKNOWN, FILLS_OTHER_PRICE, FILLS_BEYOND_SHOWN, AUCTION_FILLS, ORDERS_HELD, CANCELS_UNKNOWN, CANCELS_BEYOND_OPEN,
    RECORDS_MAYBE_BAD, CLEARS, RECORDS_EXCLUDED, PRINTS_ROUNDED,
) = range(len(COUNT_NAMES))  # fmt: skip
APPLIED, NEEDS_ROOM, TIME_BACKWARDS, NO_SIZE, NO_SIDE, BAD_PRICE, DUPLICATE_ORDER, TOP_ONLY = range(8)
EXPECTED = {
    TIME_BACKWARDS: "a ts_recv not before that of the previous record",
    NO_SIZE: "a size above 0",
    NO_SIDE: "side A or B",
    BAD_PRICE: "a price above 0 that is a multiple of the tick",
    DUPLICATE_ORDER: "an order_id that is not open, above 0",
    TOP_ONLY: "orders of a whole book, whose flags lack 64 (top of book) and 16 (a level instead of an order)",
}


@inlined
def _enter(book: StreamBook, name: int, symbol: int, side: int, ticks: int, lots: int, counts: Any) -> None:
    """Enters an order, or holds it if it crosses: it then belongs to a call phase, since in continuous trading an order that trades is removed first."""
    if crosses(book, symbol, side, ticks):
        counts[ORDERS_HELD] += 1
        hold_order(book, name, symbol, side, ticks, lots)
    else:
        enter_order(book, name, symbol, side, ticks, lots)


@inlined
def _print(book: StreamBook, symbol: int, side: int, price: int, lots: int, units: int, counts: Any) -> None:
    """Prints a trade at the nearest tick, half to even, at least 1."""
    ticks, rest = price // units, price % units
    counts[PRINTS_ROUNDED] += rest != 0
    if 2 * rest > units or (2 * rest == units and ticks % 2 == 1):
        ticks += 1
    print_trade(book, symbol, side, max(1, ticks), lots)


@inner
def _fill(book: StreamBook, slot: int, record: Any, symbol: int, units: int, counts: Any) -> None:
    """F: trades, without changing the source's book. The cancel or modify that follows removes only what exceeds these fills."""
    side = SELL if record[SIDE] == ASK else BUY
    if slot == 0:
        counts[FILLS_UNKNOWN] += 1
        if record[SIDE] != NONE:
            _print(book, symbol, side, record[PRICE], record[SIZE], units, counts)
        return
    order = book.orders[slot]
    if record[SIDE] == NONE:
        counts[AUCTION_FILLS] += 1
        return
    displayed, printed = min(record[SIZE], order.source_lots), record[SIZE]
    counts[FILLS_BEYOND_SHOWN] += printed > displayed
    if order.price_ticks * units != record[PRICE] or order.is_held:
        counts[FILLS_OTHER_PRICE] += 1
    elif displayed > 0 and execute(book, slot, displayed):
        order.filled_lots += displayed
        printed -= displayed
    if printed > 0:
        _print(book, symbol, side, record[PRICE], printed, units, counts)


@inner
def _cancel(book: StreamBook, slot: int, lots: int, counts: Any) -> None:
    """C: removes only what exceeds the fills."""
    order = book.orders[slot]
    filled = min(lots, order.filled_lots)
    order.filled_lots -= filled
    counts[CANCELS_BEYOND_OPEN] += lots - filled > order.source_lots
    lots = min(lots - filled, order.source_lots)
    if lots > 0:
        cancel_lots(book, slot, lots)
    if order.source_lots == 0 and order.filled_lots == 0:
        forget_order(book, slot)


@inner
def _modify(book: StreamBook, slot: int, record: Any, symbol: int, side: int, ticks: int, counts: Any) -> None:
    """M: a smaller size at the same price keeps its queue position, any other change loses it."""
    counts[MODIFIES] += 1
    name, lots = record[ORDER], record[SIZE]
    if slot == 0:
        counts[MODIFIES_UNKNOWN] += 1
    else:
        order = book.orders[slot]
        order.filled_lots = 0
        if order.price_ticks == ticks and order.side == side and lots <= order.source_lots:
            if lots < order.source_lots:
                cancel_lots(book, slot, order.source_lots - lots)
            return
        if order.source_lots > 0:
            cancel_lots(book, slot, order.source_lots)
        forget_order(book, slot)
    _enter(book, name, symbol, side, ticks, lots, counts)


@inner
def _apply_record(book: StreamBook, record: Any, symbol: int, units: int, counts: Any) -> int:
    """Applies a record; returns APPLIED, NEEDS_ROOM or why it is invalid."""
    action = record[ACTION]
    slot = find_order_of(book, record[ORDER], symbol) if record[ORDER] else 0
    if not has_room(book, orders_at_price(book, slot) if slot else 0):
        return NEEDS_ROOM
    if action == NONE:
        return APPLIED
    if action == CLEAR:
        if cancel_all(book, symbol, 1) < book.orders.size:
            return NEEDS_ROOM
        counts[CLEARS] += 1
        return APPLIED
    if action == CANCEL:
        if slot == 0:
            counts[CANCELS_UNKNOWN] += 1
        else:
            _cancel(book, slot, record[SIZE], counts)
        return APPLIED
    if record[SIZE] <= 0:
        return NO_SIZE
    if record[PRICE] <= 0 or record[PRICE] == NO_PRICE:
        return BAD_PRICE
    if action == FILL:
        _fill(book, slot, record, symbol, units, counts)
        return APPLIED
    if action == TRADE:
        if record[SIDE] == NONE:
            _print(book, symbol, BUY, record[PRICE], record[SIZE], units, counts)
        return APPLIED
    if record[PRICE] % units:
        return BAD_PRICE
    ticks = record[PRICE] // units
    if record[SIDE] != BID and record[SIDE] != ASK:
        return NO_SIDE
    if record[FLAGS] & (TOP | LEVEL):
        return TOP_ONLY
    side = BUY if record[SIDE] == BID else SELL
    if action == MODIFY:
        _modify(book, slot, record, symbol, side, ticks, counts)
        return APPLIED
    if slot != 0 or record[ORDER] == 0:
        return DUPLICATE_ORDER
    _enter(book, record[ORDER], symbol, side, ticks, record[SIZE], counts)
    return APPLIED


@inner
def _end_event(book: StreamBook, record: Any, symbol: int) -> bool:
    """At the last record of an event, enters the held orders that would not trade. Returns False if there is no room for them."""
    if symbol >= 0 and record[FLAGS] & LAST and book.held_orders[symbol, 2]:
        if not has_room_to_enter(book, symbol):
            return False
        enter_held(book, symbol)
    return True


@compiled
def _apply(
    book: StreamBook, records: Any, first: int, row: int, numbers: Any, units: int, midnight_ns: int, counts: Any
) -> tuple[int, int]:
    """Applies records[first:]; returns (where it stopped, why); continue there after NEEDS_ROOM. row: of records[0]. numbers: [record] symbol, -1: excluded."""
    if first > 0 and not _end_event(book, records[first - 1], int64(numbers[first - 1])):
        return first, NEEDS_ROOM
    for index in range(first, records.shape[0]):
        record, symbol = records[index], int64(numbers[index])
        time_ns = record[TIME] - midnight_ns
        if time_ns < book.counter[TIME_NS]:
            return index, TIME_BACKWARDS
        if symbol < 0 or record[ACTION] not in ACTIONS:
            counts[RECORDS_EXCLUDED] += 1
            continue
        book.counter[ROW] = -1 if record[FLAGS] & SNAPSHOT else row + index
        book.counter[TIME_NS] = time_ns
        result = _apply_record(book, record, symbol, units, counts)
        if result != APPLIED:
            return index, result
        counts[RECORDS_MAYBE_BAD] += (record[FLAGS] & MAYBE_BAD) != 0
        if not _end_event(book, record, symbol):
            return index + 1, NEEDS_ROOM
    return records.shape[0], APPLIED


def is_dbn(head: bytes) -> bool:
    """Whether a (decompressed) file begins like DBN."""
    return head.startswith(MAGIC)


def decoder_type(path: Path) -> Any:
    """The decoder of databento-dbn. Raises `MissingPackageError`."""
    require(f"the DBN file {path}", "databento_dbn")
    from databento_dbn import DBNDecoder

    return DBNDecoder


def read_records(path: Path) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """(metadata, [record, column] of COLUMNS) block by block. Raises `DbnError`."""
    decoder, metadata = decoder_type(path)(), None
    rows: list[tuple[int, ...]] = []
    for block in read_blocks(path, BLOCK_BYTES):
        decoder.write(block)
        try:
            records = decoder.decode()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # databento-dbn raises DBNError, which its stubs do not declare, or panics
            raise DbnError(f"{path}: cannot be decoded ({error}); download it again") from None
        if metadata is None and records:
            metadata = records.pop(0)
            if str(metadata.schema) != "mbo":
                raise DbnError(f"{path}: expected schema mbo (market by order), got {metadata.schema}")
        try:
            rows = [
                (
                    r.ts_recv, ord(str(r.action)), ord(str(r.side)), r.price, r.size, _signed(r.order_id), int(r.flags), r.instrument_id,
                    r.publisher_id,
                )
                for r in records if type(r).__name__ == "MBOMsg"
            ]  # fmt: skip
            columns = np.array(rows, np.int64).reshape(-1, len(COLUMNS))
        except (OverflowError, ValueError, TypeError) as error:  # a time without a value, or an unknown action
            raise DbnError(
                f"{path}: expected records with time, action and side, got others ({error}); download it again"
            ) from None
        yield metadata, columns
    if decoder.buffer():
        raise DbnError(f"{path}: ends within a record, after {len(decoder.buffer())} bytes of it; download it again")


def _signed(number: int) -> int:
    """The same 64 bits as a signed integer."""
    return number - (1 << 64) if number >> 63 else number


def _tick_units(path: Path, symbols: frozenset[str]) -> int:
    """The largest step that divides the price of every order of these symbols (of all symbols if `symbols` is empty)."""
    step, names = 0, None
    for metadata, records in read_records(path):
        names = names or _names(metadata)
        is_order = np.isin(records[:, ACTION], (ADD, MODIFY)) & (records[:, PRICE] != NO_PRICE)
        prices = records[is_order & _are_included(names, symbols, records), PRICE]
        step = gcd(step, int(np.gcd.reduce(prices)) if len(prices) else 0)
    return step or int(1 / PRICE_UNIT)


def _names(metadata: Any) -> dict[str, str]:
    """[instrument_id] its first name in the file's metadata."""
    names: dict[str, str] = {}
    for raw, spans in metadata.mappings.items() if metadata else ():
        for span in spans:
            names.setdefault(str(span["symbol"]), raw)
    return names


def _are_included(names: dict[str, str], symbols: frozenset[str], records: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[record] whether it belongs to one of these symbols."""
    if not symbols:
        return np.ones(len(records), np.bool_)
    instruments, where = np.unique(records[:, INSTRUMENT], return_inverse=True)
    return np.array([names.get(one, one) in symbols for one in map(str, instruments.tolist())], np.bool_)[
        where.reshape(-1)
    ]


class _Reader:
    """Converts blocks of records to commands."""

    def __init__(self, path: Path, sink: Sink, options: Options, units: int) -> None:
        self.path = path
        self.symbols: list[str] = []
        self.rows, self.midnight_ns = 0, -1
        self.book = stream_book.empty_book(SYMBOLS_MAX)
        self.counts = np.zeros(len(COUNT_NAMES), np.int64)
        self._sink = sink
        self._symbols = frozenset(options.symbols)
        self._units = units
        self._numbers: dict[int, int] = {}
        self._taken: set[str] = set()  # a continuous contract that rolls is two instruments of one name
        self._names: dict[str, str] | None = None
        self._publisher = -1

    def read(self, metadata: Any, records: NDArray[np.int64]) -> None:
        """Converts a block."""
        if self.midnight_ns < 0 and len(records):
            self.midnight_ns = int(records[0, TIME]) // DAY_NS * DAY_NS
        if self._names is None and metadata is not None:  # with many symbols, the metadata exceeds the first block
            self._names = _names(metadata)
        numbers = np.array([self._number(instrument) for instrument in records[:, INSTRUMENT].tolist()], np.int64)
        self._require_publisher(records, numbers)
        at, why = 0, APPLIED
        while at < len(records) or why == NEEDS_ROOM:
            at, why = _apply(self.book, records, at, self.rows, numbers, self._units, self.midnight_ns, self.counts)
            if why == NEEDS_ROOM:
                self.book = make_room(self.book, self._sink)
            elif why != APPLIED:
                cells = ", ".join(
                    f"{name} {chr(value) if name in ('action', 'side') else value}"
                    for name, value in zip(COLUMNS, records[at].tolist(), strict=True)
                )
                raise DbnError(f"{self.path}: record {self.rows + at + 1}: expected {EXPECTED[why]}, got {cells}")
        self.rows += len(records)

    def _number(self, instrument: int) -> int:
        if instrument not in self._numbers:
            name = (self._names or {}).get(str(instrument), str(instrument))
            included = not self._symbols or name in self._symbols
            self._numbers[instrument] = len(self.symbols) if included else -1
            if included:
                self.symbols.append(f"{name}_{instrument}" if name in self._taken else name)
                self._taken.add(name)
                if len(self.symbols) > SYMBOLS_MAX:
                    raise DbnError(
                        f"{self.path}: expected at most {SYMBOLS_MAX:,} instruments, got more; choose some with --symbols"
                    )
        return self._numbers[instrument]

    def _require_publisher(self, records: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Requires a single publisher: each is a venue with its own book. Together they would cross, and one's clear would remove the other's orders."""
        for publisher in np.unique(records[numbers >= 0, PUBLISHER]).tolist():
            if self._publisher not in (-1, publisher):
                raise DbnError(
                    f"{self.path}: expected the orders of one venue, got those of publishers {self._publisher} and {publisher}; write a file of "
                    "each publisher_id"
                )
            self._publisher = publisher


def read_dbn(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; reads the file twice. Raises `DbnError`."""
    options.allow_only(path, "Databento MBO", "symbols", "tick_size")
    units = (
        units_of("tick-size", options.tick_size, PRICE_UNIT)
        if options.tick_size
        else _tick_units(path, frozenset(options.symbols))
    )
    reader = _Reader(path, sink, options, units)
    for metadata, records in read_records(path):
        reader.read(metadata, records)
    flush(reader.book, sink)
    missing = sorted(set(options.symbols) - set(reader.symbols))
    if missing or not reader.symbols:
        raise DbnError(f"{path}: expected {', '.join(missing) or 'an order'}, got none in this file")
    tick_size = f"{(units * PRICE_UNIT).normalize():f}"
    return Reference(
        symbols=tuple(SymbolReference(name, tick_size) for name in reader.symbols),
        date=datetime.fromtimestamp(reader.midnight_ns // 1_000_000_000, UTC).date().isoformat(),
        source="dbn",
        files=(source_file(path),),
        first_time_ns=int(reader.book.counter[FIRST_NS]),
        last_time_ns=int(reader.book.counter[TIME_NS]),
        source_rows=reader.rows,
        counts=dict(zip(stream_book.COUNT_NAMES, reader.book.counts.tolist(), strict=True))
        | dict(zip(COUNT_NAMES, reader.counts.tolist(), strict=True)),
    )
