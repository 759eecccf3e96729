"""Compressed files of the journal: as small as what their rows add, and readable in every layout."""

import json
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import pytest

from benchmarks.stream import make
from serl.exchange import zstd
from serl.exchange.config import JournalConfig, load_config
from serl.exchange.core import Core
from serl.exchange.errors import JournalError
from serl.exchange.journal import stored
from serl.exchange.journal.compress import compress_finished
from serl.exchange.journal.inspect import verify
from serl.exchange.journal.packing import pack, unpack
from serl.exchange.journal.repair import repair
from serl.exchange.journal.segment import HEADER_BYTES, header_bytes
from serl.exchange.journal.stored import CHUNK_ROWS, CompressedRows, stored_paths, stored_rows
from serl.exchange.kernel.dump import list_orders, restore_orders
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT, ORDER, CommandKind, Rows
from serl.exchange.row_checksum import row_checksums
from tests.exchange.generate import PROFILES, Generator
from tests.exchange.test_damage import flip, submit
from tests.history.accounts_sample import random_market

COUNT = 40_000


def start(folder: Path) -> Core:
    overrides: dict[str, Any] = {"symbols": [{"name": "A"}], "journal": {"folder": str(folder), "segment_rows": 16_384}}
    return Core(load_config(None, overrides), folder)


def all_rows(folder: Path, kind: str, dtype: np.dtype[Any]) -> Rows:
    return np.concatenate([stored_rows(path, dtype)[:] for path in stored_paths(folder, kind)])


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Commands of the kernel benchmark, of an exchange that was stopped."""
    folder = tmp_path_factory.mktemp("journal")
    core = start(folder)
    _, stream = make(COUNT, 0, 1)
    for start_row in range(0, COUNT, 256):
        part = stream[start_row : start_row + 256].copy()
        part["time_ns"] = 10**18 + start_row * 1000
        core.submit(part)
    core.close()
    return folder


def size_of(folder: Path, kind: str) -> float:
    """Bytes a row of the compressed files."""
    paths = list(folder.glob(f"{kind}-*.zrows"))
    rows = sum(len(CompressedRows(path, {"commands": COMMAND, "events": EVENT}[kind])) for path in paths)
    return sum(path.stat().st_size - HEADER_BYTES for path in paths) / rows


def test_a_command_takes_four_bytes_and_an_event_five(journal: Path, tmp_path: Path) -> None:
    """A tenth of what each field adds by itself, in a stream with random prices, sizes, sides and orders to cancel."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    before = {
        kind: all_rows(folder, kind, dtype).tobytes() for kind, dtype in (("commands", COMMAND), ("events", EVENT))
    }
    compress_finished(folder)
    assert size_of(folder, "commands") < 4.2 and size_of(folder, "events") < 5.2
    assert all_rows(folder, "commands", COMMAND).tobytes() == before["commands"]
    assert all_rows(folder, "events", EVENT).tobytes() == before["events"]


@pytest.mark.parametrize("profile", ["terms", "crowded", "edges"])
def test_rows_of_every_kind_are_the_same_again(profile: str) -> None:
    generator = Generator(5, PROFILES[profile])
    market = random_market(profile)
    commands, events = [], []
    for _ in range(20):
        commands.append(generator.commands(100))
        events.append(market.submit(commands[-1]))
        generator.observe(events[-1])
    for rows in (np.concatenate(commands), np.concatenate(events)):
        if rows.dtype == COMMAND:
            rows["check"] = row_checksums(rows, 7)
        for part in (rows, rows[:1], rows[:0], rows[100:107]):
            assert unpack(pack(part), rows.dtype, len(part), 7).tobytes() == part.tobytes()


def test_rows_that_cannot_be_packed_are_stored_by_column(tmp_path: Path) -> None:
    """As any client could send some: the age of an order that is named by the largest number is beyond 64 bits."""
    core = start(tmp_path)
    submit(core, 10_000)
    rows = np.zeros(6, COMMAND)
    rows["kind"], rows["command_id"] = CommandKind.CANCEL, 10_001 + np.arange(6)
    rows["order_id"] = [-(2**63), 2**63 - 1, -(2**63) + 10_002, -1, 2**62, 0]
    core.submit(rows)
    submit(core, COUNT)
    core.close()
    before = all_rows(tmp_path, "commands", COMMAND).tobytes()
    compress_finished(tmp_path)
    assert list(tmp_path.glob("commands-*.zrows")) and all_rows(tmp_path, "commands", COMMAND).tobytes() == before


