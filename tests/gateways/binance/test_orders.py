"""Orders over REST: every type, what is refused, and how."""

from typing import Any

import pytest

from tests.gateways.binance.gateway_fixture import Answer, Gateway, eventually


def trade_at(gateway: Gateway, price: float) -> None:
    """A trade between the accounts, which becomes the last price."""
    gateway.placed("BUY", 1, price)
    assert gateway.placed("SELL", 1, price, key="BOB")["status"] == "FILLED"
    last = f"{price:.8f}"
    eventually(lambda: gateway.public("ticker/price", symbol="DEMOUSDT")["price"], last)


def test_a_limit_order_rests_and_is_filled_and_both_accounts_know(gateway: Gateway) -> None:
    order = gateway.placed("BUY", 10, "99.50", newClientOrderId="mine-1")
    assert order["clientOrderId"] == "mine-1" and order["status"] == "NEW" and order["fills"] == []
    eventually(lambda: gateway.public("depth", symbol="DEMOUSDT")["bids"], [["99.50000000", "10.00000000"]])
    taken = gateway.placed("SELL", 4, key="BOB")
    assert (taken["status"], taken["executedQty"], taken["cummulativeQuoteQty"]) == (
        "FILLED",
        "4.00000000",
        "398.00000000",
    )
    assert [(fill["price"], fill["qty"]) for fill in taken["fills"]] == [("99.50000000", "4.00000000")]

    def status() -> Any:
        found = gateway.signed("GET", "order", symbol="DEMOUSDT", origClientOrderId="mine-1").body
        return found["status"], found["executedQty"], found["isWorking"]

    eventually(status, ("PARTIALLY_FILLED", "4.00000000", True))
    trade = gateway.signed("GET", "myTrades", symbol="DEMOUSDT", orderId=order["orderId"]).body[-1]
    assert (trade["isMaker"], trade["isBuyer"], trade["qty"]) == (True, True, "4.00000000")
    cancelled = gateway.signed(
        "DELETE", "order", symbol="DEMOUSDT", orderId=order["orderId"], newClientOrderId="cancel-1"
    ).body
    assert (cancelled["status"], cancelled["origClientOrderId"], cancelled["clientOrderId"]) == (
        "CANCELED",
        "mine-1",
        "cancel-1",
    )
    assert (
        gateway.signed("GET", "allOrders", symbol="DEMOUSDT", orderId=order["orderId"]).body[0]["status"] == "CANCELED"
    )


def test_balances_follow_trades_and_open_orders(gateway: Gateway) -> None:
    def balance(asset: str) -> tuple[float, float]:
        found = next(
            each for each in gateway.signed("GET", "account", "BOB").body["balances"] if each["asset"] == asset
        )
        return float(found["free"]), float(found["locked"])

    quote, base = balance("USDT")[0], balance("DEMO")[0]
    gateway.placed("BUY", 3, "50.00")
    gateway.placed("SELL", 3, key="BOB")
    gateway.placed("BUY", 2, "40.00", key="BOB")
    gateway.placed("SELL", 1, "60.00", key="BOB")
    assert balance("USDT") == (quote + 150 - 80, 80.0)
    assert balance("DEMO") == (base - 3 - 1, 1.0)


@pytest.mark.parametrize("kind, status", [("RESULT", "NEW"), ("FULL", "NEW"), ("ACK", None)])
def test_the_kinds_of_answers(gateway: Gateway, kind: str, status: str | None) -> None:
    order = gateway.placed("BUY", 1, "10.00", newOrderRespType=kind)
    assert order.get("status") == status and ("fills" in order) is (kind == "FULL")


