"""Importing historical data: a generated ITCH file with ten million messages of many stocks into a day file, and the samples of other formats.

The generated file is a day of `serl day generate`, exported as ITCH and repeated for each stock, interleaved message by message. A separate process
imports it, so its peak memory is that of the import. Samples are read if ../shared/data exists; their seconds include everything but compilation.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.compiling import compiled, int64
from serl.history.generate import generate_day
from serl.history.importing import convert_file, import_file
from serl.history.itch.messages import STOCK_AT, offset, read_int, write_int
from serl.history.itch.writer import write_itch

MESSAGES = 10_000_000
RATE = 24.0
"""Commands per second of the day that is repeated."""
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SAMPLES = {
    "bitstamp": "bitstamp/bitstamp_btcusd_2015-05-01_orders.csv.xz",
    "binance": "binance/spot_btcusdt_20240808.gz",
    "databento": "databento/esh4-glbx-mdp3-20231225.mbo.dbn.zst",
}
LOCATE, ORDER, NEW_ORDER = offset("A", "locate"), offset("A", "order"), offset("U", "new_order")
STOCK_ORDERS = 1 << 40
"""Order references between two stocks."""


@compiled
def _repeat(base: Any, start: int, stop: int, stocks: int, named: Any, out: Any) -> int:
    """Repeat each message of base[start:stop] for each stock, with its own locate, name and references. Returns the bytes written."""
    to = 0
    while start < stop:
        size = 2 + read_int(base, start, 2)
        kind = int64(base[start + 2])
        for stock in range(stocks):
            for index in range(size):
                out[to + index] = base[start + index]
            body = to + 2
            write_int(out, body + LOCATE, 2, stock + 1)
            if STOCK_AT[kind]:
                write_int(out, body + STOCK_AT[kind], 2, (65 + stock // 26) * 256 + 65 + stock % 26)
            if named[kind]:
                write_int(out, body + ORDER, 8, read_int(base, start + 2 + ORDER, 8) + stock * STOCK_ORDERS)
            if named[kind] == 2:
                write_int(out, body + NEW_ORDER, 8, read_int(base, start + 2 + NEW_ORDER, 8) + stock * STOCK_ORDERS)
            to += size
        start += size
    return to


def write_many(path: Path, messages: int) -> int:
    """Write an ITCH file of about `messages` messages. Returns the exact number."""
    day = generate_day(1, commands_per_s=RATE)
    write_itch(day, path)
    base = np.fromfile(path, np.uint8)
    starts = [0]
    while starts[-1] < len(base):
        starts.append(starts[-1] + 2 + int.from_bytes(base[starts[-1] : starts[-1] + 2].tobytes(), "big"))
    stocks = -(-messages // (len(starts) - 1))
    named = np.zeros(256, np.int64)
    named[[ord(kind) for kind in "AEXDP"]], named[ord("U")] = 1, 2
    step = 10_000
    with path.open("wb") as file:
        for first in range(0, len(starts) - 1, step):
            start, stop = starts[first], starts[min(first + step, len(starts) - 1)]
            out = np.empty((stop - start) * stocks, np.uint8)
            file.write(out[: _repeat(base, start, stop, stocks, named, out)].data)
    return (len(starts) - 1) * stocks


def import_alone(path: Path, output: Path) -> dict[str, Any]:
    """Import in another process: seconds (wall and CPU), commands, and peak memory in MiB before and after."""
    code = f"from benchmarks.history import import_here; import_here({str(path)!r}, {str(output)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def import_here(path: str, output: str) -> None:
    """The code of `import_alone`: compile everything, import, print the figures as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.itch"
        write_itch(generate_day(2, end_ns=34_260 * 10**9), small)
        convert_file(small, Path(folder) / "small.parquet")
    before = resource.getrusage(resource.RUSAGE_SELF)
    began, worked = time.perf_counter(), time.process_time()
    reference, commands = convert_file(path, output)
    figures = {
        "seconds": time.perf_counter() - began,
        "processor_s": time.process_time() - worked,
        "commands": commands,
        "messages": reference.source_rows,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "memory_before_mib": before.ru_maxrss / 1024,
    }
    print(json.dumps(figures))


def itch(messages: int = MESSAGES) -> dict[str, Any]:
    """The generated file: messages per second of one core."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "many.itch", Path(folder) / "many.parquet"
        count = write_many(path, messages)
        figures = import_alone(path, output)
        assert figures["messages"] == count
        figures["file_mib"] = path.stat().st_size / 2**20
        figures["day_file_mib"] = output.stat().st_size / 2**20
    figures["messages_per_processor_s"] = count / figures["processor_s"]
    return figures


def samples(folder: Path = DATA) -> dict[str, Any]:
    """Seconds to import each sample, with everything compiled."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, file in SAMPLES.items():
            if not (folder / file).exists():
                figures[f"{name}_skipped"] = f"no {file} in ../shared/data"
                continue
            output = Path(place) / "a.parquet"
            import_file(folder / file, output)
            began = time.perf_counter()
            figures[f"{name}_commands"] = import_file(folder / file, output)[1].commands
            figures[f"{name}_s"] = time.perf_counter() - began
    return figures


def run() -> dict[str, Any]:
    """All figures of history."""
    return {"itch_generated": itch()} | samples()
