"""A failing disk: the exchange acknowledges nothing more and ends with an error, and a restart has everything acknowledged."""

import errno
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from serl.exchange.records import COMMAND, CommandKind
from serl.exchange.wire import Kind
from tests.server_fixture import WAIT_MS, RawClient, launch

NOTICED_NS = 1_000_000_000
"""Time within which even a busy machine notices the failure."""

FAILS_ONCE = """
import os, pathlib, time
folder, works = pathlib.Path({folder!r}), os.{name}
def fails(*arguments):
    if (folder / "fail").exists():
        (folder / "fail").unlink()  # a second call would succeed
        (folder / "failing").write_text(str(time.time_ns()))
        (folder / "failing").rename(folder / "failed")
        raise {error}
    return works(*arguments)
os.{name} = fails
"""


@pytest.mark.parametrize(
    ("name", "error", "reason"),
    [
        ("fdatasync", f"OSError({errno.EIO}, 'Input/output error')", "Input/output error"),
        pytest.param("fdatasync", "MemoryError('no pages')", "MemoryError: no pages", marks=pytest.mark.long),
        pytest.param(
            "ftruncate", f"OSError({errno.EIO}, 'Input/output error')", "Input/output error", marks=pytest.mark.long
        ),
        pytest.param(
            "posix_fallocate",
            f"OSError({errno.EIO}, 'Input/output error')",
            "Input/output error",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_exchange_whose_disk_fails_stops(tmp_path: Path, name: str, error: str, reason: str) -> None:
    config = tmp_path / "exchange.yaml"
    config.write_text("journal: {segment_rows: 8192, flush_s: 0.02}\n")
    options = ("--symbols", "A", "--journal", str(tmp_path / "journal"), "--config", str(config))
    served = launch(*options, prelude=FAILS_ONCE.format(folder=str(tmp_path), name=name, error=error))
    with RawClient(served.endpoint) as raw:
        raw.login("ann", cancel_on_disconnect=True)
        events, goodbye = trade_until_goodbye(raw, tmp_path)
    output, _ = served.process.communicate(timeout=30)
    assert (served.process.returncode, goodbye[1]) == (2, "shutdown")
    assert reason in output and reason in goodbye[2] and "Traceback" not in output, output
    assert "exchange stopped (" not in output, "the exchange stopped without an error"
    again = launch(*options)
    try:
        with RawClient(again.endpoint) as raw:
            welcome = raw.login("ann", last_report=0)
            assert welcome[5] >= events[-1][2], "an acknowledged command is lost"
            repeated: list[Any] = []
            while len(repeated) < len(events):
                repeated += raw.receive(Kind.REPORTS)[2]
            assert repeated[: len(events)] == events
    finally:
        again.stop()


def trade_until_goodbye(raw: RawClient, folder: Path) -> tuple[list[Any], list[Any]]:
    """Sends orders until GOODBYE; the disk fails after the first answers. Returns (events received, GOODBYE)."""
    events: list[Any] = []
    first_id = 1
    while True:
        raw.socket.send(msgpack.packb([Kind.BULK, orders(first_id, 64).tobytes()]))
        first_id += 64
        while True:
            message = raw.receive(Kind.REPORTS, Kind.GOODBYE)
            if message[0] == Kind.GOODBYE:
                assert not raw.socket.poll(200), "a message follows GOODBYE"
                return events, message
            events += message[2]
            if events[-1][2] == first_id - 1:
                break
        if first_id == 65:
            (folder / "fail").touch()
        failed = folder / "failed"
        assert not failed.exists() or events[-1][1] < int(failed.read_text()) + NOTICED_NS, (
            "the exchange acknowledges after the failure"
        )


def test_an_idle_exchange_notices_a_failed_disk(tmp_path: Path) -> None:
    config = tmp_path / "exchange.yaml"
    config.write_text("journal: {flush_s: 0.02}\n")
    prelude = FAILS_ONCE.format(folder=str(tmp_path), name="fdatasync", error=f"OSError({errno.EIO}, 'lost')")
    served = launch("--symbols", "A", "--config", str(config), prelude=prelude)
    (tmp_path / "fail").touch()
    output, _ = served.process.communicate(timeout=WAIT_MS / 1000)
    assert served.process.returncode == 2 and "got lost" in output


def orders(first_id: int, count: int) -> Any:
    """Orders that rest or trade with each other."""
    rows = np.zeros(count, COMMAND)
    rows["command_id"] = first_id + np.arange(count)
    rows["kind"], rows["qty_lots"], rows["time_in_force"] = CommandKind.NEW, 1, 1
    rows["side"] = rows["command_id"] % 2
    rows["price_ticks"] = 1000
    return rows
