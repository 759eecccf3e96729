"""Floods of connections that are not logged in, beside a client whose orders arrive."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgpack

from tests.exchange.test_limits import limited
from tests.raw_zmtp import frame, raw_connection
from tests.server_fixture import RawClient


def test_a_flood_that_connects_again_waits_while_orders_arrive(tmp_path: Path) -> None:
    """Ten floods a second, each closed after 256 messages, were in the way of more than one order in a hundred."""
    refused, floods, command_ids = frame(msgpack.packb([66, 1])) * 32, 0, count(1)
    with limited(tmp_path) as served, RawClient(served.endpoint) as raw, ThreadPoolExecutor(1) as pool:
        raw.login("honest")

        def order() -> None:
            raw.send(1, next(command_ids), 0, 0, 1, 100, 1, 0, 0)
            time.sleep(0.0005)

        end_s = time.monotonic() + 3.0
        while time.monotonic() < end_s:
            admitted = pool.submit(raw_connection, served.endpoint, "orders", b"DEALER")
            while not admitted.done():
                order()
            with admitted.result() as stranger, suppress(OSError):
                floods += 1
                while True:
                    stranger.sendall(refused)
                    order()
    assert 2 <= floods <= 5, floods
