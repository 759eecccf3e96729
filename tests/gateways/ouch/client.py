"""A SoupBinTCP client for tests, OUCH messages written out byte by byte, and a gateway process."""

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from serl.gateways.ouch.messages import OUTBOUND

TIMEOUT_S = 10
SECRETS = {"alice": "alicepw", "bob": "bobpw"}
LETTERS = (
    "side",
    "time_in_force",
    "display",
    "capacity",
    "sweep",
    "cross",
    "state",
    "reason",
    "liquidity",
    "event",
    "strategy",
)


def soup(kind: bytes, payload: bytes = b"") -> bytes:
    return struct.pack(">H", len(payload) + 1) + kind + payload


def option(tag: int, value: bytes) -> bytes:
    return bytes([len(value) + 1, tag]) + value


POST_ONLY = option(12, b"P")


def shares(tag: int, count: int) -> bytes:
    return option(tag, struct.pack(">I", count))


def enter(
    ref: int, side: bytes = b"B", quantity: int = 100, price: int = 1_000_000, *, symbol: bytes = b"AMZN", tif: bytes = b"0",
    display: bytes = b"Y", cross: bytes = b"N", cl_ord_id: bytes = b"mine", options: bytes = b"", capacity: bytes = b"A", sweep: bytes = b"N",
) -> bytes:  # fmt: skip
    head = b"O" + struct.pack(">I", ref) + side + struct.pack(">I", quantity) + symbol.ljust(8)
    tail = struct.pack(">q", price) + tif + display + capacity + sweep + cross + cl_ord_id.ljust(14)
    return head + tail + struct.pack(">H", len(options)) + options


def replace(original: int, ref: int, quantity: int, price: int, *, tif: bytes = b"0", display: bytes = b"Y") -> bytes:
    head = b"U" + struct.pack(">IIIq", original, ref, quantity, price)
    return head + tif + display + b"N" + b"changed".ljust(14) + b"\0\0"


def cancel(ref: int, quantity: int = 0) -> bytes:
    return b"X" + struct.pack(">II", ref, quantity)


def modify(ref: int, side: bytes, quantity: int) -> bytes:
    return b"M" + struct.pack(">I", ref) + side + struct.pack(">I", quantity)


def mass_cancel(ref: int, symbol: bytes = b"", options: bytes = b"", firm: bytes = b"    ") -> bytes:
    return b"C" + struct.pack(">I", ref) + firm + symbol.ljust(8) + struct.pack(">H", len(options)) + options


def login(user: str, secret: str, sequence: int = 1, session: str = "", tail: str = "") -> bytes:
    text = user.ljust(6) + secret.ljust(10) + session.rjust(10) + str(sequence).rjust(20) + tail
    return soup(b"L", text.encode())


class SoupClient:
    """A connection; `with` closes it."""

    def __init__(self, port: int, *, receive_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(("127.0.0.1", port))
        self._data = b""

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, *messages: bytes) -> None:
        """Sends unsequenced packets in one write."""
        self.write(b"".join(soup(b"U", message) for message in messages))

    def packet(self) -> tuple[bytes, bytes]:
        """The next packet other than a heartbeat; (b"", b"") at the end of the connection."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            assert time.monotonic() < deadline, "nothing but heartbeats"
            while len(self._data) < 2 or len(self._data) < 2 + int.from_bytes(self._data[:2], "big"):
                try:
                    received = self.socket.recv(1 << 16)
                except ConnectionResetError:
                    received = b""
                if not received:
                    return b"", b""
                self._data += received
            size = 2 + int.from_bytes(self._data[:2], "big")
            kind, payload = self._data[2:3], self._data[3:size]
            self._data = self._data[size:]
            if kind != b"H":
                return kind, payload

    def log_in(self, user: str = "alice", sequence: int = 1, session: str = "") -> tuple[str, int]:
        """(session, next sequence number)."""
        self.write(login(user, SECRETS[user], sequence, session))
        kind, payload = self.packet()
        assert kind == b"A", (kind, payload)
        return payload[:10].decode().strip(), int(payload[10:])

    def payload(self) -> bytes:
        """The payload of the next packet, which must be sequenced."""
        kind, payload = self.packet()
        assert kind == b"S", (kind, payload)
        return payload

    def message(self) -> dict[str, Any]:
        """The next message by fields; single letters as text."""
        return decode(self.payload())

    def messages(self, count: int) -> list[dict[str, Any]]:
        return [self.message() for _ in range(count)]

    def summary(self, count: int) -> list[tuple[Any, ...]]:
        """(type, user_ref, quantity) of the next messages; without a quantity 0."""
        return [(m["type"], m.get("user_ref", 0), m.get("quantity", 0)) for m in self.messages(count)]

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "SoupClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def decode(payload: bytes) -> dict[str, Any]:
    """A message's fields."""
    layout = OUTBOUND[chr(payload[0])]
    data = b"\0\0S" + payload
    row = np.frombuffer(data[: layout.itemsize], layout)[0]
    values = {name: row[name].item() for name in layout.names if name not in ("packet", "packet_bytes")}
    for name in ("type", *LETTERS):
        if name in values and layout[name].itemsize == 1:
            values[name] = chr(values[name])
    return values | {"appendage": data[layout.itemsize :]}


class Gateway:
    """A `serl ouch start` process."""

    def __init__(self, process: "subprocess.Popen[str]", lines: list[str]) -> None:
        self.process = process
        self.lines = lines

    def port(self, protocol: str = "OUCH") -> int:
        line = next(line for line in self.lines if line.startswith(protocol))
        return int(line.split(" on ")[1].split(",")[0].rpartition(":")[2])

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT_S)


@contextmanager
def gateway(endpoint: str, folder: Path, *options: str) -> Iterator[Gateway]:
    """A gateway of alice and bob; its state stays in `folder`. What it prints must not contain a traceback."""
    accounts = folder / "accounts.yaml"
    accounts.write_text("accounts:\n" + "".join(f"  {name}: {{secret: {SECRETS[name]}}}\n" for name in SECRETS))
    accounts.chmod(0o600)
    errors = folder / "stderr"
    with errors.open("a") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "serl", "ouch", "start", "--connect", endpoint, "--listen", "127.0.0.1:0",
             "--accounts", str(accounts), "--state", str(folder / "state"), *options],
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("ready"):
                break
        else:
            raise AssertionError(f"the gateway did not start: {lines} {errors.read_text()}")
        yield Gateway(process, lines)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(TIMEOUT_S)
        process.stdout.close()
        assert "Traceback" not in errors.read_text(), errors.read_text()
