"""A file of rows that is written by mapping it: as many rows as it was made for, zero where nothing was written yet."""

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
    """Rows of one dtype, `first_sequence` onwards.

    The file's blocks are reserved when it is made, so that a full disk is an error here and not a crash while writing.
    What was written is the system's from then on: it outlives the process, and `sync` makes it outlive the machine.
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
                f"{path}: no room for {size:,} bytes ({error.strerror}); free some disk space"
            ) from error
        self.map = mmap.mmap(self.file, size)
        self.rows: Rows = np.frombuffer(self.map, dtype, capacity, HEADER_BYTES)

    @classmethod
    def create(cls, path: Path, dtype: np.dtype[Any], first_sequence: int, capacity: int) -> "Segment":
        """Makes a new segment; over a leftover of the same name. It gets its name when its head is written, not before."""
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        segment = cls(temporary, dtype, first_sequence, capacity)
        write_header(segment.file, dtype, first_sequence, capacity)
        temporary.replace(path)
        segment.path = path
        return segment

    @classmethod
    def open(cls, path: Path, dtype: np.dtype[Any]) -> "Segment":
        """Opens a segment, also one that was cut short; `found_bytes` says what was there."""
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
    """What a segment says of itself; JournalError if it is none or one of another layout."""
    with path.open("rb") as file:
        text = file.read(HEADER_BYTES).rstrip(b"\0")
    try:
        head: dict[str, int] = json.loads(text)
        known = (head["format"], head["row_bytes"]) == (FORMAT, dtype.itemsize)
    except (ValueError, KeyError, TypeError):
        raise JournalError(
            f"{path}: not a journal segment (its first {HEADER_BYTES} bytes should be a JSON head)"
        ) from None
    if not known:
        raise JournalError(
            f"{path}: format {head['format']} with rows of {head['row_bytes']} bytes; "
            f"this version reads format {FORMAT} with {dtype.itemsize}: use the version of serl that wrote it"
        )
    return head


def read_rows(path: Path, dtype: np.dtype[Any]) -> Rows:
    """The rows a segment file holds, mapped read-only; whole rows only."""
    count = max(0, path.stat().st_size - HEADER_BYTES) // dtype.itemsize
    if count == 0:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r", HEADER_BYTES, count)
