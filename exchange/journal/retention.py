"""Removes old files of a journal: old snapshots always, commands and events before the kept snapshots by size or age."""

import contextlib
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

from serl.exchange.atomic_file import sync_folder
from serl.exchange.config import RetentionConfig
from serl.exchange.journal.segment import first_sequence, journal_of
from serl.exchange.journal.snapshots import event_sequence, snapshot_paths
from serl.exchange.journal.stored import stored_paths

SNAPSHOTS_KEPT = 2
"""Number of snapshots kept: the newest one, and one to fall back on."""
_UNFINISHED = re.compile(
    r"snapshot-\d+\.tmp|(commands|events)-\d+\.new"
    r"|\.((commands|events|snapshot)-\d+\.(rows|answers\.npy|tmp|sha256)|(meta|meta-copy|participants)\.json|news\.jsonl)\.\w+"
)
"""Names of files that are being written: those of `atomic_file` begin with a dot."""


def clean(folder: Path, retention: RetentionConfig) -> list[Path]:
    """Deletes or archives the files that `retention` no longer keeps. Returns the paths of the removed files.

    A file of rows is removed only if the oldest kept snapshot contains all of them, so that a restart never needs it, and only after all older
    files of its kind, so that there is no gap. Another process may compress files meanwhile: those that it replaces are checked the next time.
    """
    saved = {path: event_sequence(path) for path in snapshot_paths(folder)}
    kept = [path for path, last in saved.items() if last is not None][-SNAPSHOTS_KEPT:]  # without damaged ones
    gone = []
    for path in itertools.takewhile(lambda path: path < kept[0], saved) if kept else ():
        for file in (path, path.with_suffix(".sha256")):
            file.unlink(missing_ok=True)
        gone.append(path)
    if len(kept) < SNAPSHOTS_KEPT or not retention.is_limited:  # with only one, the fallback is all commands
        return gone
    files = _file_stats(folder)
    total = sum(stat.st_size for stat in files.values())
    removable = [
        *_by_age(_before(folder, "commands", first_sequence(kept[0])), files),
        *_by_age(_before(folder, "events", saved[kept[0]] or 0), files),
    ]
    stays = set()  # kinds with a file that is being replaced
    for changed_s, path in sorted(removable, key=itemgetter(0)):
        kind = path.name.partition("-")[0]
        if kind in stays:
            continue
        if not retention.exceeded(total, time.time() - changed_s):
            break
        try:
            _remove(path, retention.archive)
        except FileNotFoundError:
            stays.add(kind)
            continue
        total -= files[path].st_size
        gone.append(path)
    return gone


def delete_unfinished(folder: Path) -> None:
    """Deletes the unfinished files of a killed process, except compressed ones: another process may be writing those."""
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _by_age(paths: list[Path], files: dict[Path, os.stat_result]) -> Iterator[tuple[float, Path]]:
    """(time of the last change in s, path) of files in the order of their rows; no file counts as younger than a later one."""
    latest_s = 0.0
    for path in itertools.takewhile(files.__contains__, paths):
        latest_s = max(latest_s, files[path].st_mtime)
        yield latest_s, path


def _file_stats(folder: Path) -> dict[Path, os.stat_result]:
    stats = {}
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            stats[path] = path.stat()
    return stats


def _before(folder: Path, kind: str, last: int) -> list[Path]:
    """The files of a kind whose rows all have sequences up to `last`."""
    paths = stored_paths(folder, kind)
    return [path for path, following in itertools.pairwise(paths) if first_sequence(following) <= last + 1]


def _archive(path: Path, archive: Path) -> None:
    """Copies a file and returns once the copy is on the disk, so that the caller can delete the original. Raises FileExistsError if the archive has such
    a file of another journal, or is this journal's folder."""
    archived = archive / path.name
    if archived.exists() and (archived.samefile(path) or journal_of(archived) != journal_of(path)):
        raise FileExistsError(
            f"{archived}: expected no such file of another journal in the archive, or an archive that is not the journal's own folder; "
            "set another journal.retention.archive"
        )
    copy = archive / f".{path.name}"
    shutil.copy2(path, copy)
    with copy.open("rb") as file:
        os.fsync(file.fileno())
    copy.replace(archived)
    sync_folder(archive)


def _remove(path: Path, archive: Path | None) -> None:
    index = path.with_suffix(".answers.npy")
    if archive is not None:
        archive.mkdir(parents=True, exist_ok=True)
        _archive(path, archive)
    path.unlink()
    path.with_suffix(".zrows").unlink(missing_ok=True)  # if it was being compressed
    index.unlink(missing_ok=True)
