"""Orders a second with `--durability batch` (acknowledged after the fdatasync of their batch) beside `interval`, on the disk of the temporary folder.

The stream, book and clients of `served`: `single`, one message an order, 256 unacknowledged; `bulk`, 1,024 orders a message, 32 messages
unacknowledged. Medians of three turns, the modes in turn, each with a new exchange. fdatasync_p50_ms: of 16 KiB appended to a file that is reserved, alone.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.deep_stream import SYMBOLS
from benchmarks.served import BULK_COUNT, ROUNDS, SINGLE_COUNT, _bulk, _processes, _single

SYNC_BYTES, SYNCS = 16_384, 256


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


def run() -> dict[str, float]:
    """All figures."""
    turns = []
    for _ in range(ROUNDS):
        turn: dict[str, float] = {}
        for durability in ("interval", "batch"):
            with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
                turn |= _turn(Path(folder), durability)
        with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
            turn["fdatasync_p50_ms"] = _sync_ms(Path(folder) / "file")
        turns.append(turn)
    return {key: float(np.median([turn[key] for turn in turns])) for key in turns[0]}
