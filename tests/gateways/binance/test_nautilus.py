"""NautilusTrader's own adapter for Binance, unmodified: its configuration has the gateway's addresses, and nothing else is special."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from tests.doc_blocks import blocks
from tests.gateways.binance.gateway_fixture import SECRETS, Gateway, exchange_levels
from tests.gateways.nautilus import needs_nautilus
from tests.server_fixture import Served

if needs_nautilus.args[0]:
    pytest.skip("nautilus_trader is not installed (extra nautilus; make interop)", allow_module_level=True)

from nautilus_trader.adapters.binance import (
    BinanceDataClientConfig,
    BinanceExecClientConfig,
    BinanceKeyType,
    BinanceLiveDataClientFactory,
    BinanceLiveExecClientFactory,
)
from nautilus_trader.model.data import OrderBookDeltas, QuoteTick, TradeTick
from nautilus_trader.model.enums import BookType, OrderSide
from nautilus_trader.model.identifiers import InstrumentId
from nautilus_trader.model.objects import Currency, Price, Quantity

from tests.gateways.nautilus.nodes import running_node, until
from tests.gateways.nautilus.scripts import Script

BUY, SELL = OrderSide.BUY, OrderSide.SELL
DEMO = InstrumentId.from_str("DEMOUSDT.BINANCE")
pytestmark = pytest.mark.long


def price(text: str) -> Any:
    return Price.from_str(f"{text}000000")


def lots(count: int) -> Any:
    return Quantity.from_str(f"{count}.00000000")


def settings(gateway: Gateway, key: str) -> dict[str, Any]:
    """The example of the documentation, with this gateway's address and a key."""
    _, block = blocks("gateways/binance.md", "python")
    names: dict[str, Any] = {"KEY": key, "SECRET": SECRETS[key], "ADDRESS": gateway.address}
    exec(compile(block.text, block.page, "exec"), names)
    found: dict[str, Any] = names["settings"]
    return found


@asynccontextmanager
async def node(gateway: Gateway, *scripts: Script, key: str = "ALICE", **options: Any) -> AsyncIterator[Any]:
    """A node that is connected and reconciled."""
    arguments = settings(gateway, key) | options
    configs = BinanceDataClientConfig(**arguments), BinanceExecClientConfig(**arguments)
    factories = BinanceLiveDataClientFactory, BinanceLiveExecClientFactory
    async with running_node("BINANCE", *configs, factories, *scripts) as running:
        yield running


async def ask(request: Callable[..., Any], *arguments: Any, **values: Any) -> Any:
    """A request of the counterparty, while the node runs."""
    return await asyncio.to_thread(request, *arguments, **values)


def book_levels(script: Script) -> Any:
    book = script.cache.order_book(DEMO)
    return [[[float(level.price), level.size()] for level in side] for side in (book.bids(), book.asks())]


def last_quote(script: Script) -> Any:
    quote = script.of(QuoteTick)[-1]
    return [
        [float(number) for number in (quote.bid_price, quote.bid_size)],
        [float(number) for number in (quote.ask_price, quote.ask_size)],
    ]


def trades(script: Script) -> list[tuple[str, str, str, str]]:
    """(price, quantity, trade id, side of the aggressor) of each trade."""
    ticks = script.of(TradeTick)
    return [(str(tick.price), str(tick.size), tick.trade_id.value, tick.aggressor_side.name) for tick in ticks]


def test_the_book_quotes_and_trades_are_those_of_the_exchange(gateway: Gateway, exchange: Served) -> None:
    script = Script(BookType.L2_MBP, name=DEMO)

    async def run() -> None:
        await ask(gateway.placed, "BUY", 100, "99.90", key="BOB")
        async with node(gateway, script):
            await until(lambda: script.of(OrderBookDeltas))
            while not script.of(TradeTick):  # the first trades may come before the subscription
                await ask(gateway.placed, "SELL", 1, key="ANNA")
                await asyncio.sleep(0.2)
            for side, quantity, limit in (("SELL", 7, "100.10"), ("SELL", 40, "100.20"), ("BUY", 30, "99.80")):
                await ask(gateway.placed, side, quantity, limit, key="BOB")
            taken = [await ask(gateway.placed, "BUY", 10, key="ANNA"), await ask(gateway.placed, "SELL", 4, key="ANNA")]
            fills = [(fill["price"], fill["qty"], str(fill["tradeId"])) for order in taken for fill in order["fills"]]
            wanted = await ask(exchange_levels, exchange)
            assert wanted[1] == [[100.2, 37.0]] and [level[0] for level in wanted[0]] == [99.9, 99.8]
            await until(lambda: book_levels(script) == wanted and last_quote(script) == [wanted[0][0], wanted[1][0]])
            await until(lambda: [trade[:3] for trade in trades(script)[-3:]] == fills)
            assert [trade[3] for trade in trades(script)[-3:]] == ["BUYER", "BUYER", "SELLER"]

    asyncio.run(run())


