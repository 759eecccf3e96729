"""The limits of a market are exact and equal in both implementations."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from serl.exchange.errors import ConfigError
from serl.exchange.growth import Room, grow_orders
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import EVENT, EventFlag, Peg, Reason
from serl.exchange.terms import Terms
from tests.exchange.notation import parse_all, show
from tests.exchange.reference import ReferenceMarket


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
@pytest.mark.parametrize("orders_open_max", [1, 5, 33, 100])
def test_the_limit_of_open_orders_is_exact(
    implementation: type[Market | ReferenceMarket], orders_open_max: int
) -> None:
    """For any growth steps of an implementation's pool."""
    market = implementation(1, limits=MarketLimits(orders_open_max=orders_open_max))
    events = market.submit(parse_all("; ".join(f"p1 c{number} NEW buy 1@{number}" for number in range(1, 150))))
    assert events["reason"].tolist() == [Reason.NONE] * orders_open_max + [Reason.BOOK_FULL] * (149 - orders_open_max)
    market.validate()


def test_growth_does_not_depend_on_how_many_levels_are_free() -> None:
    """Python walked their list, which took a quarter of a second for an eighth of the largest market."""
    market = Market(1, limits=MarketLimits(qty_lots_max=1, orders_open_max=2**20))
    state = market.state
    while len(state.orders) < 2**18:
        state = grow_orders(state, 2 * len(state.orders), Room())
    began_s = time.thread_time()
    state = grow_orders(state, 2**19, Room())
    assert time.thread_time() - began_s < 0.2
    market.state = state
    market.submit(parse_all("p1 c1 NEW buy 1@5; p1 c2 NEW sell 1@5"))
    market.validate()


def test_shares_of_many_orders_take_time_in_proportion() -> None:
    """Each share was looked for from the first order of the price on: a quarter of a second for 16,000 orders, while nobody else trades."""
    market = Market()
    market.grant_operator(9)
    market.submit(parse_all("p9 c1 RULE MATCHING 1"))
    for number in range(16_000):
        market.sell(10, 100, participant=number % 8)
    began_s = time.thread_time()
    market.buy(5 * 16_000, 100, participant=10)
    assert time.thread_time() - began_s < 0.1
    assert market.state.counters["match_id"][0] == 16_000
    market.validate()


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
@pytest.mark.parametrize("levels_max", [1, 5, 127, 128, 200, 700])
def test_the_limit_of_levels_is_exact(implementation: type[Market | ReferenceMarket], levels_max: int) -> None:
    """Inside and outside the price window: first with prices far apart, then close together."""
    for step in (1, 1000):
        market = implementation(1, limits=MarketLimits(levels_max=levels_max, window_ticks=128))
        news = "; ".join(f"p1 c{number} NEW buy 1@{number * step}" for number in range(1, 800))
        events = market.submit(parse_all(news))
        assert events["reason"].tolist() == [Reason.NONE] * levels_max + [Reason.BOOK_FULL] * (799 - levels_max)
        market.validate()


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("p2 c1 NEW sell 1@10", "p2 REJECTED c1 o1 #0 s0 sell 1@10 leaves 0 BOOK_FULL"),
        ("p1 c3 REPLACE o1 2@12", "p1 REJECTED c3 o1 #0 s0 buy 2@12 leaves 0 BOOK_FULL"),
        ("p1 c3 REPLACE o1 1@10", "p1 REDUCED c3 o1 #1 s0 buy 1@10 leaves 1"),
        ("p2 c1 NEW sell 1@10 ioc", "p2 ACCEPTED c1 o1 #0 s0 sell 1@10 leaves 1"),
    ],
)
def test_a_book_full_of_levels(implementation: type[Market | ReferenceMarket], command: str, shown: str) -> None:
    """Orders that may rest are rejected, even if they would trade or their level exists."""
    market = implementation(1, limits=MarketLimits(levels_max=2))
    market.submit(parse_all("p1 c1 NEW buy 2@10; p1 c2 NEW buy 1@9"))
    assert show(market.submit(parse_all(command))[0]) == shown


