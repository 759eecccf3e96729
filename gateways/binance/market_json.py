"""Market data as the JSON of Binance: answers of REST and events of streams."""

from collections.abc import Iterable
from typing import Any

from serl.clients.book import Level
from serl.gateways.binance.bars import Bar, next_open
from serl.gateways.binance.listing import Listing
from serl.gateways.binance.symbol import AggTrade, Day, MarketTrade, SymbolMarket

Json = dict[str, Any]


def sides(
    listing: Listing, bids: Iterable[tuple[int, int]], asks: Iterable[tuple[int, int]]
) -> tuple[list[list[str]], list[list[str]]]:
    """Converts levels (price_ticks, qty_lots) to texts."""
    price, qty = listing.prices.text, listing.quantities.text
    found = tuple([[price(ticks), qty(lots)] for ticks, lots in side] for side in (bids, asks))
    return found[0], found[1]


def depth(symbol: SymbolMarket, count: int) -> Json:
    """The answer of depth, and the event of a stream with a limited depth."""
    levels: list[list[Level]] = [symbol.book.levels(side, count) for side in (0, 1)]
    bids, asks = sides(symbol.listing, *([level[:2] for level in side] for side in levels))
    return {"lastUpdateId": symbol.book.update_id, "bids": bids, "asks": asks}


def trade(listing: Listing, row: MarketTrade) -> Json:
    """A row of trades."""
    return {
        "id": row.trade_id, "price": listing.prices.text(row.price_ticks), "qty": listing.quantities.text(row.qty_lots),
        "quoteQty": listing.amounts.text(row.price_ticks * row.qty_lots), "time": row.time_ms, "isBuyerMaker": not row.taker_buys,
        "isBestMatch": True,
    }  # fmt: skip


def trade_event(listing: Listing, row: MarketTrade, now_ms: int) -> Json:
    """An event trade."""
    return {
        "e": "trade", "E": now_ms, "s": listing.name, "t": row.trade_id, "p": listing.prices.text(row.price_ticks),
        "q": listing.quantities.text(row.qty_lots), "T": row.time_ms, "m": not row.taker_buys, "M": True,
    }  # fmt: skip


def agg_trade(listing: Listing, row: AggTrade) -> Json:
    """A row of aggTrades."""
    return {
        "a": row.first_id, "p": listing.prices.text(row.price_ticks), "q": listing.quantities.text(row.qty_lots), "f": row.first_id,
        "l": row.last_id, "T": row.time_ms, "m": not row.taker_buys, "M": True,
    }  # fmt: skip


def agg_trade_event(listing: Listing, row: AggTrade, now_ms: int) -> Json:
    """An event aggTrade."""
    return {"e": "aggTrade", "E": now_ms, "s": listing.name, **agg_trade(listing, row)}


def kline(listing: Listing, bar: Bar, interval: str, zone_ms: int = 0) -> list[Any]:
    """A row of klines."""
    price, qty, amount = listing.prices.text, listing.quantities.text, listing.amounts.text
    return [
        bar.open_ms, price(bar.open), price(bar.high), price(bar.low), price(bar.close), qty(bar.lots), next_open(interval, bar.open_ms, zone_ms) - 1,
        amount(bar.amount), bar.count, qty(bar.taker_lots), amount(bar.taker_amount), "0",
    ]  # fmt: skip


def kline_event(listing: Listing, bar: Bar, interval: str, closed: bool, now_ms: int, zone_ms: int = 0) -> Json:
    """An event kline."""
    price, qty, amount = listing.prices.text, listing.quantities.text, listing.amounts.text
    return {
        "e": "kline", "E": now_ms, "s": listing.name,
        "k": {
            "t": bar.open_ms, "T": next_open(interval, bar.open_ms, zone_ms) - 1, "s": listing.name, "i": interval, "f": bar.first_id, "L": bar.last_id,
            "o": price(bar.open), "c": price(bar.close), "h": price(bar.high), "l": price(bar.low), "v": qty(bar.lots), "n": bar.count,
            "x": closed, "q": amount(bar.amount), "V": qty(bar.taker_lots), "Q": amount(bar.taker_amount), "B": "0",
        },
    }  # fmt: skip


def book_ticker(symbol: SymbolMarket) -> Json:
    """The answer of ticker/bookTicker."""
    price, qty = symbol.listing.prices.text, symbol.listing.quantities.text
    bid, bid_lots, ask, ask_lots = symbol.best
    return {
        "symbol": symbol.listing.name,
        "bidPrice": price(bid),
        "bidQty": qty(bid_lots),
        "askPrice": price(ask),
        "askQty": qty(ask_lots),
    }


def book_ticker_event(symbol: SymbolMarket) -> Json:
    """An event of the stream bookTicker."""
    price, qty = symbol.listing.prices.text, symbol.listing.quantities.text
    bid, bid_lots, ask, ask_lots = symbol.best
    return {
        "u": symbol.best_id,
        "s": symbol.listing.name,
        "b": price(bid),
        "B": qty(bid_lots),
        "a": price(ask),
        "A": qty(ask_lots),
    }


