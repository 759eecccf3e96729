"""Market data of a session: requests (V) are answered with snapshots (W), changes (X) and rejections (Y)."""

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from serl.clients.asynchronous import AsyncExchange
from serl.clients.book import Level
from serl.clients.trade_feed import TRADES_MAX, FeedTrade, TradeFeed
from serl.clients.values import FeedMessage, Trade
from serl.exchange.errors import SerlError
from serl.exchange.wire import Kind
from serl.gateways.fix.codec import Message, UtcClock, number, plain
from serl.gateways.fix.instruments import Quoting
from serl.gateways.fix.interfaces import Owner
from serl.gateways.fix.session import FixSession
from serl.gateways.fix.tasks import Tasks

REQUESTS_MAX = 64
"""Maximum number of simultaneous subscriptions of a session."""
INTERVAL_S = 0.05
"""The shortest time between two messages about book changes, which contain the state at that time. Trades are sent one by one."""
BID, OFFER, TRADE = "0", "1", "2"
"""MDEntryType (269)."""
UNKNOWN_SYMBOL, DUPLICATE, TOO_MANY, BAD_SUBSCRIPTION, BAD_UPDATE, BAD_ENTRY = 0, 1, 3, 4, 6, 8
"""MDReqRejReason (281)."""
_NEW, _CHANGE, _DELETE = 0, 1, 2  # MDUpdateAction (279)


class Refused(NamedTuple):
    """The reason for rejecting a request: MDReqRejReason (281) and a text."""

    reason: int
    text: str


@dataclasses.dataclass
class Subscription:
    """A subscription request.

    Attributes:
        shown: for each symbol with a snapshot the sides as last sent (price to quantity), and the book's sequence at that time.
    """

    request_id: str
    symbols: list[str]
    depth: int
    types: frozenset[str]
    snapshots: bool
    shown: dict[str, tuple[list[dict[int, int]], int]] = dataclasses.field(default_factory=dict)

    @property
    def has_book(self) -> bool:
        """Whether it asks for bids or offers."""
        return BID in self.types or OFFER in self.types


class TradedSymbol:
    """The trades of a symbol that some subscription asks for, and the lock of the request for those that the feed missed."""

    def __init__(self) -> None:
        self.feed, self.filling = TradeFeed(), asyncio.Lock()

    def last(self) -> list[Trade]:
        """The last trade, if there is one."""
        return [] if self.feed.last is None else [Trade(*self.feed.last)]


