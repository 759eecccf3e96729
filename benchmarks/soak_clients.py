"""The client processes of the soak: started, stopped, killed, and what they report."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import soak_honest, soak_traders, soak_watchers
from serl.exchange.ports import free_port

CONTEXT = multiprocessing.get_context("spawn")
WATCHERS, LIMITED = 8, 11
"""Sessions of the library's clients; sessions whose rate limit is hit."""


def _ignoring_interrupts(work: Any, *arguments: Any) -> None:
    """Ctrl-C is for the parent, which ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):  # the parent is gone
        work(*arguments)


class Worker:
    """One client process; it can be replaced by a new one without the memory of the old."""

    def __init__(self, name: str, sessions: int, work: Any, *arguments: Any) -> None:
        self.name, self.sessions = name, sessions
        self._work, self._arguments = work, arguments
        self.counts: dict[str, int] = {}
        self.ended: Counter[str] = Counter()  # counts of those that were killed
        self.start()

    def start(self) -> None:
        """Starts the process."""
        self.reports, report = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(
            target=_ignoring_interrupts, args=(self._work, *self._arguments, report, os.getpid()), daemon=True
        )
        self.process.start()
        report.close()

    def replace(self) -> None:
        """SIGKILL, and a new process."""
        self.process.kill()
        self.process.join()
        self.ended.update({name: count for name, count in self.counts.items() if name != "live"})
        self.counts = {}
        self.start()

    def send_signal(self, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


class Clients:
    """All client processes of a soak with this many sessions."""

    def __init__(self, endpoint: str, folder: Path, sessions: int, symbols: int, processes: int) -> None:
        self.control = CONTEXT.RawArray("d", 3)
        self.control[soak_traders.HOLD] = 1.0
        limited = limited_names(sessions)
        plain = [f"trader-{index}" for index in range(sessions - len(limited) - _watchers(sessions) - 1)]
        self.plain_sessions = len(plain)
        names = [*plain, *limited]
        self.traders = [
            Worker(f"traders {part}", len(names[part::processes]), soak_traders.trade, endpoint, names[part::processes], symbols, part, self.control)
            for part in range(processes)
        ]  # fmt: skip
        self.watchers = _watchers(sessions)
        watchers = [f"watcher-{index}" for index in range(self.watchers)]
        self.others = [
            Worker("honest", 1, soak_honest.measure, endpoint, self.control),
            Worker("watchers", len(watchers), soak_watchers.watch, endpoint, watchers, symbols, self.control),
        ]
        port = free_port()
        self.commands = {
            "dashboard": ["dashboard", "--connect", endpoint, "--port", str(port)],
            "metrics": ["metrics", "--connect", endpoint, "--listen", f"127.0.0.1:{port + 1}"],
        }
        self.served = {name: _serl(folder / f"{name}.log", command) for name, command in self.commands.items()}
        self.others.append(
            Worker("scrapes", 0, soak_watchers.scrape, f"http://127.0.0.1:{port + 1}/metrics", f"http://127.0.0.1:{port}/", self.control)
        )  # fmt: skip
        self.notes: list[str] = []
        self.latencies_us: list[float] = []

    @property
    def workers(self) -> list[Worker]:
        """All of them."""
        return [*self.traders, *self.others]

    def read(self) -> None:
        """Takes over what the processes have reported."""
        for worker in self.workers:
            with contextlib.suppress(EOFError, OSError):
                while worker.reports.poll(0):
                    worker.counts, notes, latencies = worker.reports.recv()
                    self.notes += notes
                    self.latencies_us += latencies

    def counts(self) -> dict[str, int]:
        """What happened so far, of all processes together."""
        total: Counter[str] = Counter()
        for worker in self.workers:
            total.update(worker.counts)
            total.update(worker.ended)
        return dict(total)

    def live(self) -> int:
        """Sessions that are logged in."""
        return sum(worker.counts.get("live", 0) for worker in self.workers)

    def ended(self) -> list[str]:
        """Processes that ended though nobody ended them."""
        gone = [worker.name for worker in self.workers if not worker.process.is_alive()]
        return gone + [name for name, process in self.served.items() if process.poll() is not None]

    def close(self) -> None:
        """Ends all processes."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
        for process in self.served.values():
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def limited_names(sessions: int) -> list[str]:
    """The participants with a rate limit."""
    return [f"limited-{index}" for index in range(min(LIMITED, sessions // 4))]


def _watchers(sessions: int) -> int:
    return min(WATCHERS, sessions // 4)


def _serl(log: Path, arguments: list[str]) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "serl.clients.parent_watch", str(os.getpid()), *arguments],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    time.sleep(0.1)
    return process
