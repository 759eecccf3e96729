"""Parses the lines of a recording of depth diffs."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from serl.exchange.records import CASH_MAX, Side
from serl.history.decompress import read_blocks
from serl.history.errors import DepthError
from serl.history.table_rows import LINE_BYTES_MAX

LINE = re.compile(rb'\d{16,19} \{"')
TIME_NS_MAX = (1 << 63) - 1
UNITS_NS = {16: 1000, 19: 1}
"""ns per unit by number of digits of a time: since 2001, 16 digits are microseconds and 19 are nanoseconds."""
TRADES = ("trade", "aggTrade")
MARKET = "MARKET"
"""Kind of a trade in the book; futures also report transfers of the insurance fund."""
T = TypeVar("T")


def is_depth(head: bytes) -> bool:
    """Whether a file begins with a line of such a recording."""
    return LINE.match(head) is not None


class Line(NamedTuple):
    """One line of the file."""

    number: int
    """Line number, from 1."""
    time_ns: int
    """Time of arrival, since 1970."""
    message: dict[str, Any]


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a recording. Times are in ns or us, like the first one. Raises `DepthError` for a malformed line or a time that runs backwards."""
    rest, number, last_ns, unit_ns = b"", 0, 0, 0
    for block in (*read_blocks(path), b""):
        *complete, rest = (rest + block).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise DepthError(
                f"{path}: line {number + len(complete) + 1}: expected at most {LINE_BYTES_MAX:,} bytes, got more"
            )
        for text in complete if block else [*complete, rest]:
            number += 1
            if not text.strip() and not block:
                continue
            time, _, message = text.partition(b" ")
            unit_ns = unit_ns or UNITS_NS.get(len(time), 0)
            if not unit_ns:
                raise DepthError(
                    f"{path}: line {number}: expected a time of 19 digits (ns) or 16 (us), got {text[:60]!r}"
                )
            try:
                line = Line(number, int(time) * unit_ns, json.loads(message))
            except (ValueError, RecursionError):
                raise DepthError(
                    f"{path}: line {number}: expected a time in ns and a JSON object, got {text[:60]!r}"
                ) from None
            if not last_ns <= line.time_ns <= TIME_NS_MAX or not isinstance(line.message, dict):
                raise DepthError(
                    f"{path}: line {number}: expected a time not before {last_ns} and a JSON object, got {text[:60]!r}"
                )
            last_ns = line.time_ns
            yield line


class Units:
    """Converts decimal texts to ticks and lots."""

    def __init__(self, tick_size: str, lot_size: str) -> None:
        self.tick_size, self.lot_size = Decimal(tick_size), Decimal(lot_size)
        self.sizes_rounded = 0

    def level(self, price: str, size: str) -> tuple[int, int]:
        """(price_ticks, qty_lots). Sizes are rounded to the nearest lot, at least 1 unless the size is 0. Raises ValueError."""
        try:
            ticks, lots = Decimal(price) / self.tick_size, Decimal(size) / self.lot_size
            largest = max(ticks, lots, ticks * lots)
            valid = ticks > 0 and lots >= 0 and ticks == ticks.to_integral_value()
        except (ArithmeticError, TypeError, ValueError):
            raise ValueError(f"expected a decimal price and size, got {price!r}, {size!r}") from None
        if not valid:
            raise ValueError(
                f"expected a price that is a multiple of the tick {self.tick_size} and a size not below 0, got {price}, {size}"
            )
        if largest > CASH_MAX:
            raise ValueError(
                f"expected a price and size of at most 2^53 ticks x lots, got {price}, {size}; give a larger --tick-size or --lot-size"
            )
        rounded = max(1, int(lots.to_integral_value())) if lots else 0
        self.sizes_rounded += rounded != lots
        return int(ticks), rounded

    def levels(self, side: Side, entries: Any) -> list[tuple[int, int, int]]:
        """[(side, price_ticks, qty_lots)] of one side of a message. Raises ValueError."""
        if not isinstance(entries, list):
            raise ValueError(f"expected a list of [price, size], got {_short(entries)}")
        for entry in entries:
            if not isinstance(entry, list) or len(entry) != 2:
                raise ValueError(f"expected [price, size], got {_short(entry)}")
        return [(int(side), *self.level(*entry)) for entry in entries]


class Snapshot(NamedTuple):
    """A snapshot of the book."""

    update_id: int
    bids: Any
    asks: Any


class Diff(NamedTuple):
    """The new quantities at some levels."""

    symbol: str
    first: int
    """Number of the first update in the diff."""
    last: int
    previous: int | None
    """For futures, whose update numbers have gaps: the last update of the diff before. None for spot, whose numbers have no gaps."""
    bids: Any
    asks: Any

    def follows(self, update_id: int, *, first: bool) -> bool:
        """Whether nothing is missing between the book at this update and the diff, by Binance's rules for a local order book, spot and futures.

        first: whether this is the first diff after the snapshot, which may contain updates that the snapshot already includes.
        """
        before = self.first - 1 if self.previous is None else self.previous
        return before <= update_id if first else before == update_id


class Trade(NamedTuple):
    """A trade; buyer_rests: the buyer was the maker."""

    symbol: str
    price: Any
    size: Any
    buyer_rests: bool
    stream: str
    """`trade`, or `aggTrade`, which combines the fills of an aggressor at a price."""


def parse_message(line: Line) -> Snapshot | Diff | Trade | None:
    """The message of a line, None if it is of another kind. Raises KeyError for a missing field, ValueError for an invalid one.

    Prices and sizes stay texts: `Units` converts them.
    """
    message = line.message.get("data", line.message)
    if not isinstance(message, dict):
        raise ValueError(f"expected an object in 'data', got {_short(message)}")
    if "lastUpdateId" in message:
        return Snapshot(_typed(message, "lastUpdateId", int), message["bids"], message["asks"])
    if message.get("e") == "depthUpdate":
        first, last = _typed(message, "U", int), _typed(message, "u", int)
        previous = _typed(message, "pu", int) if "pu" in message else None
        return Diff(_typed(message, "s", str), first, last, previous, message["b"], message["a"])
    if message.get("e") in TRADES and message.get("X", MARKET) == MARKET:
        return Trade(_typed(message, "s", str), message["p"], message["q"], _typed(message, "m", bool), message["e"])
    return None


def _typed(message: dict[str, Any], name: str, kind: type[T]) -> T:
    value = message[name]
    if type(value) is not kind:  # a bool is an int too
        raise ValueError(f"expected {name!r} of type {kind.__name__}, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    return repr(value)[:60]
