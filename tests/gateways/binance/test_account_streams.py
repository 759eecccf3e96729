"""Streams of an account, lists and amounts, as Binance has them."""

import asyncio
import json
import time
from typing import Any
from urllib.parse import quote

import pytest

from serl.gateways.binance import account as account_module
from serl.gateways.binance.account import Account
from tests.gateways.binance.gateway_fixture import Gateway, Socket

KEY = {"X-MBX-APIKEY": "ALICE"}


def quiet(socket: Socket, kind: str, wait_s: float = 1.0) -> bool:
    """Whether no event of a kind comes for a while."""
    try:
        while True:
            message = json.loads(socket.connection.recv(wait_s))
            if message.get("e", message.get("event", {}).get("e")) == kind:
                return False
    except Exception:  # a timeout, or the end of the connection
        return True


def test_a_deleted_listen_key_ends_its_open_stream(gateway: Gateway) -> None:
    """DELETE userDataStream closes the stream; today it goes on telling orders and balances for ever."""
    key = gateway.ask("POST", "/api/v3/userDataStream", headers=KEY).body["listenKey"]
    with gateway.socket(f"/ws/{key}") as socket:
        gateway.placed("SELL", 1, "101")
        socket.receive(e="executionReport")
        assert gateway.ask("DELETE", f"/api/v3/userDataStream?listenKey={key}", headers=KEY).status == 200
        gateway.placed("SELL", 1, "102")
        assert quiet(socket, "executionReport")


def test_an_expired_listen_key_ends_its_open_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that nobody kept alive ends after its hour, and so does what listens by it."""
    monkeypatch.setattr(account_module, "LISTEN_KEY_S", 0.1)
    ended: list[str] = []

    async def main() -> None:
        link: Any = type("Link", (), {"orders": type("Orders", (), {})()})()
        settings: Any = None
        account = Account(settings, settings, link, settings)
        key = account.new_listen_key()
        told: list[str] = []
        account.listen_by_key(key, "me", told.append, lambda: ended.append(key))
        account.tell({"e": "first"})
        await asyncio.sleep(0.2)
        account.tell({"e": "second"})
        assert len(told) == 1 and ended == [key]

    asyncio.run(main())


@pytest.mark.parametrize(("mode", "status", "left"), [("EXPIRE_MAKER", "EXPIRED_IN_MATCH", 0), ("DECREMENT", "NEW", 4)])
def test_prevented_trades_are_told_as_such(gateway: Gateway, mode: str, status: str, left: int) -> None:
    """`x` of an order that expires by self-trade prevention is TRADE_PREVENTION, it was EXPIRED; and what it frees is told, too."""
    maker = gateway.placed("BUY", 5, "70.00")["orderId"]
    key = gateway.ask("POST", "/api/v3/userDataStream", headers=KEY).body["listenKey"]
    with gateway.socket(f"/ws/{key}") as socket:
        gateway.placed("SELL", 1, "70.00", timeInForce="IOC", selfTradePreventionMode=mode)
        told = socket.receive(e="executionReport", i=maker)
        assert (told["x"], told["X"]) == ("TRADE_PREVENTION", status)
        while (position := socket.receive(e="outboundAccountPosition"))["u"] < told["T"]:
            pass
        assert {"a": "USDT", "l": f"{70 * left}.00000000"}.items() <= next(
            each for each in position["B"] if each["a"] == "USDT"
        ).items()


def test_the_numbers_of_a_strategy_are_told(gateway: Gateway) -> None:
    key = gateway.ask("POST", "/api/v3/userDataStream", headers=KEY).body["listenKey"]
    strategy = {"strategyId": 0, "strategyType": 1_000_001}
    with gateway.socket(f"/ws/{key}") as socket:
        order = gateway.placed("SELL", 1, "103", **strategy)
        event = socket.receive(e="executionReport", i=order["orderId"])
        assert (event["j"], event["J"]) == (0, 1_000_001)
        other = gateway.placed("SELL", 1, "104")
        assert {"j", "J"}.isdisjoint(socket.receive(e="executionReport", i=other["orderId"]))
    for method in ("GET", "DELETE"):
        answer = gateway.signed(method, "order", symbol="DEMOUSDT", orderId=order["orderId"]).body
        assert answer.items() >= strategy.items()


def test_the_end_of_a_subscription_is_told(gateway: Gateway) -> None:
    """Of those of a logon too, but not of those with a signature, which stay; clients wait for eventStreamTerminated."""
    with gateway.socket("/ws-api/v3") as socket:
        ours = socket.call("userDataStream.subscribe.signature", "ALICE")["result"]["subscriptionId"]
        socket.call("session.logon", "ANNA")
        of_logon = socket.call("userDataStream.subscribe")["result"]["subscriptionId"]
        socket.send({"id": "out", "method": "session.logout"})
        assert socket.receive(e="eventStreamTerminated")["subscriptionId"] == of_logon
        socket.send({"id": "end", "method": "userDataStream.unsubscribe", "params": {"subscriptionId": ours}})
        assert socket.receive(e="eventStreamTerminated")["subscriptionId"] == ours


def test_a_connection_has_one_subscription_of_an_account(gateway: Gateway) -> None:
    """Binance: "You can have only one active subscription for a given account on a given connection". Before, any number, each of which gets
    every event: a thousand of them make an order cost a thousand messages."""
    with gateway.socket("/ws-api/v3") as socket:
        assert socket.call("userDataStream.subscribe.signature", "ALICE")["status"] == 200
        again = socket.call("userDataStream.subscribe.signature", "ALICE")
        assert (again["status"], again["error"]["code"]) == (400, -2035)
        assert socket.call("userDataStream.subscribe.signature", "BOB")["status"] == 200
        assert socket.call("userDataStream.unsubscribe", subscriptionId=0)["status"] == 200
        assert socket.call("userDataStream.subscribe.signature", "ALICE")["status"] == 200


@pytest.mark.parametrize("kind", ["OCO", "OTO"])
def test_a_list_that_ends_with_a_trade_is_told_to_be_done(gateway: Gateway, kind: str) -> None:
    """The last event of a list is a fill: of the rest of an OCO's leg, or of the pending order of an OTO. Its listStatus ALL_DONE is missing."""
    with gateway.socket("/ws-api/v3") as socket:
        socket.call("userDataStream.subscribe.signature", "ALICE")
        if kind == "OCO":
            placed = gateway.signed(
                "POST", "orderList/oco", symbol="DEMOUSDT", side="SELL", quantity=5, aboveType="LIMIT_MAKER", abovePrice="110",
                belowType="STOP_LOSS_LIMIT", belowStopPrice="9", belowPrice="8", belowTimeInForce="GTC",
            )  # fmt: skip
            steps = (("BUY", 2, "110"), ("BUY", 3, "110"))
        else:
            placed = gateway.signed(
                "POST", "orderList/oto", symbol="DEMOUSDT", workingType="LIMIT", workingSide="BUY", workingPrice="90", workingQuantity=5,
                workingTimeInForce="GTC", pendingType="LIMIT", pendingSide="SELL", pendingPrice="130", pendingQuantity=5,
                pendingTimeInForce="GTC",
            )  # fmt: skip
            steps = (("SELL", 5, "90"), ("BUY", 5, "130"))
        assert placed.status == 200, placed
        assert socket.receive(e="listStatus")["event"]["L"] == "EXECUTING"
        for side, quantity, price in steps:
            gateway.placed(side, quantity, price, key="BOB")
        assert socket.receive(e="listStatus")["event"]["L"] == "ALL_DONE"
        assert quiet(socket, "listStatus", 0.5)


