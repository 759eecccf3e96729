"""What a mind sees of the market: price levels, the last trade, and bars of the trades so far."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from serl.clients.asynchronous import AsyncExchange
from serl.clients.book import Level
from serl.clients.session import Instrument
from serl.clients.values import Trade
from serl.exchange.symbol_rules import NO_RULES, SymbolRules

TRADES_ASKED = 1000
"""Number of last trades requested at each decision. If there were more since the previous decision, the oldest are missing from the bars."""
TRADES_KEPT = 50_000
IN_BOOK = (0, 2)
"""Values of `Trade.off_book` that count: continuous trades and auctions, not prints."""


@dataclass(frozen=True)
class Bar:
    """The trades of one interval that starts at `start_ns`: prices in ticks, volume in lots."""

    start_ns: int
    open_ticks: int
    high_ticks: int
    low_ticks: int
    close_ticks: int
    volume_lots: int


class Tape:
    """The trades of one symbol, shared by all minds of a process, so that each trade is requested only once."""

    def __init__(self) -> None:
        self._trades: deque[Trade] = deque(maxlen=TRADES_KEPT)

    def add(self, trades: Iterable[Trade]) -> None:
        """Adds trades, oldest first; known ones are skipped. Lower numbers at a later time are those of an exchange that was restarted without its
        journal, which numbers from 1 again: the trades before are then forgotten."""
        new = [trade for trade in trades if trade.off_book in IN_BOOK]
        if new and self._trades and new[-1].match_id <= self._trades[-1].match_id:
            if new[-1].time_ns <= self._trades[-1].time_ns:
                return  # known, also by the reply to a mind that asked later
            self._trades.clear()
        last = self._trades[-1].match_id if self._trades else -1
        self._trades.extend(trade for trade in new if trade.match_id > last)

    @property
    def last_ticks(self) -> int | None:
        """Price of the last trade; None before the first."""
        return self._trades[-1].price_ticks if self._trades else None

    def bars(self, now_ns: int, interval_ns: int, count: int) -> list[Bar]:
        """Bars of the last `count` intervals up to `now_ns`, oldest first; intervals without trades are left out."""
        start_ns = now_ns - count * interval_ns
        found: dict[int, list[Trade]] = {}
        for trade in reversed(self._trades):
            if trade.time_ns < start_ns:
                break
            if trade.time_ns <= now_ns:
                number = min((trade.time_ns - start_ns) // interval_ns, count - 1)
                found.setdefault(number, []).append(trade)
        return [_bar(start_ns + number * interval_ns, found[number][::-1]) for number in sorted(found)]


def _bar(start_ns: int, trades: Sequence[Trade]) -> Bar:
    prices = [trade.price_ticks for trade in trades]
    return Bar(start_ns, prices[0], max(prices), min(prices), prices[-1], sum(trade.qty_lots for trade in trades))


@dataclass(frozen=True)
class SymbolView:
    """One symbol at the time of a decision."""

    instrument: Instrument
    bids: Sequence[Level]
    asks: Sequence[Level]
    last_ticks: int | None
    bars: Sequence[Bar]
    start_price: Decimal | None
    """The configured price, for a symbol that has neither traded nor quotes."""
    rules: SymbolRules = NO_RULES

    @property
    def reference_ticks(self) -> Decimal | None:
        """The price of the last trade, else the mid, else the configured price, else the best price of the only side; None without any of these."""
        if self.last_ticks is not None:
            return Decimal(self.last_ticks)
        touch = [side[0].price_ticks for side in (self.bids, self.asks) if side]
        if len(touch) == 2:
            return Decimal(sum(touch)) / 2
        if self.start_price is not None:
            return self.start_price / self.instrument.tick_size
        return Decimal(touch[0]) if touch else None

    @property
    def price(self) -> Decimal | None:
        """`reference_ticks` as money."""
        ticks = self.reference_ticks
        return None if ticks is None else ticks * self.instrument.tick_size


async def see_market(
    client: AsyncExchange,
    symbols: Sequence[str],
    tapes: Mapping[str, Tape],
    start_prices: Mapping[str, Decimal],
    now_ns: int,
    *,
    levels: int,
    bars: int,
    interval_ns: int,
) -> dict[str, SymbolView]:
    """Queries the exchange for what a mind sees now, by symbol."""
    views = {}
    for symbol, rules in zip(symbols, await client.rules_of(symbols), strict=True):
        bids, asks = await client.book(symbol, levels)
        tape = tapes[symbol]
        tape.add(await client.trades(symbol, TRADES_ASKED))
        views[symbol] = SymbolView(
            client.instrument(symbol), bids, asks, tape.last_ticks, tape.bars(now_ns, interval_ns, bars),
            start_prices.get(symbol), rules,
        )  # fmt: skip
    return views
