"""Seconds from nothing to an exchange that takes orders, with nothing compiled before (empty cache) and with everything (warm cache).

- compile: `serl exchange compile` from its start to its end; processor_s: processor time of all its processes together.
- start: from `serl exchange start` until a plain limit order is acknowledged, and until a hidden order is, the first that needs the full rule book.

Loading Python and its packages is included. With an empty cache each is measured once; with a warm cache figures are medians of five.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgpack
import numpy as np

from benchmarks import client
from serl.exchange.records import CommandFlag, CommandKind, EventKind, Side, TimeInForce

ROUNDS = 5
SILENCE_S = 600
"""The exchange does not hear the client while it waits for the full rule book."""


def _cpu_s() -> float:
    """Of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compile(cache: Path) -> dict[str, float]:
    """Seconds of `serl exchange compile` with this folder as its cache."""
    began, used = time.perf_counter(), _cpu_s()
    subprocess.run(
        [sys.executable, "-m", "serl", "exchange", "compile"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, check=True, capture_output=True,
    )  # fmt: skip
    return {"s": time.perf_counter() - began, "processor_s": _cpu_s() - used}


def _start(cache: Path) -> dict[str, float]:
    """Seconds from the start of an exchange with this folder as its cache until it has acknowledged each kind of order."""
    from tests.server_fixture import start_exchange

    began, found = time.perf_counter(), dict[str, float]()
    config: dict[str, object] = {"intervals": {"silence_s": SILENCE_S}}
    with start_exchange(
        symbols="A", config=config, folder=cache.parent, environment={"NUMBA_CACHE_DIR": str(cache)}
    ) as exchange:
        socket = client.login(exchange.endpoint, "first")
        for number, (name, flag) in enumerate({"": 0, "hidden_order_": int(CommandFlag.HIDDEN)}.items(), 1):
            socket.send(msgpack.packb([CommandKind.NEW, number, 0, Side.BUY, 1, 100, TimeInForce.GTC, flag, 0]))
            reports = client.answer(socket)[2]
            assert reports[0][0] == EventKind.ACCEPTED, reports
            found[f"{name}s"] = time.perf_counter() - began
    return found


def _medians(measure: Callable[[Path], dict[str, float]], cache: Path) -> dict[str, float]:
    rounds = [measure(cache) for _ in range(ROUNDS)]
    return {key: float(np.median([each[key] for each in rounds])) for key in rounds[0]}


def run() -> dict[str, float]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
        empty, filled = Path(folder) / "start", Path(folder) / "compile"
        found = {
            "compile_empty_cache": _compile(filled), "start_empty_cache": _start(empty),
            "compile_warm_cache": _medians(_compile, filled), "start_warm_cache": _medians(_start, filled),
        }  # fmt: skip
        mib = sum(path.stat().st_size for path in filled.rglob("*") if path.is_file()) / 2**20
    figures = {f"{name}_{key}": value for name, values in found.items() for key, value in values.items()}
    return figures | {"cache_mib": mib, "cores": os.cpu_count() or 1}
