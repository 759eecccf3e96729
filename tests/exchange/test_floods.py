"""Floods of connections that are not logged in, beside a client whose orders arrive."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgpack

from serl.exchange.unauthenticated import FLOOD_WAIT_S
from tests.exchange.test_limits import limited
from tests.raw_zmtp import frame, raw_connection
from tests.server_fixture import RawClient

REFUSED = frame(msgpack.packb([66, 1])) * 32


class Honest:
    """A client that sends an order at every call."""

    def __init__(self, raw: RawClient) -> None:
        self._raw, self._command_ids = raw, count(1)
        raw.login("honest")

    def order(self) -> None:
        """Sends one, and waits a moment."""
        self._raw.send(1, next(self._command_ids), 0, 0, 1, 100, 1, 0, 0)
        time.sleep(0.0005)

    def flood(self, stranger: socket.socket) -> None:
        """Sends orders while a stranger floods, until its connection is closed."""
        with stranger, suppress(OSError):
            while True:
                stranger.sendall(REFUSED)
                self.order()


def test_a_flood_that_connects_again_waits_while_orders_arrive(tmp_path: Path) -> None:
    """Ten floods a second, each closed after 256 messages, were in the way of more than one order in a hundred."""
    floods = 0
    with limited(tmp_path) as served, RawClient(served.endpoint) as raw, ThreadPoolExecutor(1) as pool:
        honest, end_s = Honest(raw), time.monotonic() + 3.0
        while time.monotonic() < end_s:
            admitted = pool.submit(raw_connection, served.endpoint, "orders", b"DEALER")
            while not admitted.done():
                honest.order()
            honest.flood(admitted.result())
            floods += 1
    assert 2 <= floods <= 8, floods  # on a busy machine two at each of four admissions


COSTLY = "import serl.exchange.unauthenticated as it; it.DROP_S, it.DROP_BYTE_S = 2 * it.DROP_S, 2 * it.DROP_BYTE_S"
"""As on a busy machine, where more messages of a flood arrive before its connection is closed."""


def test_floods_of_many_connections_keep_nobody_waiting_for_long(tmp_path: Path) -> None:
    """Connections that were admitted before could flood one after the other, and each would have made newcomers wait for another second. What the
    floods cost makes them wait a little longer; the time in which they are admitted was then over before it had begun."""
    with limited(tmp_path, prelude=COSTLY) as served, RawClient(served.endpoint) as raw, ThreadPoolExecutor(1) as pool:
        strangers = [raw_connection(served.endpoint, "orders", b"DEALER") for _ in range(10)]
        honest, took_s, newcomer = Honest(raw), 0.0, None
        for stranger in strangers:
            honest.flood(stranger)
            if newcomer is None:
                began_s, newcomer = time.monotonic(), pool.submit(raw_connection, served.endpoint, "queries", b"DEALER")
            next_s = time.monotonic() + 0.4
            while time.monotonic() < next_s:
                honest.order()
                if newcomer.done() and not took_s:
                    took_s = time.monotonic() - began_s
        assert newcomer is not None
        newcomer.result().close()
    assert 0 < took_s < 3 * FLOOD_WAIT_S, took_s
