"""An exchange process over loopback with the journal on (flushed each second, as is the default): throughput and latency in a deep book.

The stream is 45 % add, 40 % cancel, 10 % marketable, 5 % replace. It is spread over four symbols, 200 prices a side of a slowly moving mid and
1 to 99 lots, into a book of 100,000 resting orders.

Throughput, orders per second, medians of three turns, each with a new exchange:

- `single`: one compiled client, one message an order, 256 unacknowledged.
- `bulk`: 1,024 orders a message.
- `python4`: four plain Python clients (pyzmq, msgpack) of a quarter of the book each.
- bare_echo: the messages of `single` against a socket that echoes them.
- `followed`: `single` while a process that subscribes to every topic of the feed reads what it can.

Latency: from the time at which an order is due, 1,000 a second, until a Python client has decoded its acknowledgement. Prices, sizes and symbols are
as above.

- resting: limit orders behind the touch; marketable: market orders that trade; ping: the same loop against a bare echo of pyzmq.
- idle: nothing else runs; loaded: a busy process for each core of the machine.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import zmq

from benchmarks import client, latency
from benchmarks.deep_stream import SYMBOLS, deep_stream, encode, message_lists
from serl.exchange.config import socket_endpoints
from serl.exchange.records import Rows

SINGLE_COUNT, BULK_COUNT, PYTHON_COUNT, PYTHON_CLIENTS = 500_000, 2_000_000, 100_000, 4
RESTING, SEED, ROUNDS = 100_000, 1, 3
WARM_UP = 512
"""First messages of a compiled client, which are not timed."""


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


def _begin(endpoint: str, name: str, symbol: int, count: int, resting: int, seed: int, rows: bool = False) -> tuple["zmq.Socket[bytes]", Rows]:  # fmt: skip
    """A session whose resting orders are in the book, and its stream."""
    socket = client.login(endpoint, name, rows)
    build, stream = deep_stream(count, resting, symbol, seed)
    client.send_rows(socket, build)
    return socket, stream


def _listen(endpoint: str) -> None:
    """Reads the whole feed until the process is ended."""
    feed: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
    feed.connect(socket_endpoints(endpoint)["feed"])
    feed.subscribe(b"")
    while True:
        feed.recv_multipart(copy=False)


def _single(barrier: Any, endpoint: str, symbol: int) -> None:
    socket, stream = _begin(endpoint, f"single{symbol}", symbol, WARM_UP + SINGLE_COUNT, RESTING, SEED)
    client.window_load(socket, encode(stream[:WARM_UP]))
    messages = encode(stream[WARM_UP:])
    barrier.wait()
    client.window_load(socket, messages)
    barrier.wait()


def _bulk(barrier: Any, endpoint: str, symbol: int) -> None:
    socket, stream = _begin(endpoint, "bulk", symbol, BULK_COUNT, RESTING, SEED, rows=True)
    messages, first_id = client.bulk_messages(stream), int(stream["command_id"][0])
    barrier.wait()
    client.send_bulk(socket, messages, first_id, BULK_COUNT)
    barrier.wait()


def _python(barrier: Any, endpoint: str, symbol: int, seed: int) -> None:
    """A plain Python client: pyzmq and msgpack, nothing compiled of ours."""
    socket, stream = _begin(endpoint, f"python{seed}", symbol, PYTHON_COUNT, RESTING // PYTHON_CLIENTS, seed)
    pack, messages, first_id = msgpack.Packer().pack, message_lists(stream), int(stream["command_id"][0])
    barrier.wait()
    sent = done = 0
    while done < PYTHON_COUNT:
        while sent < PYTHON_COUNT and sent - done < client.WINDOW:
            socket.send(pack(messages[sent]))
            sent += 1
        done = max(done, client.acknowledged(client.answer(socket)) - first_id + 1)
    barrier.wait()


def _echo_server(count: int, endpoint: str) -> None:
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.sndhwm = socket.rcvhwm = 0
    socket.bind(endpoint)
    client.echo(socket.underlying, np.zeros(64, np.uint8), np.zeros(4096, np.uint8), count)
    time.sleep(0.2)  # the last answers leave before the socket goes


def _echo_client(barrier: Any, endpoint: str) -> None:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.sndhwm = socket.rcvhwm = 0
    socket.connect(endpoint)
    _, stream = deep_stream(WARM_UP + SINGLE_COUNT, RESTING, 0, SEED)
    client.window_echo(socket, encode(stream[:WARM_UP]))
    messages = encode(stream[WARM_UP:])
    barrier.wait()
    client.window_echo(socket, messages)
    barrier.wait()


def _echo_rate(endpoint: str) -> float:
    arguments = (WARM_UP + SINGLE_COUNT, endpoint)
    server = multiprocessing.get_context("spawn").Process(target=_echo_server, args=arguments)
    server.start()
    elapsed = _processes(_echo_client, [(endpoint,)])
    server.join()
    return SINGLE_COUNT / elapsed


def _turn(folder: Path) -> dict[str, float]:
    """Orders a second with a new exchange; each kind of client has symbols of its own."""
    from tests.server_fixture import free_endpoint, start_exchange

    echo_rate = _echo_rate(free_endpoint())
    symbols = ",".join(f"S{index}" for index in range(4 * SYMBOLS))
    with start_exchange(symbols=symbols, journal=folder) as exchange:
        single = SINGLE_COUNT / _processes(_single, [(exchange.endpoint, 0)])
        bulk = BULK_COUNT / _processes(_bulk, [(exchange.endpoint, SYMBOLS)])
        clients = [(exchange.endpoint, 2 * SYMBOLS, seed) for seed in range(PYTHON_CLIENTS)]
        python = PYTHON_CLIENTS * PYTHON_COUNT / _processes(_python, clients)
        listener = multiprocessing.get_context("spawn").Process(target=_listen, args=(exchange.endpoint,))
        listener.start()
        followed = SINGLE_COUNT / _processes(_single, [(exchange.endpoint, 3 * SYMBOLS)])
        listener.kill()
        listener.join()
    return {
        "bare_echo_per_s": echo_rate, "single_orders_per_s": single, "ratio_to_bare_echo": single / echo_rate,
        "bulk_orders_per_s": bulk, "python4_orders_per_s": python, "followed_orders_per_s": followed,
    }  # fmt: skip


def run() -> dict[str, float]:
    """All figures."""
    with tempfile.TemporaryDirectory(prefix="serl-bench-") as folder:
        turns = [_turn(Path(folder) / f"journal{turn}") for turn in range(ROUNDS)]
        return {key: float(np.median([turn[key] for turn in turns])) for key in turns[0]} | latency.figures(
            Path(folder) / "latency"
        )
