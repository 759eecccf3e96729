"""Reads an ITCH 5.0 file in bounded memory; docs/history.md has the rules."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np

from serl.history import stream_book
from serl.history.day import Reference, SymbolReference
from serl.history.decompress import BLOCK_BYTES, read_blocks
from serl.history.errors import ItchError, SourceError
from serl.history.itch import decode as decoding
from serl.history.itch.decode import EXCLUDED, INCLUDED, MARKETS, MORE_DATA, NEEDS_ROOM, NEW_STOCK, UNKNOWN, decode
from serl.history.itch.messages import LAYOUTS, LENGTHS, PRICE_UNITS, STOCK_AT
from serl.history.source import DEFAULTS, Options, Sink, flush, is_date, make_room, source_file, units_of
from serl.history.stream_book import FIRST_NS, ROW, TIME_NS

LOCATES = 1 << 16
END_OF_SESSION = b"\0\0"
MARKET_NAMES = (("BX_ITCH", MARKETS[1]), ("PSX_ITCH", MARKETS[2]))
"""Names of the other markets in the publisher's file names."""
DATES = (
    re.compile(r"(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d{4})"),
    re.compile(r"(?P<year>20\d\d)(?P<month>\d\d)(?P<day>\d\d)"),
    re.compile(r"S(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d\d)-"),
)
"""Dates in the publisher's file names: 01302019.NASDAQ_ITCH50.gz, 20190130.BX_ITCH_50.gz, S020717-v50.txt.gz."""
EXPECTED = {
    decoding.UNKNOWN_ORDER: "an open order",
    decoding.DUPLICATE_ORDER: "an order reference above 0 that is not open yet",
    decoding.NO_SHARES: "shares above 0",
    decoding.TOO_MANY_SHARES: "at most the open shares",
    decoding.BAD_SIDE: "side B or S",
    decoding.NO_PRICE: "a price above 0",
    decoding.TIME_BACKWARDS: "a time not before that of the previous message",
}


def is_itch(head: bytes) -> bool:
    """Whether a (decompressed) file begins with an ITCH message: a known type after its length.

    Only the first message counts, so that the reader reports later errors with their position.
    """
    at = len(head) - len(head.lstrip(b"\0")) & ~1  # ends of sessions, two zeros each, and the first zero of a length
    length = int.from_bytes(head[at : at + 2], "big")
    return LENGTHS[head[at + 2]] == length if at + 3 <= len(head) else 0 < at == len(head)


