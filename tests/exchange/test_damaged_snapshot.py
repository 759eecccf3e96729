"""A damaged snapshot, which a start skips, neither ends the exchange at its next snapshot nor displaces the one before it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from serl.exchange.config import RetentionConfig
from serl.exchange.journal.retention import clean
from serl.exchange.journal.snapshots import snapshot_paths
from serl.exchange.wire import Kind
from tests.exchange.test_damage import start, submit
from tests.server_fixture import RawClient, Served, start_exchange


def trade(served: Served, count: int) -> None:
    """Sends orders, and returns once they are acknowledged."""
    with RawClient(served.endpoint) as client:
        last = client.login("ann", replace=True)[5]
        for command_id in range(last + 1, last + 1 + count):
            client.send(1, command_id, 0, 0, 1, 100, 1, 0, 0)
        while last < command_id:
            last = client.receive(Kind.REPORTS)[2][-1][2]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xff" * 16 + data[16:]]
)
@pytest.mark.parametrize("journal", [{}, {"retention": {"size": "1kB"}}], ids=["all kept", "retention"])
def test_the_snapshot_after_a_damaged_one(
    tmp_path: Path, damage: Callable[[bytes], bytes], journal: dict[str, object]
) -> None:
    """The exchange ended with "expected the journal to reach the disk, got BadZipFile", and had deleted the only snapshot that was whole."""
    folder = tmp_path / "journal"
    config: dict[str, object] = {"symbols": [{"name": "A"}], "journal": journal}
    for _ in range(2):
        with start_exchange(symbols="", journal=folder, config=config, folder=tmp_path) as served:
            trade(served, 10)
    whole, damaged = sorted(folder.glob("snapshot-*.npz"))
    damaged.write_bytes(damage(damaged.read_bytes()))
    with start_exchange(symbols="", journal=folder, config=config, folder=tmp_path) as served:
        trade(served, 3)
        with RawClient(served.endpoint, "admin") as admin:
            admin.send(Kind.SNAPSHOT, 1, served.operator)
            assert admin.receive()[5] >= 23
        while len(list(folder.glob("snapshot-*.sha256"))) < 3 and served.process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.5)  # what follows a snapshot has been done
        trade(served, 1)
        assert whole.exists(), "only the damaged snapshot is left beside the newest"
        assert "Traceback" not in served.stop() and served.process.returncode == 0


def test_no_file_goes_while_there_is_only_one_snapshot(tmp_path: Path) -> None:
    """If that is damaged too, a restart executes all commands again."""
    core = start(tmp_path)
    submit(core, 20_000)
    core.close()
    older, newer = snapshot_paths(tmp_path)
    older.write_bytes(b"damaged")
    clean(tmp_path, RetentionConfig(size="0 MB"))
    newer.write_bytes(b"damaged as well")
    core = start(tmp_path)
    assert (core.recovery.snapshot_sequence, core.command_sequence) == (0, 20_000)
    core.close()