def test_times_in_force_and_market_orders(gateway: Gateway) -> None:
    gateway.placed("SELL", 5, "101.00", key="BOB")
    assert gateway.placed("BUY", 9, "101.00", timeInForce="FOK")["status"] == "EXPIRED"
    part = gateway.placed("BUY", 9, "101.00", timeInForce="IOC")
    assert (part["status"], part["executedQty"]) == ("EXPIRED", "5.00000000")
    assert gateway.placed("BUY", 1)["status"] == "EXPIRED"
    gateway.placed("SELL", 10, "20.00", key="BOB")
    eventually(lambda: gateway.public("depth", symbol="DEMOUSDT")["asks"], [["20.00000000", "10.00000000"]])
    spent = gateway.signed("POST", "order", symbol="DEMOUSDT", side="BUY", type="MARKET", quoteOrderQty="70").body
    assert (spent["executedQty"], spent["cummulativeQuoteQty"], spent["origQuoteOrderQty"]) == (
        "3.00000000",
        "60.00000000",
        "70",
    )
    assert spent["status"] == "FILLED" and spent["price"] == "0.00000000"


def test_limit_maker_and_iceberg(gateway: Gateway) -> None:
    gateway.placed("SELL", 1, "30.00", key="BOB")
    crossing = gateway.signed(
        "POST", "order", symbol="DEMOUSDT", side="BUY", type="LIMIT_MAKER", price="30.00", quantity=1
    )
    assert (crossing.status, crossing.body) == (400, {"code": -2010, "msg": "Order would immediately match and take."})
    iceberg = gateway.placed("BUY", 100, "29.00", icebergQty=7)
    assert iceberg["icebergQty"] == "7.00000000"
    eventually(lambda: gateway.public("depth", symbol="DEMOUSDT")["bids"], [["29.00000000", "7.00000000"]])
    cancelled = gateway.signed("DELETE", "order", symbol="DEMOUSDT", orderId=iceberg["orderId"]).body
    assert (cancelled["status"], cancelled["origQty"]) == ("CANCELED", "100.00000000")


def test_a_stop_order_waits_and_is_triggered(gateway: Gateway) -> None:
    trade_at(gateway, 100)
    stop = gateway.signed(
        "POST",
        "order",
        symbol="DEMOUSDT",
        side="SELL",
        type="STOP_LOSS_LIMIT",
        timeInForce="GTC",
        quantity=2,
        price="94.00",
        stopPrice="95.00",
    ).body
    status: dict[str, Any] = {"symbol": "DEMOUSDT", "orderId": stop["orderId"]}
    assert gateway.signed("GET", "order", **status).body["isWorking"] is False
    refused = gateway.signed(
        "POST", "order", symbol="DEMOUSDT", side="SELL", type="STOP_LOSS", quantity=2, stopPrice="100.00"
    )
    assert refused.body == {"code": -2010, "msg": "Stop price would trigger immediately."}
    trade_at(gateway, 95)
    eventually(lambda: gateway.signed("GET", "order", **status).body["isWorking"], True)
    assert gateway.signed("GET", "order", **status).body["stopPrice"] == "95.00000000"
    eventually(lambda: gateway.public("depth", symbol="DEMOUSDT")["asks"], [["94.00000000", "2.00000000"]])


def test_a_take_profit_waits_for_a_better_price(gateway: Gateway) -> None:
    trade_at(gateway, 100)
    values: dict[str, Any] = {"symbol": "DEMOUSDT", "side": "SELL", "quantity": 2}
    refused = gateway.signed("POST", "order", **values, type="TAKE_PROFIT", stopPrice="100.00")
    assert refused.body == {"code": -2010, "msg": "Stop price would trigger immediately."}
    limit: dict[str, Any] = {
        "type": "TAKE_PROFIT_LIMIT",
        "timeInForce": "GTC",
        "price": "106.00",
        "stopPrice": "105.00",
    }
    order = gateway.signed("POST", "order", **values, **limit).body
    status: dict[str, Any] = {"symbol": "DEMOUSDT", "orderId": order["orderId"]}
    found = gateway.signed("GET", "order", **status).body
    assert (found["isWorking"], found["type"], found["stopPrice"]) == (False, "TAKE_PROFIT_LIMIT", "105.00000000")
    trade_at(gateway, 105)
    eventually(lambda: gateway.signed("GET", "order", **status).body["isWorking"], True)
    eventually(lambda: gateway.public("depth", symbol="DEMOUSDT")["asks"], [["106.00000000", "2.00000000"]])


