"""Self-trade prevention."""

import pytest

from tests.gateways.binance.gateway_fixture import Gateway, eventually


@pytest.mark.parametrize(
    "mode, status, executed", [("EXPIRE_TAKER", "EXPIRED_IN_MATCH", "0.00000000"), ("NONE", "FILLED", "1.00000000")]
)
def test_self_trade_prevention(gateway: Gateway, mode: str, status: str, executed: str) -> None:
    gateway.placed("BUY", 1, "77.00")
    met = gateway.placed("SELL", 1, "77.00", selfTradePreventionMode=mode)
    assert (met["status"], met["executedQty"], met["selfTradePreventionMode"]) == (status, executed, mode)


def test_what_self_trade_prevention_took_off_is_told(gateway: Gateway) -> None:
    """An order of 5 loses 2 to one of the account's own and trades 2: nothing said why it was filled. Before, an amendment to 2, below that, cancelled it
    with the answer 200."""
    with gateway.socket("/ws-api/v3") as stream:
        stream.call("userDataStream.subscribe.signature", "ALICE")
        resting = gateway.placed("BUY", 2, "77.00")
        order = gateway.placed("SELL", 5, "77.00", selfTradePreventionMode="DECREMENT")
        assert (order["status"], order["preventedQuantity"]) == ("NEW", "2.00000000")
        events = [stream.receive(x="TRADE_PREVENTION")["event"] for _ in range(2)]
        assert [(each["i"], each["A"], each["B"]) for each in events] == [
            (resting["orderId"], "2.00000000", "2.00000000"), (order["orderId"], "2.00000000", "2.00000000"),
        ]  # fmt: skip
    named = {"symbol": "DEMOUSDT", "orderId": order["orderId"]}
    assert gateway.signed("PUT", "order/amend/keepPriority", newQty=2, **named).body["code"] == -2038
    amended = gateway.signed("PUT", "order/amend/keepPriority", newQty=4, **named).body["amendedOrder"]
    assert (amended["qty"], amended["preventedQty"], amended["status"]) == ("4.00000000", "2.00000000", "NEW")
    gateway.placed("BUY", 2, "77.00", key="BOB")
    eventually(lambda: gateway.signed("GET", "order", **named).body["status"], "FILLED")
    done = gateway.signed("GET", "order", **named).body
    assert [done[name] for name in ("origQty", "executedQty", "preventedQuantity")] == [
        "4.00000000",
        "2.00000000",
        "2.00000000",
    ]
    assert "preventedQuantity" not in gateway.placed("BUY", 1, "10.00")
