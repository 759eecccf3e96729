"""Market data of a live node where the exchange has deep books, or comes back as another one."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from serl.clients.blocking import Exchange, connect
from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.nodes import live_node, until
from tests.server_fixture import Served, free_endpoint, start_exchange

if needs_nautilus.args[0]:
    pytest.skip("nautilus_trader is not installed (extra nautilus; make interop)", allow_module_level=True)

from nautilus_trader.model.data import OrderBookDeltas, QuoteTick, TradeTick
from nautilus_trader.model.enums import BookType

from tests.gateways.nautilus.scripts import Script, levels_of

pytestmark = pytest.mark.long


def is_book(levels: Any, wanted: list[tuple[int, int]]) -> bool:
    return levels_of(levels()) == wanted


def test_a_book_with_more_levels_than_a_snapshot_has(tmp_path: Path) -> None:
    """Once the best levels had gone, the node's book lacked those behind them; of a level far behind it had the change, without those before it."""
    script = Script(BookType.L2_MBP)

    async def run(served: Served, maker: Exchange) -> None:
        bids = [maker.buy("DEMO", 1, 9900 + place) for place in range(12)]
        async with live_node(served.endpoint, script, participant="deep"):
            await until(lambda: script.of(OrderBookDeltas))
            book = script.cache.order_book(script.instrument.id)
            maker.buy("DEMO", 1, 9905)  # not in the snapshot
            maker.buy("DEMO", 1, 9911)
            await until(partial(is_book, book.bids, [(9911, 2), (9910, 1), (9909, 1), (9908, 1)]))
            maker.mass_cancel()
            for place in (2, 1, 0):
                maker.buy("DEMO", 1, 9900 + place)
            await until(partial(is_book, book.bids, [(9902, 1), (9901, 1), (9900, 1)]))
            assert bids

    config: dict[str, object] = {"limits": {"depth_max": 4}}
    with (
        start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served,
        connect(served.endpoint, "maker") as maker,
    ):
        asyncio.run(run(served, maker))


def test_market_data_of_an_exchange_that_comes_back_without_its_journal() -> None:
    """It numbers its events from 1 again in the same epoch: quotes, trades and status were taken for old ones."""
    script, endpoint = Script(BookType.L2_MBP), free_endpoint()

    async def run() -> None:
        with start_exchange(symbols="DEMO", endpoint=endpoint) as served, connect(endpoint, "maker") as maker:
            async with live_node(endpoint, script, participant="back"):
                await until(lambda: script.statuses)
                for place in range(20):
                    maker.buy("DEMO", 1, 9900 + place)
                maker.sell("DEMO", 1, 10000)
                await until(lambda: script.of(QuoteTick))
                served.kill()
                with start_exchange(symbols="DEMO", endpoint=endpoint), connect(endpoint, "maker") as again:
                    book = script.cache.order_book(script.instrument.id)
                    await until(partial(is_book, book.bids, []))
                    heard = len(script.of(QuoteTick))
                    again.buy("DEMO", 2, 9800)
                    again.sell("DEMO", 2, 9810)
                    again.buy("DEMO", 1, 9810)
                    await until(partial(is_book, book.asks, [(9810, 1)]))
                    await until(lambda: script.of(TradeTick) and len(script.of(QuoteTick)) > heard)
                    assert str(script.of(QuoteTick)[-1].bid_price) == "98.00"

    asyncio.run(run())


def test_a_second_subscription_begins_with_the_present_quote() -> None:
    """There was none until the quote changed."""
    script, endpoint = Script(BookType.L2_MBP), free_endpoint()

    async def run() -> None:
        with start_exchange(symbols="DEMO", endpoint=endpoint), connect(endpoint, "maker") as maker:
            maker.buy("DEMO", 1, 9900)
            maker.sell("DEMO", 1, 10000)
            async with live_node(endpoint, script, participant="again"):
                await until(lambda: script.statuses and script.of(QuoteTick))
                script.unsubscribe_quote_ticks(script.name)
                await asyncio.sleep(0.2)
                script.subscribe_quote_ticks(script.name)
                await until(lambda: len(script.of(QuoteTick)) == 2)

    asyncio.run(run())
