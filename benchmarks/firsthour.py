"""The first hour of a new user: a fresh clone, a fresh environment, nothing compiled. Needs git, make and a package index; takes minutes, on a quiet machine.

- install_s: until `serl` runs, without extras; base_install_mib: the disk space of that installation.
- first_order_s: from the start of an exchange, which compiles, until an order is acknowledged.
- full_install_s: what `make demo` installs in addition.
- first_page_s, first_report_s: from the start of `serl demo`, of which nothing is compiled either, until its page answers and until its report exists.
- hundred_days_s: a hundred simulated days of `liquid`, by the command line's function, on one core.
- backtest_decisions_per_s: of a Python strategy that looks at the touch, by processor time.
"""

import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.clone import Clone
from serl.exchange.ports import free_port

TIMEOUT_S = 900
ORDER = """
import sys
from serl.clients.blocking import connect
from serl.exchange.errors import SerlError
while True:
    try:
        with connect(sys.argv[1], "first") as client:
            client.buy("DEMO", 1, 100)
            break
    except SerlError:
        pass
"""
"""Asks again until the exchange listens."""
HUNDRED_DAYS = """
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import simulate
for seed in range(100):
    simulate(load_population("liquid"), seed)
"""


def _size_mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 2**20


def _stop(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)


def _first_order_s(clone: Clone) -> float:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    began = time.perf_counter()
    exchange = clone.start("serl", "exchange", "start", "--symbols", "DEMO", "--endpoint", endpoint)
    try:
        clone.run("python", "-c", ORDER, endpoint)
        return time.perf_counter() - began
    finally:
        _stop(exchange)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _demo(clone: Clone) -> dict[str, float]:
    port, report, found = free_port(), clone.folder / "demo-output" / "demo.html", dict[str, float]()
    began = time.perf_counter()
    demo = clone.start("serl", "demo", "--port", str(port))
    try:
        while "first_report_s" not in found:
            seconds = time.perf_counter() - began
            if demo.poll() is not None or seconds > TIMEOUT_S:
                raise RuntimeError(
                    f"expected a report of the demo, got none; see {(clone.folder / 'demo.log').read_text()[-2000:]}"
                )
            if "first_page_s" not in found and _answers(f"http://127.0.0.1:{port}"):
                found["first_page_s"] = seconds
            if report.exists():
                found["first_report_s"] = seconds
            time.sleep(0.1)
        return found
    finally:
        _stop(demo)


def run() -> dict[str, Any]:
    """All figures, by turns."""
    with tempfile.TemporaryDirectory() as folder:
        clone, figures = Clone(Path(folder)), dict[str, Any]()
        figures["install_s"], _ = clone.run("make", ".venv/installed")
        figures["base_install_mib"] = _size_mib(clone.folder / ".venv" / "lib")
        figures["first_order_s"] = _first_order_s(clone)
        figures["full_install_s"], _ = clone.run("make", ".venv/installed-full")
        figures |= _demo(clone)
        figures["hundred_days_s"], _ = clone.run("python", "-c", HUNDRED_DAYS)
        return figures | {"backtest_decisions_per_s": _decisions_per_s()}


def _decisions_per_s() -> float:
    from benchmarks import backtest

    return float(backtest.run()["python_looking_decisions_per_s"])
