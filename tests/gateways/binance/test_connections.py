"""Connections that only take room: each is refused or ends, and others do not notice."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from serl.gateways.binance.http import HEAD_BYTES_MAX, REQUEST_S
from serl.gateways.connections import REQUESTS
from tests.gateways.binance.gateway_fixture import UNLIMITED, WAIT_S, Gateway, start_gateway
from tests.gateways.flood import flooded
from tests.server_fixture import Served, start_exchange

PER_ADDRESS = 20
PING = b"GET /api/v3/ping HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def apart() -> Iterator[Served]:
    """An exchange, on which a gateway does not take the sessions of the one that tests share."""
    with start_exchange(symbols="DEMO") as served:
        yield served


@pytest.fixture
def limited(apart: Served, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that permits few connections."""
    limits = ("--connections", "30", "--connections-per-address", str(PER_ADDRESS))
    with start_gateway(apart.endpoint, tmp_path, *UNLIMITED, *limits) as gateway:
        yield gateway


def opened(gateway: Gateway, source: str = "127.0.0.1") -> socket.socket:
    host, _, port = gateway.address.rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_S, (source, 0))


def answer(connection: socket.socket, request: bytes = PING) -> bytes:
    """What is answered, at least its first line."""
    connection.sendall(request)
    found = b""
    while b"}" not in found:
        part = connection.recv(4096)
        assert part, found
        found += part
    return found


def test_an_address_has_so_many_connections_and_other_addresses_have_theirs(limited: Gateway) -> None:
    with ExitStack() as closing:
        taken = [closing.enter_context(opened(limited)) for _ in range(PER_ADDRESS)]
        assert all(b"200 OK" in answer(each) for each in taken)
        with opened(limited) as further:
            refused = answer(further)
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert json.loads(refused.partition(b"\r\n\r\n")[2]) == {
            "code": -1034, "msg": f"Too many concurrent connections; current limit is '{PER_ADDRESS}'.",
        }  # fmt: skip
        others = [closing.enter_context(opened(limited, "127.0.0.2")) for _ in range(30 - PER_ADDRESS)]
        assert all(b"200 OK" in answer(each) for each in others)
        with opened(limited, "127.0.0.3") as further:
            assert b"current limit is '30'" in answer(further)
        taken[0].close()
        deadline = time.monotonic() + WAIT_S
        while True:  # until the gateway has noticed
            with opened(limited) as again:
                if b"200 OK" in answer(again):
                    return
            assert time.monotonic() < deadline


def test_websockets_count(limited: Gateway) -> None:
    with ExitStack() as closing:
        for _ in range(PER_ADDRESS):
            closing.enter_context(limited.socket("/ws"))
        with opened(limited) as further:
            assert answer(further).startswith(b"HTTP/1.1 429 ")


def test_a_head_without_end_closes_the_connection(gateway: Gateway) -> None:
    with opened(gateway) as connection:
        connection.sendall(b"GET /api/v3/ping HTTP/1.1\r\nHost: x\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"x-a: " + bytes(b"b" * (HEAD_BYTES_MAX // 8)) + b"\r\n")
        assert gateway.public("ping") == {}


@pytest.mark.long  # waits for the time limit
def test_a_connection_without_a_request_ends(gateway: Gateway) -> None:
    with opened(gateway) as connection:
        began_s = time.monotonic()
        assert connection.recv(1) == b""
        assert REQUEST_S - 1 < time.monotonic() - began_s < REQUEST_S + 5


@pytest.mark.long  # waits for the time limit
@pytest.mark.parametrize(
    "start",
    [b"GET /api", PING[:-2], b"POST /api/v3/order HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n", PING + PING[:-2]],
)
def test_a_request_that_does_not_arrive_ends_its_connection(gateway: Gateway, start: bytes) -> None:
    """One byte after another does not prolong it."""
    with opened(gateway) as connection:
        connection.sendall(start)
        began_s = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < began_s + 2 * REQUEST_S:
                time.sleep(0.5)
                connection.sendall(b"x")
        assert REQUEST_S - 1 < time.monotonic() - began_s < REQUEST_S + 5


@pytest.mark.long
def test_ten_thousand_connections_leave_the_others_theirs(apart: Served, tmp_path: Path) -> None:
    with (
        start_gateway(apart.endpoint, tmp_path, *UNLIMITED) as gateway,
        gateway.socket("/ws/demousdt@bookTicker") as reader,
    ):
        gateway.public("ping")  # keeps its connection
        with flooded(gateway.process.pid, int(gateway.address.rpartition(":")[2]), REQUESTS):
            gateway.placed("BUY", 1, "12.00")
            assert reader.receive(b="12.00000000")
            with opened(gateway, "127.0.0.3") as newcomer:
                assert b"200 OK" in answer(newcomer)
            gateway.clear()
