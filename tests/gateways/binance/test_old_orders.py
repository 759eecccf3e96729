"""What the gateway still knows of an order that has been closed for long, as it forgets the oldest."""

from pathlib import Path
from typing import Any

from tests.gateways.binance.gateway_fixture import Gateway, eventually, start_gateway
from tests.server_fixture import start_exchange

FEW_KEPT = "import serl.gateways.binance.orders as orders; orders.CLOSED_ORDERS_KEPT = 3"


BRACKET: dict[str, Any] = {
    "symbol": "DEMOUSDT", "workingType": "LIMIT", "workingSide": "BUY", "workingPrice": "20", "workingQuantity": 1, "workingTimeInForce": "GTC",
    "pendingSide": "SELL", "pendingType": "STOP_LOSS", "pendingQuantity": 1, "pendingStopPrice": "10", "listClientOrderId": "held",
}  # fmt: skip


def test_a_list_with_an_open_order_is_not_forgotten(tmp_path: Path) -> None:
    """The working order of a bracket is filled and becomes the oldest closed order, while its stop is open. Before, the list was forgotten, and the
    next event of the stop ended the gateway for everybody (KeyError)."""
    with start_exchange(symbols="DEMO") as served:
        with start_gateway(served.endpoint, tmp_path, prelude=FEW_KEPT) as gateway:
            gateway.placed("SELL", 1, "20", key="BOB")
            placed = gateway.signed("POST", "orderList/oto", **BRACKET).body
            eventually(lambda: [each["type"] for each in gateway.signed("GET", "openOrders").body], ["STOP_LOSS"])
            for _ in range(5):
                order = gateway.placed("BUY", 1, "5")
                gateway.signed("DELETE", "order", symbol="DEMOUSDT", orderId=order["orderId"])
            assert held_list(gateway) == placed["orders"]
            assert (
                len(gateway.signed("GET", "allOrders", symbol="DEMOUSDT").body) == 5
            )  # three closed ones and those of the list
        with start_gateway(served.endpoint, tmp_path, prelude=FEW_KEPT) as gateway:
            assert held_list(gateway) == placed["orders"]
            key = gateway.signed("POST", "userDataStream").body["listenKey"]
            with gateway.socket(f"/ws/{key}") as stream:
                cancelled = gateway.signed("DELETE", "orderList", symbol="DEMOUSDT", orderListId=placed["orderListId"])
                assert [each["status"] for each in cancelled.body["orderReports"]] == ["CANCELED"]
                assert stream.receive(e="listStatus")["L"] == "ALL_DONE"


def held_list(gateway: Gateway) -> Any:
    """The orders of the only open list."""
    (held,) = gateway.signed("GET", "openOrderList").body
    return held["orders"]
