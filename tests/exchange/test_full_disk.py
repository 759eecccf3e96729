"""A full disk: new orders are rejected with a reason, cancellations go on, and orders are taken again once there is room."""

import time
from pathlib import Path

import pytest

from serl.exchange.records import CommandKind
from serl.exchange.wire import Kind
from tests.exchange.full_disk import NEEDS_MOUNTS, copy_journal, fill, fill_until_rejected, orders, send
from tests.server_fixture import RawClient, Served, launch

pytestmark = NEEDS_MOUNTS


def test_a_full_disk_rejects_and_resumes(small: tuple[Served, Path], tmp_path: Path) -> None:
    served, disk = small
    with RawClient(served.endpoint) as client, RawClient(served.endpoint, "queries") as query:
        client.login("ann", rows=True)
        assert send(client, orders(1, 512)) == (512, [])
        fill(disk)
        last = fill_until_rejected(client, 513)
        client.send(int(CommandKind.CANCEL), last + 1, 1, 0)
        message = client.receive(Kind.REPORT_ROWS, Kind.ERROR)
        assert message[0] == Kind.REPORT_ROWS, f"a cancellation is rejected: {message}"
        last += 1
        (disk / "filler").unlink()
        answered, error = send(client, orders(last + 1, 512))
        while error:  # rejected until the exchange has noticed the room; who goes on too fast meanwhile is disconnected
            assert error[:2] == [Kind.ERROR, "disk_full"], error
            time.sleep(0.01)
            answered, error = send(client, orders(last + 1, 512))
        last = answered
        for _ in range(20):
            last, error = send(client, orders(last + 1, 512))
            assert not error, error
        query.send(Kind.HASH, 1)
        sequence, digest = query.receive()[5]
        copy_journal(disk / "journal", tmp_path / "copy")
    served.kill()
    assert served.process.stdout is not None
    output = served.process.stdout.read()
    served.process.stdout.close()
    assert "the disk is full" in output and "has room again" in output
    again = launch("--symbols", "A", "--journal", str(tmp_path / "copy"))
    try:
        with RawClient(again.endpoint, "queries") as query:
            query.send(Kind.HASH, 1)
            assert query.receive()[5] == [sequence, digest], "an acknowledged command is lost"
    finally:
        again.stop()


def test_a_stop_with_a_full_disk_loses_nothing(small: tuple[Served, Path], tmp_path: Path) -> None:
    served, disk = small
    with RawClient(served.endpoint) as client:
        client.login("ann", rows=True)
        fill(disk)
        last = fill_until_rejected(client, 1)
        with RawClient(served.endpoint) as other:
            assert other.login("bob")[:2] == [Kind.ERROR, "disk_full"]
        copy_journal(disk / "journal", tmp_path / "copy")
        assert "Traceback" not in served.stop() and served.process.returncode == 0
    again = launch("--symbols", "A", "--journal", str(tmp_path / "copy"))
    try:
        with RawClient(again.endpoint) as client:
            assert client.login("ann", rows=True)[5] == last
    finally:
        again.stop()


@pytest.mark.long
def test_a_login_that_a_full_disk_rejected_is_saved_by_the_next(small: tuple[Served, Path]) -> None:
    served, disk = small
    with RawClient(served.endpoint) as client:
        client.login("ann")
        fill(disk)
        with RawClient(served.endpoint) as again:
            assert again.login("ann", replace=True, cancel_on_disconnect=True)[:2] == [Kind.ERROR, "disk_full"]
            (disk / "filler").unlink()
            assert again.login("ann", replace=True, cancel_on_disconnect=True)[0] == Kind.WELCOME
    assert '"cancel_on_disconnect": true' in (disk / "journal" / "participants.json").read_text()
