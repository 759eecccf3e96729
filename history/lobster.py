"""Finds, parses and checks LOBSTER message and order book files.

The format is that of the sample files' readme (1 Sept 2013).
"""

import hashlib
import io
import lzma
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray

from serl.history.day import SourceFile
from serl.history.errors import LobsterError, SourceError
from serl.history.lobster_check import check_book, check_messages, describe_malformed_row
from serl.history.source import is_date

TIME_DIGITS, TIME_DECIMALS = 18, 12
"""Digits and decimals of a time in seconds, so that 64 bits hold it in picoseconds."""
COLUMNS = 6
"""Columns of a message. Some files have a seventh, the sender of an attributed order, which is not read."""
TICK_UNITS = 100
"""Price units of a tick: prices are in 1/10000 of a dollar, the tick is a cent."""
EMPTY_PRICE = 9_999_999_999
"""Price of an empty ask level; negative for bids."""
BROKEN_ZIP = (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error, lzma.LZMAError, struct.error, UnicodeDecodeError)
"""What zipfile raises for damaged files; RuntimeError for encrypted files and unknown compression."""
NAME = re.compile(r"(?P<symbol>[^/\\]+)_(?P<date>\d{4}-\d\d-\d\d)_\d+_\d+_message_(?P<levels>[1-9]\d{0,3})\.csv")


@dataclass(frozen=True)
class Lobster:
    """The checked contents of the files: one symbol's day."""

    symbol: str
    date: str
    levels: int
    files: tuple[SourceFile, ...]
    time_ns: NDArray[np.int64]
    """[row] nanoseconds after midnight."""
    times_rounded: int
    """Number of times with more than nine decimals."""
    messages: NDArray[np.int64]
    """[row, 5] type, order id, size, price in 1/10000, direction."""
    book: NDArray[np.int64]
    """[row, 4 * levels] ask price, ask size, bid price, bid size per level."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.time_ns)


def is_lobster(path: Path) -> bool:
    """Whether a zip file, folder or message file has LOBSTER's file names; true for a broken zip file."""
    try:
        return any(NAME.fullmatch(Path(name).name) for name in _names(path))
    except BROKEN_ZIP:
        return True
    except OSError:
        return False


def read_lobster(path: Path | str) -> Lobster:
    """Reads a zip file, a folder, or a message CSV next to its order book CSV. Raises `LobsterError` or `SourceError`."""
    path = Path(path)
    try:
        messages_name, book_name = _pair(path)
        match = NAME.fullmatch(Path(messages_name).name)
        assert match is not None
        messages_bytes, book_bytes = _read(path, messages_name), _read(path, book_name)
        files = _files(path, {messages_name: messages_bytes, book_name: book_bytes})
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None
    except BROKEN_ZIP as error:
        raise SourceError(f"{path}: not a complete zip file without a password ({error}); download it again") from None
    if not is_date(match["date"]):
        raise LobsterError(f"{messages_name}: expected a date YYYY-MM-DD in its name, got {match['date']}")
    levels = int(match["levels"])
    raw = _parse(messages_name, messages_bytes, _message_columns(messages_bytes), messages=True).select(range(COLUMNS))
    book = _matrix(_parse(book_name, book_bytes, 4 * levels, messages=False))
    picoseconds = np.frombuffer(raw[0].combine_chunks().buffers()[1], np.int64)[::2][: raw.num_rows]
    messages = _matrix(raw.remove_column(0))
    time_ns = (picoseconds + 500) // 1000
    if len(messages) != len(book):
        raise LobsterError(
            f"{book_name}: expected a row for each of the {len(messages)} messages, got {len(book)}; "
            f"row {min(len(messages), len(book)) + 1} is the first without a counterpart"
        )
    check_messages(messages_name, time_ns, messages, TICK_UNITS)
    check_book(book_name, book, TICK_UNITS, EMPTY_PRICE)
    rounded = int(np.count_nonzero(picoseconds % 1000))
    return Lobster(match["symbol"], match["date"], levels, files, time_ns, rounded, messages, book)


def _names(path: Path) -> list[str]:
    if path.is_dir():
        return sorted(entry.name for entry in path.iterdir())
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    return [path.name.replace("_orderbook_", "_message_"), path.name.replace("_message_", "_orderbook_")]


def _pair(path: Path) -> tuple[str, str]:
    if not path.exists():
        raise SourceError(f"{path}: does not exist; give a LOBSTER zip file, a folder or a message file")
    names = _names(path)
    messages = [name for name in names if NAME.fullmatch(Path(name).name)]
    if len(messages) != 1:
        raise SourceError(
            f"{path}: expected exactly one SYMBOL_DATE_START_END_message_LEVELS.csv, got {len(messages)}"
            + (f" ({', '.join(messages)}); give one of them" if messages else "")
        )
    book = str(Path(messages[0]).with_name(Path(messages[0]).name.replace("_message_", "_orderbook_")))
    if book not in names or (path.is_file() and path.suffix.lower() != ".zip" and not path.with_name(book).exists()):
        raise SourceError(f"{path}: expected {book} next to {messages[0]}, got no such file")
    return messages[0], book


def _read(path: Path, name: str) -> bytes:
    if path.is_dir():
        return (path / name).read_bytes()
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    return path.with_name(name).read_bytes()


def _files(path: Path, contents: dict[str, bytes]) -> tuple[SourceFile, ...]:
    if path.is_file() and path.suffix.lower() == ".zip":
        contents = {path.name: path.read_bytes()}
    return tuple(SourceFile(name, hashlib.sha256(data).hexdigest()) for name, data in contents.items())


def _message_columns(data: bytes) -> int:
    """The number of columns of messages: 7 if the first message has seven, else 6."""
    return COLUMNS + (data.partition(b"\n")[0].count(b",") == COLUMNS)


def _parse(name: str, data: bytes, columns: int, *, messages: bool) -> pa.Table:
    """The file as integers; the time of a message is exact to 1e-12, and its seventh column is text."""
    if not data.strip():
        raise LobsterError(f"{name}: row 1: expected at least one row of {columns} columns, got an empty file")
    names = [str(index) for index in range(columns)]
    types: dict[str, pa.DataType] = dict.fromkeys(names, pa.int64())
    if messages:
        types |= {"0": pa.decimal128(TIME_DIGITS, TIME_DECIMALS), str(COLUMNS): pa.string()}
    try:
        return pc.read_csv(
            io.BytesIO(data),
            read_options=pc.ReadOptions(column_names=names),
            parse_options=pc.ParseOptions(ignore_empty_lines=False),
            convert_options=pc.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
        )
    except pa.ArrowInvalid as error:
        raise LobsterError(describe_malformed_row(name, data, columns, messages) or f"{name}: {error}") from None


def _matrix(table: pa.Table) -> NDArray[np.int64]:
    matrix = np.empty((table.num_rows, table.num_columns), np.int64)
    for index, column in enumerate(table.columns):
        matrix[:, index] = column.to_numpy()
    return matrix
