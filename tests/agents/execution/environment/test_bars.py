"""The market of bars, by hand."""

from typing import Any

import numpy as np
import pytest

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.exchange.errors import ConfigError
from tests.agents.execution.environment.stage import SECOND_NS, bars, child, episode, step

DAYS = bars((1000, 1010, 990, 1000, 1001, 500), (1000, 1030, 1000, 1020, 1010, 100), (1020, 1020, 900, 950, 960, 400))


def market(**rules: Any) -> StaticBars:
    """Of the three minutes, without costs unless said."""
    values: dict[str, Any] = {"half_spread_bps": 0.0, **rules}
    return StaticBars(DAYS, 1, **values)


def test_a_market_child_is_filled_bar_by_bar_up_to_its_share() -> None:
    one = market()
    one.reset(np.arange(1), episode(qty=150, interval=120, steps=1))
    step(one, child(market=150), 120)
    assert one.fills[0]["lots"] == 100 + 20
    assert one.fills[0]["notional"] == 100 * 1001 + 20 * 1010


def test_a_start_within_a_bar_is_refused() -> None:
    """Its decisions would see the closes of bars that have not ended."""
    with pytest.raises(ConfigError, match="start_ns: expected the start of a bar, such as 0, got 30000000000"):
        market().reset(np.arange(1), episode(start=30, interval=60, steps=1))


def test_a_window_that_64_bits_do_not_hold_is_outside_its_day() -> None:
    """Its end became negative, so it began, and never ended."""
    with pytest.raises(ConfigError, match="got a window from 00:00:00 to 166666666:40:00; choose other hours"):
        market().reset(np.arange(1), episode(interval=60, steps=10**10))


@pytest.mark.parametrize("interval", [10, 90])
def test_an_interval_that_ends_within_a_bar_is_refused(interval: int) -> None:
    """The book would show the bar's close before it is known."""
    with pytest.raises(ConfigError, match=f"expected a multiple of the bars' 60000000000 ns, got {interval}000000000"):
        market().reset(np.arange(1), episode(interval=interval, steps=1))


def test_costs_are_half_the_spread_and_the_share_of_the_volume() -> None:
    for sign in (1, -1):
        one = market(half_spread_bps=10.0, impact_bps=100.0)
        one.reset(np.arange(1), episode(sign=sign, interval=60, steps=1))
        step(one, child(market=50), 60)
        assert one.fills[0]["notional"] == round(50 * 1001 * (1 - sign * (10 + 100 * 50 / 500) * 1e-4))


@pytest.mark.parametrize(
    ("sign", "price", "lots", "notional"),
    [
        (1, 1010, 20, 20 * 1010),  # the first bar only reaches it, the second goes through
        (1, 1009, 100 + 20, 120 * 1009),
        (1, 995, 120, 100 * 1000 + 20 * 995),  # crosses when it arrives: at the open, then it rests
        (1, 1030, 0, 0),
        (-1, 990, 0, 0),
        (-1, 991, 100, 100 * 991),
        (-1, 1005, 120, 100 * 1000 + 20 * 1005),
    ],
)
def test_a_limit_child_is_filled_when_the_range_goes_through(sign: int, price: int, lots: int, notional: int) -> None:
    one = market(fills="touch")
    one.reset(np.arange(1), episode(sign=sign, qty=200, interval=120, steps=1))
    step(one, child(limit=200, price=price), 120)
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (lots, notional)
    assert one.fills[0]["resting_lots"] == 200 - lots


@pytest.mark.parametrize(
    ("sign", "price", "lots"),
    [
        (1, 1010, 13),  # nothing beyond it in the first bar; in the second 100 (1030 - 1010) / 30 lots, a fifth of them
        (1, 1009, 5 + 14),  # 500 (1010 - 1009) / 20, then 100 (1030 - 1009) / 30
        (1, 1001, 45 + 19),
        (-1, 990, 0),
        (-1, 991, 5),
        (-1, 1000, 50),  # it does not cross at the open of 1000 with a spread, and the second bar does not go below it
    ],
)
def test_a_strict_limit_child_fills_from_the_volume_beyond_its_price(sign: int, price: int, lots: int) -> None:
    one = market(half_spread_bps=1.0)
    one.reset(np.arange(1), episode(sign=sign, qty=200, interval=120, steps=1))
    step(one, child(limit=200, price=price), 120)
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (lots, lots * price)
    assert one.fills[0]["resting_lots"] == 200 - lots


def test_a_bar_wholly_beyond_the_price_fills_as_much_as_its_share() -> None:
    gap = bars((1000, 1000, 1000, 1000, 1000, 500), (1020, 1020, 1020, 1020, 1020, 500))
    one = StaticBars(gap, 1, half_spread_bps=1.0)
    one.reset(np.arange(1), episode(qty=300, interval=120, steps=1))
    step(one, child(limit=300, price=1010), 120)
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (100, 100 * 1010)


