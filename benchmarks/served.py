"""An exchange process over loopback with the journal on: throughput, latency, start-up time."""

import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import zmq

from benchmarks import client
from serl.exchange.records import EVENT, EventKind
from serl.exchange.wire import Kind

SINGLE_COUNT, BULK_COUNT, PYTHON_COUNT = 500_000, 2_000_000, 100_000
WINDOW, BULK_ROWS = 256, 1024
LATENCY_RATE, LATENCY_COUNT = 1000, 4000
ROUNDS = 3


def _start(folder: Path, port: int) -> tuple["subprocess.Popen[str]", str, float]:
    """An exchange with its journal in `folder`: (process, endpoint, seconds until it was ready)."""
    endpoint = f"tcp://127.0.0.1:{port}"
    arguments = ["exchange", "start", "--symbols", "A,B,C,D", "--endpoint", endpoint, "--journal", str(folder)]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", "from serl.cli import main; main()", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if "ready" not in line:
        raise RuntimeError(f"the exchange did not start: {line}{process.stdout.read()}")
    return process, endpoint, time.perf_counter() - began


def _processes(work: Callable[..., None], arguments: list[tuple[Any, ...]]) -> float:
    """Runs `work` in a process for each of the arguments: seconds from when all are ready until the last is done."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(arguments) + 1)
    workers = [context.Process(target=work, args=(barrier, *values)) for values in arguments]
    for worker in workers:
        worker.start()
    barrier.wait(60)
    began = time.perf_counter()
    barrier.wait(300)
    elapsed = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return elapsed


def _single(barrier: Any, endpoint: str, name: str, symbol: int, count: int) -> None:
    socket, welcome = client.login(endpoint, name)
    out, buffer = np.zeros(64, np.uint8), np.zeros(1 << 20, np.uint8)
    first = welcome[5] + 1
    client.window_load(socket.underlying, out, buffer, first, symbol, 512, WINDOW)
    barrier.wait()
    client.window_load(socket.underlying, out, buffer, first + 512, symbol, count, WINDOW)
    barrier.wait()


def _bulk(barrier: Any, endpoint: str, name: str, symbol: int, count: int) -> None:
    socket, welcome = client.login(endpoint, name, rows=True)
    first = welcome[5] + 1
    messages = client.bulk_messages(first, symbol, count, BULK_ROWS)
    barrier.wait()
    sent = acknowledged = 0
    while acknowledged < count:
        while sent < len(messages) and sent * BULK_ROWS - acknowledged < 32 * BULK_ROWS:
            socket.send(messages[sent], copy=False)
            sent += 1
        kind, _, rows = client.answer(socket)
        assert kind == Kind.REPORT_ROWS
        acknowledged = max(acknowledged, int(np.frombuffer(rows, EVENT)["command_id"].max()) - first + 1)
    barrier.wait()


def _python(barrier: Any, endpoint: str, name: str, symbol: int, count: int) -> None:
    """A plain Python client: pyzmq and msgpack, nothing compiled of ours."""
    socket, welcome = client.login(endpoint, name)
    pack = msgpack.Packer().pack
    next_id = welcome[5] + 1
    barrier.wait()
    sent = acknowledged = 0
    while acknowledged < count:
        while sent < count and sent - acknowledged < WINDOW:
            socket.send(pack([1, next_id + sent, symbol, sent & 1, 1, 10_000, 1, 0, 0]))
            sent += 1
        for event in client.answer(socket)[2]:
            acknowledged += event[0] == EventKind.ACCEPTED
    barrier.wait()


def _echo_server(count: int, endpoint: str) -> None:
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.sndhwm = socket.rcvhwm = 0
    socket.bind(endpoint)
    client.echo(socket.underlying, np.zeros(64, np.uint8), np.zeros(4096, np.uint8), count)
    time.sleep(0.2)  # the last answers leave before the socket goes


def _echo_client(barrier: Any, endpoint: str, count: int) -> None:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.sndhwm = socket.rcvhwm = 0
    socket.connect(endpoint)
    out, buffer = np.zeros(64, np.uint8), np.zeros(4096, np.uint8)
    client.window_echo(socket.underlying, out, buffer, 512, 1)
    barrier.wait()
    client.window_echo(socket.underlying, out, buffer, count, WINDOW)
    barrier.wait()


def _echo_rate(endpoint: str) -> float:
    server = multiprocessing.get_context("spawn").Process(target=_echo_server, args=(SINGLE_COUNT + 512, endpoint))
    server.start()
    elapsed = _processes(_echo_client, [(endpoint, SINGLE_COUNT)])
    server.join()
    return SINGLE_COUNT / elapsed


def _paced(exchange: Callable[[int], None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Round trips in us at a fixed rate, each measured from its scheduled time, so delays of earlier ones count (no coordinated omission)."""
    latencies = np.zeros(LATENCY_COUNT)
    start = time.perf_counter() + 0.01
    for index in range(LATENCY_COUNT):
        scheduled = start + index / LATENCY_RATE
        while time.perf_counter() < scheduled:
            pass
        exchange(index)
        latencies[index] = time.perf_counter() - scheduled
    return latencies[LATENCY_COUNT // 10 :] * 1e6


def _ping_server(endpoint: str, count: int) -> None:
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.bind(endpoint)
    for _ in range(count):
        socket.send_multipart(socket.recv_multipart())
    time.sleep(0.2)


def _latency(endpoint: str, ping_endpoint: str) -> dict[str, float]:
    """Order-to-acknowledgement against a bare pyzmq ping-pong of the same size, in turn."""
    server = multiprocessing.get_context("spawn").Process(
        target=_ping_server, args=(ping_endpoint, ROUNDS * LATENCY_COUNT)
    )
    server.start()
    ping: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    ping.connect(ping_endpoint)
    order, welcome = client.login(endpoint, "latency")
    next_id = welcome[5] + 1

    def pinged(index: int) -> None:
        ping.send(msgpack.packb([1, 100_000 + index, 3, 0, 1, 10_000, 1, 0, 0]))
        msgpack.unpackb(ping.recv())

    def ordered(index: int) -> None:
        nonlocal next_id
        order.send(msgpack.packb([1, next_id, 3, 0, 1, 9_000, 2, 0, 0]))  # IOC: never rests, answered at once
        next_id += 1
        client.answer(order)

    bare, ours = [], []
    for _ in range(ROUNDS):
        bare.append(_paced(pinged))
        ours.append(_paced(ordered))
    server.join()
    figures = {"ping": np.concatenate(bare), "order": np.concatenate(ours)}
    result: dict[str, float] = {}
    for percentile in (50, 99):
        a, b = (float(np.percentile(figures[name], percentile)) for name in ("order", "ping"))
        result |= {f"order_us_p{percentile}": a, f"ping_us_p{percentile}": b, f"ratio_p{percentile}": a / b}
    return result


def run() -> dict[str, float]:
    """All figures of the served exchange; medians over rounds."""
    from tests.server_fixture import free_endpoint

    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
        port = int(free_endpoint().rpartition(":")[2])
        process, endpoint, _ = _start(Path(folder) / "warm", port)  # fills the compiler's cache
        process.terminate()
        process.wait()
        process, endpoint, ready_s = _start(Path(folder) / "journal", port)
        echo_endpoint = free_endpoint()
        try:
            for turn in range(ROUNDS):
                name = f"{turn}"
                echo_rate = _echo_rate(echo_endpoint)
                single = SINGLE_COUNT / _processes(_single, [(endpoint, "s" + name, 0, SINGLE_COUNT)])
                bulk = BULK_COUNT / _processes(_bulk, [(endpoint, "b" + name, 1, BULK_COUNT)])
                four = [(endpoint, f"p{name}{index}", 2, PYTHON_COUNT) for index in range(4)]
                python = 4 * PYTHON_COUNT / _processes(_python, four)
                row = {
                    "bare_echo_per_s": echo_rate, "single_orders_per_s": single, "ratio_to_bare_echo": single / echo_rate,
                    "bulk_orders_per_s": bulk, "python4_orders_per_s": python,
                }  # fmt: skip
                for key, value in row.items():
                    figures.setdefault(key, []).append(value)
            latency = _latency(endpoint, free_endpoint())
        finally:
            process.terminate()
            process.wait()
    medians = {key: float(np.median(values)) for key, values in figures.items()}
    return {**medians, **latency, "ready_s": ready_s, "flush_interval_s": 1.0}
