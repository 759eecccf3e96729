"""Requests that come before the one before them is answered, and executions that come while balances are on their way."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from serl.gateways.binance import account
from serl.gateways.binance.account import Account
from tests.gateways.binance.gateway_fixture import Gateway

DUPLICATE = {"code": -2010, "msg": "Duplicate order sent."}


def asked(gateway: Gateway, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """What each of some requests is answered that are sent at once: the result or the error."""
    with gateway.socket("/ws-api/v3") as socket:
        answers = socket.calls("ALICE", *requests)
    return [answer.get("result", answer.get("error")) for answer in answers]


def test_amendments_in_flight_count_from_each_other(gateway: Gateway) -> None:
    order = gateway.placed("BUY", 10, "50.00")["orderId"]
    amend = [
        ("order.amend.keepPriority", {"symbol": "DEMOUSDT", "orderId": order, "newQty": quantity})
        for quantity in (8, 6, 6)
    ]
    first, second, repeated = asked(gateway, *amend)
    assert [first["amendedOrder"]["qty"], second["amendedOrder"]["qty"]] == ["8.00000000", "6.00000000"]
    assert [first["executionId"], second["executionId"], repeated["code"]] == [1, 2, -2038]
    found = gateway.signed("GET", "order", symbol="DEMOUSDT", orderId=order).body
    assert found["origQty"] == "6.00000000"


def test_order_lists_in_flight_have_ids_of_their_own(gateway: Gateway) -> None:
    pair: dict[str, Any] = {
        "symbol": "DEMOUSDT", "side": "SELL", "quantity": 5, "aboveType": "LIMIT_MAKER", "abovePrice": "900000.00", "belowType": "STOP_LOSS",
        "belowStopPrice": "0.02", "listClientOrderId": "twice", "aboveClientOrderId": "up", "belowClientOrderId": "down",
    }  # fmt: skip
    of_list = pair | {"aboveClientOrderId": "up-2", "belowClientOrderId": "down-2"}
    of_order = pair | {"listClientOrderId": "another", "aboveClientOrderId": "up-3"}
    later = of_order | {"aboveClientOrderId": "up", "listClientOrderId": "twice"}
    sent = [("orderList.place.oco", values) for values in (pair, pair, of_list, of_order)]
    first, *others = asked(gateway, *sent)
    assert first["listClientOrderId"] == "twice" and others == [DUPLICATE] * 3
    assert len(gateway.signed("GET", "openOrders", symbol="DEMOUSDT").body) == 2
    gateway.clear()
    assert gateway.signed("POST", "orderList/oco", **later).status == 200


def test_replacements_in_flight_have_ids_of_their_own(gateway: Gateway) -> None:
    orders = [gateway.placed("BUY", 1, "50.00")["orderId"] for _ in range(2)]
    new = {
        "symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": 1, "price": "49.00", "newClientOrderId": "one",
        "cancelReplaceMode": "STOP_ON_FAILURE",
    }  # fmt: skip
    first, second = asked(gateway, *(("order.cancelReplace", new | {"cancelOrderId": order}) for order in orders))
    assert first["newOrderResult"] == "SUCCESS"
    # refused after its cancel; or at once, if the first one was answered before the second one was read
    assert second.get("data", {"newOrderResponse": second})["newOrderResponse"] == DUPLICATE
    found = gateway.signed("GET", "openOrders", symbol="DEMOUSDT").body
    assert [order["clientOrderId"] for order in found].count("one") == 1


def test_balances_are_told_again_after_an_execution_while_they_were_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account, "execution_report", lambda execution, *_: {"e": "executionReport"})
    held, told = [0], list[Any]()

    async def main() -> None:
        orders = SimpleNamespace(on_execution=None, lists={}, open={})
        link = cast(Any, SimpleNamespace(orders=orders))
        taker = Account(cast(Any, None), cast(Any, None), link, cast(Any, None))

        async def balances() -> list[dict[str, str]]:
            found = [{"asset": "DEMO", "free": str(held[0]), "locked": "0"}]
            await asyncio.sleep(0.01)
            return found

        monkeypatch.setattr(taker, "balances", balances)
        taker.listen("test", lambda text: told.append(json.loads(text)))
        for amount in (1, 2):
            held[0] = amount
            record = SimpleNamespace(list_id=-1)
            execution = SimpleNamespace(
                kind="TRADE", command_id=0, order=SimpleNamespace(record=record), time_ms=amount
            )
            link.orders.on_execution(execution)
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)

    asyncio.run(main())
    positions = [event for event in told if event["e"] == "outboundAccountPosition"]
    assert [(event["u"], event["B"][0]["f"]) for event in positions] == [(1, "1"), (2, "2")]
