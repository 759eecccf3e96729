"""Hostile clients in plain pyzmq, as an outsider would write them: each runs until its process is killed, and waits for no answer."""

import itertools
import os
import socket as sockets
import time
from collections.abc import Callable
from contextlib import suppress

import msgpack
import numpy as np
import zmq

from serl.exchange.config import socket_endpoints
from serl.exchange.records import COMMAND

BULK_ROWS = 128
"""Of a bulk message: as many as the exchange takes."""
PACE_S = 0.25
"""Between two expensive requests: four a second."""


def _connect(endpoint: str, name: str) -> "zmq.Socket[bytes]":
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(socket_endpoints(endpoint)[name])
    return socket


def _session(endpoint: str) -> "zmq.Socket[bytes]":
    socket = _connect(endpoint, "orders")
    socket.send(msgpack.packb([64, 1, 1, f"hostile{os.getpid()}", "", -1, {}]))
    return socket


def _drop_answers(socket: "zmq.Socket[bytes]") -> None:
    while socket.poll(0):
        socket.recv()


def _flood(socket: "zmq.Socket[bytes]", message: Callable[[int], bytes]) -> None:
    for number in itertools.count(1):
        socket.send(message(number))
        if number % 64 == 0:
            _drop_answers(socket)


def _request(endpoint: str, name: str, *arguments: object, pace_s: float = 0.0) -> None:
    socket = _connect(endpoint, name)
    if not pace_s:
        _flood(socket, lambda number: msgpack.packb([arguments[0], number, *arguments[1:]]))
    while True:
        socket.send(msgpack.packb([arguments[0], 1, *arguments[1:]]))
        time.sleep(pace_s)
        _drop_answers(socket)


def _rows(first_id: int, count: int) -> bytes:
    rows = np.zeros(count, COMMAND)
    rows["kind"], rows["time_in_force"], rows["qty_lots"], rows["price_ticks"] = 1, 1, 1, 50
    rows["command_id"] = np.arange(first_id, first_id + count)
    return bytes(msgpack.packb([32, rows.tobytes()]))


def _feed_frames(endpoint: str, body: Callable[[int], bytes]) -> None:
    """Sends these messages over a raw connection to the feed, and connects again when it is closed."""
    from tests.raw_zmtp import frame, raw_connection

    numbers = itertools.count(0, 64)
    while True:
        with suppress(OSError), raw_connection(endpoint) as connection:
            for first in numbers:
                connection.sendall(b"".join(frame(body(number)) for number in range(first, first + 64)))
        time.sleep(0.01)  # it was closed, and connects again


def _endless_frames(endpoint: str) -> None:
    from tests.raw_zmtp import frame, raw_connection

    while True:
        with suppress(OSError), raw_connection(endpoint, "orders", b"DEALER") as connection:
            for _ in range(4000):  # 256 MB, as one message
                connection.sendall(frame(bytes(65_536), 1))
            time.sleep(3600)
        time.sleep(0.01)  # it was closed, and connects again


def _connections(endpoint: str) -> None:
    ports = [int(each.rpartition(":")[2]) for each in socket_endpoints(endpoint).values()]
    held = [sockets.create_connection(("127.0.0.1", ports[number % 4])) for number in range(1100)]
    time.sleep(3600 + len(held))


def _names(endpoint: str) -> None:
    for number in itertools.count():
        socket = _connect(endpoint, "orders")
        socket.send(msgpack.packb([64, 1, 1, f"{os.getpid()}-{number}", "", -1, {}]))
        socket.send(msgpack.packb([65]))
        socket.poll(20)
        socket.close(0)


def _stale_ids(endpoint: str) -> None:
    socket = _session(endpoint)
    stale = _rows(1, 64)
    for number in itertools.count():
        socket.send(stale)
        if number % 8 == 0:
            _drop_answers(socket)


def _never_reads(endpoint: str) -> None:
    socket = _session(endpoint)
    socket.rcvhwm = 1
    for number in itertools.count():
        socket.send(_rows(1 + number * BULK_ROWS, BULK_ROWS))


ATTACKS: dict[str, Callable[[str], None]] = {
    "queries": lambda endpoint: _request(endpoint, "queries", 129, 0, 100),
    "statistics": lambda endpoint: _request(endpoint, "queries", 132, pace_s=PACE_S),
    "hashes": lambda endpoint: _request(endpoint, "queries", 133, pace_s=PACE_S),
    "l3": lambda endpoint: _request(endpoint, "queries", 130, 0, pace_s=PACE_S),
    "admin": lambda endpoint: _request(endpoint, "admin", 163, "guess", 17, 0),
    "subscriptions": lambda endpoint: _feed_frames(endpoint, lambda n: b"\x01l2/%d/" % n),
    "prefixes": lambda endpoint: _feed_frames(endpoint, lambda n: b"\x01" + os.urandom(200_000 if n < 250 else 1)),
    "unsubscribe": lambda endpoint: _feed_frames(endpoint, lambda n: b"\x00l2/S0/"),
    "stale_ids": _stale_ids,
    "never_reads": _never_reads,
    "multipart": _endless_frames,
    "connections": _connections,
    "names": _names,
    "bulk": lambda endpoint: _flood(_session(endpoint), lambda n: _rows(1 + n * BULK_ROWS, BULK_ROWS)),
    "cancels": lambda endpoint: _flood(_session(endpoint), lambda n: msgpack.packb([2, n, 1, 0])),
    "pings": lambda endpoint: _flood(_session(endpoint), lambda n: msgpack.packb([66, n])),
    "junk": lambda endpoint: _flood(_connect(endpoint, "orders"), lambda n: b"\xc1"),
}
