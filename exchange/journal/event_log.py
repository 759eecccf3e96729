"""A file of event rows that is written behind the market's back.

Events are made anew from the journaled commands where they are missing, so they need not be in the file before they are
told. Writing them in large pieces from memory that stays warm costs a third of writing them through a mapped file,
where every page is zeroed, faulted in, and write-protected again by each sync.
"""

import os
from pathlib import Path

import numpy as np

from serl.exchange.errors import JournalError
from serl.exchange.journal.answers import SegmentAnswers
from serl.exchange.journal.segment import HEADER_BYTES, read_rows, write_header
from serl.exchange.records import EVENT, Rows


class EventLog:
    """EVENT rows from `first_sequence` on in `rows`, memory that the caller lends; the file has what `write` was told."""

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
        """Makes a new file; over a leftover of the same name. It gets its name when its head is written, not before."""
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
        """Opens a file to go on in behind its first `keep` rows; JournalError if it holds fewer."""
        found = read_rows(path, EVENT)
        if len(found) < keep:
            raise JournalError(
                f"{path}: {keep:,} events are due, it holds {len(found):,}: the file was cut; restore it from a copy"
            )
        rows[:keep] = found[:keep]
        os.truncate(path, HEADER_BYTES + keep * EVENT.itemsize)
        log = cls(path, first_sequence, rows)
        log.written = keep
        log.answers.delete_saved()
        return log

    def write(self, count: int) -> None:
        """Puts the rows up to `count` into the file, as far as they are not there yet."""
        data = self.rows.view(np.uint8).data[self.written * EVENT.itemsize : count * EVENT.itemsize]
        place = HEADER_BYTES + self.written * EVENT.itemsize
        while len(data):
            done = os.pwrite(self.file, data, place)
            data, place = data[done:], place + done
        self.written = max(self.written, count)

    def close(self) -> None:
        """Cuts the file to what was written, syncs it to the disk and lets it go; the rows are not needed for that."""
        os.ftruncate(self.file, HEADER_BYTES + self.written * EVENT.itemsize)
        os.fsync(self.file)
        os.close(self.file)
