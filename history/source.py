"""What all readers share: their options, and the sink to which they write commands."""

import hashlib
from dataclasses import dataclass, field, fields
from datetime import date as calendar_date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from serl.exchange.records import CASH_MAX, COMMAND, Rows
from serl.history.day import SourceFile
from serl.history.errors import SourceError
from serl.history.stream_book import FREE_ORDERS, HEADROOM, WRITTEN, StreamBook, grow, lacks_levels, take_commands

OPENING_BOOK = -1
"""The row of the commands of an opening book."""
SIZE_MIN = Decimal("1e-18")
"""Smallest size of a tick or lot; the largest is its inverse. Beyond these, quotients leave the range of decimals."""


@dataclass(frozen=True)
class Options:
    """Options that supply what the source itself does not contain. A reader refuses options that do not apply to its format."""

    symbols: tuple[str, ...] = ()
    """Symbols to import (all if empty), or the name of the symbol if the source does not contain it."""
    tick_size: str = ""
    """Decimal; empty for the format's default."""
    lot_size: str = ""
    date: str = ""
    """YYYY-MM-DD, if the source does not contain it."""
    time_zone: str = ""
    """IANA name of the time zone to which UTC times of bars are converted. Empty for UTC."""

    def __post_init__(self) -> None:
        """Raises `SourceError` for an invalid value."""
        for name, text in (("tick-size", self.tick_size), ("lot-size", self.lot_size)):
            if text and not _is_size(text):
                raise SourceError(f"--{name}: expected a decimal above 0, got {text!r}; give one from 1e-18 to 1e18")
        if self.date and not is_date(self.date):
            raise SourceError(f"--date: expected YYYY-MM-DD, got {self.date!r}")

    def allow_only(self, path: Path, source: str, *allowed: str) -> None:
        """Raises `SourceError` if any option but `allowed` is given. source: the name of the format."""
        for name in (item.name for item in fields(self)):
            if getattr(self, name) and name not in allowed:
                accepted = ", ".join(_flag(option) for option in allowed) or "no option"
                raise SourceError(f"{path}: {source} accepts {accepted}, got {_flag(name)}; omit it")

    def single_symbol(self, path: Path) -> str:
        """The name for a source of one symbol, empty if not given. Raises `SourceError` for several."""
        if len(self.symbols) > 1:
            raise SourceError(
                f"{path}: --symbols: expected one name, as this source has one symbol, got {', '.join(self.symbols)}"
            )
        return "".join(self.symbols)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_size(text: str) -> bool:
    try:
        size = Decimal(text)
    except InvalidOperation:
        return False
    return size.is_finite() and SIZE_MIN <= size <= 1 / SIZE_MIN


def is_date(text: str) -> bool:
    """Whether a text is a date, YYYY-MM-DD."""
    try:
        return calendar_date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


DEFAULTS = Options()


class Sink(Protocol):
    """Receives commands block by block."""

    def write(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        """Receives COMMAND rows and their source rows; both arrays are valid only during the call."""


@dataclass
class MemorySink:
    """A sink that keeps all commands in memory."""

    commands: list[Rows] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)

    def write(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        """Appends copies."""
        self.commands.append(commands.copy())
        self.rows.append(rows.copy())

    def concatenated(self) -> tuple[Rows, NDArray[np.int64]]:
        """All commands and their source rows."""
        if not self.commands:
            return np.zeros(0, COMMAND), np.zeros(0, np.int64)
        return np.concatenate(self.commands), np.concatenate(self.rows)


def flush(book: StreamBook, sink: Sink) -> None:
    """Writes the commands of a book's block to the sink."""
    commands, rows = take_commands(book)
    if len(commands):
        sink.write(commands, np.maximum(rows, OPENING_BOOK))  # a recorder numbers the rows of its first books up to 0


def make_room(book: StreamBook, sink: Sink) -> StreamBook:
    """Flushes the book's block, and grows the book if the block was not what it lacked; returns the book."""
    was_empty = not book.counter[WRITTEN]
    flush(book, sink)
    short = book.counter[FREE_ORDERS] < HEADROOM or lacks_levels(book.counter)
    return grow(book) if was_empty or short else book


def source_file(path: Path) -> SourceFile:
    """Name and sha256 of a file. Raises `SourceError`."""
    try:
        with path.open("rb") as file:
            return SourceFile(path.name, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None


def units_of(name: str, text: str, unit: Decimal) -> int:
    """Number of the source's units in a tick or lot; text is an option's value. Raises `SourceError` unless the number is an integer."""
    units = Decimal(text) / unit
    if units != int(units) or units > CASH_MAX:
        raise SourceError(
            f"--{name}: expected a multiple of {unit}, the unit of this source, up to 2^53 of it, got {text!r}"
        )
    return int(units)
