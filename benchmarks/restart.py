"""Seconds of a restart: 10 M commands, of which 3 M orders are open, on four symbols.

The commands: 3 M orders that rest, 200,000 prices a side of each symbol, then 7 M of the stream of `kernel`. stopped: after a clean stop, from the snapshot;
killed: after a kill, from the last snapshot and up to a segment of commands after it. Each is the time of `Core` (recovery alone, compiled code loaded), and
of `serl exchange start` until it is ready; cpu: processor seconds, for machines that are shared. journal_mb_per_million_commands: commands and events as written, and compressed; the snapshots come on top.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.deep_stream import SYMBOLS, deep_stream
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.journal.compress import compress_finished
from serl.exchange.records import COMMAND, CommandKind, Rows, TimeInForce

OPEN, COMMANDS, BATCH, SEED = 3_000_000, 10_000_000, 1 << 16, 1
STREAM_RESTING = 100_000
MID, PRICES = 10_000_000, 20_000


def _config(folder: Path) -> Any:
    return load_config(
        None,
        {
            "symbols": [{"name": f"S{index}"} for index in range(SYMBOLS)],
            "journal": {"folder": str(folder)},
            "limits": {"levels_max": 1 << 20},
        },
    )


def _resting(count: int) -> Rows:
    """Orders of participant 1 far from the market of the stream, on both sides."""
    rng = np.random.default_rng(SEED)
    rows = np.zeros(count, COMMAND)
    rows["command_id"], rows["participant"], rows["kind"] = 1 + np.arange(count), 1, CommandKind.NEW
    rows["symbol"], rows["side"] = rng.integers(0, SYMBOLS, count), rng.integers(0, 2, count)
    distance = rng.integers(1, PRICES, count)
    rows["price_ticks"] = np.where(rows["side"] == 0, 1 + distance, MID + distance)
    rows["qty_lots"], rows["time_in_force"] = rng.integers(1, 100, count), TimeInForce.GTC
    return rows


def _submit(core: Core, rows: Rows) -> None:
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH].copy()
        part["time_ns"] = time.time_ns()
        core.submit(part)


def _recover(folder: Path, name: str, figures: dict[str, float]) -> Core:
    began, began_cpu = time.perf_counter(), time.process_time()
    core = Core(_config(folder), folder)
    figures[f"recovery_{name}_s"] = time.perf_counter() - began
    figures[f"recovery_{name}_cpu_s"] = time.process_time() - began_cpu
    return core


def _cpu_s(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _start(folder: Path, name: str, figures: dict[str, float]) -> None:
    """Measures `serl exchange start` until it is ready; it is killed then."""
    from tests.server_fixture import launch

    config = folder.parent / "exchange.yaml"
    config.write_text("limits: {levels_max: 1048576}\n")
    names = ",".join(f"S{index}" for index in range(SYMBOLS))
    began = time.perf_counter()
    served = launch("--symbols", names, "--journal", str(folder), "--config", str(config))
    figures[f"start_{name}_s"] = time.perf_counter() - began
    figures[f"start_{name}_cpu_s"] = _cpu_s(served.process.pid)
    served.kill()
    assert served.process.stdout is not None
    served.process.stdout.close()


def _megabytes(folder: Path) -> float:
    rows = [path for kind in ("commands", "events") for path in folder.glob(f"{kind}-*rows")]
    return sum(path.stat().st_blocks * 512 for path in rows) / 1e6


def run() -> dict[str, float]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as name:
        folder = Path(name) / "journal"
        core = Core(_config(folder), folder)
        core.journal.start_flushing(1.0, core.gateway)  # as the exchange does
        _submit(core, _resting(OPEN))
        for rows in deep_stream(COMMANDS - OPEN - STREAM_RESTING, STREAM_RESTING, 0, SEED):
            _submit(core, rows)
        figures = {"commands": float(core.command_sequence), "orders_open": float(len(core.market.orders()))}
        core.journal.commands.sync()
        core.journal.abandon()  # as a kill leaves it
        del core
        _start(folder, "killed", figures)
        core = _recover(folder, "killed", figures)
        figures["commands_executed_again"] = float(core.recovery.commands)
        core.close()
        del core
        core = _recover(folder, "stopped", figures)
        core.close()
        del core
        _start(folder, "stopped", figures)
        figures["journal_mb_per_million_commands"] = _megabytes(folder) / COMMANDS * 1e6
        compress_finished(folder)
        figures["compressed_mb_per_million_commands"] = _megabytes(folder) / COMMANDS * 1e6
        core = _recover(folder, "compressed", figures)
        core.journal.abandon()
        return figures
