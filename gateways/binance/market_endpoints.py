"""Endpoints of market data, which need no account."""

import json
import re
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from serl.gateways.binance import market_json as as_json
from serl.gateways.binance.api import Call, Endpoint, public
from serl.gateways.binance.bars import DAY_MS, INTERVALS, MINUTE_MS, SECOND_MS
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.symbol import AggTrade, SymbolMarket, aggregate

DEPTH_MAX = 5000
ROWS_MAX = 1000
HOUR_MS = 3_600_000
TIME_MS_MAX = 4_102_444_800_000
"""The year 2100: monthly candles cannot represent times beyond the year 9999."""


async def ping(call: Call) -> Any:
    """GET ping."""
    return {}


async def server_time(call: Call) -> Any:
    """GET time."""
    return {"serverTime": time.time_ns() // 1_000_000}


async def exchange_info(call: Call) -> Any:
    """GET exchangeInfo."""
    market, wanted = call.gateway.market, _symbols(call)
    chosen = (
        [market.symbols[market.listings.find(name).name] for name in wanted]
        if wanted is not None
        else list(market.symbols.values())
    )
    await market.refresh_rules()
    return {
        "timezone": "UTC", "serverTime": time.time_ns() // 1_000_000, "rateLimits": call.gateway.limits.describe(), "exchangeFilters": [],
        "symbols": [symbol.listing.describe(symbol.trading) for symbol in chosen],
    }  # fmt: skip


def _symbols(call: Call) -> list[str] | None:
    """The names in `symbol` or `symbols`; None if neither is given."""
    parameters = call.parameters
    one, many = parameters.get("symbol"), parameters.get("symbols")
    if one is not None and many is not None:
        raise BinanceError(-1128, "Combination of optional parameters invalid.")
    if many is None:
        return None if one is None else [one]
    try:
        found = json.loads(many)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
        raise BinanceError(
            -1100,
            "Illegal characters found in parameter 'symbols'; legal range is '^\\[(\"[A-Z0-9-_.]{1,20}\"(,\"[A-Z0-9-_.]{1,20}\"){0,}){0,1}\\]$'.",
        )
    if len(set(found)) < len(found):
        raise BinanceError(-1151, "Symbol is present multiple times in the list.")
    return found


def _symbol(call: Call) -> SymbolMarket:
    return call.gateway.market.find(call.parameters.text("symbol"))


async def depth(call: Call) -> Any:
    """GET depth."""
    symbol = _symbol(call)
    return as_json.depth(symbol, call.parameters.count("limit", 100, DEPTH_MAX))


def _depth_weight(parameters: Parameters) -> int:
    text = parameters.values.get("limit", "100")
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 100
    return 5 if count <= 100 else 25 if count <= 500 else 50 if count <= 1000 else 250


async def trades(call: Call) -> Any:
    """GET trades."""
    symbol, count = _symbol(call), call.parameters.count("limit", 500, ROWS_MAX)
    return [as_json.trade(symbol.listing, row) for row in _last(symbol, count)]


async def historical_trades(call: Call) -> Any:
    """GET historicalTrades."""
    symbol, count = _symbol(call), call.parameters.count("limit", 500, ROWS_MAX)
    from_id = call.parameters.integer("fromId")
    rows = (
        _last(symbol, count) if from_id is None else [row for row in symbol.trades if row.trade_id >= from_id][:count]
    )
    return [as_json.trade(symbol.listing, row) for row in rows]


def _last(symbol: SymbolMarket, count: int) -> list[Any]:
    return list(islice(symbol.trades, max(0, len(symbol.trades) - count), None))


def _last_aggregates(symbol: SymbolMarket, count: int) -> list[AggTrade]:
    """The last `count`, from as few trades as possible: the first of their aggregates may lack trades, unless they are all that there are."""
    trades = 4 * count
    while len(rows := aggregate(_last(symbol, trades))) <= count and trades < len(symbol.trades):
        trades *= 4
    return rows[-count:]


async def agg_trades(call: Call) -> Any:
    """GET aggTrades."""
    symbol, parameters = _symbol(call), call.parameters
    count = parameters.count("limit", 500, ROWS_MAX)
    from_id, start_ms, end_ms = (parameters.integer(name) for name in ("fromId", "startTime", "endTime"))
    if from_id is None and start_ms is None and end_ms is None:
        return [as_json.agg_trade(symbol.listing, row) for row in _last_aggregates(symbol, count)]

    def chosen(row: AggTrade) -> bool:
        return (
            (from_id is None or row.first_id >= from_id) and (start_ms is None or row.time_ms >= start_ms) and (end_ms is None or row.time_ms <= end_ms)
        )  # fmt: skip

    return [as_json.agg_trade(symbol.listing, row) for row in aggregate(symbol.trades) if chosen(row)][:count]


async def klines(call: Call) -> Any:
    """GET klines and uiKlines."""
    symbol, parameters = _symbol(call), call.parameters
    interval = parameters.choice("interval", INTERVALS, -1120, "Invalid interval.")
    count = parameters.count("limit", 500, ROWS_MAX)
    start_ms, end_ms = (parameters.integer(name, most=TIME_MS_MAX) for name in ("startTime", "endTime"))
    now_ms, zone_ms = call.gateway.market.now_ms(), _zone_ms(parameters)
    rows = symbol.bars.bars(interval, start_ms, now_ms if end_ms is None else min(end_ms, now_ms), count, zone_ms)
    return [as_json.kline(symbol.listing, bar, interval, zone_ms) for bar in rows]


async def average_price(call: Call) -> Any:
    """GET avgPrice."""
    symbol = _symbol(call)
    now_ms = call.gateway.market.now_ms()
    bar = symbol.bars.span(now_ms - 5 * MINUTE_MS, now_ms + SECOND_MS)
    price = symbol.listing.prices.text(symbol.last_ticks) if bar is None else as_json.average_text(symbol.listing, bar)
    return {"mins": 5, "price": price, "closeTime": symbol.trades[-1].time_ms if symbol.trades else 0}


def _of_symbols(make: Callable[[SymbolMarket, int], Any]) -> Callable[[Call], Any]:
    """Creates an endpoint that answers for one symbol, some or all."""

    async def run(call: Call) -> Any:
        market = call.gateway.market
        market.require()
        wanted, now_ms = _symbols(call), market.now_ms()
        if wanted is not None and call.parameters.values.get("symbol"):
            return make(market.find(wanted[0]), now_ms)
        chosen = list(market.symbols.values()) if wanted is None else [market.find(name) for name in wanted]
        return [make(symbol, now_ms) for symbol in chosen]

    return run


def _last_price(symbol: SymbolMarket, now_ms: int) -> Any:
    return {"symbol": symbol.listing.name, "price": symbol.listing.prices.text(symbol.last_ticks)}


_full_day = _of_symbols(as_json.day_ticker)
_mini_day = _of_symbols(as_json.mini_day_ticker)


async def day_ticker(call: Call) -> Any:
    """GET ticker/24hr."""
    return await (_mini_day if _is_mini(call) else _full_day)(call)


def _is_mini(call: Call) -> bool:
    return call.parameters.choice("type", ("FULL", "MINI"), -1139, "Invalid ticker type.", "FULL") == "MINI"


WINDOWS_MS = (
    {f"{n}m": n * MINUTE_MS for n in range(1, 60)}
    | {f"{n}h": n * HOUR_MS for n in range(1, 24)}
    | {f"{n}d": 24 * n * HOUR_MS for n in range(1, 8)}
)


async def window_ticker(call: Call) -> Any:
    """GET ticker: the trades of a window of time."""
    size = call.parameters.choice("windowSize", tuple(WINDOWS_MS), -1120, "Invalid window size.", "1d")
    mini = _is_mini(call)

    def make(symbol: SymbolMarket, now_ms: int) -> Any:
        return as_json.window_ticker(symbol, now_ms, WINDOWS_MS[size], mini)

    return await _of_symbols(make)(call)


_TIME_ZONE = re.compile(r"^([+-]?)(\d{1,2})(?::([0-5]\d))?$", re.ASCII)
ZONE_MIN_MS, ZONE_MAX_MS = -12 * HOUR_MS, 14 * HOUR_MS


def _zone_ms(parameters: Parameters) -> int:
    """The parameter timeZone, like 8 or -1:00, in ms."""
    found = _TIME_ZONE.match(parameters.get("timeZone") or "0")
    sign, hours, minutes = found.groups() if found else ("", "99", "0")
    zone_ms = (-1 if sign == "-" else 1) * (int(hours) * HOUR_MS + int(minutes or 0) * MINUTE_MS)
    if not ZONE_MIN_MS <= zone_ms <= ZONE_MAX_MS:
        raise BinanceError(-1130, "Data sent for parameter 'timeZone' is not valid.")
    return zone_ms


async def trading_day_ticker(call: Call) -> Any:
    """GET ticker/tradingDay: the trades of the day in a time zone, UTC by default."""
    zone_ms, mini = _zone_ms(call.parameters), _is_mini(call)

    def make(symbol: SymbolMarket, now_ms: int) -> Any:
        open_ms = (now_ms + zone_ms) // DAY_MS * DAY_MS - zone_ms
        found = as_json.window_ticker(symbol, now_ms, now_ms - open_ms, mini)
        return {**found, "openTime": open_ms, "closeTime": open_ms + DAY_MS - 1}

    return await _of_symbols(make)(call)


def _asked(parameters: Parameters) -> int:
    """The number of symbols that a request names; 0 for all."""
    if "symbol" in parameters.values:
        return 1
    return parameters.values["symbols"].count(",") + 1 if "symbols" in parameters.values else 0


def _day_weight(parameters: Parameters) -> int:
    return 2 if 1 <= (asked := _asked(parameters)) <= 20 else 40 if 21 <= asked <= 100 else 80


def _window_weight(parameters: Parameters) -> int:
    return min(4 * _asked(parameters) or 200, 200)


def _price_weight(parameters: Parameters) -> int:
    return 2 if "symbol" in parameters.values else 4


EXCHANGE_INFO = "symbol symbols permissions showPermissionSets symbolStatus"
KLINES = "symbol interval startTime endTime timeZone limit"
MARKET_ENDPOINTS: dict[str, Endpoint] = {
    "ping": public(ping, 1),
    "time": public(server_time, 1),
    "exchangeInfo": public(exchange_info, 20, EXCHANGE_INFO),
    "depth": public(depth, _depth_weight, "symbol limit symbolStatus"),
    "trades": public(trades, 25, "symbol limit"),
    "historicalTrades": public(historical_trades, 25, "symbol limit fromId apiKey"),
    "aggTrades": public(agg_trades, 4, "symbol fromId startTime endTime limit"),
    "klines": public(klines, 2, KLINES),
    "uiKlines": public(klines, 2, KLINES),
    "avgPrice": public(average_price, 2, "symbol"),
    "ticker/24hr": public(day_ticker, _day_weight, "symbol symbols type symbolStatus"),
    "ticker": public(window_ticker, _window_weight, "symbol symbols windowSize type symbolStatus"),
    "ticker/tradingDay": public(trading_day_ticker, _window_weight, "symbol symbols timeZone type symbolStatus"),
    "ticker/price": public(_of_symbols(_last_price), _price_weight, "symbol symbols symbolStatus"),
    "ticker/bookTicker": public(
        _of_symbols(lambda symbol, now_ms: as_json.book_ticker(symbol)),
        _price_weight,
        "symbol symbols symbolStatus",
    ),
}
"""Endpoints by the end of their path below /api/v3/."""
