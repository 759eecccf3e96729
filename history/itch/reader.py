"""An ITCH 5.0 file, plain or .gz, read in bounded memory; the rules are in docs/history.md."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np

from serl.history import named_book
from serl.history.day import Reference, SymbolReference
from serl.history.decompress import BLOCK_BYTES, blocks
from serl.history.errors import ItchError, SourceError
from serl.history.itch import decode as decoding
from serl.history.itch.decode import LEFT_OUT, MORE_DATA, MORE_ROOM, NEW_STOCK, UNKNOWN, WANTED, decode
from serl.history.itch.messages import LAYOUTS, LENGTHS, PRICE_UNITS, STOCK_AT
from serl.history.named_book import FIRST_NS, ROW, TIME_NS
from serl.history.source import DEFAULTS, Options, Sink, flush, make_room, source_file, whole_units

LOCATES = 1 << 16
END_OF_SESSION = b"\0\0"
DATES = (
    re.compile(r"(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d{4})"),
    re.compile(r"S(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d\d)-"),
)
"""In the names that the publisher gives: 01302019.NASDAQ_ITCH50.gz, S020717-v50.txt.gz."""
WRONG = {
    decoding.UNKNOWN_ORDER: "an order that is open is due",
    decoding.ORDER_TWICE: "an order reference that is not open yet, above 0, is due",
    decoding.NO_SHARES: "shares above 0 are due",
    decoding.TOO_MANY_SHARES: "at most the shares that are open are due",
    decoding.BAD_SIDE: "side B or S is due",
    decoding.NO_PRICE: "a price above 0 is due",
    decoding.TIME_BACK: "a time that is not before that of the message ahead is due",
}


def is_itch(head: bytes) -> bool:
    """Whether the first bytes of a file (unpacked) begin with a message of ITCH: a type that exists, behind its length.

    What is wrong behind the first message is for the reader to say, with its place.
    """
    at = len(head) - len(head.lstrip(b"\0")) & ~1  # ends of sessions, two zeros each, and the first zero of a length
    length = int.from_bytes(head[at : at + 2], "big")
    return LENGTHS[head[at + 2]] == length if at + 3 <= len(head) else 0 < at == len(head)


def read_itch(path: Path, sink: Sink, options: Options = DEFAULTS) -> Reference:
    """Writes the commands of a file to the sink; ItchError names the byte of what is wrong, SourceError the rest."""
    options.only(path, "NASDAQ ITCH 5.0", "symbols", "tick_size", "date")
    tick_size = options.tick_size or "0.01"
    reader = _Reader(path, sink, options, whole_units("tick-size", tick_size, Decimal(1) / PRICE_UNITS))
    for block in blocks(path, BLOCK_BYTES):
        reader.feed(block)
    reader.end()
    return Reference(
        symbols=tuple(SymbolReference(name, tick_size) for name in reader.symbols),
        date=options.date or _date(path.name),
        source="itch",
        files=(source_file(path),),
        first_time_ns=int(reader.book.counter[FIRST_NS]),
        last_time_ns=int(reader.book.counter[TIME_NS]),
        source_rows=int(reader.book.counter[ROW]),
        counts=reader.counted(),
    )


def _date(name: str) -> str:
    for pattern in DATES:
        if match := pattern.search(name):
            year = match["year"] if len(match["year"]) == 4 else f"20{match['year']}"
            return f"{year}-{match['month']}-{match['day']}"
    return ""


class _Reader:
    """Bytes in, commands out; keeps what a message needs that begins in one block and ends in the next."""

    def __init__(self, path: Path, sink: Sink, options: Options, tick_units: int) -> None:
        self.path = path
        self.symbols: list[str] = []
        self.book = named_book.named_book(LOCATES)
        self._sink = sink
        self._wanted = frozenset(options.symbols)
        self._met: set[str] = set()
        self._units = tick_units
        self._numbers = np.full(LOCATES, UNKNOWN, np.int32)
        self._why_halted = np.zeros(LOCATES, np.uint8)
        self._counts = np.zeros(len(decoding.COUNT_NAMES), np.int64)
        self._rest = b""
        self._offset = 0

    def feed(self, block: bytes) -> None:
        """Plays all whole messages of the rest and this block."""
        data = np.frombuffer(self._rest + block if self._rest else block, np.uint8)
        at = 0
        while True:
            at, why = decode(self.book, data, at, len(data), self._numbers, self._units, self._why_halted, self._counts)
            if why == MORE_DATA:
                break
            if why == MORE_ROOM:
                self.book = make_room(self.book, self._sink)
            elif why == NEW_STOCK:
                self._meet(data[at + 2 :])
            else:
                raise self._error(why, at, data[at:])
        self._rest = data[at:].tobytes()
        self._offset += at

    def end(self) -> None:
        """Hands over what is left; ItchError if the last message is not whole, SourceError if a symbol never came."""
        if self._rest not in (b"", END_OF_SESSION):
            kind = chr(self._rest[2]) if len(self._rest) > 2 else ""
            due = f"a message {kind} of {2 + LAYOUTS[kind].length} bytes" if kind in LAYOUTS else "a message"
            raise ItchError(f"{self.path}: byte {self._offset}: {due} is due, the file ends after {len(self._rest)}")
        if not self.book.counter[ROW]:
            raise ItchError(f"{self.path}: is empty: a message is due, the file has none before the end of the session")
        missing = sorted(self._wanted - self._met)
        if missing:
            raise SourceError(f"{self.path}: {', '.join(missing)} not in this file, which has {_some(self._met)}")
        flush(self.book, self._sink)

    def counted(self) -> dict[str, int]:
        """How often each rule applied."""
        own = dict(zip(decoding.COUNT_NAMES, self._counts.tolist(), strict=True))
        return dict(zip(named_book.COUNT_NAMES, self.book.counts.tolist(), strict=True)) | own

    def _meet(self, message: np.ndarray) -> None:
        """A stock that is new, or that trades for the first time and is wanted: then it gets its number."""
        locate = int.from_bytes(message[1:3].tobytes(), "big")
        at = STOCK_AT[message[0]]
        name = message[at : at + 8].tobytes().decode("latin-1").rstrip()
        if self._numbers[locate] == UNKNOWN:
            self._met.add(name)
            self._numbers[locate] = WANTED if not self._wanted or name in self._wanted else LEFT_OUT
        else:
            self._numbers[locate] = len(self.symbols)
            self.symbols.append(name)

    def _error(self, why: int, at: int, message: np.ndarray) -> ItchError:
        """What is wrong with the message at `at` of the block."""
        kind, length = chr(message[2]), int.from_bytes(message[:2].tobytes(), "big")
        where = f"{self.path}: byte {self._offset + at}"
        if why == decoding.UNKNOWN_TYPE:
            return ItchError(f"{where}: a message type of ITCH 5.0 is due ({' '.join(LAYOUTS)}), got {kind!r}")
        if why == decoding.WRONG_LENGTH:
            return ItchError(f"{where}: a message {kind} has {LAYOUTS[kind].length} bytes, its length says {length}")
        return ItchError(
            f"{where}: message {kind} ({LAYOUTS[kind].name}): {WRONG[why]}; got {message[2 : 2 + length].tobytes().hex()}"
        )


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
