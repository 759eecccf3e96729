"""Event logs are finished while earlier ones are being written."""

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.journal.event_log import EventLog
from serl.exchange.journal.event_store import UNWRITTEN_MAX
from serl.exchange.journal.inspect import verify
from tests.exchange.test_damage import start, submit


def test_a_log_that_is_finished_during_a_write_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core = start(tmp_path)
    submit(core, 10)
    store, write, turns = core.journal.store, EventLog.write, iter([True])
    core.journal.rotate_events(core.gateway, core.event_sequence + 1)
    core.map_segments()

    def slow_write(log: EventLog, count: int) -> None:
        if next(turns, False):  # the market goes on while the first log is written
            submit(core, 10)
            core.journal.rotate_events(core.gateway, core.event_sequence + 1)
            core.map_segments()
        write(log, count)

    monkeypatch.setattr(EventLog, "write", slow_write)
    writer = threading.Thread(target=store.write_finished)
    writer.start()
    writer.join()
    submit(core, 10)
    assert [len(core.journal.answers(0, command_id, core.gateway)) > 0 for command_id in (1, 15, 25)] == [True] * 3
    core.close()
    assert len(store.paths()) == 3


def test_no_mapping_reaches_beyond_the_rows_of_a_file_that_is_cut_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Touching what it has there, once the file is cut, would end the process."""
    core = start(tmp_path)
    submit(core, 10)
    store, memmap, mapped = core.journal.store, np.memmap, list[int]()
    events = core.event_sequence

    def counted(path: Path, dtype: Any, mode: Any, offset: int, count: int) -> Any:
        mapped.append(count)
        return memmap(path, dtype, mode, offset, count)

    core.journal.rotate_events(core.gateway, events + 1)
    core.map_segments()
    store.write_finished()
    monkeypatch.setattr(np, "memmap", counted)
    (newest,) = store.newest(core.gateway)
    after, answers = store.after(0, 5, core.gateway), store.answers(0, 1, core.gateway)
    assert mapped == [events] * 3 and after is not None
    store.sync_finished()
    assert newest["sequence"].tolist() == list(range(1, events + 1))
    assert (len(after), len(answers)) == (5, 1)
    assert np.array_equal(newest, next(iter(store.newest(core.gateway))))
    core.close()


def test_buffers_that_a_slow_disk_needed_are_freed(tmp_path: Path) -> None:
    core = start(tmp_path)
    buffer_bytes = core.journal.events.rows.nbytes
    tracemalloc.start()
    try:
        for _ in range(UNWRITTEN_MAX):
            submit(core, 10)
            core.journal.rotate_events(core.gateway, core.event_sequence + 1)
            core.map_segments()
        assert tracemalloc.get_traced_memory()[0] > (UNWRITTEN_MAX - 1) * buffer_bytes
        core.journal.store.write_finished()
        core.journal.store.sync_finished()
        assert tracemalloc.get_traced_memory()[0] < 2.5 * buffer_bytes  # the current one, and one for the next
    finally:
        tracemalloc.stop()
    core.close()


@pytest.mark.parametrize("left", [b"", b"rubbish", 100])
def test_a_damaged_index_is_made_again(left: bytes | int, tmp_path: Path) -> None:
    core = start(tmp_path)
    submit(core, 20_000)
    core.close()
    (index, *_) = sorted(tmp_path.glob("*.answers.npy"))
    index.write_bytes(index.read_bytes()[:left] if isinstance(left, int) else left)
    core = start(tmp_path)
    assert len(core.journal.answers(0, 5, core.gateway)) > 0
    core.close()


def test_a_restart_may_have_smaller_files(tmp_path: Path) -> None:
    """The unfinished file, which it continues, has more rows than a new one."""

    def opened(segment_rows: int) -> Core:
        overrides = {"symbols": [{"name": "A"}], "journal": {"folder": str(tmp_path), "segment_rows": segment_rows}}
        return Core(load_config(None, overrides), tmp_path)

    core = opened(16_384)
    submit(core, 5000)
    state = core.market.state_hash(), core.event_sequence
    core.close()
    core = opened(8192)
    assert (core.market.state_hash(), core.event_sequence) == state and state[1] > 8192
    submit(core, 5000)
    core.close()
    assert not any(finding.damage for finding in verify(tmp_path))
