"""Events in files of eight rows: whatever is in memory, being written, finished, deleted or opened again, readers find the same."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from serl.exchange.config import LimitsConfig
from serl.exchange.errors import DiskFullError, JournalError
from serl.exchange.gateway.state import EVENTS, REPORTED, new_gateway
from serl.exchange.journal import event_store
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.event_store import UNWRITTEN_MAX, EventStore
from serl.exchange.journal.segment import HEADER_BYTES, read_header
from serl.exchange.journal.stored import compress
from serl.exchange.records import EVENT

SEGMENT_ROWS, JOURNAL = 8, "id"


class Events:
    """A store, and a loop that fills it: event n answers command n of participant 0."""

    def __init__(self, folder: Path, first: int = 1) -> None:
        self.folder, self.gateway = folder, new_gateway(LimitsConfig())
        self.store = EventStore(folder, SEGMENT_ROWS, JOURNAL)
        self.gateway.counter[EVENTS] = self.gateway.counter[REPORTED] = self.store.open(first)
        self.last = first - 1

    def happen(self, count: int) -> None:
        """Further events; a full log is finished."""
        for _ in range(count):
            counter = self.gateway.counter
            if counter[EVENTS] == SEGMENT_ROWS:
                self.store.rotate(self.gateway, self.last + 1)
            self.last += 1
            row = self.store.current.rows[counter[EVENTS] : counter[EVENTS] + 1]
            row[:] = 0
            row["time_ns"] = row["sequence"] = row["command_sequence"] = row["command_id"] = self.last
            counter[EVENTS] += 1
            counter[REPORTED] += 1

    def write(self) -> None:
        self.store.write(int(self.gateway.counter[EVENTS]))

    def files(self, pattern: str = "events-*.*rows") -> list[int]:
        """The first events of the files."""
        return sorted(int(path.name.split(".")[0].removeprefix("events-")) for path in self.folder.glob(pattern))

    def check(self, first: int = 1) -> None:
        """Asserts that readers find the events from `first` on, and no others."""
        stored = list(range(first, self.last + 1))
        assert [int(row) for rows in list(self.store.newest(self.gateway))[::-1] for row in rows["sequence"]] == stored
        for after in range(self.last + 1):
            rows = self.store.after(after, 3, self.gateway)
            found = None if rows is None else rows["sequence"].tolist()
            if after + 1 < first:
                assert found is None
            else:
                assert found is not None and found == stored[after + 1 - first :][: len(found)]
                assert 0 < len(found) <= 3 or after == self.last
            answer = self.store.answers(0, after, self.gateway)
            assert answer["sequence"].tolist() == ([after] if after >= first else [])


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read in three parts, the oldest with one row alone."""
    monkeypatch.setattr(event_store, "CHUNK_ROWS", 3)


@pytest.fixture
def events(tmp_path: Path) -> Events:
    return Events(tmp_path)


def test_readers_find_all_events_wherever_they_are(events: Events) -> None:
    for count in (1, 7, 1, 12, 4):
        events.happen(count)
        events.check()
    events.store.write_finished()
    events.check()
    events.happen(5)
    events.store.sync_finished()
    events.write()
    events.check()
    assert [first for first, _ in events.store.in_files(events.last + 1)][:2] == [25 + 3, 25]
    assert [first for first, _ in events.store.in_files(17)] == [9 + 5, 9 + 2, 9, 1 + 5, 1 + 2, 1]
    reading = events.store.in_files(events.last + 1)
    assert next(reading)[0] == 25 + 3
    compress(events.store.paths()[2], EVENT, JOURNAL, 0)
    events.store.paths()[1].unlink()
    assert [first for first, _ in reading] == [25, 17 + 5, 17 + 2, 17], "files are deleted from the oldest on"


def test_deleted_files_are_forgotten(events: Events) -> None:
    """With their answers; files of commands have the same numbers."""
    events.happen(30)
    events.write()
    events.store.sync_finished()
    events.store.forget([events.folder / f"commands-{first:012d}.rows" for first in (1, 9)])
    events.check()
    deleted = events.store.paths()[:2]
    for path in deleted:
        path.unlink()
    events.store.forget(deleted)
    events.check(17)
    assert len(events.store._answers._segments) == 1


