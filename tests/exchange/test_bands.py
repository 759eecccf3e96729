"""Bands that follow the market: the rule of the reference price, and the exchange that applies it."""

import time
from pathlib import Path

import numpy as np
import pytest

from serl.clients.blocking import connect
from serl.clients.errors import Rejected
from serl.exchange.config import load_config
from serl.exchange.errors import ConfigError
from serl.exchange.records import (
    BAND_HIGH,
    BAND_LOW,
    CommandFlag,
    CommandKind,
    Phase,
    Rule,
    Side,
    Term,
    TimeInForce,
    command,
)
from serl.exchange.reference_price import PPM, WINDOW_S, TradeWindow, band_around, band_midpoint, is_replaced
from tests.exchange.offline_exchange import ANN, BOB, EXCHANGE, SECOND_NS, OfflineExchange, at, entries, exchange
from tests.exchange.test_recovery import journaled
from tests.server_fixture import start_exchange

FIVE_PERCENT: dict[str, object] = {"band_ppm": 50_000, "reference_ticks": 1000}
AROUND_1000 = (950, 1050)


def known_band(served: OfflineExchange, symbol: int = 0) -> tuple[int, int]:
    low, high = served.core.market.state.symbols[symbol, [BAND_LOW, BAND_HIGH]].tolist()
    return low, high


def bands(served: OfflineExchange) -> list[tuple[int, int, int]]:
    """(time_ns, rule, price_ticks) of each RULE sent for symbol 0."""
    rows = served.sent(CommandKind.RULE)
    return [
        (int(row["time_ns"]), int(row["flags"]), int(row["price_ticks"]))
        for row in rows
        if row["symbol"] == 0 and row["flags"] in (Rule.BAND_LOW, Rule.BAND_HIGH)
    ]


def moved(time_ns: int, low: int, high: int) -> list[tuple[int, int, int]]:
    return [(time_ns, Rule.BAND_LOW, low), (time_ns, Rule.BAND_HIGH, high)]


@pytest.mark.parametrize(
    ("reference", "ppm", "most", "low_high"),
    [
        (1000, 50_000, 10_000, (950, 1050)),
        (1009, 50_000, 10_000, (959, 1059)),  # 50.45 ticks
        (1010, 50_000, 10_000, (959, 1061)),  # 50.5 ticks
        (7, 50_000, 10_000, (6, 8)),  # 0.35 ticks
        (1000, PPM, 10_000, (0, 2000)),
        (9800, 50_000, 10_000, (9600, 10_000)),
        (0, 50_000, 10_000, (0, 0)),
    ],
)
def test_a_band_is_around_its_reference(reference: int, ppm: int, most: int, low_high: tuple[int, int]) -> None:
    assert band_around(reference, ppm, most) == low_high
    low, high = np.array(low_high).reshape(2, 1)
    assert band_midpoint(low, high) == [reference]


@pytest.mark.parametrize(
    ("mean", "reference", "does"),
    [
        (1010, 1000, True),
        (1009, 1000, False),
        (990, 1000, True),
        (991, 1000, False),
        (51, 50, True),
        (50, 50, False),
        (0, 1000, False),
        (1, 0, True),
        (0, 0, False),
    ],
)
def test_a_reference_is_replaced_from_one_percent(mean: int, reference: int, does: bool) -> None:
    assert is_replaced(np.array([mean]), np.array([reference])) == [does]


