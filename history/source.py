"""What every reader of history is given and gives: options, and a sink for the commands."""

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
from serl.history.named_book import FREE_LEVELS, FREE_ORDERS, ROOM, WRITTEN, NamedBook, grown, take_block


@dataclass(frozen=True)
class Options:
    """What a source does not say of itself; a reader refuses what makes no sense for its format."""

    symbols: tuple[str, ...] = ()
    """To take of a source with several; all if empty. The name of a source that does not say it."""
    tick_size: str = ""
    """Decimal; empty for that of the format."""
    lot_size: str = ""
    date: str = ""
    """YYYY-MM-DD, where the source does not say it."""
    time_zone: str = ""
    """IANA name: of bars whose times say their offset or count from 1970, the zone whose clock the day follows. Empty for UTC."""

    def __post_init__(self) -> None:
        """SourceError for a value that makes no sense for any format."""
        for name, text in (("tick-size", self.tick_size), ("lot-size", self.lot_size)):
            if text and not _is_size(text):
                raise SourceError(f"--{name}: a decimal above 0 is due, got {text!r}")
        if self.date and not _is_date(self.date):
            raise SourceError(f"--date: a day as YYYY-MM-DD is due, got {self.date!r}")

    def only(self, path: Path, source: str, *taken: str) -> None:
        """SourceError if anything but `taken` is given: what `source`, a format, says itself or has no use for."""
        for name in (item.name for item in fields(self)):
            if getattr(self, name) and name not in taken:
                known = ", ".join(_flag(one) for one in taken) or "no option"
                raise SourceError(f"{path}: {_flag(name)} makes no sense for {source}, which takes {known}")

    def symbol(self, path: Path) -> str:
        """The name for a source of one symbol, empty if none is given; SourceError for several."""
        if len(self.symbols) > 1:
            raise SourceError(
                f"{path}: --symbols: one name is due, this source has one symbol; got {', '.join(self.symbols)}"
            )
        return "".join(self.symbols)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_size(text: str) -> bool:
    try:
        size = Decimal(text)
    except InvalidOperation:
        return False
    return size.is_finite() and size > 0


def _is_date(text: str) -> bool:
    try:
        return calendar_date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


DEFAULTS = Options()


class Sink(Protocol):
    """Takes commands block by block."""

    def write(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        """COMMAND rows and their source rows; both are only valid during the call."""


@dataclass
class Collected:
    """A sink in memory."""

    commands: list[Rows] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)

    def write(self, commands: Rows, rows: NDArray[np.int64]) -> None:
        """Keeps copies."""
        self.commands.append(commands.copy())
        self.rows.append(rows.copy())

    def all(self) -> tuple[Rows, NDArray[np.int64]]:
        """Everything that was written."""
        if not self.commands:
            return np.zeros(0, COMMAND), np.zeros(0, np.int64)
        return np.concatenate(self.commands), np.concatenate(self.rows)


def flush(book: NamedBook, sink: Sink) -> None:
    """Hands the commands that a book has written to the sink."""
    commands, rows = take_block(book)
    if len(commands):
        sink.write(commands, rows)


def make_room(book: NamedBook, sink: Sink) -> NamedBook:
    """The book after its block was handed over, with more room where that was not what it lacked."""
    empty = not book.counter[WRITTEN]
    flush(book, sink)
    short = min(book.counter[FREE_ORDERS], book.counter[FREE_LEVELS]) < ROOM
    return grown(book) if empty or short else book


def source_file(path: Path) -> SourceFile:
    """Name and fingerprint of a file; SourceError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return SourceFile(path.name, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error})") from None


def whole_units(name: str, text: str, unit: Decimal) -> int:
    """How many units of the source a tick or lot (a text that Options took) is; SourceError unless it is a whole number of them."""
    units = Decimal(text) / unit
    if units != int(units) or units > CASH_MAX:
        raise SourceError(
            f"--{name}: a multiple of {unit}, the unit of this source, is due, up to 2^53 of it; got {text!r}"
        )
    return int(units)
