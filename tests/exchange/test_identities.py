"""Clients that request a ZeroMQ routing id: another client's, or one that libzmq is about to generate."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server_fixture import Served, start_exchange
from tests.zmtp import Zmtp

FIRST = 0x6B8B4567
"""The first routing id that libzmq generates for a process's first ROUTER: glibc's first rand(), which is unseeded."""
GUESSES = 32


def identity(number: int) -> bytes:
    """A routing id in libzmq's own form."""
    return b"\0" + number.to_bytes(4, "big")


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange on which sessions with a broken connection stay for a while."""
    folder: Path = tmp_path_factory.mktemp("identities")
    with start_exchange(config={"intervals": {"heartbeat_s": 60}}, folder=folder) as served:
        yield served


def test_no_client_can_take_over_the_session_of_a_broken_connection(exchange: Served) -> None:
    with Zmtp(exchange.endpoint) as victim:
        victim.send(64, 1, 1, "victim", "", -1, {})
        assert victim.receive()[0] == 96
    for number in range(FIRST, FIRST + GUESSES):
        assert ping(exchange, identity(number))[:2] == [97, "not_logged_in"]


def ping(exchange: Served, chosen: bytes) -> list[object]:
    """The reply to PING. libzmq does not answer a client with another's routing id until the other is gone."""
    for _ in range(100):
        with Zmtp(exchange.endpoint, identity=chosen) as thief:
            thief.send(66, 1)
            try:
                return thief.receive(timeout_s=0.2)
            except TimeoutError:
                continue
    raise AssertionError(f"{chosen!r} is not answered")


@pytest.mark.parametrize("name", ["orders", "queries", "admin"])
@pytest.mark.parametrize("chosen", [identity(1), b"mine", b"\0" * 255])
def test_two_clients_that_request_one_routing_id_stay_separate(exchange: Served, name: str, chosen: bytes) -> None:
    with Zmtp(exchange.endpoint, name, chosen) as one, Zmtp(exchange.endpoint, name, chosen) as two:
        for client in (one, two):
            client.send(200, 1)
            assert client.receive()[0] == 97


def test_the_next_routing_ids_of_libzmq_can_be_requested_without_harm(exchange: Served) -> None:
    with ExitStack() as stack:
        for number in range(FIRST, FIRST + 4 * GUESSES):
            squatter = stack.enter_context(Zmtp(exchange.endpoint, identity=identity(number)))
            squatter.send(66, 1)
            squatter.receive()
        with Zmtp(exchange.endpoint) as newcomer:
            newcomer.send(64, 1, 1, "newcomer", "", -1, {})
            assert newcomer.receive()[0] == 96
    assert exchange.process.poll() is None
