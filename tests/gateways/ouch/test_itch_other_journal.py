"""The ITCH stream when the exchange comes back with another journal."""

import time
from pathlib import Path

import pytest

from serl.clients.blocking import connect
from serl.history.itch.messages import decode
from tests.gateways.ouch.client import SECRETS, SoupClient, gateway, login
from tests.server_fixture import free_endpoint, start_exchange

WAIT_S = 40


def stream(port: int) -> tuple[str, list[tuple[str, str, int]]]:
    """(session, type, side and price of the orders) of the stream from its first message on."""
    with SoupClient(port) as client:
        client.write(login("bob", SECRETS["bob"], 1))
        kind, answer = client.packet()
        if kind != b"A":
            return "", []  # between two sessions
        session = answer[:10].decode().strip()
        client.socket.settimeout(0.5)
        found = []
        try:
            while (packet := client.packet())[0] == b"S":
                message = decode(packet[1])
                if message["type"] not in "SRH":
                    found.append((message["type"], message.get("side", ""), message.get("price", 0)))
        except TimeoutError:
            pass
        return session, found


@pytest.mark.long
def test_orders_of_another_journal_are_not_taken_for_those_before(tmp_path: Path) -> None:
    """An exchange without a journal is restarted. Its order numbers, and its epoch, begin again at 1, so the feed takes the new order 1 for
    the one before, or hears nothing at all until there are as many events as before: the stream shows three sells for ever, and the bid
    that is in the book never. It must end the session and begin another, as the page says, even if no user of the gateway has traded."""
    endpoint = free_endpoint()
    with (
        start_exchange(symbols="AMZN", endpoint=endpoint) as first,
        gateway(endpoint, tmp_path, "--itch", "127.0.0.1:0") as started,
    ):
        with connect(endpoint, "maker") as maker:
            for price_ticks in (10_000, 10_100, 10_200):
                maker.sell("AMZN", 10, price_ticks)
        sells = [("A", "S", price) for price in (1_000_000, 1_010_000, 1_020_000)]
        deadline = time.monotonic() + WAIT_S  # the first message compiles the encoder
        while (before := stream(started.port("ITCH")))[1] != sells:
            assert time.monotonic() < deadline, before
        first.kill()
        with start_exchange(symbols="AMZN", endpoint=endpoint), connect(endpoint, "maker") as maker:
            maker.buy("AMZN", 10, 5_000)
            deadline = time.monotonic() + WAIT_S
            while (after := stream(started.port("ITCH")))[1] != [("A", "B", 500_000)]:
                assert time.monotonic() < deadline, after
                time.sleep(0.5)
            assert after[0] != before[0]
