"""A ZeroMQ client on a plain TCP connection, whose handshake can request any routing id."""

import socket
from typing import Any

import msgpack

from serl.exchange.config import socket_endpoints

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
"""ZMTP 3.0, mechanism NULL (rfc.zeromq.org/spec/23)."""
LONG, COMMAND = 2, 4
"""Flags of a frame."""


class Zmtp:
    """A DEALER with one connection and a routing id of its choice."""

    def __init__(self, endpoint: str, name: str = "orders", identity: bytes = b"") -> None:
        host, _, port = socket_endpoints(endpoint)[name].removeprefix("tcp://").rpartition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=20)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._connection.makefile("rb")
        self._connection.sendall(GREETING)
        self._read(len(GREETING))
        properties = _property(b"Socket-Type", b"DEALER") + _property(b"Identity", identity)
        self._send(COMMAND | LONG, b"\x05READY" + properties)
        flags, ready = self._frame()
        assert flags & COMMAND and ready.startswith(b"\x05READY"), ready

    def send(self, *message: Any) -> None:
        self._send(0, msgpack.packb(message))

    def receive(self, timeout_s: float = 20) -> list[Any]:
        """Receives the next message except HEARTBEAT. Raises TimeoutError or ConnectionError."""
        self._connection.settimeout(timeout_s)
        while True:
            message: list[Any] = msgpack.unpackb(self._frame()[1], strict_map_key=False)
            if message[0] != 99:
                return message

    def close(self) -> None:
        """Breaks the connection without a BYE."""
        self._stream.close()
        self._connection.close()

    def __enter__(self) -> "Zmtp":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _send(self, flags: int, body: bytes) -> None:
        size = len(body).to_bytes(8 if flags & LONG else 1, "big")
        self._connection.sendall(bytes([flags]) + size + body)

    def _frame(self) -> tuple[int, bytes]:
        flags = self._read(1)[0]
        size = int.from_bytes(self._read(8 if flags & LONG else 1), "big")
        return flags, self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionResetError("the exchange closed the connection")
        return data


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
