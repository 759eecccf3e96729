"""Compresses the finished files of a journal, also while an exchange writes to it."""

import contextlib
from pathlib import Path

from serl.exchange.journal import snapshots
from serl.exchange.journal.inspect import find_meta
from serl.exchange.journal.segment import first_sequence, read_header
from serl.exchange.journal.stored import compress, compressible
from serl.exchange.records import COMMAND, EVENT


def compress_finished(folder: Path) -> tuple[int, int]:
    """Compresses every command file that the oldest kept snapshot contains, and every finished event file before it.

    Returns (bytes before, bytes after). Raises JournalError where a file is damaged, and DiskFullError without room.
    """
    journal_id = str(find_meta(folder).get("id", ""))
    paths = snapshots.snapshot_paths(folder)
    if not paths:
        return 0, 0
    before = after = 0
    oldest = paths[0]
    saved_event = snapshots.event_sequence(oldest)
    for kind, dtype, last in (("commands", COMMAND, first_sequence(oldest)), ("events", EVENT, saved_event)):
        for path in compressible(folder, kind, last + 1):
            with contextlib.suppress(FileNotFoundError):  # the exchange may delete it
                header, size = read_header(path, dtype), path.stat().st_size
                if kind == "events" and "rows" not in header and header.get("journal"):
                    continue  # not closed yet
                after += compress(path, dtype, journal_id).stat().st_size
                before += size
    return before, after
