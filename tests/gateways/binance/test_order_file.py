"""Compaction of the file of orders: what it drops, and that a kill at any point of it forgets nothing."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serl.gateways.binance.order_file import OrderFile, OrderRecord

RECORD = OrderRecord(0, "DEMOUSDT", 0, 9950, 10, "mine", "LIMIT", "GTC", 9950)


def record(order_id: int, client_id: str = "mine") -> OrderRecord:
    return RECORD._replace(order_id=order_id, client_id=client_id)


def records(folder: Path) -> dict[int, OrderRecord]:
    """What a gateway that starts now finds."""
    file = OrderFile(folder, "alice")
    file.close()
    return file.records


def test_a_large_file_loses_what_nobody_needs(tmp_path: Path) -> None:
    file = OrderFile(tmp_path, "alice", 1 << 20)
    with file.path.open("ab") as other:
        other.write(b"what is cut o")
    file.reload()
    for order_id in range(1, 40):
        file.append(record(order_id))
    for order_id in (1, 2, 3):
        file.forget(order_id)  # done, and still returned
    for order_id in range(4, 30):
        file.drop(order_id)
    file.append(record(10, "again"))  # another exchange counts from 1
    lines = file.path.read_text().count("\n")
    file.compact()
    assert file.path.read_text().count("\n") == lines, "small files stay as they are"
    file._limit = 0
    file.compact()
    kept = {1, 2, 3, 10, *range(30, 40)}
    assert file.path.read_text().count("\n") == len(kept) and file.path.stat().st_mode & 0o077 == 0
    file.append(record(41))
    assert not file.records.keys() & {1, 2, 3}
    file.reload()  # for another journal
    assert file.records.keys() == kept | {41}
    file.close()
    found = records(tmp_path)
    assert found.keys() == kept | {41} and found[10].client_id == "again"


def test_a_file_that_keeps_growing_is_bounded(tmp_path: Path) -> None:
    file = OrderFile(tmp_path, "alice", 4096)
    for order_id in range(1, 2000):
        file.append(record(order_id))
        if order_id > 10:
            file.drop(order_id - 10)
        assert file.path.stat().st_size <= 4096 + 200
    file.close()
    assert records(tmp_path).keys() >= set(range(1990, 2000))


def test_two_gateways_lose_nothing_of_each_other(tmp_path: Path) -> None:
    old, new = OrderFile(tmp_path, "alice"), OrderFile(tmp_path, "alice")
    old.append(record(1))
    new.append(record(2))
    new.drop(2)
    new._limit = 0
    new.compact()
    old.append(record(3))  # into the file that has replaced the one it had opened
    new.append(record(4))
    for file in (old, new):
        file.close()
    assert records(tmp_path).keys() == {1, 3, 4}


def test_a_full_disk_leaves_the_file_and_orders_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OrderFile(tmp_path, "alice")
    file.append(record(1))
    file.drop(1)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    file._limit = 0
    monkeypatch.setattr(os, "fsync", full)
    file.append(record(2))
    monkeypatch.undo()
    file.append(record(3))
    file.close()
    assert records(tmp_path).keys() == {1, 2, 3} and len(list(tmp_path.iterdir())) == 1


def test_a_line_that_a_full_disk_cuts_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = OrderFile(tmp_path, "alice"), os.write
    file.append(record(1))
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
    with pytest.raises(OSError, match=r"expected to write .* bytes, wrote 20; make room on the disk"):
        file.append(record(2))
    monkeypatch.undo()
    assert file.records.keys() == {1}
    file.append(record(3))
    file.close()
    assert records(tmp_path).keys() == {1, 3}


def killed_at(step: int, run: Callable[[], None]) -> bool:
    """Runs a function in a child that SIGKILL ends at its `step`th call of a function of C; whether it was killed."""
    child = os.fork()
    if not child:
        left = step

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal left
            left -= event == "c_call"
            if left < 0:
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        run()
        sys.setprofile(None)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.long)])
def test_a_kill_at_any_point_of_a_compaction_forgets_nothing(tmp_path: Path, stride: int) -> None:
    needed = {order_id: record(order_id) for order_id in (1, 3, 5)}
    step, killed, names = 0, True, set()
    while killed:
        folder = tmp_path / str(step)
        file = OrderFile(folder, "alice")
        for order_id in range(1, 6):
            file.append(record(order_id))
        for order_id in (2, 4):
            file.drop(order_id)
        file._limit = 0
        killed = killed_at(step, file.compact)
        file.close()
        names |= {len(list(folder.iterdir()))}
        found = records(folder)
        assert found.items() >= needed.items(), step
        assert [path.suffix for path in folder.iterdir()] == [".jsonl"], "nothing is left over"
        step += stride
    assert found == needed and names == {1, 2} and step > 50, "killed before, while and after the new file was there"
