"""Clients that people have, unmodified: their addresses are overridden, and nothing else."""

import asyncio
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.doc_blocks import blocks
from tests.gateways.binance.gateway_fixture import SECRETS, WAIT_S, Gateway, eventually, exchange_levels
from tests.server_fixture import Served

ccxt = pytest.importorskip("ccxt", reason="ccxt is in the extra interop: pip install -e '.[interop]'")


def addressed(exchange: Any, gateway: Gateway) -> Any:
    """A ccxt exchange whose addresses are those of the gateway."""
    addresses = exchange.urls["api"]
    for name, url in addresses.items():
        if isinstance(url, str):
            addresses[name] = re.sub("https://[^/]+", f"http://{gateway.address}", url)
    if "ws" in addresses:
        addresses["ws"]["spot"] = f"ws://{gateway.address}/ws"
        addresses["ws"]["ws-api"]["spot"] = f"ws://{gateway.address}/ws-api/v3"
    return exchange


def keys(name: str) -> dict[str, str]:
    return {"apiKey": name, "secret": SECRETS[name]}


def levels(book: Any) -> Any:
    return [[list(level[:2]) for level in book[side]] for side in ("bids", "asks")]


def test_ccxt_trades(gateway: Gateway, exchange: Served) -> None:
    alice, bob = (addressed(ccxt.binance(keys(name)), gateway) for name in ("ALICE", "BOB"))
    assert alice.load_markets()["DEMO/USDT"]["precision"]["price"] == 0.01
    before = [client.fetch_balance()["DEMO"]["total"] for client in (alice, bob)]
    order = alice.create_order("DEMO/USDT", "limit", "buy", 10, 99.5)
    order = alice.edit_order(order["id"], "DEMO/USDT", "limit", "buy", 12, 99.6)
    assert (order["status"], order["amount"], order["price"]) == ("open", 12, 99.6)
    taken = bob.create_order("DEMO/USDT", "market", "sell", 5)
    assert (taken["status"], taken["average"]) == ("closed", 99.6)
    eventually(lambda: levels(alice.fetch_order_book("DEMO/USDT")), exchange_levels(exchange))
    eventually(lambda: alice.fetch_order(order["id"], "DEMO/USDT")["filled"], 5)
    assert alice.fetch_my_trades("DEMO/USDT")[-1]["takerOrMaker"] == "maker"
    after = [client.fetch_balance()["DEMO"]["total"] for client in (alice, bob)]
    assert after == [before[0] + 5, before[1] - 5]
    assert alice.fetch_ticker("DEMO/USDT")["last"] == 99.6 and alice.fetch_ohlcv("DEMO/USDT")[-1][4] == 99.6
    assert alice.cancel_order(order["id"], "DEMO/USDT")["status"] == "canceled"
    with pytest.raises(ccxt.OrderNotFound):
        alice.cancel_order(order["id"], "DEMO/USDT")
    with pytest.raises(ccxt.OrderImmediatelyFillable):
        bob.create_order("DEMO/USDT", "limit", "sell", 5, 99.0)
        alice.create_order("DEMO/USDT", "limit", "buy", 5, 99.0, {"postOnly": True})


def test_ccxt_signs_with_an_ed25519_key(gateway: Gateway) -> None:
    anna = addressed(ccxt.binance(keys("ANNA")), gateway)
    order = anna.create_order("DEMO/USDT", "limit", "buy", 10, 9.5)
    assert anna.cancel_order(order["id"], "DEMO/USDT")["status"] == "canceled"