def test_one_cancels_the_other(gateway: Gateway) -> None:
    trade_at(gateway, 100)
    values: dict[str, Any] = {
        "symbol": "DEMOUSDT", "side": "SELL", "quantity": 2, "aboveType": "LIMIT_MAKER", "abovePrice": "105.00", "belowType": "STOP_LOSS",
        "belowStopPrice": "95.00", "listClientOrderId": "pair-1",
    }  # fmt: skip
    pair = gateway.signed("POST", "orderList/oco", **values).body
    assert pair["listOrderStatus"] == "EXECUTING" and len(pair["orders"]) == len(pair["orderReports"]) == 2
    assert len(gateway.signed("GET", "openOrderList").body) == 1
    gateway.placed("BUY", 2, "105.00", key="BOB")
    done = {"origClientOrderId": "pair-1"}
    eventually(lambda: gateway.signed("GET", "orderList", **done).body["listOrderStatus"], "ALL_DONE")
    states = [
        gateway.signed("GET", "order", symbol="DEMOUSDT", orderId=order["orderId"]).body["status"]
        for order in pair["orders"]
    ]
    assert states == ["FILLED", "EXPIRED"]
    former: dict[str, Any] = {
        "symbol": "DEMOUSDT",
        "side": "BUY",
        "quantity": 2,
        "price": "90.00",
        "stopPrice": "110.00",
        "stopLimitPrice": "111.00",
        "stopLimitTimeInForce": "GTC",
    }
    second = gateway.signed("POST", "order/oco", **former).body
    cancelled = gateway.signed("DELETE", "orderList", symbol="DEMOUSDT", orderListId=second["orderListId"]).body
    assert [report["status"] for report in cancelled["orderReports"]] == ["CANCELED", "CANCELED"]
    third = gateway.signed("POST", "order/oco", **former).body
    (all_of_it,) = gateway.signed("DELETE", "openOrders", symbol="DEMOUSDT").body
    assert all_of_it["orderListId"] == third["orderListId"] and len(all_of_it["orderReports"]) == 2
    crossing = gateway.signed("POST", "order/oco", **{**former, "price": "120.00"})
    assert crossing.body["code"] == -2010 and gateway.signed("GET", "openOrders").body == []


def test_a_pair_whose_first_order_takes_profit(gateway: Gateway) -> None:
    """An if-touched order and a stop: one that is triggered ends the other."""
    gateway.placed("SELL", 1, "100.00", key="BOB")
    gateway.placed("BUY", 1, "100.00")
    values: dict[str, Any] = {
        "symbol": "DEMOUSDT", "side": "SELL", "quantity": 1, "aboveType": "TAKE_PROFIT_LIMIT", "aboveStopPrice": "104.00",
        "abovePrice": "103.00", "aboveTimeInForce": "GTC", "belowType": "STOP_LOSS", "belowStopPrice": "95.00", "listClientOrderId": "profit",
    }  # fmt: skip
    crossed = gateway.signed("POST", "orderList/oco", **values | {"aboveStopPrice": "94.00"})
    assert crossed.body["code"] == -2010 and gateway.signed("GET", "openOrders").body == []
    pair = gateway.signed("POST", "orderList/oco", **values).body
    assert [order["type"] for order in pair["orderReports"]] == ["TAKE_PROFIT_LIMIT", "STOP_LOSS"]
    gateway.placed("SELL", 1, "104.00", key="BOB")
    gateway.placed("BUY", 1, "104.00", key="BOB")

    def resting() -> list[tuple[str, bool]]:
        return [(order["type"], order["isWorking"]) for order in gateway.signed("GET", "openOrders").body]

    eventually(resting, [("TAKE_PROFIT_LIMIT", True)])