def test_a_slow_disk_holds_the_market_up(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is full, the exchange goes on: it then takes cancellations only."""
    events.happen(SEGMENT_ROWS * (UNWRITTEN_MAX + 1))
    assert not events.files()
    events.happen(1)
    assert events.files() == [1, 9, 17, 25], "the fifth would be too many"
    events.check()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        events.happen(SEGMENT_ROWS * (UNWRITTEN_MAX + 1))
        assert events.files() == [1, 9, 17, 25]
        with pytest.raises(DiskFullError):
            events.write()
    events.check()
    events.write()
    assert events.files() == list(range(1, events.last + 1, SEGMENT_ROWS))
    events.check()


def test_what_a_snapshot_needs_is_on_the_disk(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finished logs and the first rows of the present one; closed files are synced already."""
    events.happen(20)
    waiting, synced, sync = events.store.current, list[int](), EventLog.sync

    def noted(log: EventLog) -> None:
        synced.append(log.first_sequence)
        sync(log)

    monkeypatch.setattr(EventLog, "sync", noted)
    events.store.write_before(waiting, 4)
    assert (synced, waiting.written) == ([1, 9, 17], 4)
    events.store.sync_finished()
    assert [read_header(path, EVENT).get("rows") for path in events.store.paths()] == [8, 8, None]
    assert events.files("*.answers.npy") == [1, 9]
    synced.clear()
    events.store.write_before(waiting, 4)
    assert synced == [17]


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("first", [17, 19, 24, 25, 26])
def test_a_restart_goes_on_in_any_row(events: Events, first: int, is_compressed: bool) -> None:
    """Its snapshot was before event `first`: what comes later happens again."""
    events.happen(40)
    events.write()
    events.store.sync_finished()
    events.store.close()
    if is_compressed:
        compress(events.store.paths()[2], EVENT, JOURNAL, 0)
        later = events.folder / "events-000000000033"
        later.with_suffix(".zrows").write_bytes(b"is being written")
        later.with_suffix(".answers.npy").write_bytes(b"of before")
    again = Events(events.folder, first)
    again.store.delete_later()
    again.store.index_answers()
    current = 17 if first < 25 else 25
    assert again.files() == [number for number in (1, 9, 17, 25) if number <= current]
    assert again.files("*.answers.npy") == [number for number in (1, 9, 17) if number < current], "of finished files"
    again.check()
    again.happen(20)
    again.check()


def test_files_of_another_journal_or_damaged_ones_are_no_start(events: Events) -> None:
    events.happen(20)
    events.write()
    events.store.sync_finished()
    events.store.close()
    assert EventStore(events.folder, SEGMENT_ROWS, JOURNAL).find(0) is None
    path, store = events.store.paths()[2], EventStore(events.folder, SEGMENT_ROWS, JOURNAL)
    assert store.find(21) == store.find(20) == path
    with pytest.raises(JournalError, match="got one of journal id"):
        EventStore(events.folder, SEGMENT_ROWS, "other").find(21)
    zero(path, 3, "time_ns")
    assert store.find(20) == path, "the fourth row happens again"
    with pytest.raises(JournalError, match="its rows before event 21 fail their check"):
        store.find(21)
    zero(path, 1, "sequence")
    assert store.find(18) == path
    with pytest.raises(JournalError, match="its rows before event 20 fail their check"):
        store.find(20)


def test_a_damaged_file_that_no_restart_needs_answers_nothing(events: Events) -> None:
    events.happen(20)
    events.write()
    events.store.sync_finished()
    events.store.close()
    zero(events.store.paths()[0], 0, "sequence")
    for index in events.folder.glob("*.answers.npy"):
        index.unlink()
    again = Events(events.folder, 21)
    again.store.index_answers()
    assert [len(again.store.answers(0, number, again.gateway)) for number in (3, 9, 16, 20)] == [0, 1, 1, 1]


def zero(path: Path, row: int, field: str) -> None:
    """Damages a field of a row that is not 0."""
    data = bytearray(path.read_bytes())
    rows = np.frombuffer(data, EVENT, offset=HEADER_BYTES)
    rows[field][row] = 0
    path.write_bytes(data)


def test_a_log_is_finished_only_when_all_is_reported(events: Events) -> None:
    events.happen(SEGMENT_ROWS)
    events.gateway.counter[REPORTED] -= 1
    with pytest.raises(AssertionError, match="not reported"):
        events.store.rotate(events.gateway, events.last + 1)
    events.gateway.counter[REPORTED] += 1
    events.store.rotate(events.gateway, events.last + 1)
    assert events.gateway.counter[EVENTS] == events.gateway.counter[REPORTED] == 0