def test_a_resting_child_shares_the_cap_with_a_market_child() -> None:
    one = market(half_spread_bps=1.0)
    one.reset(np.arange(1), episode(qty=200, interval=60, steps=1))
    step(one, child(market=90, limit=100, price=1001), 60)
    assert one.fills[0]["lots"] == 90 + 10


def test_each_day_has_its_spread() -> None:
    two = BarDays(DAYS.starts_ns, DAYS.bar_ns, np.concatenate([DAYS.values, DAYS.values]))
    one = StaticBars(two, 1, half_spread_bps=np.array([0.0, 20.0]))
    for day, notional in ((0, 50 * 1001), (1, round(50 * 1001 * (1 - 0.0020)))):
        one.reset(np.arange(1), episode(day=day, interval=60, steps=1))
        step(one, child(market=50), 60)
        assert one.fills[0]["notional"] == notional


def test_a_limit_child_that_crosses_pays_half_the_spread() -> None:
    for sign in (1, -1):
        one = market(half_spread_bps=10.0)
        one.reset(np.arange(1), episode(sign=sign, interval=60, steps=1))
        step(one, child(limit=50, price=1000 - sign * 5), 60)
        assert one.fills[0]["notional"] == 50 * (1000 - sign)
        one.reset(np.arange(1), episode(sign=sign, interval=60, steps=1))
        step(one, child(limit=50, price=1000), 60)
        assert one.fills[0]["notional"] == 50 * 1000, "it does not reach the other side, so it rests"


def test_frames_show_the_book_and_the_trades() -> None:
    one = market()
    one.reset(np.arange(1), episode(interval=60))
    frame = one.frames[0]
    assert (frame["bid_ticks"][0], frame["ask_ticks"][0], frame["bid_lots"][0]) == (999, 1001, 0)
    step(one, child(), 120)
    assert (frame["bid_ticks"][0], frame["ask_ticks"][0], frame["ask_lots"][0]) == (1019, 1021, 20)
    assert frame["traded_lots"] == 600
    assert frame["traded_notional"] == 500 * 1001 + 100 * 1010
    assert frame["signed_lots"] == round(100 * 20 / 30)


def test_forced_completion_takes_the_last_close_without_a_cap() -> None:
    one = market()
    one.reset(np.arange(1), episode(qty=900, interval=60))
    step(one, child(), 120)
    one.force(np.arange(1), child(market=900))
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (900, 900 * 1020)


def test_a_pause_between_bars_trades_nothing() -> None:
    starts = np.array([0, 600]) * SECOND_NS
    one = StaticBars(BarDays(starts, 60 * SECOND_NS, DAYS.values[:, :2]), 1)
    one.reset(np.arange(1), episode(start=120, interval=120))
    step(one, child(market=10), 240)
    assert one.fills[0]["lots"] == one.frames[0]["traded_lots"] == 0


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (episode(start=60, interval=60), "window from"),
        (episode(qty=1001, interval=60), "at most 1,000 lots"),
        (episode(day=1), "day: expected 0 to 0"),
        (episode(qty=0), "at least one step"),
    ],
)
def test_invalid_orders_are_refused(order: np.ndarray, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        market().reset(np.arange(1), order)


def test_a_window_whose_trades_cannot_be_counted_is_refused() -> None:
    """Bitcoins in units of 1e-8: the sum of price x volume became negative, and so did the VWAP of the market."""
    values = DAYS.values.copy()
    values[:, 0, 5] = values[:, 2, 5] = 4e15
    one = StaticBars(BarDays(DAYS.starts_ns, DAYS.bar_ns, values), 1)
    for start, steps in ((0, 2), (60, 2)):
        one.reset(np.arange(1), episode(start=start, interval=60, steps=steps))
        step(one, child(market=10), start + 60 * steps)
        assert one.frames[0]["traded_notional"] > 0
    with pytest.raises(
        ConfigError, match=r"expected at most 4\.61e\+18 ticks x lots .* got 8\.12e\+18; choose shorter orders"
    ):
        one.reset(np.arange(1), episode(interval=60, steps=3))


def test_invalid_bars_are_refused() -> None:
    with pytest.raises(ConfigError, match="suspended"):
        bars((1.0, 1.0, 1.0, 0.0, 1.0, 5.0))
    with pytest.raises(ConfigError, match="participation"):
        market(participation=0.0)
    with pytest.raises(ConfigError, match="strict or touch, got 'range'"):
        market(fills="range")
