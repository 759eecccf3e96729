"""Samples of a soak: what the processes use, what the clients got, every few seconds, in a thread of its own and on the disk at once."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.soak_clients import Clients
from benchmarks.soak_exchange import ServedExchange

READ_S = 0.5


def process_sample(pid: int) -> dict[str, float]:
    """Memory, descriptors, threads and processor time of a process; nothing if it is gone."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        worked = sum(float(value) for value in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])
        return {
            "memory_mb": float(status["RssAnon"].split()[0]) / 1024,
            "rss_mb": float(status["VmRSS"].split()[0]) / 1024,
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": int(status["Threads"]),
            "processor_s": worked / os.sysconf("SC_CLK_TCK"),
        }
    except (OSError, KeyError):
        return {}


def folder_mb(folder: Path) -> float:
    """What a folder takes on the disk."""
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total / 1e6


class Sampler(threading.Thread):
    """Takes a sample every `every_s` into `samples` and a line of `path`."""

    def __init__(self, exchange: ServedExchange, clients: Clients, path: Path, every_s: float, began_s: float) -> None:
        super().__init__(daemon=True)
        self._exchange, self._clients, self._path, self._every_s = exchange, clients, path, every_s
        self._began_s, self._done = began_s, threading.Event()
        self._last = (began_s, 0)
        self.samples: list[dict[str, Any]] = []
        self.on_sample: Callable[[dict[str, Any]], None] = lambda sample: None

    def run(self) -> None:
        """Until `stop`."""
        with self._path.open("w") as lines:
            next_s = time.monotonic()
            while not self._done.wait(READ_S):
                self._clients.read()
                if time.monotonic() >= next_s:
                    next_s = max(next_s + self._every_s, time.monotonic())
                    self.samples.append(self._sample())
                    lines.write(json.dumps(self.samples[-1]) + "\n")
                    lines.flush()
                    self.on_sample(self.samples[-1])

    def _sample(self) -> dict[str, Any]:
        now, clients = time.monotonic(), self._clients
        acknowledged = clients.counts().get("acknowledged", 0)
        (last_s, last), self._last = self._last, (now, acknowledged)
        latencies, clients.latencies_us = clients.latencies_us, []
        p50, p99 = np.percentile(latencies, [50, 99]).tolist() if latencies else (None, None)
        return {
            "time_s": now - self._began_s,
            "life": self._exchange.starts,
            "exchange": process_sample(self._exchange.pid) if self._exchange.pid else {},
            **{name: process_sample(process.pid) for name, process in clients.served.items()},
            "clients_mb": sum(process_sample(worker.process.pid or 0).get("memory_mb", 0.0) for worker in clients.workers),
            "journal_mb": folder_mb(self._exchange.journal),
            "live": clients.live(),
            "acknowledged": acknowledged,
            "commands_per_s": max(0, acknowledged - last) / max(now - last_s, 1e-9),
            "p50_us": p50,
            "p99_us": p99,
        }  # fmt: skip

    def stop(self) -> None:
        """Ends the thread."""
        self._done.set()
        self.join()
