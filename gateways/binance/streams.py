"""The market streams: which events are published, and when."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from serl.gateways.binance import market_json as as_json
from serl.gateways.binance.bars import INTERVALS, MINUTE_MS, SECOND_MS, next_open, open_of
from serl.gateways.binance.depth import DepthDiff
from serl.gateways.binance.hub import Hub
from serl.gateways.binance.market import Market
from serl.gateways.binance.symbol import MarketTrade, SymbolMarket, aggregate

TICK_S = 0.1
TICKS_OF_A_SECOND = 10
DEPTHS = ("5", "10", "20")
WINDOWS_MS = {"ticker_1h": 60 * MINUTE_MS, "ticker_4h": 240 * MINUTE_MS, "ticker_1d": 1440 * MINUTE_MS}
ZONES_MS = {"": 0, "+08:00": 480 * MINUTE_MS}
"""Time zones of candles; Binance has no others on streams."""
CANDLES_LATE_MAX = 100
"""A stream catches up by at most this many candles at once, as on a fast clock; after a longer jump it continues with the current one."""


class Emitter(Protocol):
    """Creates the events of one periodic stream."""

    def take(self, now_ms: int) -> Any:
        """The next event; None if there is nothing new."""

    def repeat(self) -> None:
        """Called when a listener has joined: the next event is sent even if nothing changes."""

    def stop(self) -> None:
        """Called when nobody listens any longer."""


def events_of(emitter: Emitter, now_ms: int) -> Iterator[Any]:
    """All events of a stream that are due."""
    while (event := emitter.take(now_ms)) is not None:
        yield event


class _Diff:
    """Stream depth: each event continues the previous one."""

    def __init__(self, symbol: SymbolMarket) -> None:
        self._symbol, self._diff = symbol, DepthDiff(symbol.book)

    def take(self, now_ms: int) -> Any:
        taken = self._diff.take()
        if taken is None:
            return None
        first, last, bids, asks = taken
        sides = as_json.sides(self._symbol.listing, bids, asks)
        return {
            "e": "depthUpdate",
            "E": now_ms,
            "s": self._symbol.listing.name,
            "U": first,
            "u": last,
            "b": sides[0],
            "a": sides[1],
        }

    def repeat(self) -> None:
        """Does nothing: a difference cannot be repeated."""

    def stop(self) -> None:
        self._diff.stop()


class _State:
    """A stream whose events are states: sent when the version of the state has changed; a version of None means no state yet."""

    def __init__(self, version: Callable[[int], object], make: Callable[[int], Any]) -> None:
        self._version, self._make = version, make
        self._last: object = None

    def take(self, now_ms: int) -> Any:
        version = self._version(now_ms)
        if version == self._last:
            return None
        self._last = version
        return self._make(now_ms)

    def repeat(self) -> None:
        self._last = None

    def stop(self) -> None:
        """Nothing to stop."""


class KlineEmitter:
    """Stream kline: the current candle whenever it has changed, and each candle once more when it has closed."""

    def __init__(self, symbol: SymbolMarket, interval: str, zone_ms: int) -> None:
        self._symbol, self._interval, self._zone_ms = symbol, interval, zone_ms
        self._last: tuple[int, int] | None = None
        self._open_ms = -1

    def take(self, now_ms: int) -> Any:
        """See Emitter."""
        open_ms = open_of(self._interval, now_ms, self._zone_ms)
        if 0 <= self._open_ms < open_ms:
            closed_ms, next_ms = self._open_ms, next_open(self._interval, self._open_ms, self._zone_ms)
            is_late = open_ms - closed_ms > CANDLES_LATE_MAX * (next_ms - closed_ms)
            self._open_ms = open_ms if is_late else next_ms
            return self._event(closed_ms, True, now_ms)
        if (state := (open_ms, self._symbol.last_id)) == self._last:
            return None
        self._last = state
        event = self._event(open_ms, False, now_ms)
        self._open_ms = -1 if event is None else open_ms
        return event

    def _event(self, open_ms: int, closed: bool, now_ms: int) -> Any:
        symbol, interval, zone_ms = self._symbol, self._interval, self._zone_ms
        bar = symbol.bars.bar_at(interval, open_ms, zone_ms)
        return bar and as_json.kline_event(symbol.listing, bar, interval, closed, now_ms, zone_ms)

    def repeat(self) -> None:
        """See Emitter."""
        self._last = None

    def stop(self) -> None:
        """Nothing to stop."""


class Streams:
    """Publishes the streams that have listeners to the hub."""

    def __init__(self, market: Market, hub: Hub) -> None:
        self._market, self._hub = market, hub
        self._emitters: dict[str, tuple[int, Emitter]] = {}
        self._by_stream = {symbol.listing.stream: symbol for symbol in market.symbols.values()}
        market.on_trades, market.on_best = self._publish_trades, self._publish_best
        hub.on_change = self._listeners_changed

    async def run(self) -> None:
        """Publishes the periodic streams until cancelled."""
        loop, tick = asyncio.get_running_loop(), 0
        due_s = loop.time()
        while True:
            due_s = max(due_s + TICK_S, loop.time())
            await asyncio.sleep(due_s - loop.time())
            tick += 1
            if self._market.up:
                self._publish_due(tick)

    def _publish_due(self, tick: int) -> None:
        now_ms = self._market.now_ms()
        for stream, (ticks, emitter) in list(self._emitters.items()):
            if tick % ticks == 0:
                for event in events_of(emitter, now_ms):
                    self._hub.publish(stream, event)

    def _listeners_changed(self, stream: str, wanted: bool) -> None:
        if not wanted:
            if stream in self._emitters:
                self._emitters.pop(stream)[1].stop()
        elif stream in self._emitters:
            self._emitters[stream][1].repeat()
        elif (made := self._emitter(stream)) is not None:
            self._emitters[stream] = made

    def _emitter(self, stream: str) -> tuple[int, Emitter] | None:
        """(ticks between events, emitter) of a periodic stream; None for other streams."""
        name, _, kind = stream.partition("@")
        if stream in ("!ticker@arr", "!miniTicker@arr"):
            return TICKS_OF_A_SECOND, self._all_tickers(stream)
        symbol = self._by_stream.get(name)
        if symbol is None:
            return None
        kind, _, speed = kind.partition("@")
        ticks = {"": TICKS_OF_A_SECOND, "1000ms": TICKS_OF_A_SECOND, "100ms": 1}.get(speed, 0)
        if kind == "depth" and ticks:
            return ticks, _Diff(symbol)
        if kind.removeprefix("depth") in DEPTHS and ticks:
            count = int(kind.removeprefix("depth"))
            return ticks, _State(lambda now_ms: symbol.book.update_id, lambda now_ms: as_json.depth(symbol, count))
        if kind.removeprefix("kline_") in INTERVALS and speed in ZONES_MS:
            return TICKS_OF_A_SECOND, KlineEmitter(symbol, kind.removeprefix("kline_"), ZONES_MS[speed])
        if kind in WINDOWS_MS:
            return TICKS_OF_A_SECOND, _window(symbol, kind)
        makers = {"ticker": as_json.ticker_event, "miniTicker": as_json.mini_ticker_event, "avgPrice": _average_event}
        if kind in makers:
            make, version = makers[kind], _with_quotes if kind == "ticker" else _of_trades
            return TICKS_OF_A_SECOND, _State(partial(version, symbol), partial(make, symbol))
        return None

    def _all_tickers(self, stream: str) -> _State:
        symbols = list(self._market.symbols.values())
        full = stream.startswith("!ticker")
        make, version = (as_json.ticker_event, _with_quotes) if full else (as_json.mini_ticker_event, _of_trades)
        return _State(
            lambda now_ms: [version(symbol, now_ms) for symbol in symbols],
            lambda now_ms: [make(symbol, now_ms) for symbol in symbols],
        )

    def _publish_trades(self, symbol: SymbolMarket, trades: list[MarketTrade]) -> None:
        listing, hub, now_ms = symbol.listing, self._hub, self._market.now_ms()
        if hub.wants(f"{listing.stream}@trade"):
            for trade in trades:
                hub.publish(f"{listing.stream}@trade", as_json.trade_event(listing, trade, now_ms))
        if hub.wants(f"{listing.stream}@aggTrade"):
            for joined in aggregate(trades):
                hub.publish(f"{listing.stream}@aggTrade", as_json.agg_trade_event(listing, joined, now_ms))

    def _publish_best(self, symbol: SymbolMarket) -> None:
        stream = f"{symbol.listing.stream}@bookTicker"
        if self._hub.wants(stream):
            self._hub.publish(stream, as_json.book_ticker_event(symbol))


def _of_trades(symbol: SymbolMarket, now_ms: int) -> tuple[object, ...]:
    """The version of the trades in a window of time: another one when a minute begins, because the oldest minute then leaves the window."""
    return symbol.last_id, now_ms // MINUTE_MS


def _with_quotes(symbol: SymbolMarket, now_ms: int) -> tuple[object, ...]:
    """The same with the best prices, which a full ticker has too."""
    return *_of_trades(symbol, now_ms), symbol.best


def _window(symbol: SymbolMarket, kind: str) -> _State:
    """A stream like ticker_1h."""
    size = kind.removeprefix("ticker_")
    return _State(
        lambda now_ms: _of_trades(symbol, now_ms) if symbol.trades else None,
        lambda now_ms: as_json.window_event(symbol, now_ms, size, WINDOWS_MS[kind]),
    )


def _average_event(symbol: SymbolMarket, now_ms: int) -> Any:
    bar = symbol.bars.span(now_ms - 5 * MINUTE_MS, now_ms + SECOND_MS)
    if bar is None or not symbol.trades:  # the candles of another journal are still here
        return None
    last_ms = symbol.trades[-1].time_ms
    average = as_json.average_text(symbol.listing, bar)
    return {"e": "avgPrice", "E": now_ms, "s": symbol.listing.name, "i": "5m", "w": average, "T": last_ms}
