"""A compiled load generator: keeps a window of orders in flight and counts acknowledgements."""

from typing import Any

import msgpack
import numpy as np
import zmq
from numba import njit

from benchmarks.stream import make
from serl.exchange.gateway.codec import read_int, write_int
from serl.exchange.libzmq import zmq_recv, zmq_send
from serl.exchange.wire import Kind

ACCEPTED = 1
SEED = 1


def login(endpoint: str, name: str, rows: bool = False) -> tuple["zmq.Socket[bytes]", list[Any]]:
    """A logged-in DEALER socket and its WELCOME."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = 0
    socket.connect(endpoint)
    socket.send(msgpack.packb([64, 1, 1, name, "", -1, {"rows": rows}]))
    welcome = msgpack.unpackb(socket.recv())
    assert welcome[0] == 96, welcome
    return socket, welcome


def answer(socket: "zmq.Socket[bytes]") -> list[Any]:
    """The next message other than a heartbeat."""
    while True:
        message: list[Any] = msgpack.unpackb(socket.recv())
        if message[0] != Kind.HEARTBEAT:
            return message


@njit(cache=True)
def write_new(buffer: Any, command_id: int, symbol: int) -> int:
    """Write a NEW of one lot, alternately buy and sell at one price, so every second order trades. Returns its size."""
    buffer[0] = 0x99
    buffer[1] = 1
    at = write_int(buffer, 2, command_id)
    at = write_int(buffer, at, symbol)
    at = write_int(buffer, at, command_id & 1)
    at = write_int(buffer, at, 1)
    at = write_int(buffer, at, 10_000)
    at = write_int(buffer, at, 1)
    at = write_int(buffer, at, 0)
    return write_int(buffer, at, 0)


@njit(cache=True)
def count_accepted(buffer: Any, size: int) -> int:
    """Number of ACCEPTED events in a REPORTS message."""
    if size < 4 or buffer[0] != 0x93 or buffer[1] != 80:
        return 0
    _, at = read_int(buffer, 2, size)
    events = np.int64(buffer[at]) & 0x0F
    at += 1
    if buffer[at - 1] == 0xDC:
        events = (np.int64(buffer[at]) << 8) | np.int64(buffer[at + 1])
        at += 2
    accepted = 0
    for _event in range(events):
        accepted += buffer[at + 1] == ACCEPTED
        at += 1
        for _field in range(14):
            _value, at = read_int(buffer, at, size)
    return accepted


@njit(cache=True)
def window_load(socket: int, out: Any, buffer: Any, first_id: int, symbol: int, count: int, window: int) -> int:
    """Send `count` orders with up to `window` unacknowledged. Returns the number of messages received."""
    sent = acknowledged = messages = 0
    while acknowledged < count:
        while sent < count and sent - acknowledged < window:
            size = write_new(out, first_id + sent, symbol)
            zmq_send(socket, out.ctypes.data, size, 0)
            sent += 1
        size = zmq_recv(socket, buffer.ctypes.data, buffer.size, 0)
        acknowledged += count_accepted(buffer, size)
        messages += 1
    return messages


@njit(cache=True)
def window_echo(socket: int, out: Any, buffer: Any, count: int, window: int) -> None:
    """The same load against an echo server: the limit of the sockets alone."""
    sent = answered = 0
    while answered < count:
        while sent < count and sent - answered < window:
            size = write_new(out, 1_000_000 + sent, 0)
            zmq_send(socket, out.ctypes.data, size, 0)
            sent += 1
        zmq_recv(socket, buffer.ctypes.data, buffer.size, 0)
        answered += 1


@njit(cache=True)
def echo(socket: int, identity: Any, message: Any, count: int) -> None:
    """A ROUTER that echoes `count` messages."""
    for _ in range(count):
        identity_size = zmq_recv(socket, identity.ctypes.data, identity.size, 0)
        message_size = zmq_recv(socket, message.ctypes.data, message.size, 0)
        zmq_send(socket, identity.ctypes.data, identity_size, 2)
        zmq_send(socket, message.ctypes.data, message_size, 0)


def bulk_messages(first_id: int, symbol: int, count: int, rows: int) -> list[bytes]:
    """`count` commands of the kernel benchmark's stream in bulk messages of `rows`."""
    _, commands = make(count, 0, SEED)
    commands["order_id"] = np.where(commands["order_id"] > 0, commands["order_id"] + first_id - 1, 0)
    commands["command_id"] += first_id - 1
    commands["symbol"] = symbol
    return [msgpack.packb([32, commands[at : at + rows].tobytes()]) for at in range(0, count, rows)]