def test_the_window_holds_five_minutes() -> None:
    """Compared with the trades themselves: random trades of two symbols, with gaps of up to 400 seconds."""
    rng = np.random.default_rng(7)
    window = TradeWindow(2)
    times = np.cumsum(rng.choice([0.3, 1.0, 40.0, 400.0], 600, p=[0.6, 0.3, 0.09, 0.01]) * SECOND_NS).astype(np.int64)
    symbols, prices = rng.integers(0, 2, 600), rng.integers(900, 1100, 600)
    for start in range(0, 600, 7):
        part = slice(start, start + 7)
        window.add(symbols[part], times[part], prices[part])
        second = int(times[part][-1]) // SECOND_NS + int(rng.integers(0, 3))
        window.advance(second)
        kept = (times[: part.stop] // SECOND_NS > second - WINDOW_S) & (times[: part.stop] <= times[part][-1])
        for symbol in range(2):
            inside = prices[: part.stop][kept & (symbols[: part.stop] == symbol)]
            assert window.means()[symbol] == (np.floor(inside.mean() + 0.5) if len(inside) else 0)
    window.clear(np.array([0]))
    assert window.means()[0] == 0 and not window.is_empty
    window.advance(second + WINDOW_S)
    assert window.is_empty


def test_the_band_follows_the_mean_of_the_trades(tmp_path: Path) -> None:
    start = at("10:00")
    with exchange(tmp_path, start, FIVE_PERCENT) as served:
        assert bands(served) == moved(start, *AROUND_1000)
        served.trade(start + SECOND_NS // 2, 1018)
        served.trade(start + SECOND_NS, 1020)
        served.schedule.run(at("10:00:29"))
        assert known_band(served) == AROUND_1000, "a reference holds for 30 seconds"
        served.schedule.run(at("10:00:30"))
        assert bands(served)[2:] == moved(at("10:00:30"), 968, 1070), "around 1019, by 50.95 ticks"
        served.trade(at("10:01"), 1029)
        served.trade(at("10:01"), 1039)
        served.schedule.run(at("10:04:59"))
        assert known_band(served) == (968, 1070), "the mean of 1018, 1020, 1029, 1039 is 1026.5: not 1 % away"
        served.schedule.run(at("10:05:30"))
        assert bands(served)[4:] == moved(at("10:05:02"), 982, 1086), "the mean is 1034, without 1018 and 1020"
        served.schedule.run(at("12:00"))
        assert known_band(served) == (982, 1086), "without trades it stays"
        served.send(CommandKind.NEW, at("12:00"), ANN, side=Side.BUY, qty_lots=1, price_ticks=981)
        assert not len(served.core.market.orders())


def test_without_a_reference_the_band_starts_with_the_first_trades(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), {"band_ppm": 50_000}, {}) as served:
        served.schedule.run(at("11:00"))
        served.trade(at("11:00"), 500)
        served.schedule.run(at("11:00:10"))
        assert bands(served) == moved(at("11:00:01"), 475, 525)
        assert known_band(served, 1) == (0, 0)


def test_an_auction_is_the_next_reference(tmp_path: Path) -> None:
    """At once, even if it is less than 1 % away; then the mean counts only later trades."""
    symbol = FIVE_PERCENT | {"day": entries("09:30 pre_open", "10:00 continuous", "16:00 closed")}
    with exchange(tmp_path, at("09:50"), symbol) as served:
        served.trade(at("09:59"), 1004)
        served.schedule.run(at("10:00"))
        assert bands(served)[2:] == moved(at("10:00"), 954, 1054)
        served.trade(at("10:00:10"), 1044)
        served.schedule.run(at("10:00:29"))
        assert known_band(served) == (954, 1054)
        served.schedule.run(at("10:00:31"))
        assert bands(served)[4:] == moved(at("10:00:30"), 992, 1096), "the auction's own trades are not of the mean"


def test_a_volatility_auction_moves_the_band_that_started_it(tmp_path: Path) -> None:
    symbol = FIVE_PERCENT | {"band_action": "auction", "volatility_s": 60}
    with exchange(tmp_path, at("10:00"), symbol) as served:
        served.trade(at("10:00"), 1049)
        served.trade(at("10:01"), 1100)
        assert served.phase() == Phase.VOLATILITY
        served.schedule.run(at("10:01:59"))
        assert known_band(served) == AROUND_1000, "while trading is interrupted the reference stays, whatever the mean"
        served.schedule.run(at("10:02"))
        assert served.phase() == Phase.CONTINUOUS
        assert bands(served)[2:] == moved(at("10:02"), 1045, 1155)
        served.trade(at("10:02:01"), 1149)
        assert served.phase() == Phase.CONTINUOUS
        served.trade(at("10:02:02"), 1156)
        assert served.phase() == Phase.VOLATILITY


def rest_beyond_the_band(served: OfflineExchange, time_ns: int) -> int:
    """Orders of an auction at 1070, and behind it a buy stop at 1060 that finds its counterparty at 1071. The order_id of the stop."""
    served.send(CommandKind.TERM, time_ns, ANN, flags=Term.STOP_TICKS, price_ticks=1060)
    flags = int(CommandFlag.TERMS | CommandFlag.MARKET)
    served.send(CommandKind.NEW, time_ns, ANN, side=Side.BUY, qty_lots=2, time_in_force=TimeInForce.GTC, flags=flags)
    stop_id = served.core.command_sequence
    for side, qty, price in ((Side.SELL, 1, 1070), (Side.BUY, 1, 1070), (Side.SELL, 9, 1071)):
        served.send(CommandKind.NEW, time_ns, BOB, side=side, qty_lots=qty, price_ticks=price)
    return stop_id


def position(served: OfflineExchange) -> int:
    return served.core.market.account(ANN).position_lots


def test_triggers_of_an_opening_trade_within_the_band_of_its_auction(tmp_path: Path) -> None:
    """As those of an auction that was due in a halt, and of one that a restart holds."""
    day = entries("09:25 pre_open", "09:30 continuous", "16:00 closed")
    symbol = FIVE_PERCENT | {"band_action": "auction", "day": day}
    for name in ("runs", "halted", "restarts"):
        with exchange(tmp_path / name, at("09:26"), symbol) as served:
            rest_beyond_the_band(served, at("09:27"))
            if name == "halted":
                served.send(CommandKind.HALT, at("09:28"), EXCHANGE)
                served.schedule.run(at("09:31"))
                assert served.phase() == Phase.PRE_OPEN and not len(served.sent(CommandKind.UNCROSS))
                served.send(CommandKind.RESUME, at("09:31"), EXCHANGE)
            if name != "restarts":
                served.schedule.run(at("09:32"))
                assert (served.phase(), position(served)) == (Phase.CONTINUOUS, 2), name
        with exchange(tmp_path / name, at("09:33"), symbol) as served:
            assert (served.phase(), position(served)) == (Phase.CONTINUOUS, 2), name
            assert known_band(served) == (1016, 1124)


def test_triggers_after_an_interruption_trade_within_the_band_of_its_auction(tmp_path: Path) -> None:
    symbol = FIVE_PERCENT | {"band_action": "auction", "volatility_s": 60}
    with exchange(tmp_path, at("10:00"), symbol) as served:
        rest_beyond_the_band(served, at("10:00"))
        assert served.phase() == Phase.VOLATILITY
        served.schedule.run(at("10:01"))
        assert (served.phase(), position(served)) == (Phase.CONTINUOUS, 2)
        assert bands(served)[2:] == moved(at("10:01"), 1016, 1124)
        assert len(served.sent(CommandKind.UNCROSS)) == 1


def test_an_auction_without_trades_is_not_held_apart(tmp_path: Path) -> None:
    day = entries("09:25 pre_open", "09:30 continuous", "16:00 closed")
    with exchange(tmp_path, at("09:26"), FIVE_PERCENT | {"day": day}) as served:
        served.send(CommandKind.NEW, at("09:27"), ANN, side=Side.SELL, qty_lots=1, price_ticks=1000)
        served.schedule.run(at("09:31"))
        assert served.phase() == Phase.CONTINUOUS and not len(served.sent(CommandKind.UNCROSS))


def test_an_operators_auction_moves_the_band_at_once(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), FIVE_PERCENT) as served:
        time_ns = at("10:00:07") + 5
        served.send(CommandKind.PHASE, time_ns, EXCHANGE, flags=Phase.INTRADAY)
        served.trade(time_ns, 1050)
        served.send(CommandKind.UNCROSS, time_ns + 1, EXCHANGE)
        assert served.schedule.next_ns == time_ns + 1
        served.schedule.run(time_ns + 1)
        assert bands(served)[2:] == moved(time_ns + 1, 997, 1103)