WORKING: dict[str, Any] = {
    "symbol": "DEMOUSDT", "workingType": "LIMIT", "workingSide": "BUY", "workingPrice": "90.00", "workingQuantity": 4,
    "workingTimeInForce": "GTC", "pendingSide": "SELL", "pendingQuantity": 4,
}  # fmt: skip
EXITS: dict[str, Any] = {
    "pendingAboveType": "LIMIT_MAKER", "pendingAbovePrice": "110.00", "pendingBelowType": "STOP_LOSS", "pendingBelowStopPrice": "80.00",
}  # fmt: skip


def statuses(gateway: Gateway, answer: Any) -> list[str]:
    return [
        gateway.signed("GET", "order", symbol="DEMOUSDT", orderId=order["orderId"]).body["status"]
        for order in answer["orders"]
    ]


def test_a_pending_order_waits_for_its_working_order(gateway: Gateway) -> None:
    values = WORKING | {"pendingType": "LIMIT", "pendingPrice": "105.00", "pendingTimeInForce": "GTC"}
    with gateway.socket("/ws-api/v3") as stream:
        stream.call("userDataStream.subscribe.signature", "ALICE")
        answer = gateway.signed("POST", "orderList/oto", **values).body
        assert stream.receive(e="listStatus")["event"]["c"] == "OTO"
    assert (answer["contingencyType"], answer["listOrderStatus"]) == ("OTO", "EXECUTING")
    assert [(each["type"], each["side"], each["status"]) for each in answer["orderReports"]] == [
        ("LIMIT", "BUY", "NEW"), ("LIMIT", "SELL", "PENDING_NEW"),
    ]  # fmt: skip
    gateway.placed("SELL", 3, "90.00", key="BOB")
    eventually(lambda: statuses(gateway, answer), ["PARTIALLY_FILLED", "PENDING_NEW"])
    gateway.placed("SELL", 1, "90.00", key="BOB")
    eventually(lambda: statuses(gateway, answer), ["FILLED", "NEW"])
    gateway.placed("BUY", 4, "105.00", key="BOB")
    eventually(lambda: statuses(gateway, answer), ["FILLED", "FILLED"])
    gateway.placed("SELL", 4, "90.00", key="BOB")
    at_once = gateway.signed("POST", "orderList/oto", **values).body
    eventually(lambda: statuses(gateway, at_once), ["FILLED", "NEW"])


def test_a_bracket(gateway: Gateway) -> None:
    """A working order and a pair that waits for it."""
    answer = gateway.signed("POST", "orderList/otoco", **WORKING, **EXITS).body
    assert [each["type"] for each in answer["orderReports"]] == ["LIMIT", "LIMIT_MAKER", "STOP_LOSS"]
    cancelled = gateway.signed("DELETE", "orderList", symbol="DEMOUSDT", orderListId=answer["orderListId"]).body
    assert [each["status"] for each in cancelled["orderReports"]] == ["CANCELED"] * 3
    assert gateway.signed("GET", "openOrders").body == []
    answer = gateway.signed("POST", "orderList/otoco", **WORKING, **EXITS).body
    pending = answer["orders"][2]["orderId"]
    gateway.signed("DELETE", "order", symbol="DEMOUSDT", orderId=pending)
    eventually(lambda: statuses(gateway, answer), ["CANCELED"] * 3)
    answer = gateway.signed("POST", "orderList/otoco", **WORKING, **EXITS).body
    gateway.placed("SELL", 4, "90.00", key="BOB")
    eventually(lambda: statuses(gateway, answer), ["FILLED", "NEW", "NEW"])
    found = {order["type"]: order["isWorking"] for order in gateway.signed("GET", "openOrders").body}
    assert found == {"LIMIT_MAKER": True, "STOP_LOSS": False}
    gateway.placed("BUY", 4, "110.00", key="BOB")
    eventually(lambda: statuses(gateway, answer), ["FILLED", "FILLED", "EXPIRED"])
    done = gateway.signed("GET", "orderList", orderListId=answer["orderListId"]).body
    assert done["listOrderStatus"] == "ALL_DONE"


