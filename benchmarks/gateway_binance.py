"""Orders through the Binance gateway: requests a second over REST and over the WebSocket API, and what REST adds to an order.

A real exchange with its journal on, a real gateway and this load generator share the machine's cores. Every request is a signed LIMIT order
that rests in the book; the requests are made before the measurement, and every answer is read and checked.
"""

import hashlib
import hmac
import json
import re
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from serl.clients.blocking import connect
from tests.server_fixture import start_exchange

REST_REQUESTS, REST_CONNECTIONS = 6_000, 8
SOCKET_REQUESTS, SOCKET_WINDOW = 20_000, 256
LATENCY_REQUESTS = 1_000
SECRET = "benchmark"
LEVELS = 500
"""Prices of the orders."""


@contextmanager
def start_gateway(endpoint: str, folder: Path) -> Iterator[tuple[str, int]]:
    """A gateway without rate limits for the account `alice`: its host and port."""
    accounts = folder / "accounts.yaml"
    accounts.write_text(f"accounts: {{alice: {{secret: {SECRET}}}}}\n")
    accounts.chmod(0o600)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "serl", "binance", "start", "--connect", endpoint, "--listen", "127.0.0.1:0", "--accounts", str(accounts),
            "--orders", str(folder / "orders"), "--weight-per-minute", "0", "--orders-per-10s", "0", "--orders-per-day", "0",
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = ""
        for line in process.stdout:
            if found := re.search(r"REST +http://([^/]+)/", line):
                address = found.group(1)
            if "account alice" in line:
                break
        host, _, port = address.rpartition(":")
        yield host, int(port)
    finally:
        process.terminate()
        process.wait(30)


def _parameters(number: int) -> dict[str, str]:
    """A signed order."""
    price = 9_000 + number % LEVELS
    values = {
        "symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": "1", "price": f"{price / 100:.2f}",
        "newOrderRespType": "ACK", "recvWindow": "60000", "timestamp": str(time.time_ns() // 1_000_000),
    }  # fmt: skip
    return values


def _sign(payload: str) -> str:
    return hmac.new(SECRET.encode(), payload.encode(), hashlib.sha256).hexdigest()


def _rest_request(number: int) -> bytes:
    query = urlencode(_parameters(number))
    body = f"{query}&signature={_sign(query)}"
    head = "POST /api/v3/order HTTP/1.1\r\nHost: localhost\r\nX-MBX-APIKEY: alice\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _socket_frame(number: int) -> bytes:
    """A request to the WebSocket API as a masked frame (of a mask of zeros)."""
    values = {**_parameters(number), "apiKey": "alice"}
    payload = "&".join(f"{name}={values[name]}" for name in sorted(values))
    request = {
        "id": number,
        "method": "order.place",
        "params": {**values, "signature": _sign(payload), "returnRateLimits": False},
    }
    del request["params"]["returnRateLimits"]
    data = json.dumps(request).encode()
    return struct.pack("!BBH", 0x81, 0x80 | 126, len(data)) + bytes(4) + data


def _connection(address: tuple[str, int]) -> socket.socket:
    made = socket.create_connection(address)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _take_answer(buffer: bytearray) -> bool:
    """Removes a complete HTTP answer from the buffer; False if there is none. Asserts that it is an accepted order."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = int(buffer[buffer.index(b"content-length: ") + 16 : end].split(b"\r\n")[0])
    if len(buffer) < end + 4 + length:
        return False
    assert buffer.startswith(b"HTTP/1.1 200"), bytes(buffer)
    del buffer[: end + 4 + length]
    return True


def rest_per_s(address: tuple[str, int]) -> float:
    """Orders a second over REST_CONNECTIONS connections, each with one request at a time."""
    requests = iter([_rest_request(number) for number in range(REST_REQUESTS)])
    waiting, done = selectors.DefaultSelector(), 0
    connections = [_connection(address) for _ in range(REST_CONNECTIONS)]
    began = time.perf_counter()
    for each in connections:
        waiting.register(each, selectors.EVENT_READ, bytearray())
        each.sendall(next(requests))
    while done < REST_REQUESTS:
        for key, _ in waiting.select():
            assert isinstance(key.fileobj, socket.socket)
            key.data.extend(key.fileobj.recv(65_536))
            if _take_answer(key.data):
                done += 1
                if (request := next(requests, None)) is not None:
                    key.fileobj.sendall(request)
    took_s = time.perf_counter() - began
    for each in connections:
        each.close()
    return REST_REQUESTS / took_s


def _upgrade(address: tuple[str, int]) -> socket.socket:
    """A connection to the WebSocket API."""
    made = _connection(address)
    made.sendall(
        b"GET /ws-api/v3 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += made.recv(1)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return made


def _take_frames(buffer: bytearray) -> int:
    """Removes the complete frames from the buffer; their number. Asserts that each is an accepted order."""
    count = at = 0
    while len(buffer) >= at + 2:
        length, head = buffer[at + 1], 2
        if length == 126:
            if len(buffer) < at + 4:
                break
            length, head = struct.unpack_from("!H", buffer, at + 2)[0], 4
        if len(buffer) < at + head + length:
            break
        assert b'"status":200' in buffer[at : at + head + 60], bytes(buffer[at : at + head + length])
        at += head + length
        count += 1
    del buffer[:at]
    return count


def socket_per_s(address: tuple[str, int]) -> float:
    """Orders a second over one connection with SOCKET_WINDOW requests in flight."""
    frames = [_socket_frame(number) for number in range(SOCKET_REQUESTS)]
    connection, buffer = _upgrade(address), bytearray()
    sent = done = 0
    began = time.perf_counter()
    while done < SOCKET_REQUESTS:
        room = min(SOCKET_WINDOW - (sent - done), SOCKET_REQUESTS - sent)
        if room > SOCKET_WINDOW // 4 or room == SOCKET_REQUESTS - sent > 0:
            connection.sendall(b"".join(frames[sent : sent + room]))
            sent += room
        buffer += connection.recv(1 << 18)
        done += _take_frames(buffer)
    took_s = time.perf_counter() - began
    connection.close()
    return SOCKET_REQUESTS / took_s


def added_p99_us(address: tuple[str, int], endpoint: str) -> float:
    """The 99th percentile of the time of an order over REST, less that of an order of the blocking client; by turns."""
    connection, buffer = _connection(address), bytearray()
    over_rest, direct = [], []
    with connect(endpoint, "direct") as exchange:
        for number in range(LATENCY_REQUESTS):
            request = _rest_request(number)
            began = time.perf_counter()
            connection.sendall(request)
            while not _take_answer(buffer):
                buffer += connection.recv(65_536)
            over_rest.append(time.perf_counter() - began)
            began = time.perf_counter()
            exchange.buy("DEMO", 1, 9_000 + number % LEVELS)
            direct.append(time.perf_counter() - began)
    connection.close()
    at = LATENCY_REQUESTS * 99 // 100
    return (sorted(over_rest)[at] - sorted(direct)[at]) * 1e6


def run() -> dict[str, float]:
    """Starts an exchange and a gateway, and measures both ways in."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_exchange(symbols="DEMO", journal=Path(folder) / "journal") as exchange,
        start_gateway(exchange.endpoint, Path(folder)) as address,
    ):
        added_us = added_p99_us(address, exchange.endpoint)
        return {
            "binance_rest_per_s": rest_per_s(address), "binance_ws_orders_per_s": socket_per_s(address), "binance_rest_added_p99_us": added_us,
        }  # fmt: skip