def test_the_example_of_the_documentation(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    block, *_ = blocks("gateways/binance.md", "python")
    exec(
        compile(block.text, block.page, "exec"),
        {"KEY": "ALICE", "SECRET": SECRETS["ALICE"], "ADDRESS": gateway.address},
    )
    assert capsys.readouterr().out.startswith("open [")


def known(client: Any, order_id: str) -> Any:
    """The status of an order in the client's own cache, which its user data stream fills."""
    return next((each["status"] for each in client.orders if each["id"] == order_id), None)


async def until(reached: Callable[[], bool]) -> None:
    """Waits while the client receives."""
    while not reached():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def stream(gateway: Gateway, exchange: Served) -> None:
    import ccxt.pro

    alice, bob = (addressed(ccxt.pro.binance(keys(name)), gateway) for name in ("ALICE", "BOB"))
    try:
        await asyncio.gather(alice.load_markets(), bob.load_markets())
        resting = await alice.create_order("DEMO/USDT", "limit", "buy", 10, 98.5)
        watched = asyncio.create_task(alice.watch_orders("DEMO/USDT"))
        book = await alice.watch_order_book("DEMO/USDT")
        trades = asyncio.create_task(alice.watch_trades("DEMO/USDT"))
        while not watched.done():  # the first orders may come before the subscription
            await alice.create_order("DEMO/USDT", "limit", "buy", 1, 80)
            await asyncio.wait((watched,), timeout=0.2)
        order = await alice.create_order_ws("DEMO/USDT", "limit", "buy", 2, 90)
        order = await alice.edit_order_ws(order["id"], "DEMO/USDT", "limit", "buy", 3, 91)
        await until(lambda: known(alice, order["id"]) == "open")
        while not trades.done():
            await bob.create_order("DEMO/USDT", "market", "sell", 1)
            await asyncio.wait((trades,), timeout=0.2)
        assert (await trades)[0]["price"] == 98.5
        expected = exchange_levels(exchange)
        while levels(book) != expected:
            book = await alice.watch_order_book("DEMO/USDT")
        assert (await alice.cancel_order_ws(order["id"], "DEMO/USDT"))["status"] == "canceled"
        await alice.cancel_order(resting["id"], "DEMO/USDT")
        await until(lambda: known(alice, resting["id"]) == "canceled")
    finally:
        await asyncio.gather(alice.close(), bob.close())


@pytest.mark.long
def test_ccxt_pro_keeps_book_trades_and_orders(gateway: Gateway, exchange: Served) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its HTTP client's sockets
        asyncio.run(asyncio.wait_for(stream(gateway, exchange), 2 * WAIT_S))


@pytest.mark.long
def test_python_binance_trades_and_keeps_the_book(gateway: Gateway, exchange: Served) -> None:
    pytest.importorskip("binance.client", reason="python-binance is in the extra interop: pip install -e '.[interop]'")
    from binance import AsyncClient, BinanceSocketManager, DepthCacheManager

    async def trade() -> None:
        client = AsyncClient("ALICE", SECRETS["ALICE"])
        client.API_URL = f"http://{gateway.address}/api"
        client.ws_api._url = f"ws://{gateway.address}/ws-api/v3"
        BinanceSocketManager.STREAM_URL = f"ws://{gateway.address}/"
        try:
            order = await client.order_limit_buy(symbol="DEMOUSDT", quantity=10, price="95.00")
            manager = BinanceSocketManager(client)
            async with DepthCacheManager(client, "DEMOUSDT", bm=manager) as depth, manager.user_socket() as user:
                gateway.placed("SELL", 4, key="BOB")
                event = await user.recv()
                while event["e"] != "executionReport" or event["x"] != "TRADE":
                    event = await user.recv()
                assert (event["i"], event["l"]) == (order["orderId"], "4.00000000")
                cache = await depth.recv()
                while [cache.get_bids(), cache.get_asks()] != exchange_levels(exchange):
                    cache = await depth.recv()
                await client.cancel_order(symbol="DEMOUSDT", orderId=order["orderId"])
                assert (await client.get_order(symbol="DEMOUSDT", orderId=order["orderId"]))["status"] == "CANCELED"
        finally:
            await client.close_connection()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.run(asyncio.wait_for(trade(), 2 * WAIT_S))
