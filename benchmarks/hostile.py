"""Hostile clients beside an honest one: how far each attack of benchmarks/hostile_attacks.py, and all together, move the honest client's latency.

The honest client sends 1,000 orders a second and measures each from the time at which it is due (as in `served`) while a subscriber follows its symbol. An attack runs
in a process of its own, by turns against the exchange and against sockets that drop everything; `ratio` is the honest p99 of the former over that of the latter, so
that the attacker's own use of the processor does not count; `ratio_quiet` is the same over the p99 without any attack. Sockets that drop everything take more than an
exchange that holds its clients back. Medians of the turns, and the 95 % interval of `ratio` (bootstrap over turns: more turns, a narrower one); each attack has a new
exchange with RESTING orders. `memory` is the exchange's resident
memory after the attack over that before it; `work_us_per_order` is the processor time of the exchange's
loop per honest order, and `work_ratio` that over the same while the attack runs elsewhere: unlike latencies, busy machines hardly change it; `feed` is the share of the honest client's orders that the subscriber saw; `survived` is 0 if the exchange ended.

Attackers need not be on the exchange's machine, so they must not take its processor: the exchange has one of its own, with all its threads; honest client and attackers
share the others, where all threads of the honest client go first (real-time priority if the system grants it) and attackers have what they leave
(SCHED_IDLE where there is such a thing): otherwise an order also waits for the honest client's own network thread, behind the attackers.
`python -m benchmarks.hostile NAME ... [--turns N] [--requests-share X]` runs some attacks (`all`: together); on a machine with hiccups of its own more turns tell more.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt
import zmq

from benchmarks import client
from benchmarks.hostile_attacks import ATTACKS, BULK_ROWS
from serl.exchange.config import socket_endpoints
from serl.exchange.records import COMMAND
from serl.exchange.wire import Kind

RATE_PER_S, COUNT, TURNS, RESTING = 1000, 1500, 5, 200_000
RESAMPLES = 10_000
CONFIG: dict[str, dict[str, Any]] = {
    "limits": {
        "messages_per_s_max": 10_000, "cancels_per_s_max": 2000, "bulk_rows_max": BULK_ROWS,
        "requests_share": 0.01, "new_names_per_s_max": 1,
    },
    "other_accounts": {"orders_open_max": 1000},
    "accounts": {"honest": {"messages_per_s_max": 0}},  # it builds the book; then it sends RATE_PER_S
}  # fmt: skip
"""What an exchange sets that does not trust its participants."""
Floats = npt.NDArray[np.float64]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["__main__", "benchmarks.client", "benchmarks.hostile_attacks", "tests.raw_zmtp"])
"""So an attacker starts in milliseconds."""


PROCESSORS = sorted(os.sched_getaffinity(0))


def _pin_clients() -> None:
    """Moves this process, and those it starts, off the exchange's processor, which is the first one."""
    if len(PROCESSORS) > 1:
        os.sched_setaffinity(0, set(PROCESSORS[1:]))


def _pin_exchange(pid: int) -> None:
    """Gives all threads of the exchange the first processor, before other work of the machine if the system permits it."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {PROCESSORS[0]})
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, int(thread), -20)


def _schedule(policy: int, priority: int) -> None:
    with suppress(PermissionError):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


@contextmanager
def _first_in_line() -> Iterator[None]:
    """The threads of this process, libzmq's too, go before all others on their processor, as on a machine of their own. Needs the permission."""
    _schedule(os.SCHED_FIFO, 1)
    try:
        yield
    finally:
        _schedule(os.SCHED_OTHER, 0)


def _last_in_line() -> None:
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        _schedule(os.SCHED_IDLE, 0)


def _end_with_benchmark() -> None:
    """Ends this process when the benchmark ends, even if it was killed."""
    benchmark = multiprocessing.parent_process()
    assert benchmark is not None

    def wait() -> None:
        benchmark.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _attack(name: str, endpoint: str, ready: Any) -> None:
    _end_with_benchmark()
    _last_in_line()
    ready.release()
    ATTACKS[name](endpoint)


def _sink(endpoint: str) -> None:
    """Sockets that drop everything, in place of the exchange."""
    _end_with_benchmark()
    _last_in_line()
    poller = zmq.Poller()
    for name, address in socket_endpoints(endpoint).items():
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.XPUB if name == "feed" else zmq.ROUTER)
        socket.bind(address)
        poller.register(socket, zmq.POLLIN)
    while True:
        for socket, _ in poller.poll():
            for _ in range(64):
                if socket.poll(0):
                    socket.recv_multipart()


