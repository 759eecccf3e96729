"""What gateways do when the exchange comes back with other symbols under the numbers of the former ones."""

import time
from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import Exchange, connect
from tests.gateways.binance.gateway_fixture import start_gateway as start_binance
from tests.gateways.fix.server_fixture import start_gateway as start_fix
from tests.gateways.ouch.client import SECRETS, SoupClient, decode, enter, login
from tests.gateways.ouch.client import gateway as start_ouch
from tests.server_fixture import free_endpoint, start_exchange

WAIT_S = 15


def levels(judge: Exchange, symbol: str) -> list[Any]:
    """Bids of a symbol."""
    return [(level.price_ticks, level.qty_lots) for level in judge.book(symbol, 0)[0]]


@pytest.mark.long
def test_orders_over_binance_go_to_no_other_symbol(tmp_path: Path) -> None:
    """An exchange of DEMO and AMZN is restarted with AMZN before DEMO. Before, an order for DEMOUSDT is accepted, and rests in the book of AMZN."""
    endpoint = free_endpoint()
    with start_exchange(symbols="DEMO,AMZN", endpoint=endpoint) as first, start_binance(endpoint, tmp_path) as gateway:
        first.kill()
        with start_exchange(symbols="AMZN,DEMO", endpoint=endpoint), connect(endpoint, "judge") as judge:
            deadline = time.monotonic() + WAIT_S
            while time.monotonic() < deadline and gateway.order("BUY", 3, "99", key="BOB").status != 200:
                time.sleep(0.3)
            assert levels(judge, "AMZN") == []
            assert gateway.process.poll() is None


def test_orders_over_ouch_go_to_their_symbol(tmp_path: Path) -> None:
    """The same over OUCH, by a user without a report: the exchange is not known to have another journal. The session ends, and in the next
    one the order is where it belongs."""
    endpoint = free_endpoint()
    with start_exchange(symbols="DEMO,AMZN", endpoint=endpoint) as first, start_ouch(endpoint, tmp_path) as gateway:
        first.kill()
        with start_exchange(symbols="AMZN,DEMO", endpoint=endpoint), connect(endpoint, "judge") as judge:
            deadline, ref = time.monotonic() + WAIT_S, 0
            while time.monotonic() < deadline and not levels(judge, "DEMO"):
                ref += 1
                with SoupClient(gateway.port()) as client:
                    client.write(login("alice", SECRETS["alice"], 0))
                    kind, _ = client.packet()
                    if kind == b"A":
                        client.send(enter(ref, b"B", 5, 980_000, symbol=b"DEMO"))
                        kind, payload = client.packet()
                        if kind == b"S" and decode(payload)["type"] == "A":
                            break
                time.sleep(0.5)
            assert levels(judge, "AMZN") == []
            assert levels(judge, "DEMO") == [(9_800, 5)]


def test_orders_over_fix_go_to_no_other_symbol(tmp_path: Path) -> None:
    """The same over FIX, by a client that stays logged on and has had no report."""
    endpoint = free_endpoint()
    with (
        start_exchange(symbols="DEMO,AMZN", endpoint=endpoint) as first,
        start_fix(endpoint, tmp_path, ["alice"]) as gateway,
        gateway.client("alice") as client,
    ):
        client.logon()
        first.kill()
        with start_exchange(symbols="AMZN,DEMO", endpoint=endpoint), connect(endpoint, "judge") as judge:
            deadline, number = time.monotonic() + WAIT_S, 0
            client.strict = False
            client.socket.settimeout(1)
            while time.monotonic() < deadline:
                number += 1
                try:
                    client.order(f"o{number}", 1, 4, "97", symbol="DEMO")
                    if client.receive()["35"] != "j":
                        break
                except (OSError, AssertionError):
                    break
                time.sleep(0.5)
            time.sleep(1)
            assert levels(judge, "AMZN") == []


@pytest.mark.long
def test_a_report_of_a_symbol_that_came_later_does_not_end_the_gateway(tmp_path: Path) -> None:
    """The exchange is restarted with one symbol more, in which the account trades through another client. Before, its report ends the gateway
    for all accounts (KeyError)."""
    endpoint = free_endpoint()
    with start_exchange(symbols="DEMO", endpoint=endpoint) as first, start_binance(endpoint, tmp_path) as gateway:
        first.kill()
        with start_exchange(symbols="DEMO,AMZN", endpoint=endpoint):
            deadline = time.monotonic() + WAIT_S
            while gateway.order("BUY", 3, "99", key="BOB").status != 200:
                assert time.monotonic() < deadline
                time.sleep(0.3)
            with connect(endpoint, "bob", replace=True) as bob:
                bob.buy("AMZN", 1, 9_000)
            while gateway.order("BUY", 3, "98", key="BOB").status != 200:
                assert time.monotonic() < deadline and gateway.process.poll() is None
                time.sleep(0.3)
            time.sleep(1)
            assert gateway.process.poll() is None
