"""Lines of a recording of depth, and what their messages say."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from serl.exchange.records import CASH_MAX, Side
from serl.history.decompress import blocks
from serl.history.errors import DepthError

LINE = re.compile(rb'\d{16,19} \{"')
TIME_NS_MAX = (1 << 63) - 1
T = TypeVar("T")


def is_depth(head: bytes) -> bool:
    """Whether the first bytes of a file are a line of such a recording."""
    return LINE.match(head) is not None


class Line(NamedTuple):
    """One line of the file."""

    number: int
    """From 1."""
    time_ns: int
    """Since 1970."""
    message: dict[str, Any]


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a recording; DepthError for one that is not a time and a JSON object, or goes back in time."""
    rest, number, last_ns = b"", 0, 0
    for block in (*blocks(path), b""):
        *whole, rest = (rest + block).split(b"\n")
        for text in whole if block else [*whole, rest]:
            number += 1
            if not text.strip() and not block:
                continue
            time, _, message = text.partition(b" ")
            try:
                line = Line(number, int(time), json.loads(message))
            except ValueError:
                raise DepthError(
                    f"{path}: line {number}: a time in ns and a JSON object are due, got {text[:60]!r}"
                ) from None
            if not last_ns <= line.time_ns <= TIME_NS_MAX or not isinstance(line.message, dict):
                raise DepthError(
                    f"{path}: line {number}: a time not before {last_ns} and a JSON object are due, got {text[:60]!r}"
                )
            last_ns = line.time_ns
            yield line


class Units:
    """From decimal texts to ticks and lots."""

    def __init__(self, tick_size: str, lot_size: str) -> None:
        self.tick_size, self.lot_size = Decimal(tick_size), Decimal(lot_size)
        self.sizes_rounded = 0

    def level(self, price: str, size: str) -> tuple[int, int]:
        """(price_ticks, qty_lots), sizes to the nearest lot but at least 1 of what is not 0; ValueError for what cannot be."""
        try:
            ticks, lots = Decimal(price) / self.tick_size, Decimal(size) / self.lot_size
            largest = max(ticks, lots, ticks * lots)
            sound = ticks > 0 and lots >= 0 and ticks == ticks.to_integral_value()
        except (ArithmeticError, TypeError, ValueError):
            raise ValueError(f"a decimal price and size, got {price!r}, {size!r}") from None
        if not sound:
            raise ValueError(
                f"a price that is a multiple of the tick {self.tick_size} and a size not below 0, got {price}, {size}"
            )
        if largest > CASH_MAX:
            raise ValueError(
                f"a price and size of at most 2^53 ticks x lots (larger ones: --tick-size, --lot-size), got {price}, {size}"
            )
        whole = max(1, int(lots.to_integral_value())) if lots else 0
        self.sizes_rounded += whole != lots
        return int(ticks), whole

    def levels(self, side: Side, entries: Any) -> list[tuple[int, int, int]]:
        """[(side, price_ticks, qty_lots)] of what a message lists of a side; ValueError if it is no list of prices and sizes."""
        if not isinstance(entries, list):
            raise ValueError(f"a list of [price, size], got {_short(entries)}")
        for entry in entries:
            if not isinstance(entry, list) or len(entry) != 2:
                raise ValueError(f"[price, size], got {_short(entry)}")
        return [(int(side), *self.level(*entry)) for entry in entries]


class Snapshot(NamedTuple):
    """The book as it was."""

    update_id: int
    bids: Any
    asks: Any


class Diff(NamedTuple):
    """What stands at some levels now."""

    symbol: str
    first: int
    """Update that it begins with."""
    last: int
    bids: Any
    asks: Any


class Trade(NamedTuple):
    """A trade."""

    symbol: str
    price: Any
    size: Any
    buyer_rests: bool


def told(line: Line) -> Snapshot | Diff | Trade | None:
    """What the message of a line says, None if nothing of the book; KeyError for a missing field, ValueError for one that cannot be.

    Levels, prices and sizes are as they came: `Units` reads them.
    """
    message = line.message.get("data", line.message)
    if not isinstance(message, dict):
        raise ValueError(f"an object in 'data', got {_short(message)}")
    if "lastUpdateId" in message:
        return Snapshot(_typed(message, "lastUpdateId", int), message["bids"], message["asks"])
    if message.get("e") == "depthUpdate":
        first, last = _typed(message, "U", int), _typed(message, "u", int)
        return Diff(_typed(message, "s", str), first, last, message["b"], message["a"])
    if message.get("e") == "trade":
        return Trade(_typed(message, "s", str), message["p"], message["q"], _typed(message, "m", bool))
    return None


def _typed(message: dict[str, Any], name: str, kind: type[T]) -> T:
    value = message[name]
    if type(value) is not kind:  # a bool is an int too
        raise ValueError(f"{name!r} of type {kind.__name__}, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    return repr(value)[:60]
