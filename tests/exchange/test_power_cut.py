"""What the fault simulation (tests/sim) found in the journal: each defect on its own."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.exchange.atomic_file import write_json
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.errors import DiskFullError
from serl.exchange.journal import participants_file, retention, snapshots
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.repair import repair
from serl.exchange.journal.segment import HEADER_BYTES, Segment, no_space, read_header, read_rows
from serl.exchange.journal.stored import stored_paths, stored_rows
from serl.exchange.records import COMMAND, EVENT, CommandKind


def start(folder: Path, segment_rows: int = 8192) -> Core:
    settings = {"symbols": [{"name": "A"}], "journal": {"folder": str(folder), "segment_rows": segment_rows}}
    return Core(load_config(None, settings), folder)


def submit(core: Core, count: int) -> None:
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = core.command_sequence + 1 + np.arange(count)
    rows["kind"], rows["qty_lots"], rows["time_in_force"] = CommandKind.NEW, 1, 1
    rows["price_ticks"] = 1000 + rows["command_id"] % 5
    rows["side"] = rows["command_id"] % 2
    core.submit(rows)


def path_of(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def noting(calls: list[Any], note: Callable[..., object], real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, which notes its calls first."""

    def call(*arguments: Any) -> Any:
        calls.append(note(*arguments))
        return real(*arguments)

    return call


def test_a_header_that_the_disk_takes_in_parts_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: write(file, data[:100], offset))
    segment = Segment.create(tmp_path / "commands-000000000001.rows", COMMAND, 1, 16, "id")
    assert read_header(segment.path, COMMAND)["capacity"] == 16


