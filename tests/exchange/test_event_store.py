"""Event logs are finished while earlier ones are being written."""

import threading
from pathlib import Path

import pytest

from serl.exchange.journal.event_log import EventLog
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
