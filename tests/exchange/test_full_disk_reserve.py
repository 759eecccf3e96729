"""No client can use up the rows that are reserved for the exchange itself while the disk is full, with which the exchange ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import numpy as np
import pytest

from serl.exchange.records import EVENT, CommandFlag, CommandKind, EventKind, Term, TimeInForce
from serl.exchange.wire import Kind
from tests.exchange.full_disk import NEEDS_MOUNTS, NEW_MOUNTS, NEW_USER, SMALL_DISK, fill, fill_until_rejected, orders
from tests.server_fixture import RawClient, Served, launch

pytestmark = NEEDS_MOUNTS
ROWS = 24 * 512


@contextmanager
def small_disk(tmp_path: Path, clock: str = "live", more: str = "") -> Iterator[tuple[Served, Path]]:
    """An exchange whose journal is on a disk of 12 MiB, and the folder as the test sees it."""
    folder, config = tmp_path / "disk", tmp_path / "exchange.yaml"
    folder.mkdir()
    config.write_text(f"journal: {{segment_rows: 8192, flush_s: 0.05}}\nintervals: {{heartbeat_s: 0.2}}\n{more}")
    prelude = SMALL_DISK.format(folder=str(folder), flags=NEW_USER | NEW_MOUNTS, mib=12)
    options = ("--symbols", "A", "--clock", clock, "--journal", str(folder / "journal"), "--config", str(config))
    served = launch(*options, prelude=prelude)
    try:
        yield served, Path(f"/proc/{served.process.pid}/root{folder}")
        assert served.process.poll() is None, "the exchange ended"
    finally:
        if served.process.poll() is None:
            served.stop()
        served.process.kill()
        assert served.process.stdout is not None
        served.process.stdout.close()


@pytest.mark.parametrize("clock", ["live", "lockstep"])
def test_commands_on_their_way_wait_for_room(tmp_path: Path, clock: str) -> None:
    """New orders that were on their way when the disk became full were executed from the reserved rows, and when these were used up the exchange ended."""
    latency = "latency: {orders: {kind: constant, delay_us: 2000000}}\n" if clock == "live" else ""
    with small_disk(tmp_path, clock, latency) as (served, disk), RawClient(served.endpoint) as client:
        client.login("ann", rows=True)
        if clock == "lockstep":
            client.send(Kind.PROMISE, 1000)
            client.receive(Kind.GRANT)
        for first_id in range(1, ROWS, 512):
            rows = orders(first_id, 512)
            rows["time_ns"] = 2000
            client.socket.send(msgpack.packb([Kind.BULK, rows.tobytes()]))
        client.send(Kind.PING, 7)
        client.receive(Kind.PONG)
        fill(disk)
        if clock == "lockstep":
            client.send(Kind.PROMISE, 5000)
        last, began = 0, time.monotonic()
        while time.monotonic() - began < 4:
            time.sleep(0.05)
            client.send(Kind.PING, 8)
            message = client.receive(Kind.REPORT_ROWS, Kind.PONG, Kind.GOODBYE, Kind.GRANT)
            assert message[0] in (Kind.REPORT_ROWS, Kind.PONG), message
            if message[0] == Kind.REPORT_ROWS:
                last = int(np.frombuffer(message[2], EVENT)["command_id"].max())
        assert 0 < last < ROWS
        (disk / "filler").unlink()
        while last < ROWS:
            rows = np.frombuffer(client.receive(Kind.REPORT_ROWS)[2], EVENT)
            assert rows["command_id"].tolist() == list(range(last + 1, last + 1 + len(rows)))
            last += len(rows)
        if clock == "lockstep":
            assert client.receive(Kind.GRANT)[1] == 5000


@pytest.mark.long
def test_logins_with_cancel_on_disconnect_use_no_reserved_rows(tmp_path: Path) -> None:
    """On a disk with room for participants.json, each of them took one, whether there was an order to cancel or not: the exchange ended after 15 s."""
    with (
        small_disk(tmp_path) as (served, disk),
        RawClient(served.endpoint) as client,
        RawClient(served.endpoint, "queries") as query,
    ):
        client.login("ann", rows=True)
        with RawClient(served.endpoint) as eve:
            eve.login("eve")
        fill(disk)
        fill_until_rejected(client, 1)
        with (disk / "filler").open("r+b") as filler:
            filler.truncate((disk / "filler").stat().st_size - 200_000)
        query.send(Kind.STATISTICS, 1)
        before = query.receive()[5]["commands"]
        for _ in range(40):
            with RawClient(served.endpoint) as eve:
                assert eve.login("eve", cancel_on_disconnect=True, replace=True)[0] == Kind.WELCOME
                eve.send(Kind.BYE)
                eve.receive(Kind.GOODBYE)
        query.send(Kind.STATISTICS, 2)
        assert query.receive()[5]["commands"] == before


@pytest.mark.long
def test_orders_that_expire_on_a_full_disk_share_reserved_rows(tmp_path: Path) -> None:
    """Orders that expire some milliseconds apart had a command each: a client that had placed them before ended the exchange."""
    with (
        small_disk(tmp_path) as (served, disk),
        RawClient(served.endpoint) as client,
        RawClient(served.endpoint) as eve,
        RawClient(served.endpoint, "queries") as query,
    ):
        client.login("ann", rows=True)
        eve.login("eve")
        began_ns, count = time.time_ns(), 400
        for number in range(count):
            eve.send(
                int(CommandKind.TERM),
                2 * number + 1,
                int(Term.EXPIRE_NS),
                began_ns + 6_000_000_000 + number * 5_000_000,
                0,
            )
            eve.send(1, 2 * number + 2, 0, 0, 1, 100, int(TimeInForce.GTT), int(CommandFlag.TERMS), 0)
        fill(disk)
        fill_until_rejected(client, 1)
        query.send(Kind.STATISTICS, 1)
        before = query.receive()[5]["commands"]
        expired = 0
        while expired < count:
            expired += sum(event[0] == EventKind.CANCELLED for event in eve.receive(Kind.REPORTS)[2])
        query.send(Kind.STATISTICS, 2)
        assert query.receive()[5]["commands"] - before < 20