@contextmanager
def _process(work: Any, *arguments: Any) -> Iterator[None]:
    process = CONTEXT.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class _Honest:
    """A session of one order at a time, and a subscriber that follows its symbol."""

    def __init__(self, endpoint: str) -> None:
        self._socket, self._id = client.login(endpoint, "honest"), 0
        self._build()
        self._feed: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
        self._feed.connect(socket_endpoints(endpoint)["feed"])
        self._feed.subscribe(b"l2/S0/")
        time.sleep(0.3)

    def _build(self) -> None:
        rows, random = np.zeros(RESTING, COMMAND), np.random.default_rng(1)
        rows["kind"], rows["time_in_force"], rows["qty_lots"] = 1, 1, 1
        rows["price_ticks"], rows["command_id"] = random.integers(100, 600, RESTING), np.arange(1, RESTING + 1)
        client.send_rows(self._socket, rows, BULK_ROWS)
        self._id = RESTING

    def wait(self, ready: Any) -> None:
        """Acquires a semaphore. The exchange meanwhile hears that the session is alive: the start of many attackers takes longer than silence_s."""
        while not ready.acquire(timeout=1.0):
            self._socket.send(msgpack.packb([int(Kind.PING), 0]))

    def measure(self) -> tuple[float, float]:
        """(p99 in microseconds, share of the orders that the subscriber saw)."""
        while self._feed.poll(0):
            self._feed.recv_multipart()
        latencies, last = np.zeros(COUNT), 0
        start = time.perf_counter() + 0.01
        for index in range(COUNT):
            due = start + index / RATE_PER_S
            time.sleep(max(due - time.perf_counter(), 0.0))  # the attackers need the processor meanwhile
            self._id += 1
            self._socket.send(msgpack.packb([1, self._id, 0, 0, 1, 100 + index % 500, 1, 0, 0]))
            while last < self._id:
                if not self._socket.poll(5000):
                    return float("inf"), 0.0
                message = msgpack.unpackb(self._socket.recv())
                if message[0] == Kind.GOODBYE:
                    print("the exchange ended the honest session:", *message[1:], file=sys.stderr)
                    return float("inf"), 0.0
                last = max((report[2] for report in message[2]), default=0) if message[0] == 80 else last
            latencies[index] = time.perf_counter() - due
        seen = 0
        while self._feed.poll(100):
            self._feed.recv_multipart()
            seen += 1
        return float(np.percentile(latencies[COUNT // 10 :], 99) * 1e6), seen / COUNT


def _memory_bytes(pid: int) -> float:
    try:
        return float(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (FileNotFoundError, ProcessLookupError):
        return float("nan")


def _worked_ns(pid: int) -> float:
    """Processor time of the exchange's loop, which is its main thread."""
    try:
        return float(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return float("nan")


def attacked(names: tuple[str, ...], turns_count: int, **limits: float) -> dict[str, float]:
    """The figures of attacks that run together. limits: of the exchange, besides those in CONFIG."""
    from tests.server_fixture import free_endpoint, start_exchange

    turns = []
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as name:  # noqa: SIM117
        with (
            start_exchange(
                symbols="S0,S1",
                journal=Path(name) / "journal",
                config={**CONFIG, "limits": CONFIG["limits"] | limits},
                folder=Path(name),
            ) as exchange,
            _process(_sink, sink := free_endpoint()),
        ):
            honest, pid = _Honest(exchange.endpoint), exchange.process.pid
            _pin_exchange(pid)
            honest.measure()
            before = _memory_bytes(pid)
            for _ in range(turns_count):
                with _first_in_line():
                    quiet, _ = honest.measure()
                found = []
                for endpoint in (sink, exchange.endpoint):
                    ready = CONTEXT.Semaphore(0)
                    workers = [
                        CONTEXT.Process(target=_attack, args=(each, endpoint, ready), daemon=True) for each in names
                    ]
                    for worker in workers:
                        worker.start()
                    for _ in workers:
                        honest.wait(ready)
                    time.sleep(0.5)
                    worked_ns = _worked_ns(pid)
                    with _first_in_line():
                        figures = honest.measure()
                    found.append((*figures, (_worked_ns(pid) - worked_ns) / COUNT / 1e3))
                    for worker in workers:
                        worker.kill()
                        worker.join()
                turns.append((*found[0], *found[1], quiet, _memory_bytes(pid) / before))
                if exchange.process.poll() is not None or not np.isfinite(found[1][0]):
                    break
            survived = float(exchange.process.poll() is None)
            exchange.process.kill()  # it may no longer hear that it is to stop
    measured = np.array(turns)
    alone, _, idle_work, hostile, feed, work, quiet, _ = np.nanmedian(measured, axis=0).tolist()
    low, high = _interval(hostile_us=measured[:, 3], alone_us=measured[:, 0])
    return {
        "p99_us": hostile, "ratio": hostile / alone, "ratio_low": low, "ratio_high": high, "ratio_quiet": hostile / quiet, "work_us_per_order": work, "work_ratio": work / idle_work,
        "memory": max(turn[-1] for turn in turns), "feed": feed, "survived": survived,
    }  # fmt: skip


def _interval(hostile_us: Floats, alone_us: Floats) -> tuple[float, float]:
    """95 % interval of the ratio of the medians over turns, (turns,) each: percentiles of a bootstrap that draws whole turns."""
    count = len(hostile_us)
    drawn = np.random.default_rng(1).integers(0, count, (RESAMPLES, count))
    with np.errstate(invalid="ignore"):  # both infinite: the session ended
        ratios = np.median(hostile_us[drawn], axis=1) / np.median(alone_us[drawn], axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5), method="nearest")
    return float(low), float(high)


def run(names: list[str] | None = None, turns_count: int = TURNS, **limits: float) -> dict[str, dict[str, float]]:
    """The figures of every attack, and of all together."""
    _pin_clients()
    found = {}
    for name in names or [*ATTACKS, "all"]:
        found[name] = attacked(tuple(ATTACKS) if name == "all" else (name,), turns_count, **limits)
        print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*ATTACKS, "all"]))
    parser.add_argument("--turns", type=int, default=TURNS, help="of each attack [default: %(default)s]")
    parser.add_argument("--requests-share", type=float, help="of the exchange [default: that of exchanges]")
    arguments = parser.parse_args()
    if unknown := {*arguments.names} - {*ATTACKS, "all"}:
        parser.error(f"NAME: expected some of {', '.join([*ATTACKS, 'all'])}, got {', '.join(sorted(unknown))}")
    limits = {} if arguments.requests_share is None else {"requests_share": arguments.requests_share}
    run(arguments.names, arguments.turns, **limits)
