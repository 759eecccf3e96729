"""Saves the recoverable part of a damaged journal in a new folder, and reports what is lost. The damaged journal stays as it is."""

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.atomic_file import sync_folder
from serl.exchange.errors import JournalError
from serl.exchange.journal import snapshots
from serl.exchange.journal.checked_json import read_checked
from serl.exchange.journal.checks import map_commands
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.inspect import Finding, find_meta, verify
from serl.exchange.journal.lost_participants import count_participants, lost_entries
from serl.exchange.journal.meta import PARTICIPANTS, PARTICIPANTS_KEYS, save_participants, write_meta
from serl.exchange.journal.news_log import NEWS, read_news, write_news
from serl.exchange.journal.participants_file import EXCHANGE_NAME
from serl.exchange.journal.segment import HEADER_BYTES, first_sequence, read_header, write_all, write_header
from serl.exchange.journal.stored import CompressedRows, stored_paths, stored_rows
from serl.exchange.records import COMMAND, EVENT, Rows
from serl.exchange.row_checksum import find_valid

SEGMENT_ROWS_MIN = 8192


@dataclasses.dataclass(frozen=True)
class Repair:
    """The result of a repair: what it has saved and what is lost."""

    saved_first: int
    saved_last: int  # the last saved command, 0: none
    snapshot_sequence: int  # the restart begins after this command
    lost: list[str]  # what is lost, one line each


def repair(folder: Path, target: Path) -> Repair:
    """Writes the longest run of commands that a market can be restored from, its snapshots and its undamaged event files to `target`.

    A market is restored from the first command on, or from an undamaged snapshot. Raises JournalError if `target` exists, or if neither
    meta.json nor its copy is undamaged.
    """
    if target.exists():
        raise JournalError(f"{target}: expected a new folder, got one that exists; give another")
    meta = find_meta(folder)
    has_id = "id" in meta
    meta.setdefault("id", os.urandom(8).hex())
    findings = verify(folder)
    damaged = {finding.name: finding for finding in findings if finding.damage}
    rows = _valid_rows(folder, int(meta["salt"]))
    good = [path for path in snapshots.snapshot_paths(folder) if path.name not in damaged]
    base, first, last = _best_run(rows, [0, *(first_sequence(path) for path in good)])
    lost = [f"{name}: {finding.damage}" for name, finding in damaged.items()]
    total = int(rows["sequence"][-1]) if len(rows) else 0
    if first > 1:
        lost.append(
            f"commands 1 to {first - 1:,}: not in the new journal; the market does not need them after snapshot {base:,}"
        )
    beyond = int((rows["sequence"] > last).sum())
    if beyond:
        lost.append(
            f"{beyond:,} valid commands from {last + 1:,} to {total:,}: they follow a gap, so they cannot be executed"
        )
    kept = rows[(rows["sequence"] >= first) & (rows["sequence"] <= last)]
    kept_snapshots = [path for path in good if first_sequence(path) >= first - 1]
    events = [path for path in stored_paths(folder, "events") if path.name not in damaged]
    participants = _readable_participants(folder, str(meta["id"]) if has_id else "")
    used = count_participants(rows, max(kept_snapshots, default=None), str(meta["id"]))
    restart = first_sequence(kept_snapshots[-1]) if kept_snapshots else base
    others = lost_entries(len(participants), used, rows, kept[kept["sequence"] > restart], events)
    lost += _lost_names(others, len(participants))
    target.mkdir(parents=True)
    save_participants(target, str(meta["id"]), participants + others)
    write_meta(target, meta)
    if (folder / NEWS).exists():
        stored = read_news(folder / NEWS)
        is_own = not has_id or stored.journal_id in ("", meta["id"])
        write_news(target / NEWS, str(meta["id"]), stored.messages if is_own else [])
    _write_commands(target, kept, base + 1, _capacity(folder), str(meta["id"]))
    for path in kept_snapshots:
        shutil.copy2(path, target)
        shutil.copy2(path.with_suffix(".sha256"), target)
    for path in events:
        _copy_events(path, target, _events_before(kept_snapshots), str(meta["id"]))
    sync_folder(target)
    return Repair(first if len(kept) else 0, last, restart, lost)


def _valid_rows(folder: Path, salt: int) -> Rows:
    """Every command that passes its check, in order."""
    parts = [_valid_of(path, salt) for path in stored_paths(folder, "commands")]
    rows = np.concatenate(parts) if parts else np.zeros(0, COMMAND)
    return rows[np.unique(rows["sequence"], return_index=True)[1]]