def test_a_restart_continues_with_reference_and_window(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), FIVE_PERCENT) as served:
        served.trade(at("10:00:01"), 1040)
        served.schedule.run(at("10:00:40"))
        assert known_band(served) == (988, 1092)
        served.schedule.run(at("10:01"))
        served.trade(at("10:01") + 1, 1090)
    with exchange(tmp_path, at("10:02"), FIVE_PERCENT) as served:
        assert not bands(served)
        served.schedule.run(at("10:03"))
        assert bands(served) == moved(at("10:02:30"), 1012, 1118), (
            "the mean is 1065, and at a start a reference holds for 30 seconds"
        )
    with exchange(tmp_path, at("10:04"), FIVE_PERCENT | {"band_ppm": 100_000}) as served:
        assert known_band(served) == (981, 1199), "a band of another width starts around the last trade"
    with exchange(tmp_path, at("10:05"), {}) as served:
        assert known_band(served) == (0, 0)


def test_an_auction_before_a_kill_moves_the_band_at_the_restart(tmp_path: Path) -> None:
    """Killed between an UNCROSS and the RULEs that follow it, an exchange kept the band around the reference of before."""
    symbol = FIVE_PERCENT | {"day": entries("09:25 pre_open", "09:30 continuous", "16:00 closed")}
    with exchange(tmp_path, at("09:26"), symbol) as served:
        served.trade(at("09:27"), 1040)
        served.send(CommandKind.UNCROSS, at("09:30"), EXCHANGE)
    with exchange(tmp_path, at("09:40"), symbol) as served:
        assert bands(served) == moved(at("09:40"), 988, 1092) and served.phase() == Phase.CONTINUOUS
        served.trade(at("09:40"), 1080)
        served.schedule.run(at("09:41"))
        assert known_band(served) == (1026, 1134)
    with exchange(tmp_path, at("09:41"), symbol) as served:
        assert not bands(served), "the auction is no longer the reference"


