"""Which files of a journal may go: old snapshots always, commands and events before the kept snapshots by size or age."""

import contextlib
import itertools
import os
import shutil
import time
from pathlib import Path

from serl.exchange.config import RetentionConfig
from serl.exchange.journal.segment import first_sequence
from serl.exchange.journal.snapshots import event_sequence, snapshot_paths
from serl.exchange.journal.stored import stored_paths

SNAPSHOTS_KEPT = 2
"""The newest one, and one to fall back on."""


def clean(folder: Path, retention: RetentionConfig) -> list[Path]:
    """Deletes or archives what `retention` no longer keeps. Returns the paths of what went.

    A file of rows goes only if the oldest kept snapshot contains all of them: a restart never needs it. Another process may compress files
    meanwhile: those that it replaces are looked at the next time.
    """
    snapshots = snapshot_paths(folder)
    gone = []
    for path in snapshots[:-SNAPSHOTS_KEPT]:
        for file in (path, path.with_suffix(".sha256")):
            file.unlink(missing_ok=True)
        gone.append(path)
    kept = snapshots[-SNAPSHOTS_KEPT:]
    if not kept or not retention.is_limited:
        return gone
    oldest = first_sequence(kept[0])
    files = _file_stats(folder)
    removable = _before(folder, "commands", oldest) + _before(folder, "events", event_sequence(kept[0]))
    total = sum(stat.st_size for stat in files.values())
    for path in sorted(files.keys() & removable, key=lambda path: files[path].st_mtime):
        if not retention.exceeded(total, time.time() - files[path].st_mtime):
            break
        with contextlib.suppress(FileNotFoundError):
            _remove(path, retention.archive)
            total -= files[path].st_size
            gone.append(path)
    return gone


def _file_stats(folder: Path) -> dict[Path, os.stat_result]:
    stats = {}
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            stats[path] = path.stat()
    return stats


def _before(folder: Path, kind: str, last: int) -> list[Path]:
    """The files of a kind whose rows all are at most `last`."""
    paths = stored_paths(folder, kind)
    return [path for path, following in itertools.pairwise(paths) if first_sequence(following) <= last + 1]


def _remove(path: Path, archive: Path | None) -> None:
    index = path.with_suffix(".answers.npy")
    if archive is not None:
        archive.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, archive / f".{path.name}")
        (archive / f".{path.name}").replace(archive / path.name)
    path.unlink()
    index.unlink(missing_ok=True)
