"""A compiled load generator: keeps a window of orders in flight until all are acknowledged."""

from typing import Any

import msgpack
import numpy as np
import zmq
from numba import njit

from benchmarks.deep_stream import Messages
from serl.exchange.gateway.codec import read_int
from serl.exchange.libzmq import zmq_recv, zmq_send
from serl.exchange.records import EVENT, Rows
from serl.exchange.wire import Kind

WINDOW, BULK_ROWS, BULK_WINDOW = 256, 1024, 32
"""Unacknowledged single messages; rows of a bulk message; unacknowledged bulk messages."""
REPORTS = int(Kind.REPORTS)


def login(endpoint: str, name: str, rows: bool = False) -> "zmq.Socket[bytes]":
    """A DEALER socket, logged in as a participant without commands so far."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = 0
    socket.connect(endpoint)
    socket.send(msgpack.packb([64, 1, 1, name, "", -1, {"rows": rows}]))
    welcome = msgpack.unpackb(socket.recv())
    assert welcome[0] == Kind.WELCOME and welcome[5] == 0, welcome
    return socket


def answer(socket: "zmq.Socket[bytes]") -> list[Any]:
    """The next message other than a heartbeat."""
    while True:
        message: list[Any] = msgpack.unpackb(socket.recv())
        if message[0] != Kind.HEARTBEAT:
            return message


def acknowledged(message: list[Any]) -> int:
    """The last command that a message of reports answers; 0: none."""
    kind, _, reports = message
    if kind == Kind.REPORT_ROWS:
        return int(np.frombuffer(reports, EVENT)["command_id"].max())
    assert kind == Kind.REPORTS, message
    return max(report[2] for report in reports)


def bulk_messages(rows: Rows, bulk_rows: int = BULK_ROWS) -> list[bytes]:
    """The rows in bulk messages."""
    return [msgpack.packb([32, rows[at : at + bulk_rows].tobytes()]) for at in range(0, len(rows), bulk_rows)]


def send_bulk(
    socket: "zmq.Socket[bytes]", messages: list[bytes], first_id: int, count: int, bulk_rows: int = BULK_ROWS
) -> None:
    """Send bulk messages of `count` commands from first_id on, until all are acknowledged."""
    sent = done = 0
    while done < count:
        while sent < len(messages) and sent * bulk_rows - done < BULK_WINDOW * BULK_ROWS:
            socket.send(messages[sent], copy=False)
            sent += 1
        done = max(done, acknowledged(answer(socket)) - first_id + 1)


def send_rows(socket: "zmq.Socket[bytes]", rows: Rows, bulk_rows: int = BULK_ROWS) -> None:
    """The same with rows."""
    send_bulk(socket, bulk_messages(rows, bulk_rows), int(rows["command_id"][0]), len(rows), bulk_rows)


@njit(cache=True)
def _last_command(buffer: Any, size: int) -> int:
    """The last command that a REPORTS message answers; 0: none."""
    if size < 4 or buffer[0] != 0x93 or buffer[1] != REPORTS:
        return 0
    _, at = read_int(buffer, 2, size)
    events = np.int64(buffer[at]) & 0x0F
    at += 1
    if buffer[at - 1] == 0xDC:
        events = (np.int64(buffer[at]) << 8) | np.int64(buffer[at + 1])
        at += 2
    last = 0
    for _event in range(events):
        at += 1
        for field in range(14):
            value, at = read_int(buffer, at, size)
            if field == 2:
                last = max(last, value)
    return last


@njit(cache=True)
def _window_load(socket: int, data: Any, ends: Any, first_id: int, buffer: Any) -> None:
    sent = done = 0
    count = ends.size - 1
    while done < count:
        while sent < count and sent - done < WINDOW:
            zmq_send(socket, data.ctypes.data + ends[sent], ends[sent + 1] - ends[sent], 0)
            sent += 1
        size = zmq_recv(socket, buffer.ctypes.data, buffer.size, 0)
        done = max(done, _last_command(buffer, size) - first_id + 1)


def window_load(socket: "zmq.Socket[bytes]", messages: Messages) -> None:
    """Send the messages with up to WINDOW unacknowledged, until all are acknowledged."""
    _window_load(socket.underlying, *messages, np.zeros(1 << 20, np.uint8))


@njit(cache=True)
def _window_echo(socket: int, data: Any, ends: Any, buffer: Any) -> None:
    sent = done = 0
    count = ends.size - 1
    while done < count:
        while sent < count and sent - done < WINDOW:
            zmq_send(socket, data.ctypes.data + ends[sent], ends[sent + 1] - ends[sent], 0)
            sent += 1
        zmq_recv(socket, buffer.ctypes.data, buffer.size, 0)
        done += 1


def window_echo(socket: "zmq.Socket[bytes]", messages: Messages) -> None:
    """The same load against an echo server: the limit of the sockets alone."""
    _window_echo(socket.underlying, messages.data, messages.ends, np.zeros(4096, np.uint8))


@njit(cache=True)
def echo(socket: int, identity: Any, message: Any, count: int) -> None:
    """A ROUTER that echoes `count` messages."""
    for _ in range(count):
        identity_size = zmq_recv(socket, identity.ctypes.data, identity.size, 0)
        message_size = zmq_recv(socket, message.ctypes.data, message.size, 0)
        zmq_send(socket, identity.ctypes.data, identity_size, 2)
        zmq_send(socket, message.ctypes.data, message_size, 0)