@pytest.mark.parametrize("key", ["ALICE", "ANNA"], ids=["HMAC", "Ed25519"])
def test_orders(gateway: Gateway, key: str) -> None:
    script = Script(name=DEMO)
    options = {"key_type": BinanceKeyType.ED25519, "api_secret": pem_body(SECRETS[key])} if key == "ANNA" else {}

    async def run() -> None:
        async with node(gateway, script, key=key, **options):
            make = script.order_factory
            order = script.send(make.limit(DEMO, BUY, lots(10), price("99.50")))
            await until(lambda: order.is_open)
            await ask(gateway.placed, "SELL", 4, key="BOB")
            await until(lambda: order.filled_qty == 4)
            script.cancel_order(order)
            await until(lambda: order.is_closed)
            assert script.said(order) == ["OrderSubmitted", "OrderAccepted", "OrderFilled", "OrderCanceled"]
            again = script.send(make.limit(DEMO, BUY, lots(6), price("99.60")))
            await until(lambda: again.is_open)
            await ask(gateway.placed, "SELL", 6, key="BOB")
            await until(lambda: again.is_closed)
            await ask(gateway.placed, "SELL", 8, "100.10", key="BOB")
            crossing = script.send(make.limit(DEMO, BUY, lots(3), price("100.10"), post_only=True))
            market = script.send(make.market(DEMO, BUY, lots(3)))
            await until(lambda: market.is_closed and crossing.is_closed)
            assert str(market.avg_px) == "100.1" and "immediately match" in script.events_of(crossing)[-1].reason
            stop = script.send(make.stop_limit(DEMO, SELL, lots(5), price("98.00"), price("99.00")))
            await until(lambda: stop.is_open)
            await ask(gateway.placed, "BUY", 20, "98.90", key="BOB")
            await ask(gateway.placed, "SELL", 1, key="BOB")
            await until(lambda: stop.is_closed)
            assert str(stop.avg_px) == "98.9"
            balances = gateway.signed("GET", "account", key).body["balances"]
            wanted = {each["asset"]: Decimal(each["free"]) for each in balances}
            await until(lambda: {name: total(script, name) for name in wanted} == wanted)

    asyncio.run(run())


def pem_body(text: str) -> str:
    return "".join(line for line in text.splitlines() if "KEY" not in line)


def total(script: Script, asset: str) -> Decimal:
    balance = script.cache.account_for_venue(DEMO.venue).balance_total(Currency.from_str(asset))
    return Decimal(balance.as_decimal()) if balance is not None else Decimal(0)


def test_a_node_reconciles_with_the_orders_of_an_earlier_one(gateway: Gateway) -> None:
    first, second = Script(name=DEMO), Script(external=True, name=DEMO)

    async def run() -> None:
        async with node(gateway, first):
            order = first.send(first.order_factory.limit(DEMO, BUY, lots(10), price("99.50")))
            await until(lambda: order.is_open)
        await ask(gateway.placed, "SELL", 4, key="BOB")
        async with node(gateway, second):
            (found,) = second.cache.orders_open(instrument_id=DEMO)
            assert found.client_order_id == order.client_order_id and found.venue_order_id == order.venue_order_id
            assert (found.quantity, found.filled_qty, found.price) == (lots(10), lots(4), price("99.50"))
            second.cancel_order(found)
            await until(lambda: found.is_closed)
        assert not gateway.signed("GET", "openOrders").body

    asyncio.run(run())