def test_a_first_start_that_failed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def fails(file: int) -> None:
        if path_of(file).name.startswith("commands-"):
            raise OSError(errno.EIO, "Input/output error")
        sync(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            start(tmp_path)
    assert list(tmp_path.glob("*.new")), "expected a file that has not got its name"
    start(tmp_path).close()


def archived(folder: Path) -> None:
    segment = Segment.create(folder / "commands-000000000001.rows", COMMAND, 1, 8, "id")
    segment.close()
    (folder / "archive").mkdir()
    retention._archive(segment.path, folder / "archive")


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: write_json(folder / "meta.json", {}),
        lambda folder: Segment.create(folder / "commands-000000000001.rows", COMMAND, 1, 8, "id"),
        lambda folder: EventLog(folder / "events-000000000001.rows", 1, np.zeros(8, EVENT), "id").write(1),
        archived,
    ],
    ids=["atomic", "commands", "events", "archived"],
)
def test_a_file_gets_its_name_once_it_is_on_the_disk(
    write: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the name is on the disk at the end."""
    calls: list[tuple[str, Path]] = []
    monkeypatch.setattr(os, "fsync", noting(calls, lambda file: ("sync", path_of(file)), os.fsync))
    monkeypatch.setattr(os, "replace", noting(calls, lambda old, new: ("name", Path(old)), os.replace))
    write(tmp_path)
    unnamed = calls[-2][1]
    assert calls[-3:] == [("sync", unnamed), ("name", unnamed), ("sync", unnamed.parent)]


def test_a_finished_file_of_events_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rest of its rows and its header: nothing else writes them again."""
    log, calls = EventLog(tmp_path / "events-000000000001.rows", 1, np.zeros(8, EVENT), "id"), list[str]()
    log.write(8)
    monkeypatch.setattr(os, "pwrite", noting(calls, lambda file, data, offset: "write", os.pwrite))
    monkeypatch.setattr(os, "fsync", noting(calls, lambda file: path_of(file).name, os.fsync))
    log.close()
    assert calls == ["write", log.path.name]


def test_commands_are_synced_before_the_snapshot_that_contains_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, calls = start(tmp_path), list[str]()
    submit(core, 10)
    monkeypatch.setattr(os, "fdatasync", noting(calls, lambda file: path_of(file).name, os.fdatasync))
    monkeypatch.setattr(snapshots, "save", noting(calls, lambda *arguments: "snapshot", snapshots.save))
    named: list[tuple[str, Path]] = []
    monkeypatch.setattr(os, "fsync", noting(named, lambda file: ("sync", path_of(file)), os.fsync))
    monkeypatch.setattr(os, "replace", noting(named, lambda old, new: ("name", Path(new)), os.replace))
    core.save_snapshot()
    assert calls.index(core.journal.commands.path.name) < calls.index("snapshot")
    assert named[-2:] == [("name", tmp_path / "snapshot-000000000010.npz"), ("sync", tmp_path)]
    core.close()


def test_commands_are_synced_before_a_participant_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel on disconnect is on the disk before the file that says that it is not needed. A new name has no commands yet."""
    entries: list[dict[str, Any]] = [{"name": "ann", "cancel_on_disconnect": True}]
    calls: list[str] = []
    file = participants_file.ParticipantsFile(tmp_path, "id", entries, lambda: calls.append("sync"))
    file.save()
    write = noting(calls, lambda *_: "write", participants_file.write_participants)
    monkeypatch.setattr(participants_file, "write_participants", write)
    entries.append({"name": "bob", "cancel_on_disconnect": True})
    file.request()
    file.save_requested()
    assert calls == ["write"]
    entries[1]["cancel_on_disconnect"] = False
    file.request()
    file.save_requested()
    assert calls == ["write", "sync", "write"]


def test_a_start_writes_and_syncs_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync, the kernel would not write the pages that another process finds in memory."""
    core = start(tmp_path)
    monkeypatch.setattr(core, "save_snapshot", lambda: None)  # killed before it was saved
    submit(core, 10_000)
    core.journal.unlock()
    calls: list[tuple[str, str]] = []

    def kind(file: int, data: bytes, offset: int) -> tuple[str, str]:
        return "write" if offset == HEADER_BYTES else "header", path_of(file).name

    monkeypatch.setattr(os, "pwrite", noting(calls, kind, os.pwrite))
    monkeypatch.setattr(os, "fsync", noting(calls, lambda file: ("sync", path_of(file).name), os.fsync))
    again = start(tmp_path)
    finished, last = (path.name for path in again.journal.segments("commands"))
    assert ("write", finished) in calls and ("write", last) in calls
    assert calls.index(("write", finished)) < calls.index(("sync", finished))
    assert again.recovery.commands == 10_000
    again.close()


def test_no_event_is_stored_twice_where_files_begin_elsewhere(tmp_path: Path) -> None:
    core = start(tmp_path)
    submit(core, 5000)
    core.save_snapshot()
    submit(core, 30_000)
    core.journal.write_events(core.gateway)
    core.journal.unlock()
    for path in [*tmp_path.glob("snapshot-*")]:
        if not path.name.startswith("snapshot-000000005000"):
            path.unlink()
    again = start(tmp_path, segment_rows=20_000)
    again.close()
    stored = np.concatenate([stored_rows(path, EVENT)[:] for path in stored_paths(tmp_path, "events")])
    assert np.array_equal(stored["sequence"], 1 + np.arange(again.event_sequence))


def test_a_repaired_journal_without_commands_starts(tmp_path: Path) -> None:
    core = start(tmp_path / "journal")
    core.journal.participants.append({"name": "ann", "cancel_on_disconnect": False, "operator": False})
    core.journal.save_participants()
    core.journal.unlock()
    core.journal.commands.path.unlink()
    repair(tmp_path / "journal", tmp_path / "repaired")
    again = start(tmp_path / "repaired")
    assert again.command_sequence == 0 and again.journal.participants[0]["name"] == "ann"
    again.close()


def test_a_snapshot_whose_check_is_no_text_is_not_used(tmp_path: Path) -> None:
    core = start(tmp_path)
    submit(core, 10)
    core.close()
    check = next(tmp_path.glob("snapshot-*.sha256"))
    check.write_bytes(b"\xb6" + check.read_bytes()[1:])
    again = start(tmp_path)
    assert (again.recovery.snapshot_sequence, again.recovery.commands) == (0, 10)
    again.close()


def test_a_full_disk_says_so_for_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**options: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    core = start(tmp_path)
    monkeypatch.setattr(tempfile, "mkstemp", fails)
    with pytest.raises(DiskFullError, match="got No space left on device"), no_space(tmp_path):
        core.journal.save_participants()
    core.journal.unlock()


def test_a_file_that_is_cut_to_its_rows_meanwhile_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Segment.create(tmp_path / "events-000000000001.rows", EVENT, 1, 64, "id")
    segment.rows["sequence"][:3] = 1, 2, 3
    memmap = np.memmap

    def cut_before(*arguments: Any) -> Any:
        os.truncate(segment.path, HEADER_BYTES + 3 * EVENT.itemsize)
        return memmap(*arguments)

    monkeypatch.setattr(np, "memmap", cut_before)
    assert read_rows(segment.path, EVENT)["sequence"].tolist() == [1, 2, 3]
    segment.close()