def read_itch(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink. Raises `ItchError` or `SourceError`."""
    options.allow_only(path, "NASDAQ ITCH 5.0", "symbols", "tick_size", "date")
    tick_size = options.tick_size or "0.01"
    reader = _Reader(path, sink, options, units_of("tick-size", tick_size, Decimal(1) / PRICE_UNITS))
    for block in read_blocks(path, BLOCK_BYTES):
        reader.read(block)
    reader.finish()
    return Reference(
        symbols=tuple(SymbolReference(name, tick_size) for name in reader.symbols),
        date=options.date or _date(path.name),
        source="itch",
        files=(source_file(path),),
        first_time_ns=int(reader.book.counter[FIRST_NS]),
        last_time_ns=int(reader.book.counter[TIME_NS]),
        source_rows=int(reader.book.counter[ROW]),
        counts=reader.counts(),
    )


def _date(name: str) -> str:
    for pattern in DATES:
        if match := pattern.search(name):
            year = match["year"] if len(match["year"]) == 4 else f"20{match['year']}"
            date = f"{year}-{match['month']}-{match['day']}"
            if is_date(date):
                return date
    return ""


def _market(name: str) -> int:
    """The letter of the market whose feed a file contains: Nasdaq's unless the file name says BX or PSX."""
    return next((letter for text, letter in MARKET_NAMES if text in name), MARKETS[0])


class _Reader:
    """Converts blocks of bytes to commands; keeps an incomplete message for the next block."""

    def __init__(self, path: Path, sink: Sink, options: Options, tick_units: int) -> None:
        self.path = path
        self.symbols: list[str] = []
        self.book = stream_book.empty_book(LOCATES)
        self._sink = sink
        self._symbols = frozenset(options.symbols)
        self._seen: set[str] = set()
        self._units = tick_units
        self._market = _market(path.name)
        self._numbers = np.full(LOCATES, UNKNOWN, np.int32)
        self._halt_flags = np.zeros(LOCATES, np.uint8)
        self._counts = np.zeros(len(decoding.COUNT_NAMES), np.int64)
        self._rest = b""
        self._offset = 0

    def read(self, block: bytes) -> None:
        """Converts all complete messages."""
        data = np.frombuffer(self._rest + block if self._rest else block, np.uint8)
        at = 0
        while True:
            at, why = decode(
                self.book, data, at, len(data), self._numbers, self._units, self._market, self._halt_flags, self._counts
            )
            if why == MORE_DATA:
                break
            if why == NEEDS_ROOM:
                self.book = make_room(self.book, self._sink)
            elif why == NEW_STOCK:
                self._number_stock(data[at + 2 :])
            else:
                raise self._error(why, at, data[at:])
        self._rest = data[at:].tobytes()
        self._offset += at

    def finish(self) -> None:
        """Flushes the book. Raises `ItchError` if the last message is incomplete, `SourceError` if a selected symbol is missing."""
        if self._rest not in (b"", END_OF_SESSION):
            kind = chr(self._rest[2]) if len(self._rest) > 2 else ""
            expected = f"a message {kind} of {2 + LAYOUTS[kind].length} bytes" if kind in LAYOUTS else "a message"
            raise ItchError(
                f"{self.path}: byte {self._offset}: expected {expected}, got the end of the file after {len(self._rest)}"
            )
        if not self.book.counter[ROW]:
            raise ItchError(f"{self.path}: is empty: expected a message, got the end of the session")
        missing = sorted(self._symbols - self._seen)
        if missing:
            raise SourceError(
                f"{self.path}: expected symbols of this file ({_abbreviated(self._seen)}), got {', '.join(missing)}"
            )
        flush(self.book, self._sink)

    def counts(self) -> dict[str, int]:
        """How often each rule applied."""
        own = dict(zip(decoding.COUNT_NAMES, self._counts.tolist(), strict=True))
        return dict(zip(stream_book.COUNT_NAMES, self.book.counts.tolist(), strict=True)) | own

    def _number_stock(self, message: np.ndarray) -> None:
        """Decides whether a new stock is included; gives an included stock its number with its first order."""
        locate = int.from_bytes(message[1:3].tobytes(), "big")
        at = STOCK_AT[message[0]]
        name = message[at : at + 8].tobytes().decode("latin-1").rstrip()
        if self._numbers[locate] == UNKNOWN:
            self._seen.add(name)
            self._numbers[locate] = INCLUDED if not self._symbols or name in self._symbols else EXCLUDED
        else:
            self._numbers[locate] = len(self.symbols)
            self.symbols.append(name)

    def _error(self, why: int, at: int, message: np.ndarray) -> ItchError:
        """The error for the message at `at` of the block."""
        kind, length = chr(message[2]), int.from_bytes(message[:2].tobytes(), "big")
        where = f"{self.path}: byte {self._offset + at}"
        if why == decoding.UNKNOWN_TYPE:
            return ItchError(f"{where}: expected a message type of ITCH 5.0 ({' '.join(LAYOUTS)}), got {kind!r}")
        if why == decoding.WRONG_LENGTH:
            return ItchError(f"{where}: expected a message {kind} of {LAYOUTS[kind].length} bytes, got length {length}")
        return ItchError(
            f"{where}: message {kind} ({LAYOUTS[kind].name}): expected {EXPECTED[why]}, got {message[2 : 2 + length].tobytes().hex()}"
        )


def _abbreviated(names: set[str]) -> str:
    return ", ".join(sorted(names)[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
