"""Compresses the finished files of a journal, also while an exchange writes to it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serl.exchange.errors import DiskFullError, JournalError
from serl.exchange.journal import snapshots
from serl.exchange.journal.checks import check_commands
from serl.exchange.journal.inspect import events_are_intact, find_meta
from serl.exchange.journal.lock import locked
from serl.exchange.journal.segment import first_sequence, no_space, read_header
from serl.exchange.journal.stored import compress, compressible, stored_rows
from serl.exchange.records import COMMAND, EVENT

LOCK = "compress.lock"
"""Lock held by the one process that compresses a journal: a second one would delete files that the first one has written."""


def compress_finished(folder: Path) -> tuple[int, int]:
    """Compresses every command file that the oldest kept snapshot contains, and every finished event file before it.

    Returns (bytes before, bytes after), (0, 0) while another process is compressing the journal. Raises DiskFullError if there is no room, and
    JournalError, after all other files, if one is damaged. A damaged file stays as it is: only its original has the rows after the damage.
    """
    meta = find_meta(folder)
    with no_space(folder):
        lock = locked(folder / LOCK)
    with lock or contextlib.nullcontext():
        return (0, 0) if lock is None else _compress(folder, meta)


def _compress(folder: Path, meta: dict[str, Any]) -> tuple[int, int]:
    journal_id, salt = str(meta.get("id", "")), int(meta["salt"])
    before, after = 0, 0
    found: list[JournalError] = []
    for path in folder.glob(".*.zrows.*"):  # left by a process that was killed: no other process has the lock
        path.unlink(missing_ok=True)
    for path, following in _finished(folder):
        dtype = COMMAND if path.name.startswith("commands") else EVENT
        with contextlib.suppress(FileNotFoundError):  # the exchange may delete it
            size = path.stat().st_size
            try:
                if _is_whole(path, following, salt, journal_id):
                    after += compress(path, dtype, journal_id, salt).stat().st_size
                    before += size
            except DiskFullError:
                raise
            except JournalError as error:
                found.append(error)
    if found:
        raise found[0]
    return before, after


def is_due(folder: Path) -> bool:
    """Whether there is a file to compress."""
    return next(_finished(folder), None) is not None


def _finished(folder: Path) -> Iterator[tuple[Path, Path]]:
    """(the uncompressed files whose rows the oldest kept snapshot contains, the next file of each)."""
    while paths := snapshots.snapshot_paths(folder):
        try:
            saved_event = snapshots.event_sequence(paths[0])
        except FileNotFoundError:  # the exchange has just deleted it
            continue
        if saved_event is None:  # damaged: retention removes it once there are two newer ones
            return
        yield from compressible(folder, "commands", first_sequence(paths[0]) + 1)
        yield from compressible(folder, "events", saved_event + 1)
        return


def _is_whole(path: Path, following: Path, salt: int, journal_id: str) -> bool:
    """Whether a file can be compressed. An event file was closed, or has all events up to the next file: a file that a killed process left open
    reaches the disk before the snapshot that contains its events. Raises JournalError if it is damaged."""
    if path.name.startswith("commands"):
        if damage := check_commands(path, salt, journal_id).damage(last=False):
            raise _stays(path, damage)
        return True
    header = read_header(path, EVENT)
    if "rows" in header and not events_are_intact(path, header):
        raise _stays(path, "its rows fail their check")
    if "rows" in header or not header.get("journal"):  # from an earlier version
        return True
    return first_sequence(path) + len(stored_rows(path, EVENT)) == first_sequence(following)


def _stays(path: Path, damage: str) -> JournalError:
    return JournalError(
        f"{path}: {damage}: it stays uncompressed; see what can be saved with `serl journal verify {path.parent}`"
    )