def test_idle_seconds_are_not_checked(tmp_path: Path) -> None:
    with exchange(tmp_path, at("10:00"), FIVE_PERCENT) as served:
        served.schedule.run(at("10:00:02"))
        assert served.schedule.next_ns > at("23:00")
        served.trade(at("15:00"), 1001)
        assert served.schedule.next_ns == at("15:00:01")


@pytest.mark.parametrize(
    ("symbol", "word"),
    [
        ({"band_ppm": 50_000, "band_high_ticks": 1100}, "fixed band_low_ticks and band_high_ticks"),
        ({"band_ppm": 0}, "greater than 0"),
        ({"band_ppm": -1}, "greater than 0"),
        ({"band_ppm": 1_000_001}, "1000000"),
        ({"reference_ticks": 1000}, "expected band_ppm with it"),
        ({"band_ppm": 50_000, "reference_ticks": 0}, "greater than 0"),
        ({"band_ppm": 50_000, "reference_ticks": 1 << 50}, "price_ticks_max"),
    ],
)
def test_invalid_bands_are_errors(symbol: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=f"symbols.*{word}"):
        load_config(None, {"symbols": [{"name": "AMZN", **symbol}]})


@pytest.mark.parametrize("step_s", [1, 77, 240])
def test_in_lockstep_the_band_moves_on_time_for_any_step_size(tmp_path: Path, step_s: int) -> None:
    """Also between waiting commands that are all executed in one step."""
    config: dict[str, object] = {"clock": {"kind": "lockstep"}, "symbols": [{"name": "AMZN", **FIVE_PERCENT}]}
    journal = tmp_path / "journal"
    trades = [(100 * SECOND_NS + 1, 1020), (120 * SECOND_NS, 1060), (131 * SECOND_NS, 985), (131 * SECOND_NS, 1092)]
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path, journal=journal) as served,
        connect(served.endpoint, "ann", rows=True) as ann,
    ):
        ann.turn(1)
        rows = np.concatenate(
            [
                command(CommandKind.NEW, side=side, qty_lots=1, price_ticks=price_ticks, time_ns=time_ns)
                for time_ns, price_ticks in trades
                for side in (Side.SELL, Side.BUY)
            ]
        )
        rows["command_id"] = 1 + np.arange(len(rows))
        ann.core.send(ann.session.rows(rows))
        for second in range(step_s, 241, step_s):
            ann.turn(second * SECOND_NS)
        assert ann.trades("AMZN")[-1][2] == 1092, "at 131 seconds, at the edge of the band of that time; 985 is outside"
        assert len(ann.trades("AMZN")) == 3
    sent = journaled(journal)
    sent = sent[sent["kind"] == CommandKind.RULE]
    places = list(zip(sent["time_ns"].tolist(), sent["price_ticks"].tolist(), strict=True))
    assert places[:6] == [
        (second * SECOND_NS, price)
        for second, pair in ((0, AROUND_1000), (101, (969, 1071)), (131, (988, 1092)))
        for price in pair
    ]


