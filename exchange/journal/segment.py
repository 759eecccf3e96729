"""A memory-mapped file of rows with a fixed capacity, zero where nothing is written yet."""

import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.errors import JournalError
from serl.exchange.records import Rows

HEADER_BYTES = 4096
FORMAT = 1


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
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self.found_bytes = max(0, os.fstat(self.file).st_size - HEADER_BYTES)
            os.posix_fallocate(self.file, 0, size)
        except OSError as error:
            os.close(self.file)
            raise JournalError(
                f"{path}: cannot reserve {size:,} bytes ({error.strerror}); free some disk space"
            ) from error
        self.map = mmap.mmap(self.file, size)
        self.rows: Rows = np.frombuffer(self.map, dtype, capacity, HEADER_BYTES)

    @classmethod
    def create(cls, path: Path, dtype: np.dtype[Any], first_sequence: int, capacity: int) -> "Segment":
        """Creates a segment, replacing a leftover of the same name. The file gets its name only once its header is written."""
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        segment = cls(temporary, dtype, first_sequence, capacity)
        write_header(segment.file, dtype, first_sequence, capacity)
        temporary.replace(path)
        segment.path = path
        return segment

    @classmethod
    def open(cls, path: Path, dtype: np.dtype[Any]) -> "Segment":
        """Opens a segment, even a truncated one; `found_bytes` is the size of the rows found in the file."""
        head = read_header(path, dtype)
        return cls(path, dtype, head["first_sequence"], head["capacity"])

    def bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The rows as bytes, shape (capacity * row bytes,)."""
        return self.rows.view(np.uint8)

    def words(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The rows as 64-bit words, shape (capacity, row bytes / 8)."""
        return self.rows.view(np.int64).reshape(self.capacity, -1)

    def sync(self) -> None:
        """Returns when what was written is on the disk."""
        os.fdatasync(self.file)

    def close(self, rows: int | None = None) -> None:
        """Cuts the file to `rows` (all with None) and lets it go. The arrays over it must not be used afterwards."""
        if rows is not None:
            os.ftruncate(self.file, HEADER_BYTES + rows * self.dtype.itemsize)
        os.fsync(self.file)
        os.close(self.file)


def write_header(file: int, dtype: np.dtype[Any], first_sequence: int, capacity: int) -> None:
    """Writes the head of a file of rows: a line of JSON in `HEADER_BYTES` bytes."""
    head = {"format": FORMAT, "row_bytes": dtype.itemsize, "first_sequence": first_sequence, "capacity": capacity}
    os.pwrite(file, json.dumps(head).encode().ljust(HEADER_BYTES, b"\0"), 0)


def read_header(path: Path, dtype: np.dtype[Any]) -> dict[str, int]:
    """Reads the header of a segment. Raises JournalError for another file or another row layout."""
    with path.open("rb") as file:
        text = file.read(HEADER_BYTES).rstrip(b"\0")
    try:
        header: dict[str, int] = json.loads(text)
        is_readable = (header["format"], header["row_bytes"]) == (FORMAT, dtype.itemsize)
    except (ValueError, KeyError, TypeError):
        raise JournalError(
            f"{path}: expected a journal segment with a JSON header of {HEADER_BYTES} bytes, got another file; restore it from a copy"
        ) from None
    if not is_readable:
        raise JournalError(
            f"{path}: expected format {FORMAT} with rows of {dtype.itemsize} bytes, "
            f"got format {header['format']} with {header['row_bytes']}; use the version of serl that wrote it"
        )
    return header


def read_rows(path: Path, dtype: np.dtype[Any]) -> Rows:
    """The complete rows of a segment file, mapped read-only."""
    count = max(0, path.stat().st_size - HEADER_BYTES) // dtype.itemsize
    if count == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r", HEADER_BYTES, count)