TWO_LEVELS = "p1 c1 NEW buy 2@99; p1 c2 NEW buy 1@98; p2 c1 NEW sell 1@99 ioc"


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("p3 c2 NEW buy 1@97 stop=99", "p3 CANCELLED c0 o2 #0 s0 buy 1@97 leaves 0 NO_ROOM"),
        ("p3 c2 NEW buy 1@97 stop=200", "p3 ACCEPTED c2 o2 #3 s0 buy 1@97 leaves 1 RESTING HIDDEN"),
        ("p3 c2 NEW buy 1@97 hidden", "p3 ACCEPTED c2 o2 #3 s0 buy 1@97 leaves 1 RESTING HIDDEN"),
        ("p3 c2 NEW buy 1@97", "p3 REJECTED c2 o2 #0 s0 buy 1@97 leaves 0 BOOK_FULL"),
        ("p3 c2 NEW buy 1@97 aon; p3 c3 NEW buy 1@96 aon; p3 c4 NEW buy 1@97 aon", "p3 REJECTED c4 o4 #0 s0 buy 1@97 leaves 0 BOOK_FULL"),
    ],
)  # fmt: skip
def test_levels_are_counted_by_queue(implementation: type[Market | ReferenceMarket], text: str, last: str) -> None:
    """A triggered order whose queue is full is cancelled."""
    market = implementation(1, limits=MarketLimits(levels_max=2))
    market.submit(parse_all(TWO_LEVELS))
    assert show(market.submit(parse_all(text))[-1]) == last
    market.validate()


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
def test_at_close_orders_that_are_linked_and_find_no_room(implementation: type[Market | ReferenceMarket]) -> None:
    """The second is cancelled with the first, and so does not come to the auction."""
    market = implementation(1, limits=MarketLimits(levels_max=2))
    market.grant_operator(9)
    market.submit(parse_all("p1 c1 NEW sell 1@101 at_close; p1 c5 NEW sell 1@102 at_close link=1"))
    market.submit(parse_all("p2 c1 NEW buy 1@50; p2 c2 NEW buy 1@51"))
    assert [show(event) for event in market.submit(parse_all("p9 c1 PHASE CLOSING"))] == [
        "p1 CANCELLED c0 o1 #0 s0 sell 1@101 leaves 0 NO_ROOM",
        "p1 CANCELLED c0 o5 #2 s0 sell 1@102 leaves 0 LINKED RESTING HIDDEN",
        "p9 PHASED c1 o0 #0 s0 buy 0@0 leaves 0 CLOSING",
    ]
    market.validate()


LARGEST_LOTS = MarketLimits(qty_lots_max=2**53, price_ticks_max=1, orders_open_max=64, window_ticks=128)


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
@pytest.mark.parametrize("lots", [3_040_000_000, 2**40 + 1, 2**53 - 1])
def test_shares_of_pro_rata_are_exact(implementation: type[Market | ReferenceMarket], lots: int) -> None:
    """Of quantities whose product is beyond 64 bits."""
    market = implementation(1, limits=LARGEST_LOTS)
    market.grant_operator(9)
    small = lots // 3
    sells = f"p1 c1 NEW sell {lots}@1; p2 c1 NEW sell {small}@1"
    market.submit(parse_all(f"p9 c1 RULE MATCHING 1; {sells}"))
    events = market.submit(parse_all(f"p3 c1 NEW buy {lots}@1"))
    shares = [lots * lots // (lots + small), lots * small // (lots + small)]
    shares[0] += lots - sum(shares)
    assert events[events["flags"] == EventFlag.MAKER]["qty_lots"].tolist() == shares
    market.validate()


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"qty_lots_max": 2**27, "price_ticks_max": 2**27}, "2\\^53"),
        ({"qty_lots_max": 10**9}, "2\\^53"),
        ({"qty_lots_max": 2**38, "price_ticks_max": 2}, "lower orders_open_max to 4194304"),
        ({"window_ticks": 64}, "window_ticks"),
        ({"window_ticks": 129}, "window_ticks"),
    ],
)
def test_invalid_limits(limits: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        MarketLimits(**limits)


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("AMZN", r"write \['AMZN'\]"),
        (["A", "A"], "each symbol once"),
        ([], "got 0"),
        (0, "got 0"),
        (-1, "got 0"),
        (70_000, "1 to 65535"),
    ],
)
def test_invalid_symbols(symbols: list[str] | str | int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Market(symbols)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(MarketLimits)])
def test_limits_start_at_one(name: str) -> None:
    """Of the display 0 means none."""
    for value in (-1,) if name == "display_divisor_max" else (0, -1):
        with pytest.raises(ConfigError, match=name):
            MarketLimits(**{name: value})


@pytest.mark.parametrize("value", [2.5, True, "7", 10**30])
def test_limits_are_integers(value: Any) -> None:
    with pytest.raises(ConfigError, match="levels_max: expected an integer"):
        MarketLimits(levels_max=value)


def test_a_depth_beyond_all_levels() -> None:
    market = Market()
    market.buy(1, 5)
    assert [len(side) for side in market.book(0, 10**15)] == [1, 0]


