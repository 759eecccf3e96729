"""Describes the contents of a journal folder and finds damage, without changing it."""

import contextlib
import dataclasses
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from serl.exchange.errors import JournalError
from serl.exchange.journal import snapshots
from serl.exchange.journal.checked_json import read_checked
from serl.exchange.journal.checks import check_commands
from serl.exchange.journal.meta import META, META_COPY, META_KEYS, is_new, read_participants
from serl.exchange.journal.news_log import NEWS, read_news
from serl.exchange.journal.segment import first_sequence, read_header, read_rows
from serl.exchange.journal.stored import CompressedRows, is_intact, stored_paths, stored_rows
from serl.exchange.records import COMMAND, EVENT

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One file of a journal."""

    name: str
    text: str  # its contents
    damage: str = ""  # its damage; empty if there is none


def find_meta(folder: Path) -> dict[str, Any]:
    """The meta of a journal, from its copy if the file itself is damaged. Raises JournalError if neither can be read."""
    if not folder.exists():
        raise JournalError(f"{folder}: does not exist; give the folder of a journal")
    for path in (folder / META, folder / META_COPY):
        try:
            meta: dict[str, Any] = read_checked(path, *META_KEYS)
        except (JournalError, OSError):
            continue
        return meta
    raise JournalError(
        f"{folder}: expected a journal with an undamaged {META} or {META_COPY}, got neither: without the salt in it, no command can be checked; "
        "give the folder of a journal, or restore one of the two from a copy"
    )


def verify(folder: Path) -> list[Finding]:
    """Checks every file of a journal. Raises JournalError if the folder is not a journal or its meta is lost."""
    meta = find_meta(folder)
    salt, journal_id = int(meta["salt"]), str(meta.get("id", ""))
    findings = [_check_meta(folder), _check_participants(folder, journal_id)]
    findings += [_check_news(folder, journal_id)] if (folder / NEWS).exists() else []
    findings += _verify_commands(folder, salt, journal_id)
    findings += _verify_events(folder, journal_id)
    checks = [
        _current(path, lambda path: _check_snapshot(path, journal_id)) for path in snapshots.snapshot_paths(folder)
    ]
    return findings + [check for check in checks if check is not None]


def _current(path: Path, check: Callable[[Path], T]) -> T | None:
    """The check of a file, or of the file that has replaced it since it was listed: a compressing process may still be running. None if it is
    gone, because an exchange deletes old ones."""
    twin = path.with_suffix(".rows" if path.suffix == ".zrows" else ".zrows")
    for name in (path, twin):
        with contextlib.suppress(FileNotFoundError):
            return check(name)
    return None


def _reason(error: JournalError) -> str:
    """The text of an error without the path and the advice."""
    return str(error).partition(": ")[2].partition(": the journal is damaged")[0].partition("; ")[0]


def _check_meta(folder: Path) -> Finding:
    try:
        meta = read_checked(folder / META, *META_KEYS)
    except JournalError as error:
        return Finding(META, "", f"{_reason(error)}; {META_COPY} is a good copy")
    except OSError:
        return Finding(META, "", f"missing; {META_COPY} is a good copy")
    return Finding(META, f"journal {meta.get('id', 'of an older version')}, epoch {meta['epoch']}")


def _check_participants(folder: Path, journal_id: str) -> Finding:
    try:
        participants = read_participants(folder, journal_id) if (folder / META).exists() or is_new(folder) else []
    except JournalError as error:
        return Finding("participants.json", "", _reason(error))
    return Finding("participants.json", f"{len(participants)} participants")


def _check_news(folder: Path, journal_id: str) -> Finding:
    stored = read_news(folder / NEWS)
    damage = f"lines {', '.join(map(str, stored.damaged_lines))} fail their checks" if stored.damaged_lines else ""
    if not damage and stored.messages and stored.journal_id != journal_id:
        damage = f"expected a file of journal {journal_id}, got one of {stored.journal_id}"
    return Finding(NEWS, f"{len(stored.messages)} news messages", damage)


def _verify_commands(folder: Path, salt: int, journal_id: str) -> list[Finding]:
    saved = _snapshot_sequences(folder)[-1]  # before the files are listed: a running exchange adds to both
    paths = stored_paths(folder, "commands")
    findings: list[Finding] = []
    expected = 0
    for path in paths:
        try:
            check = _current(path, lambda path: check_commands(path, salt, journal_id))
        except JournalError as error:
            findings.append(Finding(path.name, "", _reason(error)))
            expected = expected or first_sequence(path)
            continue
        if check is None:
            expected = 0  # those before it are gone as well
            continue
        expected = expected or check.first_sequence
        damage = check.damage(last=path.stem == paths[-1].stem)
        if not damage and check.first_sequence > expected:
            damage = f"commands {expected} to {check.first_sequence - 1} are missing before it"
        expected = check.first_sequence + check.valid
        text = f"commands {check.first_sequence:,} to {expected - 1:,}" if check.valid else "no commands"
        findings.append(Finding(check.path.name, text, damage))
    if not paths and not is_new(folder):
        return [Finding("commands-*.rows", "", "expected the files of the commands, got none")]
    before = _snapshot_sequences(folder)[0]  # after the files are listed: a running exchange deletes old ones of both
    if paths and first_sequence(paths[0]) > before + 1:
        findings.append(_missing("commands", before + 1, first_sequence(paths[0]) - 1))
    if paths and not findings[-1].damage and expected <= saved:
        findings.append(_missing("commands", expected, saved))
    return findings


def _snapshot_sequences(folder: Path) -> list[int]:
    """The last command of each snapshot, oldest first; 0 if there is none."""
    return [first_sequence(path) for path in snapshots.snapshot_paths(folder)] or [0]


def _missing(kind: str, first: int, last: int) -> Finding:
    return Finding(f"{kind}-*.rows", "", f"{kind} {first} to {last} are missing")


def _verify_events(folder: Path, journal_id: str) -> list[Finding]:
    saved = _saved_event(folder)
    findings: list[Finding] = []
    expected = 0  # the next event; 0: unknown
    for path in stored_paths(folder, "events"):
        check = _current(path, lambda path: _check_events(path, journal_id))
        if check is None:
            expected = 0  # those before it are gone as well
            continue
        first, (finding, following) = first_sequence(path), check
        if expected and expected < first and expected <= saved:
            findings.append(_missing("events", expected, min(first - 1, saved)))
        findings.append(finding)
        expected = following
    if expected and expected <= saved:
        findings.append(_missing("events", expected, saved))
    return findings


def _saved_event(folder: Path) -> int:
    """The last event before the newest snapshot: the files contain all events up to it, and a restart regenerates the later ones."""
    for path in reversed(snapshots.snapshot_paths(folder)):
        with contextlib.suppress(OSError):  # a damaged one is found by its own check
            if (last := snapshots.event_sequence(path)) is not None:
                return last
    return 0


def _check_events(path: Path, journal_id: str) -> tuple[Finding, int]:
    """The finding about a file, and the first event after it, 0 if it is damaged."""
    try:
        header = read_header(path, EVENT, journal_id or None)
    except JournalError as error:
        return Finding(path.name, "", _reason(error)), 0
    first, count = int(header["first_sequence"]), len(stored_rows(path, EVENT))
    text = f"events {first:,} to {first + count - 1:,}" if count else "no events"
    if "rows" not in header:
        return Finding(path.name, f"{text}, without a check: not finished, or of an older version"), first + count
    if not events_are_intact(path, header):
        return Finding(path.name, text, f"its {header['rows']:,} rows fail their check"), 0
    return Finding(path.name, text), first + count


def events_are_intact(path: Path, header: dict[str, Any]) -> bool:
    """Whether the rows of a finished event file pass their check. header: that of the file."""
    if path.suffix == ".zrows":
        try:
            return is_intact(CompressedRows(path, EVENT))
        except JournalError:
            return False
    rows = np.asarray(read_rows(path, EVENT)[: header["rows"]])
    return len(rows) == header["rows"] and zlib.crc32(rows.view(np.uint8).data) == header["crc32"]


def _check_snapshot(path: Path, journal_id: str) -> Finding:
    text = f"the market after command {first_sequence(path):,}"
    try:
        return Finding(path.name, text, snapshots.check(path, journal_id))
    except JournalError as error:
        return Finding(path.name, text, _reason(error))


def info(folder: Path) -> dict[str, Any]:
    """A description of a journal, from the names and sizes of its files and its first and last commands."""
    meta = find_meta(folder)
    paths = stored_paths(folder, "commands")
    counts = {
        "commands": len(paths),
        "events": len(stored_paths(folder, "events")),
        "snapshot": len(snapshots.snapshot_paths(folder)),
    }
    sizes = {kind: sum(path.stat().st_blocks * 512 for path in folder.glob(f"{kind}-*")) for kind in counts}
    values: dict[str, Any] = {
        "journal": meta.get("id", "of an older version"),
        "epoch": meta["epoch"],
        "symbols": ", ".join(symbol["name"] for symbol in meta["symbols"]),
    }
    try:
        values["participants"] = len(read_participants(folder, str(meta.get("id", ""))))
    except JournalError:
        values["participants"] = "damaged"
    if (folder / NEWS).exists():
        values["news"] = len(read_news(folder / NEWS).messages)
    if paths:
        checks = check_commands(paths[-1], int(meta["salt"]), str(meta.get("id", "")))
        last = checks.first_sequence + checks.valid - 1
        values["commands"] = f"{first_sequence(paths[0]):,} to {last:,}"
        first_rows = stored_rows(paths[0], COMMAND)[:1]
        last_rows = stored_rows(paths[-1], COMMAND)[max(0, checks.valid - 1) : checks.valid]
        if len(first_rows) and len(last_rows):
            values["time_ns"] = f"{int(first_rows['time_ns'][0])} to {int(last_rows['time_ns'][0])}"
    for kind, count in counts.items():
        values[kind + " files"] = f"{count}, {sizes[kind] / 1e6:,.1f} MB on the disk"
    snapshot_paths = snapshots.snapshot_paths(folder)
    values["restart from command"] = f"{first_sequence(snapshot_paths[-1]):,}" if snapshot_paths else "1"
    return values
