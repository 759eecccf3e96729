"""Orders a second with `--durability batch` (acknowledged after the fdatasync of their batch) beside `interval`, on the disk of the temporary folder.

- Stream, book and clients are those of `served`: `single`, one message an order, 256 unacknowledged; `bulk`, 1,024 orders a message, 32 messages
  unacknowledged. Medians of three turns, the modes in turn, each with a new exchange.
- fdatasync_p50_ms: the sync of 16 KiB appended to a file whose space is reserved, measured alone.
- Size: a million commands of the stream of `kernel`, their events and nothing else, as written and after `serl journal compress`.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.deep_stream import SYMBOLS
from benchmarks.kernel import BATCH, MESSAGES
from benchmarks.served import BULK_COUNT, ROUNDS, SEED, SINGLE_COUNT, _bulk, _processes, _single
from benchmarks.stream import make
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.journal.stored import compress, stored_paths
from serl.exchange.records import COMMAND, EVENT

SYNC_BYTES, SYNCS = 16_384, 256
SIZE_SEGMENT_ROWS = 262_144


def _sync_ms(path: Path) -> float:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, SYNC_BYTES * SYNCS)
    os.fsync(file)
    times = []
    for index in range(SYNCS):
        os.pwrite(file, os.urandom(SYNC_BYTES), index * SYNC_BYTES)
        began = time.perf_counter()
        os.fdatasync(file)
        times.append(time.perf_counter() - began)
    os.close(file)
    return float(np.median(times)) * 1e3


def _turn(folder: Path, durability: str) -> dict[str, float]:
    from tests.server_fixture import start_exchange

    symbols = ",".join(f"S{index}" for index in range(2 * SYMBOLS))
    settings: dict[str, object] = {"journal": {"durability": durability}}
    with start_exchange(symbols=symbols, journal=folder / "journal", config=settings, folder=folder) as exchange:
        single = SINGLE_COUNT / _processes(_single, [(exchange.endpoint, 0)])
        bulk = BULK_COUNT / _processes(_bulk, [(exchange.endpoint, SYMBOLS)])
    return {f"single_{durability}_orders_per_s": single, f"bulk_{durability}_orders_per_s": bulk}


def _bytes(folder: Path, kind: str) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.glob(f"{kind}-*rows"))


def size(folder: Path) -> dict[str, float]:
    """Bytes on the disk of a command and an event."""
    settings = {"symbols": [{"name": "A"}], "journal": {"folder": str(folder), "segment_rows": SIZE_SEGMENT_ROWS}}
    core = Core(load_config(None, settings), folder)
    build, stream = make(MESSAGES, 1_000, SEED)
    for rows in (build, stream):
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH].copy()
            part["time_ns"] = time.time_ns()
            core.submit(part)
    counts = {"commands": core.command_sequence, "events": core.event_sequence}
    figures = {
        "mb_per_million_commands_being_written": sum(_bytes(folder, kind) for kind in counts) / counts["commands"]
    }
    core.close()
    began = {"written": time.process_time(), "compressed": 0.0}
    for name in began:
        sizes = {kind: _bytes(folder, kind) for kind in counts}
        figures |= {f"bytes_per_{kind[:-1]}_{name}": sizes[kind] / counts[kind] for kind in counts}
        figures[f"mb_per_million_commands_{name}"] = sum(sizes.values()) / counts["commands"]
        for kind, dtype in (("commands", COMMAND), ("events", EVENT)) if name == "written" else ():
            for path in stored_paths(folder, kind):
                compress(path, dtype, core.journal.id, int(core.journal.meta["salt"]))
    figures["compress_cpu_s_per_million_commands"] = (time.process_time() - began["written"]) / counts["commands"] * 1e6
    return figures


def run() -> dict[str, float]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
        sizes = size(Path(folder) / "journal")
    turns = []
    for _ in range(ROUNDS):
        turn: dict[str, float] = {}
        for durability in ("interval", "batch"):
            with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
                turn |= _turn(Path(folder), durability)
        with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
            turn["fdatasync_p50_ms"] = _sync_ms(Path(folder) / "file")
        turns.append(turn)
    return {key: float(np.median([turn[key] for turn in turns])) for key in turns[0]} | sizes