def test_pegs_after_another_highest_price() -> None:
    """As of a market that is restored then: no peg stands beyond it, but for its own limit."""
    market = Market(1, limits=MarketLimits(price_ticks_max=1000))
    market.sell(1, 900)
    free, limited = Terms(peg=Peg.PRIMARY, offset_ticks=500), Terms(peg=Peg.PRIMARY)
    pegs = market.sell(1, terms=free), market.sell(1, 950, terms=limited)
    for price_ticks_max, prices in ((1200, (1200, 950)), (940, (940, 950))):
        market.set_limits(MarketLimits(price_ticks_max=price_ticks_max))
        for other in (Market.restore(market.snapshot(), limits=market.limits), market):
            other.buy(1, 5)
            found = {row["order_id"]: row["queue_ticks"] for row in other.specials()}
            assert tuple(found[order_id] for order_id in pegs) == prices
            other.validate()
        assert market.state_hash() == Market.restore(market.snapshot(), limits=market.limits).state_hash()


@pytest.mark.parametrize(
    ("symbols", "participants_max", "message"),
    [(1, 16, "symbols: expected the 2 of the snapshot, got 1"), (2, 3, "participants_max: expected at least the 5 part.*, got 3")],
)  # fmt: skip
def test_a_snapshot_of_a_larger_market(symbols: int, participants_max: int, message: str) -> None:
    market = Market(2)
    market.buy(1, 5, participant=4)
    with pytest.raises(ConfigError, match=message):
        Market.restore(market.snapshot(), symbols, limits=MarketLimits(participants_max=participants_max))


def test_participants_max_fits_the_row_format() -> None:
    assert MarketLimits(participants_max=65_536).participants_max == 65_536
    with pytest.raises(ConfigError, match="participants_max: expected at most 65536"):
        MarketLimits(participants_max=65_537)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda market: market.book(2), "from 0 to 1"),
        (lambda market: market.book(-1), "from 0 to 1"),
        (lambda market: market.book(0, -1), "depth: expected an integer from 0, got -1"),
        (lambda market: market.book(0, 2.5), "depth: expected an integer, got 2.5"),
        (lambda market: market.orders(-1), "from 0 to 1"),
        (lambda market: market.indicative(2), "from 0 to 1"),
        (lambda market: market.account(0, -1), "from 0 to 1"),
        (lambda market: market.account(-1), "from 0 to 255"),
        (lambda market: market.account(256), "from 0 to 255"),
        (lambda market: market.grant_operator(-1), "from 0 to 255"),
        (lambda market: market.submit([]), "COMMAND rows, got list"),
        (lambda market: market.submit(parse_all("p1 c1 NEW buy 1@10")[0]), "got void"),
        (lambda market: market.submit(np.zeros(1, EVENT)), "COMMAND rows"),
        (lambda market: market.submit(np.zeros(3)), "type float64"),
    ],
)
def test_invalid_queries(ask: Callable[[Market], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(Market(2))


DISPLAYS = [
    ("p1 c2 NEW sell 40@100 display=4", "NONE"),
    ("p1 c2 NEW sell 41@100 display=4", "LIMIT_DISPLAY"),
    ("p1 c2 NEW sell 11@100 display=1", "LIMIT_DISPLAY"),
    ("p1 c2 NEW sell 11@100 display=9223372036854775807", "NONE"),
    ("p1 c2 NEW sell 100@100", "NONE"),
    ("p1 c3 NEW sell 100@100 display=1 stop=90", "LIMIT_DISPLAY"),
    ("p1 c2 NEW sell 20@100 display=2; p1 c3 REPLACE o2 20@99", "NONE"),
    ("p1 c2 NEW sell 20@100 display=2; p1 c3 REPLACE o2 21@99", "LIMIT_DISPLAY"),
    ("p1 c2 NEW sell 20@100; p1 c3 REPLACE o2 999@99", "NONE"),
    # the order of the checks
    ("p9 c1 RULE BAND_HIGH 50; p1 c2 NEW sell 11@100 display=1", "OUTSIDE_BAND"),
    ("p9 c1 ACCOUNT o1 ORDER_LOTS_MAX 5; p1 c2 NEW sell 11@100 display=1", "LIMIT_DISPLAY"),
]


@pytest.mark.parametrize("implementation", [Market, ReferenceMarket])
@pytest.mark.parametrize(("text", "reason"), DISPLAYS)
def test_an_iceberg_displays_a_share_of_itself(
    implementation: type[Market | ReferenceMarket], text: str, reason: str
) -> None:
    market = implementation(1, limits=MarketLimits(display_divisor_max=10))
    market.grant_operator(9)
    events = market.submit(parse_all(text))
    assert Reason(events["reason"][-1]).name == reason
    unlimited = implementation(1, limits=MarketLimits(display_divisor_max=0))
    unlimited.grant_operator(9)
    assert Reason.LIMIT_DISPLAY not in unlimited.submit(parse_all(text))["reason"]
