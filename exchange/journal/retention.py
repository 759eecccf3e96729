"""Which files of a journal may go: old snapshots always, commands and events before the kept snapshots by size or age."""

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
"""The newest one, and one to fall back on."""
_UNFINISHED = re.compile(
    r"snapshot-\d+\.tmp|(commands|events)-\d+\.new"
    r"|\.((commands|events|snapshot)-\d+\.(rows|answers\.npy|tmp|sha256)|(meta|meta-copy|participants)\.json|news\.jsonl)\.\w+"
)
"""Names of files that are being written: those of `atomic_file` begin with a dot."""


def clean(folder: Path, retention: RetentionConfig) -> list[Path]:
    """Deletes or archives what `retention` no longer keeps. Returns the paths of what went.

    A file of rows goes only if the oldest kept snapshot contains all of them, so a restart never needs it, and after all older ones of its
    kind, so there is no gap. Another process may compress files meanwhile: what it replaces is looked at the next time.
    """
    saved = {path: event_sequence(path) for path in snapshot_paths(folder)}
    kept = [path for path, last in saved.items() if last is not None][-SNAPSHOTS_KEPT:]  # not one that is damaged
    gone = []
    for path in itertools.takewhile(lambda path: path < kept[0], saved) if kept else ():
        for file in (path, path.with_suffix(".sha256")):
            file.unlink(missing_ok=True)
        gone.append(path)
    if len(kept) < SNAPSHOTS_KEPT or not retention.is_limited:  # with only one, all commands are what to fall back on
        return gone
    files = _file_stats(folder)
    total = sum(stat.st_size for stat in files.values())
    removable = [
        *_by_age(_before(folder, "commands", first_sequence(kept[0])), files),
        *_by_age(_before(folder, "events", saved[kept[0]] or 0), files),
    ]
    stays = set()  # kinds of which a file is being replaced
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
    """Deletes what a process that was killed has left of files that it had not finished, but not of compressed ones: another process may be writing them."""
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def _by_age(paths: list[Path], files: dict[Path, os.stat_result]) -> Iterator[tuple[float, Path]]:
    """(time of the last change in s, path) of files, which are in order of their rows: none is younger than those after it."""
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
    """The files of a kind whose rows all are at most `last`."""
    paths = stored_paths(folder, kind)
    return [path for path, following in itertools.pairwise(paths) if first_sequence(following) <= last + 1]


def _archive(path: Path, archive: Path) -> None:
    """Copies a file, and returns once the copy is on the disk: the original is deleted then. Raises FileExistsError where the archive has such a file of
    another journal, or is the folder of this one."""
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
    path.with_suffix(".zrows").unlink(missing_ok=True)  # where it was just being compressed
    index.unlink(missing_ok=True)