def test_files_of_the_first_format_are_read(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    before = {}
    for kind, dtype in (("commands", COMMAND), ("events", EVENT)):
        before[kind] = all_rows(folder, kind, dtype)
        for path in stored_paths(folder, kind)[:-1]:
            rows, at, ends = stored_rows(path, dtype)[:], HEADER_BYTES, []
            more = {"rows": len(rows), "crc32": zlib.crc32(np.ascontiguousarray(rows).view(np.uint8).data)}
            header = json.loads(path.read_bytes()[:HEADER_BYTES].rstrip(b"\0"))
            with path.with_suffix(".zrows").open("wb") as file:
                file.write(header_bytes(dtype, header["first_sequence"], header["capacity"], header["journal"], **more))
                for start_row in range(0, len(rows), CHUNK_ROWS):
                    at += file.write(zstd.compress(stored._pack_columns(rows[start_row : start_row + CHUNK_ROWS]), 1))
                    ends.append(at)
                file.write(np.array(ends, np.int64).tobytes())
            path.unlink()
    assert list(folder.glob("commands-*.zrows")) and list(folder.glob("events-*.zrows"))
    for kind, dtype in (("commands", COMMAND), ("events", EVENT)):
        assert all_rows(folder, kind, dtype).tobytes() == before[kind].tobytes()
    assert not [finding for finding in verify(folder) if finding.damage]
    for path in folder.glob("snapshot-*"):
        path.unlink()
    core = start(folder)
    assert core.recovery.commands == COUNT
    core.journal.abandon()


def test_a_damaged_part_of_a_compressed_file_costs_only_its_commands(journal: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(journal, tmp_path / "journal")
    compress_finished(folder)
    path = stored_paths(folder, "commands")[0]
    assert path.suffix == ".zrows"
    ends = np.frombuffer(path.read_bytes()[-8 * -(-len(CompressedRows(path, COMMAND)) // CHUNK_ROWS) :], np.int64)
    flip(path, int(ends[1]) + 1000)  # the third chunk
    with pytest.raises(JournalError, match="cannot be decompressed"):
        CompressedRows(path, COMMAND)[:]
    snapshots = sorted(folder.glob("snapshot-*"))
    for snapshot in snapshots:
        snapshot.unlink()
    with pytest.raises(JournalError, match="cannot be decompressed"):
        start(folder)
    assert repair(folder, tmp_path / "repaired").saved_last == 2 * CHUNK_ROWS


@pytest.mark.parametrize(
    ("kind", "dtype", "column"),
    [
        ("commands", COMMAND, "sequence"),
        ("commands", COMMAND, "qty_lots"),
        ("events", EVENT, "sequence"),
        ("events", EVENT, "qty_lots"),
    ],
)
def test_a_damaged_file_is_not_compressed(
    kind: str, dtype: "np.dtype[np.void]", column: LiteralString, journal: Path, tmp_path: Path
) -> None:
    """Its rows after the damage went with the original, and what was left passed its check."""
    folder = shutil.copytree(journal, tmp_path / "journal")
    path = stored_paths(folder, kind)[0]
    assert dtype.fields is not None
    flip(path, HEADER_BYTES + 100 * dtype.itemsize + dtype.fields[column][1])
    content = path.read_bytes()
    with pytest.raises(JournalError, match=f"{path.name}: .*: it stays uncompressed"):
        compress_finished(folder)
    assert path.read_bytes() == content and not path.with_suffix(".zrows").exists()
    others = [
        other.suffix for each in ("commands", "events") for other in stored_paths(folder, each)[:1] if other != path
    ]
    assert others == [".zrows"], "all others are compressed"


def test_events_that_a_kill_left_open_are_compressed(tmp_path: Path) -> None:
    core = start(tmp_path)
    submit(core, 50_000)
    core.journal.abandon()  # as a kill leaves it: the event files are not cut to their rows
    core = start(tmp_path)
    before = all_rows(tmp_path, "events", EVENT)
    core.close()
    compress_finished(tmp_path)
    assert list(tmp_path.glob("events-*.zrows"))
    assert all_rows(tmp_path, "events", EVENT)[: len(before)].tobytes() == before.tobytes()


def test_finished_files_are_compressed_by_default() -> None:
    assert JournalConfig().compress


def far_orders(count: int) -> Market:
    """A market with one order at each of `count` prices, most of them far from the touch; the worst came first."""
    market = Market(1, limits=MarketLimits(levels_max=1 << 17))
    rows = np.zeros(count, COMMAND)
    rows["command_id"], rows["kind"] = 1 + np.arange(count), CommandKind.NEW
    rows["qty_lots"], rows["time_in_force"], rows["price_ticks"] = 1, 1, 1 + np.arange(count)
    market.submit(rows)
    return market


def least_cpu_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def test_levels_far_from_the_market_are_restored_without_moving_each_other() -> None:
    market = far_orders(50_000)
    snapshot = market.snapshot()
    again = Market.restore(snapshot, 1, limits=market.limits)
    again.validate()
    assert again.state_hash() == market.state_hash()
    restored = least_cpu_s(lambda: Market.restore(snapshot, 1, limits=market.limits))
    assert restored < 4 * least_cpu_s(lambda: far_orders(50_000)), "where each level moves the others: 20 times"


def test_a_restore_stops_at_the_level_for_which_there_are_no_slots() -> None:
    """The caller grows the market and goes on, or begins again."""
    market = Market(1, limits=MarketLimits(participants_max=2))
    slots = len(market.state.orders)
    rows = np.zeros(slots + 6, ORDER)
    rows["order_id"] = rows["order_number"] = np.arange(1, len(rows) + 1)
    rows["price_ticks"], rows["open_lots"] = 1000 - np.arange(len(rows)) // 8, 1
    done = restore_orders(market.state, rows, 0)
    assert slots - 8 < done <= slots, "whole levels only, the worst first"
    out = np.zeros(slots, ORDER)
    assert list_orders(market.state, -1, out) == done
    assert out[:done]["order_id"].tolist() == rows[len(rows) - done :]["order_id"].tolist()