def average_text(listing: Listing, bar: Bar) -> str:
    """The average price of a bar's trades, rounded down to the places of a price."""
    if not bar.lots:
        return listing.prices.text(bar.close)
    one = 10**listing.prices.places
    whole, part = divmod(bar.amount * int(listing.prices.unit * one) // bar.lots, one)
    return f"{whole}.{part:0{listing.prices.places}d}"


def day_ticker(symbol: SymbolMarket, now_ms: int) -> Json:
    """The answer of ticker/24hr."""
    listing, day = symbol.listing, symbol.day(now_ms) or _no_day(now_ms)
    price, qty, bar = listing.prices.text, listing.quantities.text, day.bar
    quote = book_ticker(symbol)
    return {
        "symbol": listing.name, "priceChange": price(bar.close - bar.open), "priceChangePercent": _percent(bar),
        "weightedAvgPrice": average_text(listing, bar), "prevClosePrice": price(day.before_ticks), "lastPrice": price(bar.close),
        "lastQty": qty(day.last_lots), **{name: quote[name] for name in ("bidPrice", "bidQty", "askPrice", "askQty")},
        **day_ohlc(listing, day), "count": bar.count,
    }  # fmt: skip


def day_ohlc(listing: Listing, day: Day) -> Json:
    """The common fields of the full and the mini ticker."""
    price, bar = listing.prices.text, day.bar
    return {
        "openPrice": price(bar.open), "highPrice": price(bar.high), "lowPrice": price(bar.low), "volume": listing.quantities.text(bar.lots),
        "quoteVolume": listing.amounts.text(bar.amount), "openTime": day.open_ms, "closeTime": day.close_ms, "firstId": bar.first_id,
        "lastId": bar.last_id,
    }  # fmt: skip


def mini_day_ticker(symbol: SymbolMarket, now_ms: int) -> Json:
    """The answer of ticker/24hr with type MINI."""
    day = symbol.day(now_ms) or _no_day(now_ms)
    ohlc = day_ohlc(symbol.listing, day)
    return {
        "symbol": symbol.listing.name,
        "lastPrice": symbol.listing.prices.text(day.bar.close),
        **ohlc,
        "count": day.bar.count,
    }


def ticker_event(symbol: SymbolMarket, now_ms: int) -> Json:
    """An event 24hrTicker."""
    answer = day_ticker(symbol, now_ms)
    names = {
        "priceChange": "p", "priceChangePercent": "P", "weightedAvgPrice": "w", "prevClosePrice": "x", "lastPrice": "c", "lastQty": "Q",
        "bidPrice": "b", "bidQty": "B", "askPrice": "a", "askQty": "A", "openPrice": "o", "highPrice": "h", "lowPrice": "l", "volume": "v",
        "quoteVolume": "q", "openTime": "O", "closeTime": "C", "firstId": "F", "lastId": "L", "count": "n",
    }  # fmt: skip
    return {
        "e": "24hrTicker",
        "E": now_ms,
        "s": symbol.listing.name,
        **{key: answer[name] for name, key in names.items()},
    }


def mini_ticker_event(symbol: SymbolMarket, now_ms: int) -> Json:
    """An event 24hrMiniTicker."""
    listing, day = symbol.listing, symbol.day(now_ms) or _no_day(now_ms)
    price, bar = listing.prices.text, day.bar
    return {
        "e": "24hrMiniTicker", "E": now_ms, "s": listing.name, "c": price(bar.close), "o": price(bar.open), "h": price(bar.high),
        "l": price(bar.low), "v": listing.quantities.text(bar.lots), "q": listing.amounts.text(bar.amount),
    }  # fmt: skip


def _percent(bar: Bar) -> str:
    return f"{100 * (bar.close - bar.open) / bar.open:.3f}" if bar.open else "0.000"


def _no_day(now_ms: int) -> Day:
    return Day(Bar(now_ms, 0), now_ms - 86_400_000, now_ms, 0, 0)


def window_ticker(symbol: SymbolMarket, now_ms: int, length_ms: int, mini: bool) -> Json:
    """The answer of ticker: like that of ticker/24hr for a window of whole minutes."""
    open_ms = (now_ms - length_ms) // 60_000 * 60_000
    bar = symbol.bars.span(open_ms, now_ms + 1) or Bar(open_ms, symbol.last_ticks)
    ohlc = day_ohlc(symbol.listing, Day(bar, open_ms, now_ms, 0, 0))
    price = symbol.listing.prices.text
    changes = {
        "priceChange": price(bar.close - bar.open), "priceChangePercent": _percent(bar), "weightedAvgPrice": average_text(symbol.listing, bar)
    }  # fmt: skip
    return {
        "symbol": symbol.listing.name,
        **({} if mini else changes),
        **ohlc,
        "lastPrice": price(bar.close),
        "count": bar.count,
    }


def window_event(symbol: SymbolMarket, now_ms: int, size: str, length_ms: int) -> Json:
    """An event 1hTicker, 4hTicker or 1dTicker."""
    answer = window_ticker(symbol, now_ms, length_ms, mini=False)
    names = {
        "priceChange": "p", "priceChangePercent": "P", "openPrice": "o", "highPrice": "h", "lowPrice": "l", "lastPrice": "c",
        "weightedAvgPrice": "w", "volume": "v", "quoteVolume": "q", "openTime": "O", "closeTime": "C", "firstId": "F", "lastId": "L",
        "count": "n",
    }  # fmt: skip
    return {
        "e": f"{size}Ticker",
        "E": now_ms,
        "s": symbol.listing.name,
        **{key: answer[name] for name, key in names.items()},
    }
