"""A memory-mapped file of rows with a fixed capacity; unwritten rows are zero."""

import contextlib
import errno
import json
import mmap
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.atomic_file import sync_folder
from serl.exchange.errors import DiskFullError, JournalError
from serl.exchange.records import Rows

HEADER_BYTES = 4096
NUMBER = "[0-9]" * 12
"""Pattern of the number in the name of a segment or snapshot: other files do not belong to the journal."""
FORMAT = 1
FORMATS = {".rows": 1, ".zrows": 2}
"""The newest format by file ending; older formats can be read too."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def no_space(path: Path) -> Iterator[None]:
    """Turns an OSError of a full disk or quota into a DiskFullError."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise DiskFullError(
            f"{path}: expected room for the journal, got {error.strerror}; free some disk space"
        ) from error


class Segment:
    """Rows of one dtype, from `first_sequence` on.

    The constructor reserves the file's disk blocks, so a full disk is an error there and not a crash during a write.
    Written rows survive the process because the kernel owns the pages; `sync` makes them survive a power failure.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], first_sequence: int, capacity: int) -> None:
        self.path = path
        self.first_sequence = first_sequence
        self.capacity = capacity
        self.dtype = dtype
        size = HEADER_BYTES + capacity * dtype.itemsize
        self.file = -1
        try:
            with no_space(path):
                self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                os.posix_fallocate(self.file, 0, size)
        except (OSError, JournalError) as error:
            if self.file >= 0:
                os.close(self.file)
            if isinstance(error, JournalError):
                raise
            raise JournalError(
                f"{path}: cannot be written ({error.strerror}); check the folder and its disk"
            ) from error
        self.map = mmap.mmap(self.file, size)
        self.rows: Rows = np.frombuffer(self.map, dtype, capacity, HEADER_BYTES)

    @classmethod
    def create(cls, path: Path, dtype: np.dtype[Any], first_sequence: int, capacity: int, journal_id: str) -> "Segment":
        """Creates a segment, replacing a leftover with the same name. The file gets its name only once its header is on the disk.

        If there is no room, raises DiskFullError and leaves nothing behind."""
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        try:
            segment = cls(temporary, dtype, first_sequence, capacity)
        except DiskFullError:
            temporary.unlink(missing_ok=True)
            raise
        write_header(segment.file, dtype, first_sequence, capacity, journal_id)
        os.fsync(segment.file)
        temporary.replace(path)
        sync_folder(path.parent)
        segment.path = path
        return segment

    @classmethod
    def open(cls, path: Path, dtype: np.dtype[Any]) -> "Segment":
        """Opens a segment, even a truncated one."""
        head = read_header(path, dtype)
        return cls(path, dtype, head["first_sequence"], head["capacity"])

    def bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The rows as bytes, shape (capacity * row bytes,)."""
        return self.rows.view(np.uint8)

    def words(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The rows as 64-bit words, shape (capacity, row bytes / 8)."""
        return self.rows.view(np.int64).reshape(self.capacity, -1)

    def sync(self) -> None:
        """Waits until everything written is on the disk."""
        os.fdatasync(self.file)

    def write_again(self, rows: int) -> None:
        """Writes the first `rows` rows once more, for the next sync. After a failed sync the kernel takes unwritten data for written; another
        process then finds it in memory, and its own sync would not write it either."""
        write_all(self.file, self.bytes()[: rows * self.dtype.itemsize].tobytes(), HEADER_BYTES)

    def close(self, rows: int | None = None) -> None:
        """Truncates the file to `rows` (None: keeps all) and closes it. The arrays over it must not be used afterwards."""
        if rows is not None:
            os.ftruncate(self.file, HEADER_BYTES + rows * self.dtype.itemsize)
        os.fsync(self.file)
        os.close(self.file)
        self.file = -1

    @property
    def is_open(self) -> bool:
        """Whether the segment has not been closed."""
        return self.file >= 0


def header_bytes(dtype: np.dtype[Any], first_sequence: int, capacity: int, journal_id: str, **more: int) -> bytes:
    """The header of a file of rows: a line of JSON in `HEADER_BYTES` bytes, with the id of the journal and a check of its own.

    `more`: for a finished file, the number of its rows and their CRC-32."""
    head: dict[str, Any] = {
        "format": FORMAT,
        "row_bytes": dtype.itemsize,
        "first_sequence": first_sequence,
        "capacity": capacity,
        "journal": journal_id,
        **more,
    }
    head["check"] = _check(head)
    return json.dumps(head).encode().ljust(HEADER_BYTES, b"\0")


def write_header(
    file: int, dtype: np.dtype[Any], first_sequence: int, capacity: int, journal_id: str, **more: int
) -> None:
    """Writes the header of a file of rows."""
    write_all(file, header_bytes(dtype, first_sequence, capacity, journal_id, **more), 0)


def write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all of `data`: a single call may write less if the disk is nearly full or a signal arrives."""
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], offset + done)


def _check(head: dict[str, Any]) -> int:
    rest = {key: value for key, value in head.items() if key != "check"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def read_header(path: Path, dtype: np.dtype[Any], journal_id: str | None = None) -> dict[str, Any]:
    """Reads the header of a segment. Raises JournalError for any other or a damaged file, another row layout, or a file of another journal."""
    with path.open("rb") as file:
        text = file.read(HEADER_BYTES).rstrip(b"\0")
    try:
        header: dict[str, Any] = json.loads(text)
        newest = FORMATS.get(path.suffix, FORMAT)
        is_readable = FORMAT <= header["format"] <= newest and header["row_bytes"] == dtype.itemsize
        is_intact = header.get("check", _check(header)) == _check(header)  # older files have none
    except (ValueError, KeyError, TypeError, AttributeError):
        is_intact = False
    if not is_intact:
        raise JournalError(
            f"{path}: expected a journal segment with a JSON header of {HEADER_BYTES} bytes and its check, got another or a damaged file; "
            f"restore it from a copy, or see what can be saved: serl journal verify {path.parent}"
        ) from None
    if not is_readable:
        raise JournalError(
            f"{path}: expected format {newest} with rows of {dtype.itemsize} bytes, "
            f"got format {header['format']} with {header['row_bytes']}; use the version of serl that wrote it"
        )
    if journal_id is not None and header.get("journal", journal_id) != journal_id:
        raise JournalError(
            f"{path}: expected a file of journal {journal_id}, got one of journal {header['journal']}; move it to its own folder"
        )
    return header


def journal_of(path: Path) -> str:
    """The id of the journal in a segment's header; empty if it has none."""
    with path.open("rb") as file, contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(file.read(HEADER_BYTES).rstrip(b"\0"))["journal"])
    return ""


def first_sequence(path: Path) -> int:
    """The sequence number in the name of a segment or snapshot."""
    return int(path.name.partition("-")[2].partition(".")[0])


def read_rows(path: Path, dtype: np.dtype[Any], rows_max: int = sys.maxsize) -> Rows:
    """The complete rows of a segment file, at most `rows_max`, mapped read-only.

    To read a file that another thread may truncate to its rows, pass their number: touching a mapping beyond the end of its file ends the
    process."""
    while True:
        size = path.stat().st_size
        count = min(rows_max, max(0, size - HEADER_BYTES) // dtype.itemsize)
        if count == 0:
            return np.zeros(0, dtype)
        try:
            rows: Rows = np.memmap(path, dtype, "r", HEADER_BYTES, count)
        except ValueError:  # another thread has just closed the file, which truncates it to its rows
            if path.stat().st_size >= size:
                raise
            continue
        if count == rows_max or path.stat().st_size >= size:
            return rows
