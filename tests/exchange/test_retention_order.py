"""Which files of a journal retention removes, and in which order: nothing that the older kept snapshot needs."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from serl.exchange.config import RetentionConfig
from serl.exchange.journal import retention
from serl.exchange.journal.retention import clean
from serl.exchange.journal.stored import stored_paths

KB = 1000


def snapshot(folder: Path, command: int, event: int) -> None:
    np.savez(folder / f"snapshot-{command:012d}.npz", event_sequence=event)
    (folder / f"snapshot-{command:012d}.sha256").write_text("")


def rows(folder: Path, kind: str, *firsts: int, hours: float = 0.0) -> None:
    """Files of a kB of rows, which begin with these sequences."""
    for first in firsts:
        path = folder / f"{kind}-{first:012d}.rows"
        path.write_bytes(bytes(KB))
        os.utime(path, (time.time() - hours * 3600,) * 2)


def removed(folder: Path, **limits: str) -> list[str]:
    """The names of the files that are removed, like commands-1, in order."""
    gone = [path.stem for path in clean(folder, RetentionConfig.model_validate(limits))]
    return [f"{stem.partition('-')[0]}-{int(stem.partition('-')[2])}" for stem in gone]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The older snapshot, after command 20 and event 40, needs the last two files of each kind."""
    rows(tmp_path, "commands", 1, 11, 21, 31)
    rows(tmp_path, "events", 1, 21, 41, 61)
    snapshot(tmp_path, 20, 40)
    snapshot(tmp_path, 30, 60)
    return tmp_path


def test_what_the_older_snapshot_needs_stays(folder: Path) -> None:
    assert sorted(removed(folder, size="0 kB")) == ["commands-1", "commands-11", "events-1", "events-21"]


@pytest.mark.parametrize(("command", "event"), [(19, 40), (20, 39)])
def test_a_file_whose_last_row_the_older_snapshot_lacks_stays(folder: Path, command: int, event: int) -> None:
    for path in folder.glob("snapshot-000000000020.*"):
        path.unlink()
    snapshot(folder, command, event)
    kept = "commands-11" if command == 19 else "events-21"
    gone = removed(folder, size="0 kB")
    assert kept not in gone and "commands-1" in gone


def test_a_damaged_snapshot_is_none_of_the_two_that_are_kept(folder: Path) -> None:
    """Nothing could be restored from it."""
    (folder / "snapshot-000000000035.npz").write_bytes(b"PK")
    assert not [name for name in removed(folder, size="0 kB") if name.startswith("snapshot")]
    assert len(list(folder.glob("snapshot-*.npz"))) == 3


def test_without_a_second_snapshot_everything_stays(folder: Path) -> None:
    (folder / "snapshot-000000000020.npz").unlink()
    assert removed(folder, size="0 kB") == []


def test_no_more_is_removed_than_the_size_needs(folder: Path) -> None:
    """The oldest first, whatever its kind."""
    for number, (kind, first) in enumerate([("events", 1), ("commands", 1), ("events", 21), ("commands", 11)]):
        rows(folder, kind, first, hours=9 - number)
    total = sum(path.stat().st_size for path in folder.iterdir())
    assert removed(folder, size=f"{(total - 2 * KB) / KB} kB") == ["events-1", "commands-1"]


def test_only_files_beyond_the_age_are_removed(folder: Path) -> None:
    rows(folder, "commands", 1, hours=3)
    rows(folder, "events", 1, hours=5)
    assert removed(folder, age="4 h") == ["events-1"]


def test_no_gap_where_a_file_is_compressed_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking at the files and listing them: it stays this time, and so do those after it."""

    def compress_and_list(folder: Path, kind: str) -> list[Path]:
        path = folder / "commands-000000000001.rows"
        if path.exists():
            path.rename(path.with_suffix(".zrows"))
        return stored_paths(folder, kind)

    with monkeypatch.context() as patch:
        patch.setattr(retention, "stored_paths", compress_and_list)
        assert sorted(removed(folder, size="0 kB")) == ["events-1", "events-21"]
    assert sorted(removed(folder, size="0 kB")) == ["commands-1", "commands-11"]


def test_what_belongs_to_a_removed_file_goes_too(folder: Path) -> None:
    """Its index of answers, and the file into which it was being compressed."""
    beside = folder / "events-000000000001.answers.npy", folder / "commands-000000000001.zrows"
    for path in beside:
        path.write_bytes(b"")
    assert {"events-1", "commands-1"} < set(removed(folder, size="0 kB"))
    assert not any(path.exists() for path in beside)
