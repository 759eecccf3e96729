"""The gateway's view of one symbol's market: book, last trades, candles, whether it trades."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from serl.clients.trade_feed import TradeFeed
from serl.gateways.binance.bars import DAY_MS, MINUTE_MS, Bar, Bars
from serl.gateways.binance.depth import DepthBook
from serl.gateways.binance.listing import Listing

TRADES_KEPT = 20_000
PRINTED = 1
"""`off_book` of a print, which Binance does not have: here it does not count as a trade of the market."""


class MarketTrade(NamedTuple):
    """A trade. `taker_buys`: the buyer took liquidity. `taker`: equal for the trades of one taking order."""

    trade_id: int
    time_ms: int
    price_ticks: int
    qty_lots: int
    taker_buys: bool
    taker: int


class AggTrade(NamedTuple):
    """Trades of one taking order at one price; its id is that of its first trade."""

    first_id: int
    last_id: int
    time_ms: int
    price_ticks: int
    qty_lots: int
    taker_buys: bool


class Day(NamedTuple):
    """The last 24 hours. before_ticks: the price of the last trade before them; without one, of their first."""

    bar: Bar
    open_ms: int
    close_ms: int
    last_lots: int
    before_ticks: int


class SymbolMarket:
    """One symbol.

    Attributes:
        best: (bid_ticks, bid_lots, ask_ticks, ask_lots), zeros for an empty side.
        trades: the last trades, oldest first.
        trade_feed: what the feed has brought of them.
        trading: whether orders trade now: in continuous trading and not halted.
    """

    def __init__(self, listing: Listing, offset_ms: int) -> None:
        self.listing, self._offset_ms = listing, offset_ms
        self.book = DepthBook()
        self.best = (0, 0, 0, 0)
        self.best_id = 0
        self.trades: deque[MarketTrade] = deque(maxlen=TRADES_KEPT)
        self.trade_feed = TradeFeed()
        self.bars = Bars()
        self.trading = True
        self._day: tuple[int, int, Day | None] = (-1, -1, None)

    @property
    def last_ticks(self) -> int:
        """The price of the last trade, 0 for none."""
        return self.trades[-1].price_ticks if self.trades else 0

    @property
    def last_id(self) -> int:
        """The id of the last trade, 0 for none."""
        return self.trades[-1].trade_id if self.trades else 0

    def forget_trades(self) -> None:
        """Forgets all trades, because those of another journal have ids of their own."""
        self.trades.clear()

    def add_trades(self, rows: Sequence[Sequence[int]]) -> list[MarketTrade]:
        """Adds new trades in the form of the feed; returns them without prints."""
        fresh: list[MarketTrade] = []
        for match_id, time_ns, price_ticks, qty_lots, aggressor_side, off_book in rows:
            if off_book != PRINTED:
                time_ms = time_ns // 1_000_000 + self._offset_ms
                fresh.append(MarketTrade(match_id, time_ms, price_ticks, qty_lots, aggressor_side == 0, time_ns))
                self.bars.add(time_ms, match_id, price_ticks, qty_lots, aggressor_side == 0)
        self.trades.extend(fresh)
        return fresh

    def day(self, now_ms: int) -> Day | None:
        """The last 24 hours, by whole minutes; None without trades."""
        if self._day[:2] != (now_ms // 1000, self.last_id):
            self._day = (now_ms // 1000, self.last_id, self._measure_day(now_ms))
        return self._day[2]

    def _measure_day(self, now_ms: int) -> Day | None:
        if not self.trades:
            return None
        open_ms = now_ms - DAY_MS
        bar = self.bars.span(open_ms, now_ms + MINUTE_MS) or Bar(open_ms, self.last_ticks)
        before_ticks = self.bars.close_before(open_ms) or bar.open
        return Day(bar, open_ms, now_ms, self.trades[-1].qty_lots, before_ticks)


def aggregate(trades: Sequence[MarketTrade]) -> list[AggTrade]:
    """Joins consecutive trades of one taking order at one price."""
    found: list[AggTrade] = []
    taker: tuple[Any, ...] = ()
    for trade in trades:
        key = (trade.taker, trade.price_ticks, trade.taker_buys)
        if found and key == taker:
            last = found[-1]
            found[-1] = last._replace(last_id=trade.trade_id, qty_lots=last.qty_lots + trade.qty_lots)
        else:
            taker = key
            found.append(
                AggTrade(trade.trade_id, trade.trade_id, trade.time_ms, trade.price_ticks, trade.qty_lots, trade.taker_buys)
            )  # fmt: skip
    return found
