"""`lot_multiple` and `tick_table` of the exchange in the filters of exchangeInfo."""

from pathlib import Path
from typing import Any

from tests.gateways.binance.gateway_fixture import Gateway, eventually, start_gateway
from tests.server_fixture import free_endpoint, start_exchange


def config(lot_multiple: int, tick_table: dict[str, int]) -> dict[str, Any]:
    symbols = [{"name": "DEMO", "lot_multiple": lot_multiple, "tick_table": tick_table}, {"name": "OTHER"}]
    return {"symbols": symbols}


def sizes(gateway: Gateway, symbol: str) -> tuple[str, str, str]:
    """(least quantity, step of quantities, step of prices)."""
    (listed,) = gateway.public("exchangeInfo", symbol=symbol)["symbols"]
    filters = {each["filterType"]: each for each in listed["filters"]}
    assert filters["LOT_SIZE"]["stepSize"] == filters["MARKET_LOT_SIZE"]["stepSize"]
    return filters["LOT_SIZE"]["minQty"], filters["LOT_SIZE"]["stepSize"], filters["PRICE_FILTER"]["tickSize"]


def test_orders_that_fit_the_filters_are_accepted(tmp_path: Path) -> None:
    """They were in no filter: an order of one lot, or between two prices of the table, got -1013, which a bot could not know before."""
    endpoint = free_endpoint()
    options: dict[str, Any] = {"symbols": "", "folder": tmp_path, "journal": tmp_path / "journal"}
    with start_exchange(**options, endpoint=endpoint, config=config(10, {"0": 2, "1000": 5})) as exchange, start_gateway(endpoint, tmp_path) as gateway:  # fmt: skip
        assert sizes(gateway, "DEMOUSDT") == ("10.00000000", "10.00000000", "0.10000000")
        assert sizes(gateway, "OTHERUSDT") == ("1.00000000", "1.00000000", "0.01000000")
        assert gateway.order("SELL", "10", "20.10").status == 200
        assert gateway.order("SELL", "15", "20.10").body["code"] == -1013
        assert gateway.order("SELL", "10", "20.11").body["code"] == -1013
        assert gateway.order("SELL", "10", "20.05").status == 200, "where the table has a finer step"
        stop: dict[str, Any] = {"type": "STOP_LOSS_LIMIT", "stopPrice": "30.01"}
        assert "PRICE_FILTER" in gateway.order("BUY", "10", "20.10", **stop).body["msg"]
        assert "LOT_SIZE" in gateway.order("BUY", "20", "20.00", icebergQty="5").body["msg"]
        pair = {"symbol": "DEMOUSDT", "side": "SELL", "quantity": "10", "price": "30.00", "stopPrice": "10.01"}
        assert "PRICE_FILTER" in gateway.signed("POST", "order/oco", "ALICE", **pair).body["msg"]
        spent = {"type": "MARKET", "quoteOrderQty": "390"}  # for 19 lots and a rest
        bought = gateway.signed("POST", "order", "BOB", symbol="DEMOUSDT", side="BUY", **spent)
        assert bought.status == 200 and bought.body["executedQty"] == "10.00000000", bought
        exchange.stop()
        with start_exchange(**options, endpoint=endpoint, config=config(4, {})):
            eventually(lambda: sizes(gateway, "DEMOUSDT"), ("4.00000000", "4.00000000", "0.01000000"))