def test_a_served_band_follows_the_market_across_a_crash(tmp_path: Path) -> None:
    clock = {"kind": "scaled", "start": "10:00", "speed": 100.0}
    config: dict[str, object] = {"clock": clock, "symbols": [{"name": "AMZN", **FIVE_PERCENT}], "full_rule_book": True}
    journal = tmp_path / "journal"
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path, journal=journal) as served,
        connect(served.endpoint, "ann") as ann,
    ):
        ann.sell("AMZN", 1, 1040)
        ann.buy("AMZN", 1, 1040)
        deadline = time.monotonic() + 30
        while (journaled(journal)["kind"] == CommandKind.RULE).sum() < 4:
            assert time.monotonic() < deadline, "the band did not move"
            time.sleep(0.05)
        served.kill()
    with (
        start_exchange(symbols="", clock="", config=config, folder=tmp_path, journal=journal) as served,
        connect(served.endpoint, "bob") as bob,
    ):
        bob.sell("AMZN", 1, 1092)
        with pytest.raises(Rejected, match="OUTSIDE_BAND"):
            bob.sell("AMZN", 1, 1093)
    assert (journaled(journal)["kind"] == CommandKind.RULE).sum() == 4, "no RULE was sent twice"


STANDING = {"side": Side.SELL, "qty_lots": 5, "price_ticks": 90, "time_in_force": 1}
WAITING = {"side": Side.BUY, "qty_lots": 5, "price_ticks": 91, "flags": int(CommandFlag.ALL_OR_NONE)}
"""Two orders that trade as soon as a band permits 90."""


def test_a_band_that_moves_down_at_a_restart_lets_nothing_trade_between_the_two(tmp_path: Path) -> None:
    """Its lower edge was sent first, and orders traded at 90: in neither band."""
    bounds: dict[str, object] = {"band_low_ticks": 95, "band_high_ticks": 105, "band_action": "auction"}
    with exchange(tmp_path, 0, bounds) as served:
        served.send(CommandKind.NEW, 0, ANN, **STANDING)
        served.send(CommandKind.NEW, 0, BOB, **WAITING, time_in_force=1)
    with exchange(tmp_path, SECOND_NS, {**bounds, "band_low_ticks": 75, "band_high_ticks": 85}) as served:
        assert known_band(served) == (75, 85)
        assert served.core.market.account(BOB).position_lots == 0


def test_a_changed_band_lets_no_order_of_an_ended_day_trade(tmp_path: Path) -> None:
    """The rules were sent first, and triggered an order that the end of the day should have cancelled an hour before."""
    day = entries("09:30 continuous", "16:00 closed")
    bounds: dict[str, object] = {"band_low_ticks": 95, "band_high_ticks": 105, "band_action": "auction"}
    with exchange(tmp_path, at("15:00"), {"day": day, **bounds}) as served:
        served.send(CommandKind.NEW, at("15:00"), ANN, **STANDING)
        served.send(CommandKind.NEW, at("15:00"), BOB, **WAITING, time_in_force=int(TimeInForce.DAY))
    with exchange(tmp_path, at("17:00"), {"day": day, "band_action": "auction"}) as served:
        assert served.core.market.account(BOB).position_lots == 0
        assert served.core.market.state.counters["orders_open"][0] == 1