def test_a_bracket_of_which_the_entry_is_refused_leaves_nothing(gateway: Gateway) -> None:
    gateway.placed("SELL", 1, "89.00", key="BOB")
    values = {name: value for name, value in WORKING.items() if name != "workingTimeInForce"}
    refused = gateway.signed("POST", "orderList/otoco", **values | {"workingType": "LIMIT_MAKER"}, **EXITS)
    assert (refused.status, refused.body["code"]) == (400, -2010), refused
    eventually(lambda: gateway.signed("GET", "openOrders").body, [])


@pytest.mark.parametrize(
    "change",
    [
        {"workingType": "MARKET"},
        {"pendingAboveType": "STOP_LOSS", "pendingAboveStopPrice": "120.00"},
        {"pendingBelowStopPrice": "120.00"},
        {"pendingSide": "BOTH"},
        {"pendingQuantity": "0"},
        {"workingPrice": "x"},
    ],
)
def test_brackets_that_cannot_be(gateway: Gateway, change: dict[str, Any]) -> None:
    answer = gateway.signed("POST", "orderList/otoco", **WORKING | EXITS | change)
    assert answer.status == 400 and answer.body["code"] < -1000, answer
    assert gateway.signed("GET", "openOrders").body == []


def test_cancel_replace_and_amend(gateway: Gateway) -> None:
    order = gateway.placed("BUY", 10, "99.00")
    replaced = gateway.signed(
        "POST", "order/cancelReplace", symbol="DEMOUSDT", side="BUY", type="LIMIT", timeInForce="GTC", quantity=8, price="98.00",
        cancelReplaceMode="STOP_ON_FAILURE", cancelOrderId=order["orderId"],
    ).body  # fmt: skip
    assert (replaced["cancelResult"], replaced["newOrderResult"]) == ("SUCCESS", "SUCCESS")
    assert replaced["cancelResponse"]["status"] == "CANCELED"
    new_id = replaced["newOrderResponse"]["orderId"]
    again = gateway.signed(
        "POST", "order/cancelReplace", symbol="DEMOUSDT", side="BUY", type="LIMIT", timeInForce="GTC", quantity=8, price="97.00",
        cancelReplaceMode="STOP_ON_FAILURE", cancelOrderId=order["orderId"],
    )  # fmt: skip
    assert (
        again.status == 400 and again.body["code"] == -2022 and again.body["data"]["newOrderResult"] == "NOT_ATTEMPTED"
    )
    amended = gateway.signed("PUT", "order/amend/keepPriority", symbol="DEMOUSDT", orderId=new_id, newQty=5).body
    assert amended["amendedOrder"]["qty"] == "5.00000000"
    assert gateway.signed("GET", "order", symbol="DEMOUSDT", orderId=new_id).body["origQty"] == "5.00000000"
    assert (
        gateway.signed("GET", "order/amendments", symbol="DEMOUSDT", orderId=new_id).body[0]["newQty"] == "5.00000000"
    )


