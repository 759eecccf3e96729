"""Live market data: the feed of an exchange for the data engine of NautilusTrader."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from nautilus_trader.cache.cache import Cache
from nautilus_trader.common.component import LiveClock, MessageBus
from nautilus_trader.live.data_client import LiveMarketDataClient
from nautilus_trader.model.enums import BookType
from nautilus_trader.model.identifiers import ClientId

from serl.clients.book import L2Book, L3Book, depth_max
from serl.clients.trade_feed import TRADES_MAX, TradeFeed
from serl.exchange.errors import ConfigError
from serl.exchange.wire import Kind
from serl.gateways.nautilus.config import SerlDataClientConfig
from serl.gateways.nautilus.feed import changes_of, content_of, deltas_of, quote_of, trade_of
from serl.gateways.nautilus.instruments import SERL_VENUE, SymbolUnits
from serl.gateways.nautilus.link import Link
from serl.gateways.nautilus.providers import SerlInstrumentProvider
from serl.gateways.nautilus.status import instrument_status


class SerlDataClient(LiveMarketDataClient):
    """Order book deltas, quotes, trades and market status, each beginning with a snapshot; gaps in the feed are filled with a new snapshot."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, link: Link, msgbus: MessageBus, cache: Cache, clock: LiveClock,
        provider: SerlInstrumentProvider, config: SerlDataClientConfig, name: str | None,
    ) -> None:  # fmt: skip
        super().__init__(
            loop=loop, client_id=ClientId(name or SERL_VENUE.value), venue=SERL_VENUE, msgbus=msgbus, cache=cache, clock=clock,
            instrument_provider=provider, config=config,
        )  # fmt: skip
        self._link, self._provider = link, provider
        self._books: dict[Any, L2Book | L3Book] = {}
        self._filling: set[Any] = set()
        self._trades: dict[Any, TradeFeed] = {}
        self._best: dict[Any, list[int]] = {}
        #: functions that request the snapshot of a subscription, by channel and instrument
        self._snapshots: dict[tuple[str, Any], Callable[[], Coroutine[Any, Any, None]]] = {}
        link.refreshes.append(self._refresh)
        self._heard: dict[tuple[str, Any], tuple[int, int]] = {}

    async def _connect(self) -> None:
        await self._link.open()
        await self._provider.initialize()
        for instrument in self._provider.list_all():
            self._handle_data(instrument)

    async def _disconnect(self) -> None:
        await self._link.close()

    def _units(self, instrument: Any) -> SymbolUnits:
        if instrument not in self._provider.units:
            raise ConfigError(
                f"expected an instrument that was loaded, got {instrument}; name it in the instrument provider's load_ids"
            )
        return self._provider.units[instrument]

    def _now_ns(self) -> int:
        now: int = self._clock.timestamp_ns()
        return now

    def _refresh(self) -> None:
        self._heard.clear()  # an exchange restarted without its journal numbers its events from 1 again, in the same epoch
        for book in self._books.values():
            book.needs_snapshot = True
        for trades in self._trades.values():
            trades.distrust()
        for request in self._snapshots.values():
            self.create_task(request())

    async def _begin(self, channel: str, instrument: Any, request: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Requests the snapshot with which a subscription begins, again whenever the connection has been reopened."""
        self._snapshots[channel, instrument] = request
        await request()

    def _end(self, channel: str, instrument: Any) -> None:
        self._snapshots.pop((channel, instrument), None)
        self._heard.pop((channel, instrument), None)
        self._link.mute(channel, instrument.symbol.value)

    # Books

    async def _subscribe_order_book_deltas(self, command: Any) -> None:
        instrument, symbol = command.instrument_id, command.instrument_id.symbol.value
        self._units(instrument)
        single = command.book_type == BookType.L3_MBO
        book = self._books[instrument] = L3Book() if single else L2Book()
        self._link.listen("l3" if single else "l2", symbol, lambda message: self._on_book(instrument, book, message))
        await self._begin("l3" if single else "l2", instrument, partial(self._fill, instrument, book))

    async def _unsubscribe_order_book_deltas(self, command: Any) -> None:
        book = self._books.pop(command.instrument_id, None)
        self._end("l3" if isinstance(book, L3Book) else "l2", command.instrument_id)

    def _on_book(self, instrument: Any, book: L2Book | L3Book, message: list[Any]) -> None:
        _, epoch, previous, sequence, time_ns, items = message
        follows = not book.needs_snapshot and epoch == book.epoch and previous <= book.sequence < sequence
        changes = changes_of(book, items) if follows else []
        if book.apply(message) and changes:
            self._publish(instrument, changes, sequence, time_ns)
        if book.needs_snapshot and instrument not in self._filling:
            self.create_task(self._fill(instrument, book))

    async def _fill(self, instrument: Any, book: L2Book | L3Book) -> None:
        """Requests the book, and publishes it with the messages that have arrived since."""
        if instrument in self._filling:
            return
        self._filling.add(instrument)
        try:
            number = self._link.session.instrument(instrument.symbol.value).number
            query = (Kind.L3, number) if isinstance(book, L3Book) else (Kind.L2, number, 0)
            if isinstance(book, L2Book):
                book.depth_max = depth_max(self._link.session.limits)
            while book.needs_snapshot:
                book.apply_snapshot(await self._link.exchange.ask(*query))
            self._publish(instrument, content_of(book), book.sequence, book.time_ns, snapshot=True)
        finally:
            self._filling.discard(instrument)

    def _publish(
        self, instrument: Any, changes: list[Any], sequence: int, time_ns: int, *, snapshot: bool = False
    ) -> None:
        time_ns = self._link.unix_ns(time_ns)
        units = self._provider.units[instrument]
        self._handle_data(deltas_of(instrument, units, changes, sequence, time_ns, self._now_ns(), snapshot=snapshot))

    # Quotes, trades, status

    def _is_new(self, channel: str, instrument: Any, message: list[Any]) -> bool:
        """Whether a message is newer than the last message or snapshot of its channel."""
        said, before = (message[1], message[3]), self._heard.get((channel, instrument))
        if before is not None and said <= before:
            return False
        self._heard[channel, instrument] = said
        return True

    async def _subscribe_quote_ticks(self, command: Any) -> None:
        instrument, symbol = command.instrument_id, command.instrument_id.symbol.value
        self._units(instrument)
        self._link.listen("l1", symbol, lambda message: self._on_quote(instrument, message))
        await self._begin("l1", instrument, partial(self._request_best, instrument))

    async def _request_best(self, instrument: Any) -> None:
        number = self._link.session.instrument(instrument.symbol.value).number
        reply = await self._link.exchange.ask(Kind.L2, number, 1)
        bids, asks = reply[5]
        best = [*(bids[0][:2] if bids else (0, 0)), *(asks[0][:2] if asks else (0, 0))]
        self._on_quote(instrument, [0, *reply[2:3], 0, *reply[3:5], best])

    async def _unsubscribe_quote_ticks(self, command: Any) -> None:
        self._end("l1", command.instrument_id)
        self._best.pop(command.instrument_id, None)  # a new subscriber gets it although it is unchanged

    def _on_quote(self, instrument: Any, message: list[Any]) -> None:
        if not self._is_new("l1", instrument, message) or self._best.get(instrument) == message[5]:
            return
        self._best[instrument] = message[5]
        time_ns = self._link.unix_ns(message[4])
        quote = quote_of(instrument, self._provider.units[instrument], message[5], time_ns, self._now_ns())
        if quote is not None:
            self._handle_data(quote)

    async def _subscribe_trade_ticks(self, command: Any) -> None:
        instrument, symbol = command.instrument_id, command.instrument_id.symbol.value
        self._units(instrument)
        known = await self._link.exchange.trades(symbol, 1)
        trades = self._trades[instrument] = TradeFeed(list(known[-1]) if known else None)
        self._link.listen("trade", symbol, lambda message: self._on_trades(instrument, trades, message))
        await self._begin("trade", instrument, partial(self._request_trades_missed, instrument, trades))

    async def _unsubscribe_trade_ticks(self, command: Any) -> None:
        self._trades.pop(command.instrument_id, None)
        self._end("trade", command.instrument_id)

    def _on_trades(self, instrument: Any, trades: TradeFeed, message: list[Any]) -> None:
        trades.apply(message)
        self._publish_trades(instrument, trades.take())
        if trades.needs_snapshot:
            self.create_task(self._request_trades_missed(instrument, trades))

    async def _request_trades_missed(self, instrument: Any, trades: TradeFeed) -> None:
        """Requests the trades that the feed has missed, and publishes them."""
        if trades in self._filling:
            return
        self._filling.add(trades)
        try:
            number = self._link.session.instrument(instrument.symbol.value).number
            while trades.needs_snapshot:
                trades.apply_snapshot(await self._link.exchange.ask(Kind.TRADES, number, TRADES_MAX))
                self._publish_trades(instrument, trades.take())
        finally:
            self._filling.discard(trades)

    def _publish_trades(self, instrument: Any, items: list[Any]) -> None:
        units = self._provider.units[instrument]
        for item in items:
            self._handle_data(trade_of(instrument, units, item, self._link.unix_ns(item[1]), self._now_ns()))

    async def _subscribe_instrument_status(self, command: Any) -> None:
        instrument, symbol = command.instrument_id, command.instrument_id.symbol.value
        self._units(instrument)
        self._link.listen("status", symbol, lambda message: self._on_status(instrument, message))
        await self._begin("status", instrument, partial(self._request_status, instrument))

    async def _request_status(self, instrument: Any) -> None:
        number = self._link.session.instrument(instrument.symbol.value).number
        reply = await self._link.exchange.ask(Kind.STATUS, number)
        self._on_status(instrument, [0, reply[2], 0, *reply[3:5], reply[5]])

    async def _unsubscribe_instrument_status(self, command: Any) -> None:
        self._end("status", command.instrument_id)

    def _on_status(self, instrument: Any, message: list[Any]) -> None:
        if self._is_new("status", instrument, message):
            halted, phase, reason = message[5]
            time_ns = self._link.unix_ns(message[4])
            self._handle_data(instrument_status(instrument, bool(halted), phase, reason, time_ns, self._now_ns()))

    async def _subscribe_instruments(self, command: Any) -> None:
        """Instruments do not change while an exchange runs."""

    async def _subscribe_instrument(self, command: Any) -> None:
        """Instruments do not change while an exchange runs."""

    async def _unsubscribe_instruments(self, command: Any) -> None:
        """See `_subscribe_instruments`."""

    async def _unsubscribe_instrument(self, command: Any) -> None:
        """See `_subscribe_instrument`."""

    # Requests

    async def _request_instrument(self, request: Any) -> None:
        self._units(request.instrument_id)
        instrument = self._provider.find(request.instrument_id)
        self._handle_instrument(instrument, request.id, request.start, request.end, request.params)

    async def _request_instruments(self, request: Any) -> None:
        self._handle_instruments(
            SERL_VENUE, self._provider.list_all(), request.id, request.start, request.end, request.params
        )  # fmt: skip

    async def _request_trade_ticks(self, request: Any) -> None:
        """The last trades, at most as many as the exchange keeps."""
        instrument = request.instrument_id
        units = self._units(instrument)
        trades = await self._link.exchange.trades(instrument.symbol.value, request.limit or TRADES_MAX)
        now_ns = self._now_ns()
        ticks = [trade_of(instrument, units, list(one), self._link.unix_ns(one.time_ns), now_ns) for one in trades]
        self._handle_trade_ticks(instrument, ticks, request.id, request.start, request.end, request.params)

    async def _request_bars(self, request: Any) -> None:
        """The exchange has no bars: none are returned."""
        self._log.warning(
            f"{request.bar_type}: the exchange stores no bars; the node builds them from the data that it receives from now on"
        )
        self._handle_bars(request.bar_type, [], request.id, request.start, request.end, request.params)

    async def _request_quote_ticks(self, request: Any) -> None:
        """The exchange keeps no quotes: none are returned."""
        self._log.warning(f"{request.instrument_id}: the exchange stores no past quotes")
        self._handle_quote_ticks(request.instrument_id, [], request.id, request.start, request.end, request.params)
