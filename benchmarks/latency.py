"""Latency of single orders in a deep book, part of `served`: see there."""

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import zmq
from numpy.typing import NDArray

from benchmarks import client
from benchmarks.deep_stream import SYMBOLS
from benchmarks.stream import GTC, IOC, MARKET, NEW, SPREAD_TICKS
from serl.exchange.records import COMMAND, EventFlag, EventKind, Rows, Side

RATE_PER_S, COUNT, ROUNDS, RESTING, MID_TICKS, SEED = 1000, 2000, 3, 100_000, 100_000, 2
STATES = ("idle", "loaded")
RoundTrip = Callable[[int], Any]
"""Sends the message of this number, waits for its answer and returns it."""


def _ping_server(endpoint: str) -> None:
    socket = zmq.Context().socket(zmq.ROUTER)
    socket.bind(endpoint)
    while True:
        socket.send_multipart(socket.recv_multipart())


def _spin(ready: Any) -> None:
    ready.release()
    while True:
        pass


@contextmanager
def _load(state: str) -> Iterator[None]:
    """Idle, or loaded by a busy process for each core."""
    context = multiprocessing.get_context("spawn")
    ready, count = context.Semaphore(0), os.cpu_count() or 1
    workers = [
        context.Process(target=_spin, args=(ready,), daemon=True) for _ in range(count if state == "loaded" else 0)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _paced(round_trip: RoundTrip) -> tuple[NDArray[np.float64], list[Any]]:
    """Round trips in us at a fixed rate, each measured from its scheduled time, so delays of earlier ones count (no coordinated omission), and the answers."""
    latencies, answers = np.zeros(COUNT), []
    start = time.perf_counter() + 0.01
    for index in range(COUNT):
        scheduled = start + index / RATE_PER_S
        while time.perf_counter() < scheduled:
            pass
        answers.append(round_trip(index))
        latencies[index] = time.perf_counter() - scheduled
    return latencies[COUNT // 10 :] * 1e6, answers


def _book() -> Rows:
    """The resting orders of the market: SPREAD_TICKS prices a side, 1 to 99 lots."""
    random, rows = np.random.default_rng(SEED), np.zeros(RESTING, COMMAND)
    rows["kind"], rows["time_in_force"], rows["command_id"] = NEW, GTC, np.arange(1, RESTING + 1)
    rows["symbol"], rows["side"] = rows["command_id"] % SYMBOLS, random.integers(0, 2, RESTING)
    away = random.integers(1, SPREAD_TICKS + 1, RESTING)
    rows["price_ticks"] = MID_TICKS + np.where(rows["side"] == Side.SELL, away, -away)
    rows["qty_lots"] = random.integers(1, 100, RESTING)
    return rows


class _Trader:
    """A session that sends one order at a time, with symbols by turns and random prices, sizes and sides."""

    def __init__(self, endpoint: str) -> None:
        self._socket, self._ids = client.login(endpoint, "latency"), itertools.count(1)
        random = np.random.default_rng(SEED)
        self._sides = random.integers(0, 2, COUNT).tolist()
        self._away = random.integers(1, SPREAD_TICKS + 1, COUNT).tolist()
        self._lots = random.integers(1, 100, COUNT).tolist()

    def resting(self, index: int) -> Any:
        """A limit order behind the mid."""
        side = self._sides[index]
        return self._send(
            index, side, MID_TICKS + (self._away[index] if side == Side.SELL else -self._away[index]), GTC, 0
        )

    def marketable(self, index: int) -> Any:
        """A market order."""
        return self._send(index, self._sides[index], 0, IOC, MARKET)

    def _send(self, index: int, side: int, price: int, time_in_force: int, flags: int) -> Any:
        self._socket.send(
            msgpack.packb(
                [NEW, next(self._ids), index % SYMBOLS, side, self._lots[index], price, time_in_force, flags, 0]
            )
        )
        return client.answer(self._socket)


def _rested(answer: Any) -> bool:
    return any(report[0] == EventKind.ACCEPTED and report[11] & EventFlag.RESTING for report in answer[2])


def _traded(answer: Any) -> bool:
    return any(report[0] == EventKind.FILL for report in answer[2])


def _measure(trader: _Trader, ping: RoundTrip) -> dict[str, NDArray[np.float64]]:
    """Microseconds by kind, in turn."""
    resting, accepted = _paced(trader.resting)
    marketable, filled = _paced(trader.marketable)
    assert all(map(_rested, accepted)) and all(map(_traded, filled))
    return {"resting": resting, "marketable": marketable, "ping": _paced(ping)[0]}


def _summary(state: str, rounds: list[dict[str, NDArray[np.float64]]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in rounds[0]:
        together = np.concatenate([each[kind] for each in rounds])
        for percentile in (50, 99):
            found[f"latency_{kind}_{state}_p{percentile}_us"] = float(np.percentile(together, percentile))
    ping = found[f"latency_ping_{state}_p50_us"]
    ratios = {f"ratio_{kind}_to_ping_{state}_p50": found[f"latency_{kind}_{state}_p50_us"] / ping for kind in ("resting", "marketable")}  # fmt: skip
    return found | ratios


def figures(journal: Path) -> dict[str, float]:
    """Percentiles in microseconds by kind of order and state of the machine, beside those of a bare ping."""
    from tests.server_fixture import free_endpoint, start_exchange

    ping_endpoint = free_endpoint()
    server = multiprocessing.get_context("spawn").Process(target=_ping_server, args=(ping_endpoint,), daemon=True)
    server.start()
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(ping_endpoint)

    def ping(index: int) -> Any:
        socket.send(msgpack.packb([NEW, index, index % SYMBOLS, 0, 50, MID_TICKS, GTC, 0, 0]))
        return msgpack.unpackb(socket.recv())

    symbols = ",".join(f"S{index}" for index in range(SYMBOLS))
    try:
        with start_exchange(symbols=symbols, journal=journal) as exchange:
            client.send_rows(client.login(exchange.endpoint, "maker"), _book())
            trader, found = _Trader(exchange.endpoint), dict[str, float]()
            for state in STATES:
                with _load(state):
                    found |= _summary(state, [_measure(trader, ping) for _ in range(ROUNDS)])
    finally:
        server.kill()
    return found