class MarketData:
    """The market data of one session."""

    def __init__(
        self, session: FixSession, exchange: AsyncExchange, quotings: dict[str, Quoting], owner: Owner
    ) -> None:
        self._session, self._exchange, self._quotings, self._owner = session, exchange, quotings, owner
        self._subscriptions: dict[str, Subscription] = {}
        self._tasks = Tasks()
        self._timer: asyncio.TimerHandle | None = None
        self._filling: set[str] = set()
        self._traded: dict[str, TradedSymbol] = {}
        self._clock = UtcClock()
        self.receivers: dict[str, Callable[[Message], None]] = {"V": self._request}

    @property
    def waiting(self) -> int:
        """The number of requests that wait for an answer from the exchange."""
        return len(self._tasks)

    def close(self) -> None:
        """Ends everything under way."""
        self._tasks.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._subscriptions = {}

    # ---- requests

    def _request(self, message: Message) -> None:
        fields = message.fields
        request_id, kind = fields["262"], fields["263"]
        if kind == "2":
            self._unsubscribe(request_id)
            return
        refused = self._refusal(message)
        if refused is not None:
            self._session.send("Y", f"262={request_id}\x01281={refused.reason}\x0158={plain(refused.text)}\x01")
            return
        subscription = Subscription(
            request_id,
            list(dict.fromkeys(value for tag, value in message.pairs if tag == "55")),
            number(fields["264"]),
            frozenset(value for tag, value in message.pairs if tag == "269"),
            fields.get("265") == "0",
        )
        if kind == "1":
            self._subscriptions[request_id] = subscription
            self._schedule()
        self._tasks.run(self._begin(subscription, kind == "1"))

    def _refusal(self, message: Message) -> Refused | None:
        fields = message.fields
        for tag, value in message.pairs:
            if tag == "55" and value not in self._quotings:
                return Refused(UNKNOWN_SYMBOL, f"expected one of {', '.join(self._quotings)[:120]}, got {value}")
            if tag == "269" and value not in (BID, OFFER, TRADE):
                return Refused(BAD_ENTRY, f"tag 269: expected 0, 1 or 2, got {value}")
        if fields["262"] in self._subscriptions:
            return Refused(DUPLICATE, f"MDReqID {fields['262']} is subscribed already")
        if fields["263"] == "1" and fields.get("265", "1") not in ("0", "1"):
            return Refused(BAD_UPDATE, f"tag 265: expected 0 or 1, got {fields['265']}")
        if len(self._subscriptions) >= REQUESTS_MAX:
            return Refused(TOO_MANY, f"expected at most {REQUESTS_MAX} subscriptions, got more")
        if number(fields["264"]) < 0:
            return Refused(5, f"tag 264: expected a depth, or 0 for all, got {fields['264']}")
        return None

    def _unsubscribe(self, request_id: str) -> None:
        ended = self._subscriptions.pop(request_id, None)
        if ended is None:
            self._session.send("Y", f"262={request_id}\x01281=4\x0158=no such subscription\x01")
            return
        others = list(self._subscriptions.values())
        for symbol in ended.symbols:
            if ended.has_book and not any(symbol in other.symbols and other.has_book for other in others):
                self._exchange.unsubscribe("l2", symbol)
            if TRADE in ended.types and not any(symbol in other.symbols and TRADE in other.types for other in others):
                self._exchange.unsubscribe("trade", symbol)
                self._traded.pop(symbol, None)

    async def _begin(self, subscription: Subscription, stays: bool) -> None:
        """Sends the snapshots; from then on a lasting subscription receives changes."""
        try:
            for symbol in subscription.symbols:
                if stays:
                    await self._follow(subscription, symbol)
                trades = await self._exchange.trades(symbol, 1) if TRADE in subscription.types and not stays else []
                sides = await self._exchange.book(symbol, subscription.depth) if subscription.has_book else ([], [])
                self._session.begin()
                if not stays or subscription.request_id in self._subscriptions:
                    if stays and TRADE in subscription.types:
                        trades = self._traded[symbol].last()
                    self._snapshot(subscription, symbol, sides, trades)
                self._owner.flush()
        except SerlError as error:
            self._subscriptions.pop(subscription.request_id, None)
            self._session.begin()
            self._session.send("Y", f"262={subscription.request_id}\x0158={plain(str(error))}\x01")
            self._owner.flush()

    async def _follow(self, subscription: Subscription, symbol: str) -> None:
        if subscription.has_book and f"l2/{symbol}/" not in self._exchange.core.books:
            await self._exchange.follow(symbol, "l2")
        if TRADE in subscription.types:
            self._exchange.subscribe("trade", symbol)
            await self._fill_trades(symbol, self._traded.setdefault(symbol, TradedSymbol()))

    # ---- messages

    def _snapshot(
        self, subscription: Subscription, symbol: str, sides: tuple[list[Level], list[Level]], trades: list[Trade]
    ) -> None:
        """Sends a W."""
        quoting, entries = self._quotings[symbol], []
        for kind, levels in zip((BID, OFFER), sides, strict=True):
            if kind in subscription.types:
                entries += [
                    f"269={kind}\x01270={quoting.price(price)}\x01271={quoting.qty(qty)}\x01346={orders}\x01290={place}\x01"
                    for place, (price, qty, orders) in enumerate(levels, 1)
                ]
        for trade in trades:
            date, _, time = self._clock.text(trade.time_ns).partition("-")
            entries.append(
                f"269=2\x01270={quoting.price(trade.price_ticks)}\x01271={quoting.qty(trade.qty_lots)}\x01272={date}\x01273={time}\x01"
            )
        body = f"262={subscription.request_id}\x0155={symbol}\x01268={len(entries)}\x01{''.join(entries)}"
        self._session.send_fleeting("W", body)
        book = self._exchange.core.books.get(f"l2/{symbol}/")
        shown = [{level.price_ticks: level.qty_lots for level in levels} for levels in sides]
        subscription.shown[symbol] = shown, book.sequence if book is not None else -1

    def _schedule(self) -> None:
        """Schedules the next check of the followed books, as long as there are subscriptions."""
        if self._subscriptions and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._send_changes)

    def _send_changes(self) -> None:
        self._timer = None
        self._schedule()
        self._session.begin()
        for subscription in list(self._subscriptions.values()):
            for symbol, (_, sequence) in list(subscription.shown.items()):
                book = self._exchange.core.books.get(f"l2/{symbol}/")
                if book is None or not subscription.has_book:
                    continue
                if book.needs_snapshot:
                    self._fill_gap(symbol)
                elif book.sequence != sequence:
                    self._send_change(subscription, symbol)
        self._owner.flush()

    def _fill_gap(self, symbol: str) -> None:
        if symbol in self._filling:
            return
        self._filling.add(symbol)

        async def fill() -> None:
            try:
                await self._exchange.book(symbol, 1)
            except SerlError:
                await asyncio.sleep(1)  # the exchange is away; the session notices that by itself
            finally:
                self._filling.discard(symbol)

        self._tasks.run(fill())

    def _send_change(self, subscription: Subscription, symbol: str) -> None:
        book = self._exchange.core.books[f"l2/{symbol}/"]
        sides = book.levels(0, subscription.depth), book.levels(1, subscription.depth)
        if subscription.snapshots:
            self._snapshot(subscription, symbol, sides, [])
            return
        quoting = self._quotings[symbol]
        before, entries = subscription.shown[symbol][0], []
        for kind, old, levels in zip((BID, OFFER), before, sides, strict=True):
            if kind in subscription.types:
                entries += [
                    f"279={action}\x01269={kind}\x01278={kind}-{price}\x0155={symbol}\x01270={quoting.price(price)}\x01"
                    f"271={quoting.qty(qty)}\x01"
                    for action, price, qty in changes(old, {level.price_ticks: level.qty_lots for level in levels})
                ]
        shown = [{level.price_ticks: level.qty_lots for level in levels} for levels in sides]
        subscription.shown[symbol] = shown, book.sequence
        self._send_entries(subscription, entries)

    def _send_entries(self, subscription: Subscription, entries: list[str]) -> None:
        if entries:
            body = f"262={subscription.request_id}\x01268={len(entries)}\x01{''.join(entries)}"
            self._session.send_fleeting("X", body)

    def take(self, item: Any) -> None:
        """Processes a message of the feed: trades."""
        if not isinstance(item, FeedMessage) or not item.topic.startswith("trade/"):
            return
        symbol = item.topic.split("/")[1]
        traded = self._traded.get(symbol)
        if traded is None:
            return
        traded.feed.apply(item.message)
        self._send_trades(symbol, traded.feed.take())
        if traded.feed.needs_snapshot and not traded.filling.locked():
            self._tasks.run(self._catch_up(symbol, traded))

    async def _catch_up(self, symbol: str, traded: TradedSymbol) -> None:
        """Sends the trades that the feed missed, as far as the exchange still has them, then those that it has brought since."""
        with contextlib.suppress(SerlError):  # the exchange is away; the session notices that by itself
            await self._fill_trades(symbol, traded)

    async def _fill_trades(self, symbol: str, traded: TradedSymbol) -> None:
        number = self._exchange.session.instrument(symbol).number
        async with traded.filling:
            while traded.feed.needs_snapshot:
                traded.feed.apply_snapshot(await self._exchange.ask(Kind.TRADES, number, TRADES_MAX))
                fresh = traded.feed.take()
                if self._traded.get(symbol) is traded:  # otherwise nobody is subscribed any more
                    self._session.begin()
                    self._send_trades(symbol, fresh)
                    self._owner.flush()

    def _send_trades(self, symbol: str, trades: list[FeedTrade]) -> None:
        """Sends trades to the subscriptions that have had the snapshot before them."""
        if not trades:
            return
        entries = [self._trade(symbol, Trade(*trade)) for trade in trades]
        for subscription in self._subscriptions.values():
            if TRADE in subscription.types and symbol in subscription.shown:
                self._send_entries(subscription, entries)

    def _trade(self, symbol: str, trade: Trade) -> str:
        quoting = self._quotings[symbol]
        date, _, time = self._clock.text(trade.time_ns).partition("-")
        return (
            f"279=0\x01269=2\x01278={trade.match_id}\x0155={symbol}\x01270={quoting.price(trade.price_ticks)}\x01"
            f"271={quoting.qty(trade.qty_lots)}\x01272={date}\x01273={time}\x01"
        )


def changes(old: dict[int, int], new: dict[int, int]) -> list[tuple[int, int, int]]:
    """(MDUpdateAction, price, quantity) that turn one state of a book side into another, deletions first."""
    gone = [(_DELETE, price, qty) for price, qty in old.items() if price not in new]
    come = [(_CHANGE if price in old else _NEW, price, qty) for price, qty in new.items() if old.get(price) != qty]
    return list(itertools.chain(gone, come))
