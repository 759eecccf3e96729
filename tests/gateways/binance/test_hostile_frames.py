"""WebSocket frames in pieces, and frames and messages of who means harm: each is answered or closed, and others do not notice."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from serl.gateways.binance.outbox import FRAMES_MAX, PING_S
from tests.gateways.binance.gateway_fixture import WAIT_S, Gateway

CONTINUATION, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
MESSAGE_BYTES_MAX = 65_536
PATHS = ("/ws-api/v3", "/ws")


def frame(opcode: int, data: bytes = b"", *, last: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    """A frame; its mask is four zeros."""
    size = len(data)
    short, long = (
        (size, b"")
        if size < 126
        else (126, struct.pack("!H", size))
        if size < 1 << 16
        else (127, struct.pack("!Q", size))
    )
    return bytes((last << 7 | reserved | opcode, masked << 7 | short)) + long + bytes(4 * masked) + data


def request(path: str, request_id: Any) -> bytes:
    """A message that is answered with its id."""
    method = "ping" if path == "/ws-api/v3" else "LIST_SUBSCRIPTIONS"
    return json.dumps({"id": request_id, "method": method}, ensure_ascii=False).encode()


class Raw:
    """A connection that sends any bytes."""

    def __init__(self, gateway: Gateway, path: str, step: int = 1 << 20) -> None:
        host, _, port = gateway.address.rpartition(":")
        self.socket, self._step = socket.create_connection((host, int(port)), WAIT_S), step
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self.socket.makefile("rb")
        self.send(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b"101" in self._stream.readline()
        while self._stream.readline() != b"\r\n":
            pass

    def send(self, data: bytes) -> None:
        """Sends bytes, `step` at once."""
        for start in range(0, len(data), self._step):
            self.socket.sendall(data[start : start + self._step])

    def receive(self) -> tuple[int, bytes]:
        """(opcode, data) of the next frame."""
        first, size = self._stream.read(2)
        if size == 126:
            (size,) = struct.unpack("!H", self._stream.read(2))
        return first & 15, self._stream.read(size)

    def receive_json(self) -> Any:
        """The next message."""
        opcode, data = self.receive()
        assert opcode == TEXT, (opcode, data)
        return json.loads(data)

    def close_code(self) -> int:
        """The code with which the gateway closes the connection; the connection then ends."""
        opcode, data = self.receive()
        assert opcode == CLOSE, (opcode, data)
        with contextlib.suppress(ConnectionResetError):  # what it did not read of us
            assert self._stream.read() == b""
        return int.from_bytes(data[:2], "big")


@contextlib.contextmanager
def raw(gateway: Gateway, path: str, step: int = 1 << 20) -> Iterator[Raw]:
    connection = Raw(gateway, path, step)
    try:
        yield connection
    finally:
        connection.socket.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_request_may_come_byte_by_byte_and_in_fragments(gateway: Gateway, path: str) -> None:
    with raw(gateway, path, step=1) as connection:
        connection.send(frame(TEXT, request(path, 1)))
        assert connection.receive_json()["id"] == 1
        data = request(path, "é€")
        cut = data.index("€".encode()) + 1  # within a character
        connection.send(frame(TEXT, data[:cut], last=False) + frame(PING, b"hello"))
        assert connection.receive() == (PONG, b"hello")
        connection.send(frame(CONTINUATION, last=False) + frame(CONTINUATION, data[cut:]))
        assert connection.receive_json()["id"] == "é€"
        connection.send(frame(CLOSE, struct.pack("!H", 1000)))
        assert connection.close_code() == 1000


@pytest.mark.long  # waits for a ping
def test_a_ping_is_a_text_as_binances_are(gateway: Gateway) -> None:
    with raw(gateway, "/ws") as connection:
        connection.socket.settimeout(2 * PING_S)
        opcode, data = connection.receive()
        assert opcode == PING and abs(int(data) / 1000 - time.time()) < PING_S
        connection.send(frame(PONG, data) + frame(TEXT, request("/ws", 1)))
        assert connection.receive_json()["id"] == 1


HALF = bytes(b"x" * (MESSAGE_BYTES_MAX // 2 + 1))
HARMFUL = {
    "a frame that says it is huge": (b"\x81\xff" + struct.pack("!Q", 1 << 40) + bytes(4), 1009),
    "a frame above the limit": (frame(TEXT, 2 * HALF)[:14], 1009),
    "fragments above the limit": (frame(TEXT, HALF, last=False) + frame(CONTINUATION, HALF)[:8], 1009),
    "a message that never ends": (frame(TEXT, b"{", last=False) + (FRAMES_MAX + 1) * frame(CONTINUATION, last=False), 1009),
    "bytes that are no text": (frame(TEXT, b'{"id": "\xff"}'), 1007),
    "half a character": (frame(TEXT, '"€'.encode()[:-1]), 1007),
    "a frame without a mask": (frame(TEXT, b"{}", masked=False), 1002),
    "a continuation of nothing": (frame(CONTINUATION, b"{}"), 1002),
    "a message within a message": (frame(TEXT, b"{", last=False) + frame(TEXT, b"{}"), 1002),
    "a reserved bit": (frame(TEXT, b"{}", reserved=0x40), 1002),
    "an unknown opcode": (frame(3, b"{}"), 1002),
    "a ping in fragments": (frame(PING, b"x", last=False), 1002),
    "a long ping": (frame(PING, bytes(126)), 1002),
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_who_breaks_the_protocol_is_closed_and_others_are_not(gateway: Gateway, path: str) -> None:
    with raw(gateway, path) as bystander, gateway.socket("/ws/demousdt@bookTicker") as reader:
        for number, (name, (data, code)) in enumerate(HARMFUL.items()):
            with raw(gateway, path) as connection:
                connection.send(data)
                assert connection.close_code() == code, name
            bystander.send(frame(TEXT, request(path, number)))
            assert bystander.receive_json()["id"] == number, name
        gateway.placed("BUY", 1, "13.00")
        assert reader.receive(b="13.00000000")


BOMBS = {
    "deep arrays": b"[" * 60_000,
    "deep objects": b'{"a":' * 10_000,
    "deep parameters": b'{"id": 1, "method": "ping", "params": {"a": ' + b"[" * 30_000 + b"]" * 30_000 + b"}}",
    "a number of many digits": b'{"id": 1, "method": "ping", "params": {"a": ' + b"9" * 60_000 + b"}}",
    "nothing": b"",
    "zeros": bytes(100),
}


@pytest.mark.parametrize("path", PATHS)
def test_messages_that_are_bombs_get_an_error(gateway: Gateway, path: str) -> None:
    with raw(gateway, path) as connection:
        for number, (name, data) in enumerate(BOMBS.items()):
            connection.send(frame(TEXT, data))
            answer = connection.receive_json()
            if path == "/ws-api/v3":
                assert (answer["status"], answer["error"]["code"]) == (400, -1135), (name, answer)
            else:
                assert answer["code"] in (2, 3), (name, answer)
            connection.send(frame(TEXT, request(path, number)))
            assert connection.receive_json()["id"] == number, name
    if path == "/ws-api/v3":
        with raw(gateway, path) as connection:  # depths around the recursion limit
            for depth in range(100, 3000, 100):
                nested = b'{"id": 1, "method": "ping", "params": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
                connection.send(frame(TEXT, nested))
                assert connection.receive_json()["error"]["code"] in (-1104, -1135), depth
            connection.send(
                frame(
                    TEXT,
                    b'{"id": 1, "method": "order.place", "params": {"apiKey": "ALICE", "timestamp": 1, "symbol": "\\ud800"}}',
                )
            )
            assert connection.receive_json()["error"]["code"] == -1021
