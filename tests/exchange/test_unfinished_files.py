"""What a killed exchange had not finished does not stay in its journal for ever."""

from pathlib import Path

from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, launch, start_exchange

DIES = """
import os
from serl.exchange.journal import snapshots
real = snapshots._write_arrays
def dies(file, arrays):
    real(file, arrays)
    file.flush()
    os._exit(9)
snapshots._write_arrays = dies
"""


def test_a_start_deletes_unfinished_files(tmp_path: Path) -> None:
    """Each kill during a snapshot left a file as large as the snapshot, which counted for `retention.size`, so that finished files went instead."""
    folder = tmp_path / "journal"
    for _ in range(2):
        served = launch("--symbols", "A", "--journal", str(folder), prelude=DIES)
        with RawClient(served.endpoint) as client, RawClient(served.endpoint, "admin") as admin:
            last = client.login("ann")[5]
            client.send(1, last + 1, 0, 0, 1, 100, 1, 0, 0)
            client.receive(Kind.REPORTS)
            admin.send(Kind.SNAPSHOT, 1, served.operator)
            assert served.process.wait(20) == 9
        assert served.process.stdout is not None
        served.process.stdout.close()
    assert list(folder.glob(".*")), "expected an unfinished snapshot"
    (folder / "commands-000000000900.new").write_bytes(b"of a rotation")
    with start_exchange(symbols="A", journal=folder) as served, RawClient(served.endpoint) as client:
        assert client.login("ann")[5] == 2
    assert not [*folder.glob(".*"), *folder.glob("*.new")]
