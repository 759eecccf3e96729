"""Finished files of rows: as written (`.rows`), or compressed (`.zrows`, about a twentieth of the size).

A compressed file has the header of a segment, chunks of CHUNK_ROWS rows, and the ends of the chunks. Each chunk is a zstd frame with a checksum; it
contains a byte that names the layout, and the rows. The layout is PACKED (packing.py), or BY_COLUMN for rows that PACKED could not restore: one
field after the other, as differences for numbers that mostly grow, and for 64-bit fields the lowest bytes of all rows first, then the next
ones. Files of format 1, from earlier versions, have only BY_COLUMN, without the byte and the checksum.
"""

import contextlib
import itertools
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from serl.exchange import zstd
from serl.exchange.atomic_file import atomic_file, sync_folder
from serl.exchange.errors import JournalError
from serl.exchange.journal.checked_json import damaged
from serl.exchange.journal.packing import pack, unpack
from serl.exchange.journal.segment import (
    HEADER_BYTES,
    NUMBER,
    first_sequence,
    header_bytes,
    no_space,
    read_header,
    read_rows,
)
from serl.exchange.records import Rows

CHUNK_ROWS = 4096
LEVEL = 3
WORD = 8
COMPRESSED_FORMAT = 2
PACKED, BY_COLUMN = b"\1", b"\2"
PACKED_ROW_BYTES_MAX = 256
"""Maximum size of a packed row: eight bytes per field, and the bytes before the columns."""
GROWING = {"time_ns", "sequence", "command_sequence", "report", "command_id", "order_id", "order_number", "match_id"}
"""Fields stored as differences within a chunk."""


