"""The gateway's books: more levels than the exchange's snapshots have, and the update ids of best prices."""

import asyncio
from collections.abc import Callable
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
from serl.gateways.binance.market import CHANNELS, Market
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


def market_of_replies(trades: list[list[int]], while_asked: Callable[[Kind], None]) -> tuple[Market, SymbolMarket]:
    """The market of an exchange whose replies are of event 10; `while_asked` is called before each arrives."""
    market = Market("tcp://127.0.0.1:1", "", None, "USDT")
    market.listings = Listings({"A": Instrument(0, "A", Decimal("0.01"), Decimal(1))}, [["A", "USD"]], "USDT", {})
    symbol = SymbolMarket(market.listings.by_number[0], 0)
    results = {
        Kind.INFO: [1, [[0, "A", "0.01", "1"]], [], {}], Kind.TRADES: trades, Kind.L2: [[[100, 1, 1]], []], Kind.STATUS: [0, Phase.CONTINUOUS, 0],
    }  # fmt: skip

    async def ask(kind: Kind, *_: int) -> list[Any]:
        while_asked(kind)
        return [kind + 16, 1, 1, 10, 0, results[kind]]

    market._client = cast(Any, SimpleNamespace(ask=ask, session=SimpleNamespace(limits={})))
    market._by_topic = {f"{channel}/A/": symbol for channel in CHANNELS}
    return market, symbol


def test_a_book_without_a_gap_is_not_set_back_by_a_snapshot() -> None:
    """After a gap in the trades alone, what the feed brought while the reply was on its way was lost."""

    def while_asked(kind: Kind) -> None:
        if kind == Kind.L2 and not book.needs_snapshot:
            book.apply([113, 1, 10, 11, 0, [[0, 101, 5, 1]]])

    market, symbol = market_of_replies([], while_asked)
    book = symbol.book
    asyncio.run(market._load(symbol))
    assert (book.bid_ticks, book.update_id) == (100, 10)
    book.apply([113, 1, 10, 11, 0, [[0, 101, 5, 1]]])
    asyncio.run(market._load(symbol))
    assert (book.bid_ticks, book.update_id, book.needs_snapshot) == (101, 11, False)


def test_what_the_feed_brought_is_not_set_back_by_earlier_replies() -> None:
    """After an auction, whose gap lets the market be asked for again: trades were published twice and counted twice in candles."""
    former = [[number, number * 10**9, 100, 1, 0, 0] for number in (1, 2, 3)]
    feed = {
        Kind.TRADES: ("trade/A/", [115, 1, 10, 11, 0, [[4, 4 * 10**9, 101, 1, 0, 0]]]),
        Kind.STATUS: ("status/A/", [116, 1, 10, 12, 0, [1, Phase.CONTINUOUS, 1]]),
        Kind.L2: ("l1/A/", [112, 1, 10, 13, 0, [102, 1, 0, 0]]),
    }
    later: set[Kind] = set()

    def while_asked(kind: Kind) -> None:
        if kind in later:
            market._receive(*feed[kind])

    market, symbol = market_of_replies(former, while_asked)
    told: list[int] = []
    market.on_trades = lambda _, trades: told.extend(trade.trade_id for trade in trades)
    asyncio.run(market._load(symbol))
    later |= feed.keys()
    symbol.book.distrust()
    symbol.trade_feed.distrust()
    asyncio.run(market._load(symbol))
    assert told == [trade.trade_id for trade in symbol.trades] == [1, 2, 3, 4]
    assert (symbol.trading, symbol.best[0]) == (False, 102)
    market.symbols, market._repairing = {"AUSDT": symbol}, {"AUSDT"}
    market._note_time([117, 1, 0, 20, 0, []])
    assert not symbol.trade_feed.needs_snapshot
    market._note_time([117, 2, 0, 5, 0, []])  # another journal
    assert symbol.trade_feed.needs_snapshot
