"""A file of event rows, written in the background.

Events may be published before they are journaled, because missing ones are regenerated from the journaled commands. Writing them in
large chunks from warm memory costs a third of writing through a mapped file, where every page is zeroed, faulted in, and
write-protected again by each sync. The first write creates the file, so a full disk delays the file and not the market.
"""

import os
import zlib
from pathlib import Path

import numpy as np

from serl.exchange.atomic_file import sync_folder
from serl.exchange.errors import JournalError
from serl.exchange.journal.answers import SegmentAnswers
from serl.exchange.journal.segment import HEADER_BYTES, no_space, read_rows, write_all, write_header
from serl.exchange.records import EVENT, Rows

NO_FILE = -1


class EventLog:
    """EVENT rows from `first_sequence` on in `rows`, which the caller owns; `write` copies them to the file."""

    def __init__(self, path: Path, first_sequence: int, rows: Rows, journal_id: str) -> None:
        self.path = path
        self.first_sequence = first_sequence
        self.rows = rows
        self.capacity = len(rows)
        self.written = 0
        self.crc = 0  # CRC-32 of the written rows
        self.answers = SegmentAnswers(path)
        self._journal_id = journal_id
        self._file = NO_FILE

    @classmethod
    def open(cls, path: Path, first_sequence: int, rows: Rows, keep: int, journal_id: str) -> "EventLog":
        """Opens a file to append after its first `keep` rows. Raises JournalError if it has fewer."""
        found = read_rows(path, EVENT)
        if len(found) < keep:
            raise JournalError(
                f"{path}: expected {keep:,} events, got {len(found):,}: the file was truncated; restore it from a copy"
            )
        rows[:keep] = found[:keep]
        log = cls(path, first_sequence, rows, journal_id)
        log.crc = zlib.crc32(rows[:keep].view(np.uint8).data)
        os.truncate(path, HEADER_BYTES + keep * EVENT.itemsize)
        log._file = os.open(path, os.O_RDWR)
        with no_space(path):
            os.posix_fallocate(log._file, 0, log._file_bytes)
        write_header(log._file, EVENT, first_sequence, log.capacity, journal_id)
        log.written = keep
        log.answers.delete_saved()
        return log

    @property
    def is_open(self) -> bool:
        """Whether the log has a file that is not closed yet."""
        return self._file != NO_FILE

    @property
    def _file_bytes(self) -> int:
        return HEADER_BYTES + self.capacity * EVENT.itemsize

    def _create_file(self) -> None:
        """Creates the file, replacing a leftover with the same name. The file gets its name only once its header is on the disk."""
        temporary = self.path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        file = NO_FILE
        try:
            with no_space(self.path):
                file = os.open(temporary, os.O_RDWR | os.O_CREAT, 0o600)
                os.posix_fallocate(file, 0, self._file_bytes)
        except BaseException:
            if file != NO_FILE:
                os.close(file)
            temporary.unlink(missing_ok=True)
            raise
        write_header(file, EVENT, self.first_sequence, self.capacity, self._journal_id)
        os.fsync(file)
        temporary.replace(self.path)
        sync_folder(self.path.parent)
        self._file = file
        self.answers.delete_saved()

    def write(self, count: int) -> None:
        """Writes the rows up to `count` that are not in the file yet. Raises DiskFullError if there is no room."""
        if count <= self.written:
            return
        if self._file == NO_FILE:
            self._create_file()
        data = self.rows.view(np.uint8).data[self.written * EVENT.itemsize : count * EVENT.itemsize]
        with no_space(self.path):
            write_all(self._file, data, HEADER_BYTES + self.written * EVENT.itemsize)
        self.crc = zlib.crc32(data, self.crc)
        self.written = max(self.written, count)

    def sync(self) -> None:
        """Waits until everything written is on the disk."""
        if self.is_open:
            os.fdatasync(self._file)

    def close(self) -> None:
        """Truncates the file to the written rows, puts their number and CRC-32 into its header, syncs and closes it. Does not use `rows`."""
        if not self.is_open:
            return  # it has no events
        os.ftruncate(self._file, HEADER_BYTES + self.written * EVENT.itemsize)
        write_header(
            self._file, EVENT, self.first_sequence, self.capacity, self._journal_id, rows=self.written, crc32=self.crc
        )
        os.fsync(self._file)
        os.close(self._file)
        self._file = NO_FILE
