"""Numbers, candles, order files and limits, without a server."""

import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from serl.clients.book import Level
from serl.clients.session import Instrument
from serl.gateways.binance.bars import DAY_MS, INTERVALS, Bars, next_open, open_of
from serl.gateways.binance.depth import DepthBook, DepthDiff
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import Hub
from serl.gateways.binance.limits import Limits, LimitSettings
from serl.gateways.binance.listing import Listing
from serl.gateways.binance.market_endpoints import MARKET_ENDPOINTS
from serl.gateways.binance.market_json import day_ticker, ticker_event
from serl.gateways.binance.order_endpoints import ORDER_ENDPOINTS
from serl.gateways.binance.order_entry import spend
from serl.gateways.binance.order_file import OrderFile, OrderRecord
from serl.gateways.binance.parameters import Parameters
from serl.gateways.binance.scale import Scale
from serl.gateways.binance.streams import CANDLES_LATE_MAX, Emitter, KlineEmitter, Streams, events_of
from serl.gateways.binance.symbol import SymbolMarket

HOUR_MS = 3_600_000
MONDAY_MS = 1_704_067_200_000
"""2024-01-01, a Monday and the first of a month."""


@pytest.mark.parametrize(
    "unit, units, text",
    [
        ("0.01", 12_345, "123.45000000"),
        ("1", -3, "-3.00000000"),
        ("0.000000000025", 3, "0.000000000075"),
        ("100", 2, "200.00000000"),
    ],
)
def test_numbers_are_exact(unit: str, units: int, text: str) -> None:
    scale = Scale(Decimal(unit))
    assert scale.text(units) == text
    if units > 0:
        assert scale.units("price", text) == units == scale.units("price", f"{text}00")


def test_a_number_between_two_units_is_none() -> None:
    assert Scale(Decimal("0.05")).units("price", "1.01") is None
    assert Scale(Decimal("0.05")).units("price", "1.10") == 22


@pytest.mark.parametrize("zone_ms", [0, 8 * HOUR_MS, -90 * 60_000])
@pytest.mark.parametrize("interval", INTERVALS)
def test_candles_follow_each_other_and_hold_their_trades(interval: str, zone_ms: int) -> None:
    monday_ms = MONDAY_MS - zone_ms
    assert open_of(interval, monday_ms, zone_ms) == (
        monday_ms if interval != "3d" else open_of("3d", monday_ms, zone_ms)
    )
    for time_ms in (monday_ms + 1, monday_ms + 5 * DAY_MS - 1):
        open_ms = open_of(interval, time_ms, zone_ms)
        assert open_ms <= time_ms < next_open(interval, open_ms, zone_ms)
        assert open_of(interval, next_open(interval, open_ms, zone_ms) - 1, zone_ms) == open_ms


def test_candles_of_another_time_zone_hold_other_trades() -> None:
    bars = Bars()
    bars.add(MONDAY_MS + 15 * HOUR_MS, 1, 100, 5, True)
    bars.add(MONDAY_MS + 17 * HOUR_MS, 2, 110, 1, False)
    now_ms = MONDAY_MS + 20 * HOUR_MS
    assert [bar.lots for bar in bars.bars("1d", None, now_ms, 10)] == [6]
    found = bars.bars("1d", None, now_ms, 10, 8 * HOUR_MS)
    assert [(bar.open_ms, bar.lots) for bar in found] == [(MONDAY_MS - 8 * HOUR_MS, 5), (MONDAY_MS + 16 * HOUR_MS, 1)]


def test_a_candle_without_trades_is_flat() -> None:
    bars = Bars()
    bars.add(MONDAY_MS + 10, 1, 100, 5, True)
    bars.add(MONDAY_MS + 20, 2, 110, 1, False)
    bars.add(MONDAY_MS + 180_000, 3, 90, 2, True)
    found = bars.bars("1m", None, MONDAY_MS + 185_000, 10)
    assert [(bar.open, bar.high, bar.low, bar.close, bar.lots) for bar in found] == [
        (100, 110, 100, 110, 6), (110, 110, 110, 110, 0), (110, 110, 110, 110, 0), (90, 90, 90, 90, 2),
    ]  # fmt: skip
    hour = bars.bars("1h", MONDAY_MS, MONDAY_MS + 185_000, 10)[0]
    assert (hour.open, hour.high, hour.low, hour.close, hour.count, hour.taker_lots) == (100, 110, 90, 90, 3, 7)
    assert hour.amount == 500 + 110 + 180 and (hour.first_id, hour.last_id) == (1, 3)


