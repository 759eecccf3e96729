"""A file of event rows, written in the background.

Events may be published before they are journaled, because missing ones are regenerated from the journaled commands. Writing them in
large chunks from warm memory costs a third of writing through a mapped file, where every page is zeroed, faulted in, and
write-protected again by each sync.
"""

import os
from pathlib import Path

import numpy as np

from serl.exchange.errors import JournalError
from serl.exchange.journal.answers import SegmentAnswers
from serl.exchange.journal.segment import HEADER_BYTES, read_rows, write_header
from serl.exchange.records import EVENT, Rows


class EventLog:
    """EVENT rows from `first_sequence` on in `rows`, which the caller owns; `write` copies them to the file."""

    def __init__(self, path: Path, first_sequence: int, rows: Rows) -> None:
        self.path = path
        self.first_sequence = first_sequence
        self.rows = rows
        self.capacity = len(rows)
        self.written = 0
        self.answers = SegmentAnswers(path)
        try:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.posix_fallocate(self.file, 0, HEADER_BYTES + len(rows) * EVENT.itemsize)
        except OSError as error:
            raise JournalError(f"{path}: cannot be written ({error.strerror}); free some disk space") from error

    @classmethod
    def create(cls, path: Path, first_sequence: int, rows: Rows) -> "EventLog":
        """Creates a file, replacing a leftover of the same name. The file gets its name only once its header is written."""
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        log = cls(temporary, first_sequence, rows)
        write_header(log.file, EVENT, first_sequence, len(rows))
        temporary.replace(path)
        log.path = path
        log.answers = SegmentAnswers(path)
        log.answers.delete_saved()
        return log

    @classmethod
    def open(cls, path: Path, first_sequence: int, rows: Rows, keep: int) -> "EventLog":
        """Opens a file to append after its first `keep` rows. Raises JournalError if it has fewer."""
        found = read_rows(path, EVENT)
        if len(found) < keep:
            raise JournalError(
                f"{path}: expected {keep:,} events, got {len(found):,}: the file was truncated; restore it from a copy"
            )
        rows[:keep] = found[:keep]
        os.truncate(path, HEADER_BYTES + keep * EVENT.itemsize)
        log = cls(path, first_sequence, rows)
        log.written = keep
        log.answers.delete_saved()
        return log

    def write(self, count: int) -> None:
        """Writes the rows up to `count` that are not in the file yet."""
        data = self.rows.view(np.uint8).data[self.written * EVENT.itemsize : count * EVENT.itemsize]
        offset = HEADER_BYTES + self.written * EVENT.itemsize
        while len(data):
            n_bytes = os.pwrite(self.file, data, offset)
            data, offset = data[n_bytes:], offset + n_bytes
        self.written = max(self.written, count)

    def close(self) -> None:
        """Truncates the file to the written rows, syncs and closes it. Does not use `rows`."""
        os.ftruncate(self.file, HEADER_BYTES + self.written * EVENT.itemsize)
        os.fsync(self.file)
        os.close(self.file)
