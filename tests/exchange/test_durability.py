"""`--durability batch`: nothing is acknowledged, published or visible before it is on the disk."""

import errno
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.records import COMMAND, EVENT, CommandKind, EventKind
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, launch

HELD_SYNC = """
import os, pathlib, time
folder, works = pathlib.Path({folder!r}), os.fdatasync
def held(file):
    (folder / "syncing").touch()
    while (folder / "hold").exists():
        time.sleep(0.001)
    if (folder / "fail").exists():
        raise OSError({error}, "Input/output error")
    works(file)
    (folder / "syncing").unlink(missing_ok=True)
os.fdatasync = held
"""
QUIET_MS = 300


def start(folder: Path, *options: str) -> Any:
    config = folder / "exchange.yaml"
    config.write_text("journal: {flush_s: 3600, segment_rows: 8192}\n")  # only the group commit syncs
    prelude = HELD_SYNC.format(folder=str(folder), error=errno.EIO)
    journal = str(folder / "journal")
    return launch("--symbols", "A", "--journal", journal, "--config", str(config), *options, prelude=prelude)


def order(client: RawClient, command_id: int) -> None:
    client.send(int(CommandKind.NEW), command_id, 0, command_id % 2, 1, 1000, 1, 0, 0)


def test_batch_acknowledges_only_after_the_sync(tmp_path: Path) -> None:
    served = start(tmp_path, "--durability", "batch")
    try:
        with RawClient(served.endpoint) as client, RawClient(served.endpoint, "queries") as query:
            client.login("ann")
            order(client, 1)
            assert client.receive(Kind.REPORTS)[2][0][2] == 1
            (tmp_path / "hold").touch()
            order(client, 2)
            order(client, 3)
            order(client, 2)  # sent again while it waits
            assert not client.socket.poll(QUIET_MS), "acknowledged before the sync"
            query.send(Kind.HASH, 1)
            assert query.receive()[5][0] >= 1, "the exchange does not answer during a sync"
            query.send(Kind.L3, 2, 0)
            assert len(query.receive()[5]) == 1, "an order that is not on the disk is in the book"
            (tmp_path / "hold").unlink()
            events: list[Any] = []
            while not events or events[-1][2] != 3:
                events += client.receive(Kind.REPORTS)[2]
            assert {event[2] for event in events if event[2]} == {2, 3}
            assert [event[0] for event in events].count(int(EventKind.REJECTED)) == 0
    finally:
        served.stop()


@pytest.mark.long
def test_interval_acknowledges_before_the_sync(tmp_path: Path) -> None:
    """The contrast that shows that the test above holds the right call."""
    served = start(tmp_path)
    try:
        with RawClient(served.endpoint) as client:
            client.login("ann")  # which waits until the name is saved
            (tmp_path / "hold").touch()
            order(client, 1)
            assert client.receive(Kind.REPORTS)[2][0][2] == 1
    finally:
        (tmp_path / "hold").unlink()
        served.stop()


@pytest.mark.long
def test_a_failed_group_commit_acknowledges_nothing(tmp_path: Path) -> None:
    served = start(tmp_path, "--durability", "batch")
    with RawClient(served.endpoint) as client:
        client.login("ann")
        (tmp_path / "fail").touch()
        order(client, 1)
        assert client.receive()[0] == Kind.GOODBYE
    output, _ = served.process.communicate(timeout=30)
    assert served.process.returncode == 2 and "Input/output error" in output


def test_batch_survives_many_segments_and_a_restart(tmp_path: Path) -> None:
    served = start(tmp_path, "--durability", "batch")
    rows = np.zeros(1024, COMMAND)
    rows["kind"], rows["qty_lots"], rows["time_in_force"], rows["price_ticks"] = CommandKind.NEW, 1, 1, 1000
    with RawClient(served.endpoint) as client:
        client.login("ann", rows=True)
        for batch in range(40):
            rows["command_id"] = batch * 1024 + 1 + np.arange(1024)
            client.socket.send(msgpack.packb([Kind.BULK, rows.tobytes()]))
        query = RawClient(served.endpoint, "queries")
        last = 0
        while last < 40 * 1024:
            last = int(np.frombuffer(client.receive(Kind.REPORT_ROWS)[2], EVENT)["command_id"].max())
        query.send(Kind.HASH, 1)
        before = query.receive()[5]
        query.close()
    served.kill()
    served.process.stdout.close()
    served = start(tmp_path)
    try:
        with RawClient(served.endpoint, "queries") as query:
            query.send(Kind.HASH, 1)
            assert query.receive()[5] == before
    finally:
        served.stop()


def test_a_snapshot_during_a_sync_loses_no_command(tmp_path: Path) -> None:
    """It had the number of the last journaled command and the state before it, and the next start left that command out."""
    served = start(tmp_path, "--durability", "batch")
    with RawClient(served.endpoint) as client, RawClient(served.endpoint, "admin") as admin:
        client.login("ann")
        order(client, 2)
        assert client.receive(Kind.REPORTS)[2][0][2] == 2
        (tmp_path / "hold").touch()
        order(client, 4)
        while not (tmp_path / "syncing").exists():
            pass
        admin.send(Kind.SNAPSHOT, 1, served.operator)
        admin.socket.poll(QUIET_MS)  # answered now, or after the sync
        (tmp_path / "hold").unlink()
        assert admin.receive()[0] == Kind.SNAPSHOT + 16
        assert client.receive(Kind.REPORTS)[2][0][2] == 4
        while not list((tmp_path / "journal").glob("snapshot-*.npz")):
            pass
    served.kill()
    served.process.stdout.close()
    served = start(tmp_path)
    try:
        with RawClient(served.endpoint, "queries") as query:
            query.send(Kind.L3, 1, 0)
            assert len(query.receive()[5]) == 2, "an acknowledged order is lost"
    finally:
        served.stop()
