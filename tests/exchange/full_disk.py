"""An exchange whose journal is on a small disk of its own, which a test can fill."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.records import COMMAND, EVENT, CommandKind, Rows
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient

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
NEEDS_MOUNTS = pytest.mark.skipif(not CAN_MOUNT, reason="needs a user namespace, in which it mounts a small disk")


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
    """Copies the journal of a running exchange: again if it deletes a file meanwhile, like one that it has compressed."""
    while True:
        try:
            shutil.copytree(journal, to, ignore=shutil.ignore_patterns("*.tmp.*"), dirs_exist_ok=True)
            return
        except shutil.Error:
            shutil.rmtree(to)