def _valid_of(path: Path, salt: int) -> Rows:
    try:
        rows = CompressedRows(path, COMMAND).undamaged() if path.suffix == ".zrows" else map_commands(path)
    except JournalError:
        return np.zeros(0, COMMAND)
    words, first = rows.view(np.int64).reshape(len(rows), COMMAND.itemsize // 8), first_sequence(path)
    valid = np.zeros(len(rows), np.bool_)
    index = 0
    while index < len(rows) and (index := int(find_valid(rows, words, first, index, salt))) >= 0:
        valid[index] = True
        index += 1
    return rows[valid]


def _best_run(rows: Rows, bases: list[int]) -> tuple[int, int, int]:
    """(base, first, last): the run of commands first..last that contains or follows a base (a snapshot, 0: none) and reaches furthest."""
    sequences = rows["sequence"]
    best = (0, 1, 0)
    for base in bases:
        at = int(np.searchsorted(sequences, base + 1))
        run = np.arange(at, len(sequences))
        wrong = np.flatnonzero(sequences[at:] != base + 1 + run - at)
        last = base + (int(wrong[0]) if len(wrong) else len(run))
        before = sequences[:at][::-1]
        gap = np.flatnonzero(before != base - np.arange(len(before)))
        first = base + 1 - (int(gap[0]) if len(gap) else len(before))
        if last > best[2]:
            best = (base, first, last)
    return best


def _capacity(folder: Path) -> int:
    """Rows of the largest command file."""
    sizes = [path.stat().st_size - HEADER_BYTES for path in folder.glob("commands-*.rows")]
    return max([SEGMENT_ROWS_MIN, *(size // COMMAND.itemsize for size in sizes)])


def _write_commands(target: Path, rows: Rows, next_sequence: int, capacity: int, journal_id: str) -> None:
    """Writes the command files; without commands an empty one, because a journal without any command file counts as damaged."""
    for start in range(0, max(1, len(rows)), capacity):
        part = np.ascontiguousarray(rows[start : start + capacity])
        first = int(part["sequence"][0]) if len(part) else next_sequence
        file = os.open(target / f"commands-{first:012d}.rows", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        write_header(file, COMMAND, first, capacity, journal_id)
        write_all(file, part.tobytes(), HEADER_BYTES)
        os.fsync(file)
        os.close(file)


def _lost_names(entries: list[dict[str, Any]], first: int) -> list[str]:
    """Describes the loss of participants' names; they get other names, so that the numbers in the commands remain theirs."""
    return [
        f"{PARTICIPANTS}: the name of participant {number}{', an operator' if entry['operator'] else ''}, now {entry['name']}; "
        "to change it, edit the file and remove its check"
        for number, entry in enumerate(entries, first)
        if entry["name"] != EXCHANGE_NAME
    ]


def _readable_participants(folder: Path, journal_id: str) -> list[dict[str, Any]]:
    """Reads the participants if their file is undamaged. journal_id: empty for an older version's journal."""
    try:
        value = read_checked(folder / PARTICIPANTS, *PARTICIPANTS_KEYS, or_list=True)
    except (JournalError, OSError):
        return []
    if isinstance(value, list):
        return value  # of an older version
    participants: list[dict[str, Any]] = value["participants"] if journal_id in ("", value["journal"]) else []
    return participants


def _events_before(kept_snapshots: list[Path]) -> int:
    """The last event that a restart does not regenerate."""
    return (snapshots.event_sequence(kept_snapshots[-1]) or 0) if kept_snapshots else 0


def _copy_events(path: Path, target: Path, before: int, journal_id: str) -> None:
    """Copies an event file. Finishes an unfinished file that ends before event `before`: otherwise a restart would have to continue it."""
    first, count = first_sequence(path), len(stored_rows(path, EVENT))
    is_finished = "rows" in read_header(path, EVENT) or first + count > before
    if count or is_finished:
        copy = Path(shutil.copy2(path, target))
        if not is_finished:
            EventLog.open(copy, first, np.zeros(count, EVENT), count, journal_id).close()


def findings_text(findings: list[Finding]) -> list[str]:
    """The findings as text, one line per file."""
    return [
        f"{'DAMAGED' if each.damage else 'ok':8} {each.name:32} {'; '.join(filter(None, (each.text, each.damage)))}"
        for each in findings
    ]
