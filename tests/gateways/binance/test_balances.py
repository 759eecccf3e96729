"""An account with balance checks: what the gateway shows is what the exchange has, and adds up."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from serl.exchange.errors import ConfigError
from serl.gateways.binance.listing import Listings
from tests.gateways.binance.gateway_fixture import Gateway, eventually, start_gateway
from tests.server_fixture import Served, start_exchange

CONFIG: dict[str, Any] = {
    "symbols": [
        {"name": "btc-usdt", "tick_size": "0.01", "lot_size": "0.00001", "base": "BTC", "quote": "USDT", "fees": {"taker_ppm": 1000}},
        {"name": "eth-btc", "tick_size": "0.00001", "lot_size": "0.0001", "base": "ETH", "quote": "BTC"},
    ],
    "accounts": {
        "alice": {"balance_checks": True, "balances": {"USDT": "1000", "BTC": "0.5"}},
        "bob": {"balances": {"ETH": "10", "BTC": "1"}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path_factory.mktemp("spot")) as served:
        yield served


@pytest.fixture
def gateway(exchange: Served, tmp_path: Path) -> Iterator[Gateway]:
    with start_gateway(exchange.endpoint, tmp_path) as gateway:
        yield gateway
        gateway.clear()


def balances(gateway: Gateway, key: str = "ALICE") -> dict[str, tuple[Decimal, Decimal]]:
    """(free, locked) of each asset."""
    rows = gateway.signed("GET", "account", key).body["balances"]
    return {row["asset"]: (Decimal(row["free"]), Decimal(row["locked"])) for row in rows}


def amounts(**texts: str) -> dict[str, tuple[Decimal, Decimal]]:
    return {asset: tuple(map(Decimal, text.split())) for asset, text in texts.items()}  # pyrefly: ignore[bad-return]


def order(gateway: Gateway, symbol: str, side: str, quantity: str, price: str | None = None, **values: Any) -> Any:
    return gateway.order(side, quantity, price, symbol=symbol, **values)


def test_a_spot_account_adds_up(gateway: Gateway) -> None:
    listed = {each["symbol"]: (each["baseAsset"], each["quoteAsset"]) for each in gateway.public("exchangeInfo")["symbols"]}  # fmt: skip
    assert listed == {"BTCUSDT": ("BTC", "USDT"), "ETHBTC": ("ETH", "BTC")}
    assert balances(gateway) == amounts(USDT="1000 0", BTC="0.5 0", ETH="0 0")
    with gateway.socket("/ws-api/v3") as stream:
        stream.call("userDataStream.subscribe.signature", "ALICE")
        assert order(gateway, "BTCUSDT", "BUY", "0.015", "50000").status == 200
        event = stream.receive(e="outboundAccountPosition")["event"]
        assert {"a": "USDT", "f": "249.25000000", "l": "750.75000000"} in event["B"], "with the highest fee"
    assert balances(gateway) == amounts(USDT="249.25 750.75", BTC="0.5 0", ETH="0 0")
    refused = order(gateway, "BTCUSDT", "BUY", "0.005", "49850.01")
    insufficient = {"code": -2010, "msg": "Account has insufficient balance for requested action."}
    assert (refused.status, refused.body) == (400, insufficient)
    assert order(gateway, "BTCUSDT", "SELL", "0.015", "50000", key="BOB").status == 200
    eventually(lambda: balances(gateway), amounts(USDT="250 0", BTC="0.515 0", ETH="0 0"))
    assert order(gateway, "ETHBTC", "SELL", "2", "0.05", key="BOB").status == 200
    assert order(gateway, "ETHBTC", "BUY", "2").status == 200
    eventually(lambda: balances(gateway), amounts(USDT="250 0", BTC="0.415 0", ETH="2 0"))
    assert order(gateway, "ETHBTC", "SELL", "2.0001", "0.06").body == insufficient
    both = gateway.signed(
        "POST", "orderList/oco", symbol="ETHBTC", side="SELL", quantity="2", aboveType="LIMIT_MAKER", abovePrice="0.06",
        belowType="STOP_LOSS", belowStopPrice="0.04",
    )  # fmt: skip
    assert both.status == 200, both
    assert balances(gateway)["ETH"] == (0, 2), "an OCO locks once"
    gateway.clear()
    assert balances(gateway)["ETH"] == (2, 0)
    assert balances(gateway, "BOB") == amounts(USDT="749.25 0", BTC="1.085 0", ETH="8 0")
    assert order(gateway, "ETHBTC", "SELL", "9", "0.09", key="BOB").status == 200, "no checks"
    assert balances(gateway, "BOB")["ETH"] == (-1, 9)


def test_a_pair_of_which_one_order_is_refused_leaves_nothing(gateway: Gateway) -> None:
    """The limit order could be paid, the stop order could not."""
    pair = {"symbol": "BTCUSDT", "side": "BUY", "quantity": "0.002", "belowType": "LIMIT_MAKER", "belowPrice": "20000"}
    stop = {
        "aboveType": "STOP_LOSS_LIMIT",
        "abovePrice": "300000",
        "aboveStopPrice": "90000",
        "aboveTimeInForce": "GTC",
    }
    before = balances(gateway)
    refused = gateway.signed("POST", "orderList/oco", **pair, **stop)
    assert (refused.status, refused.body["code"]) == (400, -2010)
    assert gateway.signed("GET", "openOrders").body == [] and balances(gateway) == before
    accepted = gateway.signed("POST", "orderList/oco", **pair, **stop | {"abovePrice": "100000"})
    assert accepted.status == 200, accepted


def test_the_default_currency_needs_a_name_of_its_own() -> None:
    assert Listings({}, [["A", "USD"], ["B", "EUR"]], "USDT", {}).asset("USD") == "USDT"
    with pytest.raises(ConfigError, match="--quote: expected another name"):
        Listings({}, [["A", "USD"], ["B", "USDT"]], "USDT", {})
