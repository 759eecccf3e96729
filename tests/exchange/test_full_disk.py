"""A full disk: new orders are rejected with a reason, cancellations go on, and orders are taken again once there is room."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.records import COMMAND, EVENT, CommandKind, Rows
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, Served, launch

MIB = 1 << 20
SMALL_DISK = """
import ctypes, os, pathlib
libc, folder, own = ctypes.CDLL(None, use_errno=True), {folder!r}, (os.getuid(), os.getgid())
assert libc.unshare({flags}) == 0, ctypes.get_errno()
pathlib.Path("/proc/self/setgroups").write_text("deny")
for name, number in zip(("uid_map", "gid_map"), own):
    pathlib.Path("/proc/self", name).write_text(f"0 {{number}} 1")
assert libc.mount(b"none", folder.encode(), b"tmpfs", 0, b"size={mib}m,mode=0777") == 0, ctypes.get_errno()
"""
NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000
CAN_MOUNT = (
    subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    if shutil.which("unshare")
    else False
)
pytestmark = pytest.mark.skipif(not CAN_MOUNT, reason="needs a user namespace, in which it mounts a small disk")


@pytest.fixture(params=["batch", pytest.param("interval", marks=pytest.mark.long)])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    """An exchange whose journal is on a disk of 12 MiB, and the folder as the test sees it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    config = tmp_path / "exchange.yaml"
    config.write_text("journal: {segment_rows: 8192, flush_s: 0.05}\nintervals: {heartbeat_s: 0.2}\n")
    prelude = SMALL_DISK.format(folder=str(folder), flags=NEW_USER | NEW_MOUNTS, mib=12)
    options = ("--symbols", "A", "--journal", str(folder / "journal"), "--config", str(config))
    served = launch(*options, "--durability", request.param, prelude=prelude)
    yield served, Path(f"/proc/{served.process.pid}/root{folder}")
    if served.process.poll() is None:
        served.stop()


def fill(disk: Path) -> None:
    """Fills the disk to the last byte."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (MIB, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def orders(first_id: int, count: int) -> Rows:
    """Orders that rest."""
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = first_id + np.arange(count)
    rows["kind"], rows["qty_lots"], rows["time_in_force"], rows["price_ticks"] = CommandKind.NEW, 1, 1, 1000
    return rows


def send(client: RawClient, rows: Rows) -> tuple[int, list[Any]]:
    """Sends a bulk message: (last command acknowledged, the ERROR or [])."""
    client.socket.send(msgpack.packb([Kind.BULK, rows.tobytes()]))
    last = 0
    while last < rows[-1]["command_id"]:
        message = client.receive(Kind.REPORT_ROWS, Kind.ERROR, Kind.GOODBYE)
        if message[0] != Kind.REPORT_ROWS:
            return last, message
        last = int(np.frombuffer(message[2], EVENT)["command_id"].max())
    return last, []


def fill_until_rejected(client: RawClient, first_id: int) -> int:
    """Sends orders until the exchange rejects them for its full disk. Returns the last command acknowledged."""
    last = first_id - 1
    while True:
        answered, error = send(client, orders(last + 1, 512))
        last = max(last, answered)
        if error:
            assert error[:2] == [Kind.ERROR, "disk_full"], error
            return last


def copy_journal(journal: Path, to: Path) -> None:
    """Copies the journal of a running exchange; snapshots that are being written may be gone before they are copied."""
    shutil.copytree(journal, to, ignore=shutil.ignore_patterns("*.tmp.*"))


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
