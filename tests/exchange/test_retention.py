"""Finished files: compressed, deleted or archived; restarts and readers go on."""

import gc
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.config import RetentionConfig, load_config
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError, JournalError
from serl.exchange.journal import compress, inspect, retention, snapshots, stored
from serl.exchange.journal.answers import SegmentAnswers
from serl.exchange.journal.compress import compress_finished
from serl.exchange.journal.inspect import verify
from serl.exchange.journal.repair import repair
from serl.exchange.journal.retention import clean
from serl.exchange.journal.segment import HEADER_BYTES
from serl.exchange.journal.stored import compress as compress_one
from serl.exchange.journal.stored import compressible, stored_paths
from serl.exchange.records import COMMAND, EVENT, CommandKind, Rows
from serl.exchange.wire import Kind
from tests.exchange.missed import missed_reports
from tests.exchange.test_damage import flip, submit
from tests.server_fixture import RawClient, launch

COUNT = 80_000


def start(folder: Path, **journal: Any) -> Core:
    overrides: dict[str, Any] = {
        "symbols": [{"name": "A"}],
        "journal": {"folder": str(folder), "segment_rows": 16_384, **journal},
    }
    return Core(load_config(None, overrides), folder)


def all_rows(core: Core, kind: str, after: int = 0) -> Rows:
    """Every row from a sequence on, as drop copies and recorders read them."""
    following = {"commands": core.journal.commands_after, "events": core.journal.events_after}[kind]
    parts = []
    rows = following(after, 5000, core.gateway)
    while rows is not None and len(rows):
        parts.append(np.array(rows))
        after = int(rows[-1]["sequence"])
        rows = following(after, 5000, core.gateway)
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    core = start(folder)
    submit(core, COUNT)
    core.close()
    return folder


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.long
def test_compressed_files_are_read_as_before(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    core = start(folder)
    before = {kind: all_rows(core, kind) for kind in ("commands", "events")}
    digest = core.market.state_hash()
    answers = [core.journal.answers(0, command_id, core.gateway) for command_id in (1, 30_000, COUNT)]
    original, compressed = compress_finished(folder)  # while it runs
    assert compressed * 5 < original and list(folder.glob("*.zrows"))
    for kind, rows in before.items():
        assert all_rows(core, kind).tobytes() == rows.tobytes()
    core.close()
    again = start(folder)
    assert again.market.state_hash() == digest
    for kind, rows in before.items():
        assert all_rows(again, kind).tobytes() == rows.tobytes()
    for command_id, answer in zip((1, 30_000, COUNT), answers, strict=True):
        assert again.journal.answers(0, command_id, again.gateway).tobytes() == answer.tobytes()
    again.close()
    assert not any(finding.damage for finding in verify(folder))


def test_a_damaged_compressed_file_is_found(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    compress_finished(folder)
    path = stored_paths(folder, "events")[0]
    flip(path, HEADER_BYTES + 40)
    assert [finding.name for finding in verify(folder) if finding.damage] == [path.name]


@pytest.mark.parametrize("kind", ["commands", "events"])
def test_a_file_that_is_replaced_while_the_journal_is_verified_is_no_damage(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    replaced: list[Path] = []
    meta = inspect.find_meta(folder)
    identity = meta["id"], int(meta["salt"])

    def list_and_compress(folder: Path, listed: str) -> list[Path]:
        paths = stored_paths(folder, listed)
        if listed == kind and not replaced:
            replaced.append(compress_one(paths[0], {"commands": COMMAND, "events": EVENT}[kind], *identity))
        return paths

    monkeypatch.setattr(inspect, "stored_paths", list_and_compress)
    findings = verify(folder)
    assert not any(finding.damage for finding in findings)
    assert replaced[0].name in [finding.name for finding in findings]
    flip(replaced[0], HEADER_BYTES + 40)
    assert any(finding.name == replaced[0].name and finding.damage for finding in verify(folder))


def test_compressed_commands_are_executed_again_without_snapshots(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    core = start(folder)
    digest = core.market.state_hash()
    core.close()
    compress_finished(folder)
    for path in folder.glob("snapshot-*"):
        path.unlink()
    core = start(folder)
    assert (core.market.state_hash(), core.recovery.commands) == (digest, COUNT)
    core.close()


def test_two_snapshots_are_kept(journal: Path) -> None:
    assert len(list(journal.glob("snapshot-*.npz"))) == 2


@pytest.mark.parametrize("archives", [False, True])
def test_old_files_go_and_a_restart_does_not_need_them(archives: bool, journal: Path, tmp_path: Path) -> None:
    folder, archive = shutil.copytree(journal, tmp_path / "journal"), tmp_path / "archive"
    core = start(folder)
    digest, rows = core.market.state_hash(), all_rows(core, "commands")
    core.close()
    for path in folder.glob("*.rows"):
        os.utime(path, (time.time() - 7200,) * 2)
    core = start(folder, retention={"age": "1 h", "archive": str(archive) if archives else None})
    submit(core, 10)
    core.close()
    assert stored_paths(folder, "commands")[0].name != "commands-000000000001.rows"
    assert archives == bool(list(archive.glob("commands-000000000001.rows")))
    core = start(folder)
    assert core.journal.commands_after(0, 10, core.gateway) is None
    assert missed_reports(core, 0, 0) is None, "a gap in the reports"
    assert core.command_sequence == COUNT + 10
    core.close()
    if archives:  # together they are the whole journal
        whole = shutil.copytree(folder, tmp_path / "whole")
        shutil.copytree(archive, whole, dirs_exist_ok=True)
        core = start(whole)
        assert all_rows(core, "commands")[:COUNT].tobytes() == rows.tobytes()
        core.close()
    assert digest


def test_an_archive_loses_nothing(journal: Path, tmp_path: Path) -> None:
    """Neither what another journal has moved there, nor what should be moved to where it is."""
    folder, archive = shutil.copytree(journal, tmp_path / "journal"), tmp_path / "archive"
    core = start(tmp_path / "other")
    core.close()
    archive.mkdir()
    (taken,) = (tmp_path / "other").glob("commands-*.rows")
    shutil.copy(taken, archive)
    before = [path.name for path in stored_paths(folder, "commands")]
    for target in (archive, folder):
        with pytest.raises(FileExistsError, match=r"set another journal\.retention\.archive"):
            clean(folder, RetentionConfig(size="0 MB", archive=target))
    assert [path.name for path in stored_paths(folder, "commands")] == before
    assert (archive / taken.name).read_bytes() == taken.read_bytes()


def indexed_files(folder: Path) -> set[str]:
    """The event files of which something is in memory."""
    gc.collect()
    return {one.path.stem for one in gc.get_objects() if type(one) is SegmentAnswers and one.path.parent == folder}


@pytest.mark.long
def test_answers_in_deleted_files_are_forgotten(journal: Path, tmp_path: Path) -> None:
    """Otherwise the exchange's memory grows with every event file, however few are kept."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    core = start(folder, retention={"size": "1 kB"}, flush_s=0.05)
    core.journal.start_flushing(0.05, core.gateway)
    for _ in range(3):
        assert len(core.journal.answers(0, core.command_sequence, core.gateway))  # also maps a file
        submit(core, 20_000)
        core.save_snapshot()
        core.journal.wait_for_snapshot()
    until = time.monotonic() + 20
    while indexed_files(folder) != {path.stem for path in stored_paths(folder, "events")} and time.monotonic() < until:
        time.sleep(0.05)
    assert indexed_files(folder) == {path.stem for path in stored_paths(folder, "events")}
    assert len(stored_paths(folder, "events")) < 5
    assert len(core.journal.answers(0, core.command_sequence, core.gateway))
    assert not len(core.journal.answers(0, 1, core.gateway))
    core.close()


def test_a_damaged_snapshot_does_not_cost_the_market(journal: Path, tmp_path: Path) -> None:
    """Retention never removes what the older of the two snapshots needs."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    core = start(folder, retention={"size": "1 kB"})
    submit(core, 20_000)
    digest = core.market.state_hash()
    core.close()
    flip(max(folder.glob("snapshot-*.npz")), 3000)
    core = start(folder)
    assert core.market.state_hash() == digest and core.recovery.commands > 0
    core.close()


def test_commands_that_are_gone_are_not_silently_missing(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    start(folder, retention={"size": "1 kB"}).close()
    stored_paths(folder, "commands")[0].unlink()
    for path in folder.glob("snapshot-*"):
        path.unlink()
    with pytest.raises(JournalError, match="got none"):
        start(folder)
    shutil.copy(stored_paths(journal, "commands")[2], folder)
    with pytest.raises(JournalError, match="a file is missing"):
        start(folder)
    result = repair(folder, tmp_path / "new")
    assert result.saved_last == 0 and any("valid commands" in line for line in result.lost), result.lost


def test_files_that_are_compressed_meanwhile_are_cleaned_the_next_time(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    limits = RetentionConfig(size="1 kB")

    def list_and_compress(folder: Path, kind: str) -> list[Path]:
        paths = stored_paths(folder, kind)
        compress_finished(folder)
        return paths

    with monkeypatch.context() as patch:
        patch.setattr(retention, "stored_paths", list_and_compress)
        gone = clean(folder, limits)
    assert not [path for path in gone if path.name.startswith("commands")] and list(folder.glob("commands-*.zrows"))
    assert folder / "commands-000000000001.zrows" in clean(folder, limits)


def test_no_file_goes_before_an_older_one(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    first, second, *_ = stored_paths(folder, "commands")
    os.utime(second, (time.time() - 7200,) * 2)
    assert not [path for path in clean(folder, RetentionConfig(age="1 h")) if path.name.startswith("commands")]
    for path in folder.glob("*.rows"):
        os.utime(path, (time.time() - 7200,) * 2)

    def list_and_compress(folder: Path, kind: str) -> list[Path]:
        paths = stored_paths(folder, kind)
        if kind == "commands":
            compress_one(first, COMMAND, "", 0)
        return paths

    with monkeypatch.context() as patch:
        patch.setattr(retention, "stored_paths", list_and_compress)
        gone = clean(folder, RetentionConfig(age="1 h"))
    assert gone and not [path for path in gone if path.name.startswith("commands")]
    gone = clean(folder, RetentionConfig(age="1 h"))  # a compressed file is as old as what it holds
    assert [path.stem for path in gone if path.name.startswith("commands")][:2] == [first.stem, second.stem]


def test_files_that_go_meanwhile_are_not_compressed(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")

    def list_and_clean(folder: Path, kind: str, before: int) -> list[tuple[Path, Path]]:
        paths = list(compressible(folder, kind, before))
        clean(folder, RetentionConfig(size="1 kB"))
        return paths

    monkeypatch.setattr(compress, "compressible", list_and_clean)
    assert compress_finished(folder) == (0, 0) and not list(folder.glob("*.zrows"))


def test_two_compressors_delete_nothing(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by hand beside that of the exchange; and a file that another one has compressed meanwhile stays, even if it holds no lock."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    stems = {path.stem for path in folder.glob("*-0*rows")}
    meta = inspect.find_meta(folder)
    others: list[tuple[int, int]] = []

    def compress_beside(path: Path, dtype: Any, *identity: Any) -> Path:
        others.append(compress_finished(folder))
        return compress_one(path, dtype, *identity)

    with monkeypatch.context() as patch:
        patch.setattr(compress, "compress", compress_beside)
        compress_finished(folder)
    assert others and set(others) == {(0, 0)}, "two compress at the same time"
    folder = shutil.copytree(journal, tmp_path / "other")
    second, pack = stored_paths(folder, "commands")[1], stored._pack

    def pack_after_another(rows: Rows, salt: int) -> bytes:
        monkeypatch.setattr(stored, "_pack", pack)
        compress_one(second, COMMAND, meta["id"], meta["salt"])
        return pack(rows, salt)

    monkeypatch.setattr(stored, "_pack", pack_after_another)
    with pytest.raises(FileNotFoundError):
        compress_one(second, COMMAND, meta["id"], meta["salt"])
    for each in (folder, tmp_path / "journal"):
        assert {path.stem for path in each.glob("*-0*rows")} == stems
        assert not any(finding.damage for finding in verify(each))


@pytest.mark.parametrize(
    ("kind", "number", "damage"),
    [("events", 1, r"events \d+ to \d+ are missing"), ("events", -1, r"events \d+ to 80000 are missing")]
    + [("commands", -1, r"commands \d+ to 80000 are missing"), ("commands", 0, r"commands 1 to \d+ are missing")],
)
def test_missing_files_are_found(kind: str, number: int, damage: str, journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    if (kind, number) == ("commands", 0):  # no snapshot contains them any more
        for path in folder.glob("snapshot-*"):
            path.unlink()
    elif kind == "events":
        damage = damage.replace("80000", str(snapshots.event_sequence(snapshots.snapshot_paths(folder)[-1])))
    assert not any(finding.damage for finding in verify(folder))
    stored_paths(folder, kind)[number].unlink()
    (found,) = [finding for finding in verify(folder) if finding.damage]
    assert found.name == f"{kind}-*.rows" and re.fullmatch(damage, found.damage), found


def send_bulk(client: RawClient, first_id: int) -> int:
    """Sends 1,024 orders, waits for their reports, and returns the id after them."""
    rows = np.zeros(1024, COMMAND)
    rows["command_id"] = first_id + np.arange(1024)
    rows["kind"], rows["qty_lots"], rows["time_in_force"] = CommandKind.NEW, 1, 1
    rows["side"], rows["price_ticks"] = rows["command_id"] % 2, 1000
    client.socket.send(msgpack.packb([Kind.BULK, rows.tobytes()]))
    last = 0
    while last < first_id + 1023:
        last = int(np.frombuffer(client.receive(Kind.REPORT_ROWS)[2], EVENT)["command_id"].max())
    return first_id + 1024


def test_a_served_exchange_compresses_and_cleans(tmp_path: Path) -> None:
    """And a client whose first reports are gone is told so."""
    config = tmp_path / "exchange.yaml"
    config.write_text("journal: {segment_rows: 16384, compress: true, retention: {size: 40 MB}}\n")
    folder = tmp_path / "journal"
    served = launch("--symbols", "A", "--journal", str(folder), "--config", str(config))
    try:
        with RawClient(served.endpoint) as client:
            client.login("ann", rows=True)
            first_id = 1
            while len(list(folder.glob("snapshot-*.sha256"))) < 2:
                first_id = send_bulk(client, first_id)
            # by a process of low priority: on a busy machine it takes long
            while not list(folder.glob("commands-*.zrows")):
                assert served.process.poll() is None, "the exchange ended"
                time.sleep(0.02)
            while list(folder.glob("*-000000000001.*rows")):
                first_id = send_bulk(client, first_id)
        with RawClient(served.endpoint) as client:
            client.send(64, 1, 1, "ann", "", 0, {"replace": True})
            assert client.receive(Kind.WELCOME)[5] == first_id - 1
            assert client.receive(Kind.ERROR)[1] == "replay_gone"
    finally:
        assert "old files stay" not in served.stop()
    assert [finding for finding in verify(folder) if finding.damage] == []


@pytest.mark.long
def test_what_finishes_while_files_are_compressed_is_compressed_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = start(tmp_path, compress=True)
    processes: list[subprocess.Popen[Any]] = []
    is_started = threading.Event(), threading.Event()

    def started(program: list[str], **options: Any) -> "subprocess.Popen[Any]":
        is_first = not processes
        process = popen(["cat"], stdin=subprocess.PIPE, **options) if is_first else popen(program, **options)
        processes.append(process)
        is_started[not is_first].set()
        return process

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", started)
    core.journal.start_flushing(0.02, core.gateway)
    for _ in range(2):
        submit(core, COUNT // 2)
        core.save_snapshot()
        core.journal.wait_for_snapshot()
        is_started[0].wait()
    processes[0].communicate()  # the first one ends
    is_started[1].wait()
    assert processes[1].wait() == 0  # of low priority: on a busy machine it takes long
    assert list(tmp_path.glob("commands-*.zrows"))
    core.close()


def test_units_are_required(tmp_path: Path) -> None:
    for name, value in (("size", "200"), ("age", "3 weeks"), ("size", "3 d")):
        with pytest.raises(ConfigError, match="expected a number with a unit"):
            start(tmp_path, retention={name: value})