def test_cancel_replace_without_an_order_to_cancel(gateway: Gateway) -> None:
    new = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": 8, "price": "97.00"}

    def replaced(mode: str, order_id: int, **more: Any) -> Any:
        answer = gateway.signed(
            "POST", "order/cancelReplace", **new, cancelReplaceMode=mode, cancelOrderId=order_id, **more
        )
        data = answer.body.get("data", {})
        results = data.get("cancelResult"), data.get("newOrderResult"), data.get("cancelResponse", {}).get("code")
        return answer.status, answer.body["code"], *results

    stopped, done = (400, -2022, "FAILURE", "NOT_ATTEMPTED", -2011), (409, -2021, "FAILURE", "SUCCESS", -2011)
    assert replaced("STOP_ON_FAILURE", 999_999) == stopped
    assert replaced("ALLOW_FAILURE", 999_999) == done
    (order,) = gateway.signed("GET", "openOrders", symbol="DEMOUSDT").body
    assert order["price"] == "97.00000000"
    restricted = {"cancelRestrictions": "ONLY_PARTIALLY_FILLED"}
    assert replaced("STOP_ON_FAILURE", order["orderId"], **restricted) == stopped
    assert replaced("ALLOW_FAILURE", 999_999, cancelRestrictions="NEW")[:2] == (400, -1145)


LIMIT = {"symbol": "DEMOUSDT", "side": "BUY", "type": "LIMIT", "timeInForce": "GTC", "quantity": "1", "price": "10.00"}
STOP = {"type": "STOP_LOSS", "timeInForce": None, "price": None, "stopPrice": "1000.00"}
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"symbol": "NOPE"}, -1121, "Invalid symbol."),
    ({"symbol": "DEMO-USDT"}, -1121, "Invalid symbol."),
    ({"symbol": "demousdt"}, -1100, "Illegal characters found in parameter 'symbol'"),
    ({"symbol": "a/b"}, -1100, "Illegal characters found in parameter 'symbol'"),
    ({"symbol": None}, -1102, "Mandatory parameter 'symbol' was not sent"),
    ({"side": "buy"}, -1117, "Invalid side."),
    ({"type": "STOP"}, -1116, "Invalid orderType."),
    ({"type": "TAKE_PROFIT_LIMIT"}, -1102, "Mandatory parameter 'stopPrice'"),
    ({**STOP, "trailingDelta": "100"}, -2010, "Trailing stop orders are not supported"),
    ({"timeInForce": "DAY"}, -1115, "Invalid timeInForce."),
    ({"timeInForce": None}, -1102, "Mandatory parameter 'timeInForce'"),
    ({"price": None}, -1102, "Mandatory parameter 'price'"),
    ({"price": ""}, -1102, "Mandatory parameter 'price'"),
    ({"price": "1e3"}, -1100, "Illegal characters found in parameter 'price'"),
    ({"price": "-1"}, -1100, "Illegal characters found in parameter 'price'"),
    ({"price": "١"}, -1100, "Illegal characters found in parameter 'price'"),
    ({"price": "0.0000000001"}, -1111, "Parameter 'price' has too much precision."),
    ({"price": "10.001"}, -1013, "Filter failure: PRICE_FILTER"),
    ({"price": "0"}, -1013, "Filter failure: PRICE_FILTER"),
    ({"price": "99999999999999999999"}, -1013, "Filter failure: PRICE_FILTER"),
    ({"quantity": "1.5"}, -1013, "Filter failure: LOT_SIZE"),
    ({"quantity": "0"}, -1013, "Filter failure: LOT_SIZE"),
    ({"quantity": "1000001"}, -1013, "Filter failure: LOT_SIZE"),
    ({"stopPrice": "11"}, -1106, "Parameter 'stopPrice' sent when not required."),
    ({"type": "MARKET", "price": None}, -1106, "Parameter 'timeInForce' sent when not required."),
    ({"type": "MARKET", "timeInForce": None, "price": None, "quoteOrderQty": "5"}, -1106, "Parameter 'quoteOrderQty'"),
    ({"icebergQty": "2"}, -1013, "Filter failure: ICEBERG_PARTS"),
    ({"icebergQty": "1", "quantity": "5", "timeInForce": "IOC"}, -1014, "Unsupported order combination."),
    ({"newClientOrderId": "with space"}, -1100, "Illegal characters found in parameter 'newClientOrderId'"),
    ({"newClientOrderId": "x" * 37}, -1100, "Illegal characters found in parameter 'newClientOrderId'"),
    ({"newOrderRespType": "SOME"}, -1137, "Invalid newOrderRespType."),
    ({"selfTradePreventionMode": "ALL"}, -1014, "Unsupported order combination."),
    ({"leverage": "10"}, -1104, "Not all sent parameters were read; read '8' parameter(s) but was sent '9'."),
]  # fmt: skip


