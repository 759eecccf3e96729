"""Orders over OUCH 5.0 through a gateway to an exchange with its journal on, all on loopback.

Throughput: one user keeps 4,096 Enter Order messages unanswered, sent 256 at a time, alternately buys and sells far from each other, until all are
Accepted. Latency: from the time at which an order is due, 500 a second, until its Accepted has been received, minus that of the native client (pyzmq,
msgpack) with the same orders on the same exchange, percentile by percentile. The client of the gateway is a plain socket that only counts what it
receives. The gateway's processor time is that of the throughput. Medians of three turns.
"""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from benchmarks import client as native_client
from serl.exchange.records import CommandKind, TimeInForce
from serl.gateways.ouch.messages import INBOUND, OUTBOUND

COUNT, WINDOW, CHUNK, ROUNDS = 200_000, 4_096, 256, 3
PACED_COUNT, PACED_PER_S, PERCENTILES = 1_500, 500, (50, 99)
PRICE_PER_TICK = 100
"""OUCH prices have four decimals, DEMO's ticks two."""
ACCEPTED_BYTES = OUTBOUND["A"].itemsize
PACKET = np.dtype([("bytes", ">u2"), ("kind", "S1"), ("message", INBOUND["O"])])
USER, SECRET = "bench", "secret"


@contextmanager
def start_gateway(endpoint: str, folder: Path) -> Iterator[tuple[int, int]]:
    """A gateway for one user; yields its port and its process id."""
    accounts = folder / "accounts.yaml"
    accounts.write_text(f"accounts: {{{USER}: {{secret: {SECRET}}}}}")
    accounts.chmod(0o600)
    command = [
        sys.executable,
        "-m",
        "serl",
        "ouch",
        "start",
        "--connect",
        endpoint,
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen(
        [*command, "--accounts", str(accounts), "--state", str(folder / "state")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("OUCH"):
                yield int(line.split()[3].rstrip(",").rpartition(":")[2]), process.pid
                break
        else:
            raise AssertionError("the gateway did not start")
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _orders(first_ref: int, count: int) -> Any:
    """Enter Order packets that do not trade."""
    packets = np.zeros(count, PACKET)
    packets["bytes"], packets["kind"] = PACKET.itemsize - 2, b"U"
    orders = packets["message"]
    index = np.arange(count)
    orders["type"], orders["user_ref"] = ord("O"), first_ref + index
    orders["side"] = np.where(index % 2 == 0, ord("B"), ord("S"))
    orders["quantity"], orders["symbol"] = 1 + index % 99, b"DEMO    "
    orders["price"] = np.where(index % 2 == 0, 990_000, 1_010_000) + 100 * (index % 50)
    for name, letter in {
        "time_in_force": b"0",
        "display": b"Y",
        "capacity": b"P",
        "sweep": b"N",
        "cross": b"N",
    }.items():
        orders[name] = ord(letter)
    orders["cl_ord_id"] = b"bench         "
    packets["message"] = orders
    return packets


class _Client:
    """Logs in, sends packets and counts Accepted messages."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        login = USER.ljust(6) + SECRET.ljust(10) + " " * 10 + "0".rjust(20)
        self._socket.sendall(struct.pack(">H", len(login) + 1) + b"L" + login.encode())
        accepted = self._socket.recv(33, socket.MSG_WAITALL)
        assert accepted[2:3] == b"A", accepted
        self._rest = b""

    def send(self, packets: Any) -> None:
        self._socket.sendall(packets.tobytes())

    def accepted(self) -> int:
        """Receives once; returns how many Accepted messages that completed."""
        data = self._rest + self._socket.recv(1 << 18)
        at, count, size = 0, 0, len(data)
        while at + 2 <= size:
            end = at + 2 + (data[at] << 8 | data[at + 1])
            if end > size:
                break
            if end - at == ACCEPTED_BYTES:
                count += 1
            elif data[at + 2 : at + 3] == b"S":
                raise AssertionError(f"expected only Accepted, got {data[at:end]!r}")
            at = end
        self._rest = data[at:]
        return count

    def close(self) -> None:
        self._socket.close()


def _cpu_s(pid: int) -> float:
    """Processor time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _throughput(client: _Client, first_ref: int) -> float:
    packets, sent, done = _orders(first_ref, COUNT), 0, 0
    began = time.perf_counter()
    while done < COUNT:
        while sent < COUNT and sent - done <= WINDOW - CHUNK:
            client.send(packets[sent : sent + CHUNK])
            sent += CHUNK
        done += client.accepted()
    return COUNT / (time.perf_counter() - began)


def _over_ouch(client: _Client, first_ref: int) -> Callable[[int], None]:
    packets = _orders(first_ref, PACED_COUNT)

    def round_trip(index: int) -> None:
        client.send(packets[index : index + 1])
        while not client.accepted():
            pass

    return round_trip


def _directly(endpoint: str, turn: int) -> Callable[[int], None]:
    """The same orders by a native client."""
    native, orders = native_client.login(endpoint, f"native{turn}"), _orders(1, PACED_COUNT)["message"]
    sides, lots = (orders["side"] != ord("B")).tolist(), orders["quantity"].tolist()
    prices = (orders["price"] // PRICE_PER_TICK).tolist()

    def round_trip(index: int) -> None:
        values = 0, int(sides[index]), lots[index], prices[index], int(TimeInForce.DAY), 0, 0
        native.send(msgpack.packb([int(CommandKind.NEW), index + 1, *values]))
        native_client.answer(native)

    return round_trip


def _latencies(round_trip: Callable[[int], None]) -> Any:
    """Seconds of PACED_COUNT orders, each from the time at which it is due."""
    taken = np.zeros(PACED_COUNT)
    began = time.perf_counter() + 0.01
    for index in range(PACED_COUNT):
        due = began + index / PACED_PER_S
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        round_trip(index)
        taken[index] = time.perf_counter() - due
    return taken


def run() -> dict[str, float]:
    """Medians over the turns, of one exchange and one gateway."""
    from tests.server_fixture import start_exchange

    with tempfile.TemporaryDirectory(prefix="serl-bench-") as name:
        folder = Path(name)
        with (
            start_exchange(symbols="DEMO", journal=folder / "journal") as exchange,
            start_gateway(exchange.endpoint, folder) as (port, pid),
        ):
            client = _Client(port)
            _latencies(_over_ouch(client, 1))
            turns = []
            for turn in range(ROUNDS):
                first_ref = 1 + PACED_COUNT + turn * (COUNT + PACED_COUNT)
                used_s = _cpu_s(pid)
                rate = _throughput(client, first_ref)
                used_us = (_cpu_s(pid) - used_s) / COUNT * 1e6
                ways = _over_ouch(client, first_ref + COUNT), _directly(exchange.endpoint, turn)
                over_ouch, direct = (np.percentile(_latencies(way), PERCENTILES) * 1e6 for way in ways)
                turns.append((rate, used_us, *(over_ouch - direct)))
            client.close()
    rate, used_us, p50, p99 = (float(np.median(column)) for column in zip(*turns, strict=True))
    return {
        "ouch_orders_per_s": rate,
        "ouch_gateway_us_per_order": used_us,
        "ouch_added_p50_us": p50,
        "ouch_added_p99_us": p99,
    }