def test_a_sale_for_an_amount_does_not_sell_for_more(gateway: Gateway) -> None:
    """quoteOrderQty 195 at bids of 100 and 90: one lot at 100. Before, two are sold, for 200, because the rest of 95 pays for one at 90."""
    gateway.placed("BUY", 10, "100", key="BOB")
    gateway.placed("BUY", 10, "90", key="BOB")
    time.sleep(0.3)  # the gateway's copy of the book
    answer = gateway.signed("POST", "order", symbol="DEMOUSDT", side="SELL", type="MARKET", quoteOrderQty="195").body
    assert float(answer["cummulativeQuoteQty"]) <= 195, answer


def test_candles_of_months_from_a_time_beyond_the_calendar(gateway: Gateway) -> None:
    """A startTime beyond the year 9999 is an empty list with every interval but 1M, which answers 500 and writes to the log."""
    gateway.placed("BUY", 1, "100", key="BOB")
    gateway.placed("SELL", 1, "100")
    time.sleep(0.3)
    for interval in ("1d", "1M"):
        assert gateway.public("klines", symbol="DEMOUSDT", interval=interval, startTime=(1 << 63) - 1) == []


def test_a_symbol_is_asked_for_once_in_a_request(gateway: Gateway) -> None:
    """Binance refuses a symbol that is there twice (-1151). Before, 5,000 repetitions are 5,000 tickers, for the weight of one request, during
    which nobody else is served."""
    names = quote(json.dumps(["DEMOUSDT"] * 5000, separators=(",", ":")), safe='[],"')
    answer = gateway.ask("GET", f"/api/v3/ticker?windowSize=7d&symbols={names}")
    assert answer.status == 400 and answer.body["code"] == -1151, answer.status


def test_an_amendment_of_an_iceberg_is_one_amendment(gateway: Gateway) -> None:
    """A reduction that takes the whole reserve and a part of what is shown is two events of the exchange, but one amendment of the client."""
    with gateway.socket("/ws-api/v3") as socket:
        socket.call("userDataStream.subscribe.signature", "ALICE")
        order = gateway.placed("SELL", 100, "101", icebergQty=10)
        answer = gateway.signed(
            "PUT", "order/amend/keepPriority", symbol="DEMOUSDT", orderId=order["orderId"], newQty=5
        )
        assert answer.body["amendedOrder"]["qty"] == "5.00000000"
        found = gateway.signed("GET", "order/amendments", symbol="DEMOUSDT", orderId=order["orderId"]).body
        assert [(row["origQty"], row["newQty"]) for row in found] == [("100.00000000", "5.00000000")]
        assert answer.body["executionId"] == 1