class StoredRows(Protocol):
    """Rows of a file, read where they are sliced."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Rows: ...


def stored_paths(folder: Path, kind: str) -> list[Path]:
    """The files of "commands" or "events", oldest first; for one that is being compressed, the original."""
    originals = {
        path.stem: path for path in folder.glob(f"{kind}-{NUMBER}.rows")
    }  # listed first: an original that is removed meanwhile has a compressed file
    found = {path.stem: path for path in folder.glob(f"{kind}-{NUMBER}.zrows")} | originals
    return [found[stem] for stem in sorted(found)]


def stored_rows(path: Path, dtype: np.dtype[Any], rows_max: int = sys.maxsize) -> StoredRows:
    """The rows that were written to a file, or to the compressed file that replaced it: those whose sequences have no gap. rows_max: the number
    of rows, for a file that another thread may truncate to them.

    They stay readable if the file is deleted. Raises FileNotFoundError if it is gone."""
    try:
        rows = read_rows(path, dtype, rows_max) if path.suffix == ".rows" else CompressedRows(path, dtype)
    except FileNotFoundError:
        if path.suffix == ".zrows":
            raise
        return CompressedRows(path.with_suffix(".zrows"), dtype)
    if isinstance(rows, CompressedRows):
        return rows
    wrong = np.flatnonzero(rows["sequence"] != first_sequence(path) + np.arange(len(rows)))
    return rows[: wrong[0]] if len(wrong) else rows


def slice_after(
    path: Path, dtype: np.dtype[Any], sequence: int, limit: int, rows_max: int = sys.maxsize
) -> Rows | None:
    """Up to `limit` rows of a file after a sequence number; None if there is none, or the file is gone. rows_max: as for `stored_rows`."""
    start = sequence + 1 - first_sequence(path)
    try:
        rows = stored_rows(path, dtype, rows_max)[start : start + limit]
    except FileNotFoundError:
        return None
    return rows if len(rows) else None


class CompressedRows:
    """The rows of a compressed file. Raises JournalError if they are damaged."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        header = read_header(path, dtype)
        self._path, self._dtype, self._count = path, dtype, int(header["rows"])
        self.crc32 = int(header["crc32"])
        self._format, self._salt = int(header["format"]), int(header.get("salt", 0))
        chunks = -(-self._count // CHUNK_ROWS)
        self._bytes = np.memmap(path, np.uint8, "r")
        self._ends = np.frombuffer(self._bytes[len(self._bytes) - WORD * chunks :].tobytes(), np.int64)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, part: slice) -> Rows:
        start, stop, step = part.indices(self._count)
        assert step == 1, "rows are read in order"
        if stop <= start:
            return np.zeros(0, self._dtype)
        first = start // CHUNK_ROWS
        chunks = [self._chunk(index) for index in range(first, -(-stop // CHUNK_ROWS))]
        return np.concatenate(chunks)[start - first * CHUNK_ROWS : stop - first * CHUNK_ROWS]

    def undamaged(self) -> Rows:
        """All rows, shape (n,), with zeros in place of the rows of damaged chunks."""
        rows = np.zeros(self._count, self._dtype)
        for start in range(0, self._count, CHUNK_ROWS):
            with contextlib.suppress(JournalError):
                rows[start : start + CHUNK_ROWS] = self._chunk(start // CHUNK_ROWS)
        return rows

    def _chunk(self, index: int) -> Rows:
        count = min(CHUNK_ROWS, self._count - index * CHUNK_ROWS)
        start = int(self._ends[index - 1]) if index else HEADER_BYTES
        packed = self._bytes[start : int(self._ends[index])].tobytes()
        try:
            if self._format < COMPRESSED_FORMAT:
                return _unpack_columns(zstd.decompress(packed, _packed_bytes(self._dtype) * count), self._dtype, count)
            return _unpack(
                zstd.decompress_up_to(packed, PACKED_ROW_BYTES_MAX * (count + 1)), self._dtype, count, self._salt
            )
        except (zstd.ZstdError, ValueError, IndexError) as error:
            raise damaged(self._path, f"rows from {index * CHUNK_ROWS:,} on cannot be decompressed ({error})") from None


def _pack(rows: Rows, salt: int) -> bytes:
    data = PACKED + pack(rows)
    same = _unpack(data, rows.dtype, len(rows), salt).tobytes() == rows.tobytes()
    return data if same else BY_COLUMN + _pack_columns(rows)


def _unpack(data: bytes, dtype: np.dtype[Any], count: int, salt: int) -> Rows:
    if data[:1] == PACKED:
        return unpack(data[1:], dtype, count, salt)
    return _unpack_columns(data[1:], dtype, count)


def _packed_bytes(dtype: np.dtype[Any]) -> int:
    """Bytes of a row without padding."""
    assert dtype.fields is not None
    return sum(field[0].itemsize for field in dtype.fields.values())


def _pack_columns(rows: Rows) -> bytes:
    parts = []
    for name in rows.dtype.names or ():
        column: NDArray[Any] = np.ascontiguousarray(rows[name])
        if name in GROWING:
            column = np.diff(column, prepend=np.int64(0))
        parts.append(np.ascontiguousarray(column.view(np.uint8).reshape(len(rows), -1).T).tobytes())
    return b"".join(parts)


def _unpack_columns(data: bytes, dtype: np.dtype[Any], count: int) -> Rows:
    rows, at = np.zeros(count, dtype), 0
    for name in dtype.names or ():
        field = dtype[name]
        size = field.itemsize * count
        planes = np.frombuffer(data, np.uint8, size, at).reshape(field.itemsize, count)
        column = np.ascontiguousarray(planes.T).view(field).reshape(count)
        rows[name] = np.cumsum(column) if name in GROWING else column
        at += size
    return rows


def compress(path: Path, dtype: np.dtype[Any], journal_id: str, salt: int) -> Path:
    """Replaces a finished file with a compressed one, after comparing the rows; it keeps the file's time. salt: that of the checks of commands.

    Raises DiskFullError if there is no room, and FileNotFoundError if the file is gone, because an exchange deletes old ones.
    """
    header, stat = read_header(path, dtype), path.stat()
    rows = np.asarray(stored_rows(path, dtype)[:])
    target, ends, at = path.with_suffix(".zrows"), [], HEADER_BYTES
    crc = zlib.crc32(_bytes_of(rows))
    with no_space(target), atomic_file(target) as file:
        more = {"format": COMPRESSED_FORMAT, "rows": len(rows), "crc32": crc, "salt": salt}
        file.write(header_bytes(dtype, header["first_sequence"], header["capacity"], journal_id, **more))
        for start in range(0, len(rows), CHUNK_ROWS):
            at += file.write(zstd.compress_checked(_pack(rows[start : start + CHUNK_ROWS], salt), LEVEL))
            ends.append(at)
        file.write(np.array(ends, np.int64).tobytes())
    if zlib.crc32(_bytes_of(CompressedRows(target, dtype)[:])) != crc:
        target.unlink()
        raise damaged(target, "the compressed rows differ from those of the file")
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    try:
        path.unlink()
    except FileNotFoundError:  # retention has deleted it, or another process has just compressed it to the same file
        if stored_paths(path.parent, path.name.partition("-")[0])[:1] == [target]:  # retention deletes the oldest first
            target.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return target


def decompress(path: Path, dtype: np.dtype[Any], journal_id: str) -> Path:
    """Replaces a compressed file with the original."""
    header, target = read_header(path, dtype), path.with_suffix(".rows")
    rows = CompressedRows(path, dtype)
    with no_space(target), atomic_file(target) as file:
        file.write(header_bytes(dtype, header["first_sequence"], header["capacity"], journal_id))
        file.write(_bytes_of(rows[:]))
    path.unlink()
    sync_folder(path.parent)
    return target


def _bytes_of(rows: Rows) -> Any:
    return np.ascontiguousarray(rows).view(np.uint8).data


def is_intact(rows: CompressedRows) -> bool:
    """Whether the rows of a compressed file pass their check."""
    return zlib.crc32(_bytes_of(rows[:])) == rows.crc32


def compressible(folder: Path, kind: str, before: int) -> Iterator[tuple[Path, Path]]:
    """(the uncompressed files of a kind whose rows all come before sequence `before`, the next file of each)."""
    paths = stored_paths(folder, kind)
    for path, following in itertools.pairwise(paths):
        if path.suffix == ".rows" and first_sequence(following) <= before:
            yield path, following
