"""Orders whose answer comes after the gateway has given it up."""

from pathlib import Path

from tests.gateways.binance.gateway_fixture import eventually, start_gateway
from tests.server_fixture import start_exchange


def test_an_order_of_unknown_fate_is_not_placed_twice(tmp_path: Path) -> None:
    """A client without an answer (-1007) sends its order again, with its newClientOrderId, before the first one arrives. Before, both were executed."""
    latency = {"orders": {"kind": "constant", "delay_us": 6_500_000}}
    config: dict[str, object] = {"accounts": {"alice": {"latency": latency}}}
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served,
        start_gateway(served.endpoint, tmp_path) as gateway,
    ):
        answers = [gateway.order("BUY", 1, "90", newClientOrderId="once").body["code"] for _ in range(2)]
        assert answers == [-1007, -2010]
        eventually(lambda: [each["clientOrderId"] for each in gateway.signed("GET", "openOrders").body], ["once"])
        assert gateway.order("BUY", 1, "90", newClientOrderId="once").body["msg"] == "Duplicate order sent."