def demo_market() -> SymbolMarket:
    return SymbolMarket(Listing(Instrument.of(0, "DEMO", "0.01", "1"), "DEMO", "USDT", {}), 0)


def candles(stream: Emitter, now_ms: int) -> list[tuple[int, bool]]:
    """(second, whether it has closed) of each event."""
    return [(event["k"]["t"] // 1000, event["k"]["x"]) for event in events_of(stream, now_ms)]


def test_a_candle_stream_closes_every_candle() -> None:
    symbol = demo_market()
    stream = KlineEmitter(symbol, "1s", 0)
    assert candles(stream, 999_500) == []
    found = []
    for second in (1000, 1001, 1002, 1005):  # nobody looked in 1003 and 1004, as on a fast clock
        symbol.add_trades([[second, (second * 1000 + 100) * 1_000_000, 100, 1, 0, 0]])
        found += candles(stream, second * 1000 + 500)
    assert [second for second, closed in found if closed] == [1000, 1001, 1002, 1003, 1004]
    assert [second for second, closed in found if not closed] == [1000, 1001, 1002, 1005]
    assert candles(stream, 1_005_900) == []
    assert len(candles(stream, 90_000_000)) <= CANDLES_LATE_MAX + 1, "the clock was set"


@pytest.mark.parametrize(
    "stream, follows_quotes", [("demousdt@ticker", True), ("!ticker@arr", True), ("demousdt@miniTicker", False)]
)
def test_tickers_are_sent_when_anything_in_them_changes(stream: str, follows_quotes: bool) -> None:
    """Without a trade, the best prices of a ticker stayed, and so did the trades of minutes that had left its day."""
    symbol = demo_market()
    symbol.add_trades([[1, 1_000_000, 100, 8, 0, 0]])
    market: Any = SimpleNamespace(symbols={"DEMOUSDT": symbol})
    made = Streams(market, Hub())._emitter(stream)
    assert made is not None
    sent = [len(list(events_of(made[1], time_ms))) for time_ms in (1000, 2000)]
    symbol.best = (99, 1, 101, 1)
    sent += [
        len(list(events_of(made[1], time_ms))) for time_ms in (3000, 4000, DAY_MS + HOUR_MS, DAY_MS + HOUR_MS + 1000)
    ]
    assert sent == [1, 0, int(follows_quotes), 0, 1, 0]


def test_prints_are_no_last_trade_and_make_no_candle() -> None:
    symbol = demo_market()
    rows = [
        [1, 1_000_000, 100, 8, 0, 0],
        [2, 2_000_000, 150, 5, 0, 1],
        [3, 3_000_000, 101, 2, 1, 2],
        [4, 4_000_000, 40, 1, 1, 1],
    ]
    assert [trade.price_ticks for trade in symbol.add_trades(rows)] == [100, 101]
    assert symbol.last_ticks == 101
    bar = symbol.bars.span(0, 60_000)
    assert bar is not None and (bar.high, bar.low, bar.lots) == (101, 100, 10)


def test_the_previous_close_is_that_of_the_last_trade_before_the_day() -> None:
    symbol = demo_market()
    symbol.add_trades([[number, number * HOUR_MS * 1_000_000, 100 + number, 1, 0, 0] for number in range(1, 31)])
    for time_ms, before, first in (
        (29 * HOUR_MS, "1.04000000", "1.05000000"),
        (6 * HOUR_MS, "1.01000000", "1.01000000"),
    ):
        answer, event = day_ticker(symbol, time_ms), ticker_event(symbol, time_ms)
        assert (answer["prevClosePrice"], answer["openPrice"]) == (before, first)
        assert (event["x"], event["o"]) == (before, first)


def test_differences_of_a_book_have_no_gaps_even_over_a_new_journal() -> None:
    book = DepthBook()
    book.apply_snapshot([0, 0, 1, 100, 0, [[[99, 5, 1]], [[101, 4, 1]]]])
    diff = DepthDiff(book)
    book.apply([113, 1, 100, 103, 0, [[0, 99, 0, 0], [0, 98, 7, 1]]])
    assert diff.take() == (101, 103, [(99, 0), (98, 7)], [])
    assert diff.take() is None
    book.note_epoch(2)
    book.apply_snapshot([0, 0, 2, 4, 0, [[[98, 6, 1]], [[101, 4, 1]]]])
    first, last, bids, asks = diff.take() or (0, 0, [], [])
    assert (first, bids, asks) == (104, [(98, 6)], []) and last >= first
    book.apply([113, 2, 4, 6, 0, [[1, 101, 0, 0]]])
    assert (diff.take() or (0,))[0] == last + 1


def test_an_order_file_survives_a_cut_line(tmp_path: Path) -> None:
    record = OrderRecord(7, "DEMOUSDT", 0, 9950, 10, "mine", "LIMIT", "GTC", 9950)
    file = OrderFile(tmp_path / "orders", "al/ice")
    file.append(record)
    file.close()
    with file.path.open("ab") as damaged:
        damaged.write(b'null\n["x"]\n[8,"DEMOUSDT",0,9950,1\xff')
    assert file.path.stat().st_mode & 0o077 == 0 and file.path.parent.stat().st_mode & 0o077 == 0
    again = OrderFile(tmp_path / "orders", "al/ice")
    again.append(record._replace(order_id=9))
    again.close()
    last = OrderFile(tmp_path / "orders", "al/ice")
    assert last.records == {7: record, 9: record._replace(order_id=9)}
    last.close()


def test_an_amount_is_spent_on_the_best_prices() -> None:
    listing = Listing(Instrument(0, "DEMO", Decimal("0.01"), Decimal("1")), "DEMO", "USDT", {})
    levels = [Level(1000, 3, 1), Level(1100, 5, 2)]
    assert spend(listing, "52", levels) == (5, 1100)  # 3 x 10 + 2 x 11
    assert spend(listing, "30", levels) == (3, 1000)
    assert spend(listing, "100000", levels) == (8, 1100)
    for amount, code in (("9.99", -1013), ("x", -1100), ("-5", -1100)):
        with pytest.raises(BinanceError) as refused:
            spend(listing, amount, levels)
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("path", "values", "weight"),
    [
        ("ticker/24hr", {"symbol": "A"}, 2),
        ("ticker/24hr", {"symbols": '["A","B"]'}, 2),
        ("ticker/24hr", {"symbols": ",".join(["A"] * 21)}, 40),
        ("ticker/24hr", {"symbols": ",".join(["A"] * 101)}, 80),
        ("ticker/24hr", {}, 80),
        ("ticker", {"symbols": '["A","B"]'}, 8),
        ("ticker/tradingDay", {"symbols": ",".join(["A"] * 99)}, 200),
        ("ticker/price", {"symbols": '["A"]'}, 4),
        ("myTrades", {"symbol": "A", "orderId": "1"}, 5),
        ("myTrades", {"symbol": "A"}, 20),
        ("order/test", {"symbol": "A", "computeCommissionRates": "true"}, 20),
    ],
)
def test_weights_are_those_of_binance(path: str, values: dict[str, str], weight: int) -> None:
    endpoints = MARKET_ENDPOINTS | {name: endpoint for (_, name), endpoint in ORDER_ENDPOINTS.items()}
    assert endpoints[path].cost(Parameters(values)) == weight


def test_limits_count_by_address_and_account() -> None:
    limits = Limits(LimitSettings(10, 2, 3))
    assert limits.spend("a", 6) == 6 and limits.spend("b", 6) == 6
    with pytest.raises(BinanceError) as refused:
        limits.spend("a", 6)
    assert refused.value.status == 429
    limits.count_order("alice", 2)
    limits.count_order("bob")
    with pytest.raises(BinanceError) as refused:
        limits.count_order("alice", 2)
    assert refused.value.code == -1015 and limits.order_counts("alice") == {"10S": 2, "1D": 2}
    assert Limits(LimitSettings(0, 0, 0)).spend("a", 10**9) == 0


def test_the_latest_candles_take_no_longer_after_two_weeks() -> None:
    """Before, each candle walked over all stored bars: 70 ms for a request of weight 2, during which nobody's order is served."""

    def cost_s(minutes: int) -> float:
        bars = Bars()
        for number in range(minutes):
            bars.add(number * 60_000, number, 100, 1, True)
        taken: list[float] = []
        for _ in range(5):
            start_s = time.process_time()
            assert len(bars.bars("3m", None, minutes * 60_000 - 1, 300)) == 300
            taken.append(time.process_time() - start_s)
        return min(taken)

    assert cost_s(40_000) < 3 * cost_s(1_000)
