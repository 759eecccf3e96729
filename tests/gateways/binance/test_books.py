"""The gateway's books: more levels than the exchange's snapshots have, and the update ids of best prices."""

import asyncio
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from serl.clients.asynchronous import connect
from serl.clients.session import Instrument
from serl.exchange.records import Phase
from serl.exchange.wire import Kind
from serl.gateways.binance.depth import DepthDiff
from serl.gateways.binance.listing import Listings
from serl.gateways.binance.market import Market
from serl.gateways.binance.symbol import SymbolMarket
from tests.server_fixture import WAIT_MS, start_exchange

DEPTH = 4


def test_a_bot_gets_the_levels_behind_those_of_the_snapshot(tmp_path: Path) -> None:
    """Once the best levels had gone, the gateway's book was empty, and levels that the bot did not know of were told to be gone."""

    async def run(endpoint: str) -> None:
        ann = await connect(endpoint, "ann")
        bids = [await ann.buy("A", 1, 100 + place) for place in range(12)]
        market = Market(endpoint, "", None, "USDT")
        await market.connect()
        following = asyncio.create_task(market.run())
        book = market.symbols["AUSDT"].book
        known, diff = {level.price_ticks: level.qty_lots for level in book.levels(0)}, DepthDiff(book)
        assert list(known) == [111, 110, 109, 108]
        await ann.cancel(bids[0])  # not in the snapshot
        for order in bids[4:]:
            await ann.cancel(order)
        async with asyncio.timeout(WAIT_MS / 1000):
            while known != {103: 1, 102: 1, 101: 1}:
                await asyncio.sleep(0.01)
                for ticks, lots in (diff.take() or (0, 0, [], []))[2]:
                    assert lots or ticks in known
                    known[ticks] = lots
                    known = {each: left for each, left in known.items() if left}
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await market.close()
        await ann.close()

    with start_exchange(symbols="A", config={"limits": {"depth_max": DEPTH}}, folder=tmp_path) as served:
        asyncio.run(run(served.endpoint))


def test_a_best_price_has_the_update_id_of_the_book_with_it() -> None:
    """It had that of the book before, so a bot that knew this book took the new price for an old one."""

    async def run(endpoint: str) -> None:
        ann = await connect(endpoint, "ann")
        market = Market(endpoint, "", None, "USDT")
        await market.connect()
        symbol, told = market.symbols["AUSDT"], []
        market.on_best = lambda changed: told.append((changed.best_id, changed.best[0]))
        following = asyncio.create_task(market.run())
        known = []
        for ticks in (100, 101, 102):
            await ann.buy("A", 1, ticks)
            async with asyncio.timeout(WAIT_MS / 1000):
                while symbol.book.bid_ticks != ticks:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            known.append((symbol.book.update_id, ticks))
        assert told == known
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await market.close()
        await ann.close()

    with start_exchange(symbols="A") as served:
        asyncio.run(run(served.endpoint))


def test_a_book_without_a_gap_is_not_set_back_by_a_snapshot() -> None:
    """After a gap in the trades alone, what the feed brought while the reply was on its way was lost."""
    market = Market("tcp://127.0.0.1:1", "", None, "USDT")
    market.listings = Listings({"A": Instrument(0, "A", Decimal("0.01"), Decimal(1))}, [["A", "USD"]], "USDT", {})
    symbol = SymbolMarket(market.listings.by_number[0], 0)
    book = symbol.book

    async def ask(kind: Kind, *_: int) -> list[Any]:
        results = {
            Kind.INFO: [1, [[0, "A", "0.01", "1"]], [], {}], Kind.TRADES: [], Kind.L2: [[[100, 1, 1]], []], Kind.STATUS: [0, Phase.CONTINUOUS, 0],
        }  # fmt: skip
        if kind == Kind.L2 and not book.needs_snapshot:
            book.apply([113, 1, 10, 11, 0, [[0, 101, 5, 1]]])
        return [kind + 16, 1, 1, 10, 0, results[kind]]

    market._client = cast(Any, SimpleNamespace(ask=ask, session=SimpleNamespace(limits={})))
    asyncio.run(market._load(symbol))
    assert (book.bid_ticks, book.update_id) == (100, 10)
    book.apply([113, 1, 10, 11, 0, [[0, 101, 5, 1]]])
    asyncio.run(market._load(symbol))
    assert (book.bid_ticks, book.update_id, book.needs_snapshot) == (101, 11, False)
