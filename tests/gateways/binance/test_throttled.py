"""Requests beyond the rate of the account on the exchange."""

import time
from pathlib import Path
from typing import Any

from tests.gateways.binance.gateway_fixture import UNLIMITED, start_gateway
from tests.server_fixture import start_exchange

RATE = 4
"""Rows a second: those of one pair."""


def test_a_throttled_pair_and_the_order_after_it_are_answered_at_once(tmp_path: Path) -> None:
    """The refusal of the order was taken for that of the pair's second leg: the order's state was unknown, after 5 s."""
    pair: dict[str, Any] = {
        "symbol": "DEMOUSDT", "side": "SELL", "quantity": 1, "aboveType": "LIMIT_MAKER", "abovePrice": "120", "belowType": "STOP_LOSS_LIMIT",
        "belowStopPrice": "50", "belowPrice": "49", "belowTimeInForce": "GTC",
    }  # fmt: skip
    order = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": 1, "price": "80"}
    config: dict[str, object] = {"accounts": {"alice": {"messages_per_s_max": RATE}}}
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served,
        start_gateway(served.endpoint, tmp_path, *UNLIMITED) as gateway,
        gateway.socket("/ws-api/v3") as socket,
    ):
        time.sleep(1.2)  # the rate of a second may be used at once
        sent_s = time.monotonic()
        kinds = ("orderList.place.oco", pair), ("orderList.place.oco", pair), ("order.place", order)
        first, second, third = socket.calls("ALICE", *kinds)
        assert time.monotonic() - sent_s < 4
        assert first["status"] == 200 and [each["error"]["code"] for each in (second, third)] == [-1015, -1015]
        assert len(gateway.signed("GET", "openOrders").body) == 2


def test_what_the_exchange_throttles_does_not_stay_in_the_file_of_orders(tmp_path: Path) -> None:
    """Before, the record of each order that the exchange did not accept stayed in memory and in the file for good."""
    order = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": 1, "price": "80"}
    config: dict[str, object] = {"accounts": {"alice": {"messages_per_s_max": 1}}}
    small = "from serl.gateways.binance.order_file import OrderFile; OrderFile.__init__.__defaults__ = (1_000,)"
    at_once = 20
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served,
        start_gateway(served.endpoint, tmp_path, *UNLIMITED, prelude=small) as gateway,
        gateway.socket("/ws-api/v3") as socket,
    ):
        answers = [answer for _ in range(10) for answer in socket.calls("ALICE", *[("order.place", order)] * at_once)]
        accepted = sum(answer["status"] == 200 for answer in answers)
        assert {answer["error"]["code"] for answer in answers if answer["status"] != 200} == {-1015}
        # compaction keeps the accepted orders and those in flight, and the file may double before the next
        most = 2 * (accepted + at_once) + 1
        assert most < len(answers)
        (path,) = (tmp_path / "orders").glob(f"{b'alice'.hex()}*")
        assert path.read_bytes().count(b"\n") <= most


def test_a_query_does_not_fail_with_an_order_that_the_exchange_throttles(tmp_path: Path) -> None:
    """The account was an internal error (-1001) while an order of it was refused."""
    order = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": 1, "price": "80"}
    config: dict[str, object] = {"accounts": {"alice": {"messages_per_s_max": 1}}}
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served,
        start_gateway(served.endpoint, tmp_path, *UNLIMITED) as gateway,
        gateway.socket("/ws-api/v3") as socket,
    ):
        for _ in range(10):
            *orders, account = socket.calls("ALICE", *[("order.place", order)] * 3, ("account.status", {}))
            assert account["status"] == 200 and orders[-1]["error"]["code"] == -1015