@pytest.mark.parametrize("changed, code, text", REFUSED, ids=lambda value: str(value)[:40])
def test_orders_that_are_refused(gateway: Gateway, changed: dict[str, Any], code: int, text: str) -> None:
    values = {name: value for name, value in {**LIMIT, **changed}.items() if value is not None}
    expected = len(gateway.signed("GET", "allOrders", symbol="DEMOUSDT").body)
    for path in ("order", "order/test"):
        answer = gateway.signed("POST", path, **values)
        assert (answer.status, answer.body["code"]) == (400, code), answer
        if code != -1104:
            assert answer.body["msg"].startswith(text)
    assert len(gateway.signed("GET", "allOrders", symbol="DEMOUSDT").body) == expected


def refused(answer: Answer, code: int, status: int = 400) -> None:
    assert (answer.status, answer.body["code"]) == (status, code), answer


def test_unknown_orders(gateway: Gateway) -> None:
    refused(gateway.signed("GET", "order", symbol="DEMOUSDT", orderId=999_999), -2013)
    refused(gateway.signed("GET", "order", symbol="DEMOUSDT"), -1102)
    refused(gateway.signed("DELETE", "order", symbol="DEMOUSDT", origClientOrderId="never"), -2011)
    order = gateway.placed("BUY", 1, "10.00")
    refused(gateway.signed("GET", "order", symbol="AMZNUSDT", orderId=order["orderId"]), -2013)
    refused(gateway.signed("GET", "order", "BOB", symbol="DEMOUSDT", orderId=order["orderId"]), -2013)
    refused(gateway.signed("DELETE", "openOrders", symbol="AMZNUSDT"), -2011)
    assert gateway.signed("DELETE", "openOrders", symbol="DEMOUSDT").body[0]["orderId"] == order["orderId"]
    refused(gateway.signed("DELETE", "order", symbol="DEMOUSDT", orderId=order["orderId"]), -2011)


def test_a_client_order_id_names_one_open_order(gateway: Gateway) -> None:
    gateway.placed("BUY", 1, "10.00", newClientOrderId="same")
    again = gateway.order("BUY", 1, "10.00", newClientOrderId="same")
    assert again.body == {"code": -2010, "msg": "Duplicate order sent."}
    assert gateway.placed("BUY", 1, "10.00", key="BOB", newClientOrderId="same")["status"] == "NEW"
    gateway.clear()
    assert gateway.placed("BUY", 1, "10.00", newClientOrderId="same")["status"] == "NEW"


def test_a_client_order_id_is_one_of_its_symbol(gateway: Gateway) -> None:
    """Before, an order in another symbol with the same id was refused, and once the first was closed, the first no longer existed."""
    named = {"DEMOUSDT": 11, "AMZNUSDT": 12}
    for symbol, price in named.items():
        gateway.placed("BUY", 1, price, symbol=symbol, newClientOrderId="grid-1")
    gateway.signed("DELETE", "order", symbol="DEMOUSDT", origClientOrderId="grid-1")
    found = [gateway.signed("GET", "order", symbol=symbol, origClientOrderId="grid-1").body for symbol in named]
    assert [(each["symbol"], each["status"], each["price"]) for each in found] == [
        ("DEMOUSDT", "CANCELED", "11.00000000"), ("AMZNUSDT", "NEW", "12.00000000"),
    ]  # fmt: skip
