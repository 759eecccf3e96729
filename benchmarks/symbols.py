"""An exchange with many symbols: seconds from its start until an order is acknowledged, and its memory, by the number of symbols.

memory_mib: private memory (RssAnon) before any order; with_orders_mib: after a bid and an ask in each symbol, from one participant. Compiled code is warm.
"""

import tempfile
import time
from pathlib import Path

import msgpack
import numpy as np

from benchmarks import client
from serl.exchange.records import COMMAND, Rows

COUNTS = (1, 100, 1_000, 10_000)


def run() -> dict[str, dict[str, float]]:
    """The figures by number of symbols."""
    found = [_measured(count) for count in COUNTS]
    return {name: {str(count): one[name] for count, one in zip(COUNTS, found, strict=True)} for name in found[0]}


def _measured(symbols: int) -> dict[str, float]:
    from tests.server_fixture import start_exchange

    config: dict[str, object] = {"symbols": [{"name": f"S{number}"} for number in range(symbols)]}
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as name:
        began_s = time.perf_counter()
        with start_exchange(symbols="", config=config, folder=Path(name)) as exchange:
            socket = client.login(exchange.endpoint, "one")
            socket.send(msgpack.packb([1, 1, 0, 0, 1, 100, 1, 0, 0]))
            client.answer(socket)
            start_s, pid = time.perf_counter() - began_s, exchange.process.pid
            memory_mib = _private_mib(pid)
            client.send_rows(socket, _quotes(symbols))
            with_orders_mib = _private_mib(pid)
    return {"start_s": start_s, "memory_mib": memory_mib, "with_orders_mib": with_orders_mib}


def _quotes(symbols: int) -> Rows:
    """A bid and an ask in each symbol."""
    rows = np.zeros(2 * symbols, COMMAND)
    rows["kind"], rows["time_in_force"], rows["qty_lots"] = 1, 1, 1
    rows["command_id"], rows["symbol"] = 2 + np.arange(len(rows)), np.arange(len(rows)) // 2
    rows["side"], rows["price_ticks"] = np.arange(len(rows)) % 2, 100 + 20 * (np.arange(len(rows)) % 2)
    return rows


def _private_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))
