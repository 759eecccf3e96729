"""The market data of all symbols, from the exchange's feed."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from serl.clients.asynchronous import AsyncExchange, watch
from serl.clients.book import depth_max
from serl.clients.errors import ExchangeUnreachable, RequestRejected, SessionEnded
from serl.clients.session import Instrument
from serl.clients.trade_feed import TRADES_MAX
from serl.exchange.errors import ConfigError
from serl.exchange.log import log, without_repeats
from serl.exchange.records import Phase
from serl.exchange.wire import Kind
from serl.gateways.binance.bars import DAY_MS
from serl.gateways.binance.errors import away
from serl.gateways.binance.listing import Listings
from serl.gateways.binance.symbol import MarketTrade, SymbolMarket

CHANNELS = ("l2", "l1", "trade", "status")
SILENT_S = 3.5
"""The exchange counts as away when its feed, which has a message each second, has been silent for this long."""
RETRY_S = 0.2
RULES_S = 1.0
"""How old the rules of the symbols may be in exchangeInfo, which asks for those of every symbol."""
OnTrades = Callable[[SymbolMarket, list[MarketTrade]], None]


class Market:
    """Follows the feed.

    Attributes:
        symbols: by Binance's name.
        offset_ms: added to exchange times to get Binance's times, which are since 1970: on a scaled clock the gateway's day of the start.
        on_trades, on_best: called with new trades, and with symbols whose best prices have changed.
    """

    def __init__(self, endpoint: str, token: str, curve: Path | None, quote: str) -> None:
        self._endpoint, self._token, self._curve, self._quote = endpoint, token, curve, quote
        self.listings = Listings({}, [], quote, {})
        self.symbols: dict[str, SymbolMarket] = {}
        self.offset_ms = 0
        self.on_trades: OnTrades = lambda symbol, trades: None
        self.on_best: Callable[[SymbolMarket], None] = lambda symbol: None
        self._by_topic: dict[str, SymbolMarket] = {}
        self._status_sequence: dict[str, int] = {}
        self._client: AsyncExchange | None = None
        self._heard_s = 0.0
        self._rules_s = -math.inf
        self._epoch, self._sequence, self._time_ns = -1, -1, 0
        self._is_live = True
        self._repairs: set[asyncio.Task[None]] = set()
        self._repairing: set[str] = set()

    @property
    def up(self) -> bool:
        """Whether the feed is being received, so that books and trades are current."""
        return time.monotonic() - self._heard_s < SILENT_S

    def now_ms(self) -> int:
        """The exchange's time in Binance's milliseconds; not finer than a second on a scaled clock."""
        return time.time_ns() // 1_000_000 if self._is_live else self._time_ns // 1_000_000 + self.offset_ms

    async def connect(self) -> None:
        """Connects and loads every book. Raises ExchangeUnreachable, RequestRejected, and ConfigError for a clock that a gateway cannot follow."""
        await self._connect()
        client = self._client
        assert client is not None
        kind, _, self._time_ns, _ = client.session.clock
        if kind == "lockstep":
            raise ConfigError(
                f"expected an exchange with a live or scaled clock, got {kind}; Binance's clients do not wait for turns"
            )
        self._is_live = kind == "live"
        if not self._is_live:
            self.offset_ms = int(time.time()) * 1000 // DAY_MS * DAY_MS
        assets = (await client.ask(Kind.ASSETS, self._token))[5]
        self.listings = Listings(client.session.instruments, assets, self._quote, client.session.limits)
        for listing in self.listings.by_name.values():
            self.symbols[listing.name] = symbol = SymbolMarket(listing, self.offset_ms)
            for channel in CHANNELS:
                self._by_topic[f"{channel}/{listing.instrument.name}/"] = symbol
        client.core.on_feed = self._receive
        self._subscribe(client)
        for symbol in self.symbols.values():
            await self._load(symbol)
        await self._load_rules()
        self._heard_s = time.monotonic()

    async def refresh_rules(self) -> None:
        """Asks for what quantities and prices must fit, which operators and a replayed day may change. While the exchange is away, the last rules stay."""
        if self.up and time.monotonic() - self._rules_s > RULES_S:
            with contextlib.suppress(ExchangeUnreachable, RequestRejected, SessionEnded):
                await self._load_rules()

    async def _load_rules(self) -> None:
        client, listings = self._client, list(self.listings.by_name.values())
        assert client is not None
        self._rules_s = time.monotonic()
        found = await client.rules_of(listing.instrument.name for listing in listings)
        for listing, rules in zip(listings, found, strict=True):
            listing.rules = rules

    async def _connect(self) -> None:
        self._client = await watch(self._endpoint, self._token, curve=self._curve)

    def _subscribe(self, client: AsyncExchange) -> None:
        for symbol in self.symbols.values():
            for channel in CHANNELS:
                client.subscribe(channel, symbol.listing.instrument.name)

    async def run(self) -> None:
        """Follows the feed until cancelled. The sockets connect again by themselves when the exchange comes back."""
        was_up = True
        while True:
            client = self._client
            assert client is not None
            try:
                await client.wait(0.25)
            except (ExchangeUnreachable, RequestRejected, SessionEnded) as error:
                log("binance_data", f"market data: {error}")
                await asyncio.sleep(RETRY_S)
            if self.up != was_up:
                was_up = self.up
                log(
                    "binance_feed",
                    "market data: " + ("back" if was_up else f"the exchange has sent nothing for {SILENT_S:g} s"),
                )

    async def close(self) -> None:
        """Closes the sockets."""
        for task in self._repairs:
            task.cancel()
        if self._client is not None:
            for socket in self._client.core.sockets:
                socket.linger = 0
            await self._client.close()

    def find(self, name: str) -> SymbolMarket:
        """A symbol by Binance's name. Raises BinanceError, also while the exchange is away."""
        listing = self.listings.find(name)
        self.require()
        return self.symbols[listing.name]

    def require(self) -> None:
        """Raises BinanceError while the exchange is away."""
        if not self.up:
            raise away()

    def _receive(self, topic: str, message: list[Any]) -> None:
        self._heard_s = time.monotonic()
        symbol = self._by_topic.get(topic)
        if symbol is None:
            self._note_time(message)
        elif topic.startswith("l2/"):
            symbol.book.apply(message)
            if symbol.book.needs_snapshot:
                self._repair(symbol)
        elif topic.startswith("trade/"):
            symbol.trade_feed.apply(message)
            self._pass_trades_on(symbol)
            if symbol.trade_feed.needs_snapshot:
                self._repair(symbol)
        elif topic.startswith("l1/"):
            best = tuple(message[5])
            if best != symbol.best:
                symbol.best = best
                symbol.best_id = symbol.book.id_at(message[3])  # the message of the same change to the book follows
                self.on_best(symbol)
        else:
            self._status_sequence[symbol.listing.name] = message[3]
            symbol.trading = not message[5][0] and message[5][1] == Phase.CONTINUOUS

    def _note_time(self, message: list[Any]) -> None:
        """Processes a message of `time/`: a smaller sequence number or another epoch means a restarted exchange."""
        _, epoch, _, sequence, self._time_ns, _ = message
        known = max([self._sequence, *(symbol.book.sequence for symbol in self.symbols.values())])
        is_new = self._epoch >= 0 and (epoch != self._epoch or sequence < known)
        self._epoch, self._sequence = epoch, sequence
        if is_new:
            self._status_sequence = {}
            for symbol in self.symbols.values():
                symbol.trade_feed.distrust()
                symbol.best_id = symbol.book.update_id
                symbol.book.note_epoch(-1)
                self._repair(symbol)

    def _pass_trades_on(self, symbol: SymbolMarket) -> None:
        if fresh := symbol.add_trades(symbol.trade_feed.take()):
            self.on_trades(symbol, fresh)

    def _repair(self, symbol: SymbolMarket) -> None:
        """Reloads a symbol in the background."""
        if symbol.listing.name not in self._repairing:
            self._repairing.add(symbol.listing.name)
            task = asyncio.create_task(self._load_until_loaded(symbol))
            self._repairs.add(task)
            task.add_done_callback(self._repairs.discard)

    async def _load_until_loaded(self, symbol: SymbolMarket) -> None:
        report = without_repeats(partial(log, "binance_data"))
        try:
            while True:
                try:
                    await self._load(symbol)
                    return
                except RequestRejected as error:
                    report(f"market data of {symbol.listing.name}: {error}")
                except (ExchangeUnreachable, SessionEnded):
                    pass  # `run` logs that the exchange is away
                await asyncio.sleep(RETRY_S)
        finally:
            self._repairing.discard(symbol.listing.name)

    async def _load(self, symbol: SymbolMarket) -> None:
        """Queries trades, book and status. Replies take time: what the feed has brought meanwhile is later, and stays."""
        client = self._client
        assert client is not None
        listing = symbol.listing
        _, symbols, _, limits = (await client.ask(Kind.INFO))[5]
        self.listings.require_same(Instrument.of(*each) for each in symbols)
        symbol.book.depth_max = depth_max(limits)
        trades_kept = int(client.session.limits.get("trades_kept", TRADES_MAX))
        while symbol.trade_feed.needs_snapshot:
            restarts = symbol.trade_feed.restarts
            symbol.trade_feed.apply_snapshot(await client.ask(Kind.TRADES, listing.number, trades_kept))
            if symbol.trade_feed.restarts > restarts:
                symbol.forget_trades()
            self._pass_trades_on(symbol)
        while symbol.book.needs_snapshot:  # a book without a gap may be ahead of the snapshot, whose reply took time
            symbol.book.apply_snapshot(await client.ask(Kind.L2, listing.number, 0))
        *_, sequence, _, status = await client.ask(Kind.STATUS, listing.number)
        if sequence >= self._status_sequence.get(listing.name, -1):
            symbol.trading = not status[0] and status[1] == Phase.CONTINUOUS
        if symbol.book.update_id >= symbol.best_id:
            self._take_best(symbol)

    @staticmethod
    def _take_best(symbol: SymbolMarket) -> None:
        """Sets the best prices from the book."""
        bids, asks = (symbol.book.levels(side, 1) for side in (0, 1))
        bid_ticks, bid_lots = bids[0][:2] if bids else (0, 0)
        ask_ticks, ask_lots = asks[0][:2] if asks else (0, 0)
        symbol.best = (bid_ticks, bid_lots, ask_ticks, ask_lots)
        symbol.best_id = symbol.book.update_id
