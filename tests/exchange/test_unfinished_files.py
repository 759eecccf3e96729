"""What a killed exchange had not finished does not stay in its journal for ever."""

from pathlib import Path

import pytest

from serl.exchange.journal.compress import compress_finished
from serl.exchange.wire import Kind
from tests.exchange.test_damage import start, submit
from tests.server_fixture import RawClient, launch, start_exchange

DIES_WRITING = """
import os
from serl.exchange.journal import snapshots
real = snapshots._write_arrays
def dies(file, arrays):
    real(file, arrays)
    file.flush()
    os._exit(9)
snapshots._write_arrays = dies
"""
DIES_BEFORE_ITS_CHECK = """
import os
from serl.exchange.journal import snapshots
snapshots._digest = lambda path: os._exit(9)
"""


@pytest.mark.parametrize(("prelude", "left"), [(DIES_WRITING, ".*"), (DIES_BEFORE_ITS_CHECK, "snapshot-*.tmp")])
def test_a_start_deletes_unfinished_files(prelude: str, left: str, tmp_path: Path) -> None:
    """Each kill during a snapshot left a file as large as the snapshot, which counted for `retention.size`, so that finished files went instead."""
    folder = tmp_path / "journal"
    for _ in range(2):
        served = launch("--symbols", "A", "--journal", str(folder), prelude=prelude)
        with RawClient(served.endpoint) as client, RawClient(served.endpoint, "admin") as admin:
            last = client.login("ann")[5]
            client.send(1, last + 1, 0, 0, 1, 100, 1, 0, 0)
            client.receive(Kind.REPORTS)
            admin.send(Kind.SNAPSHOT, 1, served.operator)
            assert served.process.wait(20) == 9
        assert served.process.stdout is not None
        served.process.stdout.close()
    assert list(folder.glob(left)), "expected an unfinished snapshot"
    for name in (
        "commands-000000000900.new",
        ".events-000000000001.answers.npy.k3_x9a2b",
        ".commands-000000000001.rows.abc_defg",
    ):
        (folder / name).write_bytes(b"of a rotation, an index, and a file that was decompressed")
    with start_exchange(symbols="A", journal=folder) as served, RawClient(served.endpoint) as client:
        assert client.login("ann")[5] == 2
    assert not [*folder.glob(".*"), *folder.glob("*.new"), *folder.glob("*.tmp")]


def test_compressing_deletes_what_a_killed_process_left(tmp_path: Path) -> None:
    core = start(tmp_path)
    submit(core, 10)
    core.close()
    left = tmp_path / ".events-000000000001.zrows.k3_x9a2b"
    left.write_bytes(b"half a file")
    compress_finished(tmp_path)
    assert not left.exists()
