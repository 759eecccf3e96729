"""The static book and the replay, by hand and against each other."""

from pathlib import Path

import numpy as np
import pytest

from serl.agents.execution.answering.record import record_history
from serl.agents.execution.environment.hours import day_trades
from serl.agents.execution.environment.records import CHILD, FRAME
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.static import StaticBook, recorded_trades
from serl.agents.execution.inprocess import replay_with_twap
from serl.agents.execution.order import ParentOrder
from serl.agents.execution.served_books import aligned_day
from serl.agents.realism.tape import build_tape
from serl.exchange.errors import ConfigError
from serl.exchange.records import Phase, Side
from serl.history.day import Day
from serl.history.generate import generate_day
from serl.history.importing import import_day
from tests.agents.execution.environment.stage import BUY, SECOND_NS, SELL, TINY, child, day, episode, step

BOTH = pytest.mark.parametrize("kind", [StaticBook, ReplayMarket])
FOLDER = Path(__file__).resolve().parents[5] / "shared" / "data" / "lobster"
AMZN = FOLDER / "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip"


@BOTH
def test_a_market_child_walks_the_book(kind: type[StaticBook] | type[ReplayMarket]) -> None:
    one = kind([TINY], 1)
    one.reset(np.arange(1), episode(sign=1, start=1))
    step(one, child(market=70), 11)
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (70, 50 * 99 + 20 * 98)


@BOTH
def test_a_limit_child_queues(kind: type[StaticBook] | type[ReplayMarket]) -> None:
    """50 stand before it at 101; 50 are taken at 12 s, and 20 more that ours get."""
    one = kind([TINY], 1)
    one.reset(np.arange(1), episode(sign=1, start=1))
    step(one, child(limit=40, price=101), 11)
    assert (one.fills[0]["lots"], one.fills[0]["resting_lots"], one.fills[0]["ahead_lots"]) == (0, 40, 50)
    step(one, child(limit=40, price=101), 21)
    filled = one.fills[0]["lots"]
    assert filled == (20 if kind is ReplayMarket else 0)  # a recorded trade of 50 has nothing left for us
    assert one.fills[0]["resting_lots"] == 40 - filled


def test_a_trade_through_the_price_fills() -> None:
    """A buyer takes 30 at 101 and 30 at 102 at 25 s: an ask of ours at 101 stood behind the 30, and the 30 at 102 go through it."""
    one = StaticBook([TINY], 1)
    one.reset(np.arange(1), episode(sign=1, start=20))
    step(one, child(limit=40, price=101), 30)
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (30, 30 * 101)


@BOTH
@pytest.mark.parametrize("sign", [1, -1])
def test_an_auction_has_no_taker_and_fills_both_sides(kind: type[StaticBook] | type[ReplayMarket], sign: int) -> None:
    """70 bid at 102 and 70 asked at 98 wait in a call phase; the auction trades at a price between, where our order has a better one."""
    history = day(
        (0, "NEW", BUY, 99, 90, 0), (0, "NEW", SELL, 101, 90, 0), (5, "PHASE", 0, 0, 0, 0),
        (12, "NEW", BUY, 102, 70, 0), (12, "NEW", SELL, 98, 70, 0), (15, "PHASE", 0, 0, 0, 0),
    )  # fmt: skip
    history.commands["flags"][2] = Phase.OPENING
    one = kind([history], 1)
    one.reset(np.arange(1), episode(sign=sign, start=1, qty=40))
    step(one, child(), 11)
    step(one, child(limit=40, price=100 - 3 * sign), 21)
    assert one.fills[0]["lots"] == 40
    assert one.frames[0]["traded_lots"] > 0 == one.frames[0]["signed_lots"]


def test_a_limit_child_that_crosses_takes_first_but_not_what_the_market_child_took() -> None:
    one = StaticBook([TINY], 1)
    one.reset(np.arange(1), episode(sign=-1, start=1))
    step(one, child(market=30, limit=40, price=101), 11)
    assert (one.fills[0]["lots"], one.fills[0]["notional"]) == (50, 50 * 101)
    assert (one.fills[0]["resting_lots"], one.fills[0]["ahead_lots"]) == (20, 0)


def test_a_day_beyond_the_default_limits_is_replayed_whole() -> None:
    """Lots of a hundred-millionth, as in imports of crypto markets: a market with the default limits rejected all but the smallest orders."""
    made = generate_day(3, end_ns=35_400 * SECOND_NS)
    commands = made.commands.copy()
    commands["qty_lots"] *= 100_000
    history, tape = Day(commands, made.rows, made.reference), build_tape(made, 1)
    lots = 100_000 * int(tape.qty_lots[tape.trades].sum())
    assert recorded_trades(history)["lots"].sum() == lots
    assert day_trades(history)[1].sum() == lots
    assert np.abs(record_history(commands).taken_lots).sum() == lots
    whole = episode(qty=1, start=34_201, interval=1198, steps=1)
    for kind in (StaticBook, ReplayMarket):
        large, small = kind([history], 1), kind([made], 1)
        for one in (large, small):
            one.reset(np.arange(1), whole)
            step(one, child(), 35_399)
        assert large.frames["traded_lots"] == 100_000 * small.frames["traded_lots"]
        np.testing.assert_array_equal(large.frames["bid_lots"], 100_000 * small.frames["bid_lots"])
    order = ParentOrder("DEMO", Side.BUY, 10**7, 34_300 * SECOND_NS, 34_400 * SECOND_NS, 10 * SECOND_NS)
    assert sum(qty for _, _, qty in replay_with_twap(history, order)) == 10**7
    rows = episode(qty=1, start=34_800)
    assert len(aligned_day([history], rows).commands) == len(aligned_day([made], rows).commands)


def test_without_orders_of_ours_the_replay_shows_what_was_recorded() -> None:
    history = generate_day(1, end_ns=36_300 * SECOND_NS)
    still, replay = StaticBook([history], 2), ReplayMarket([history], 2)
    orders = np.concatenate([episode(start=34_260), episode(start=36_000)])
    for one in (still, replay):
        one.reset(np.arange(2), orders)
    for number in range(1, 21):
        for one in (still, replay):
            one.step(np.zeros(2, CHILD), orders["start_ns"] + number * 10 * SECOND_NS)
        for name in FRAME.names or ():
            np.testing.assert_array_equal(still.frames[name], replay.frames[name], name)
    assert replay.frames["traded_lots"].sum() > 0


@BOTH
@pytest.mark.parametrize(
    ("order", "text"),
    [
        (episode(start=90), "window from"),
        (episode(qty=131), "130 lots.*; order less"),
        (episode(day=2), "day: expected 0 to 0"),
    ],
)
def test_invalid_orders_are_refused(kind: type[StaticBook] | type[ReplayMarket], order: np.ndarray, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        kind([TINY], 1).reset(np.arange(1), order)


@BOTH
def test_an_order_on_a_day_without_trades_is_refused(kind: type[StaticBook] | type[ReplayMarket]) -> None:
    with pytest.raises(ConfigError, match=r"at most 0 lots.*got 100; nothing is traded on this day; give another"):
        kind([day((0, "NEW", BUY, 99, 50, 0), (1, "NEW", SELL, 101, 50, 0))], 1).reset(np.arange(1), episode())


def test_a_replay_that_outgrows_its_arrays_goes_on() -> None:
    """Many environments hold more orders than a market has room for at first; each still shows the history's book."""
    history, count = generate_day(1, end_ns=37_200 * SECOND_NS), 48
    crowd, alone = ReplayMarket([history], count), StaticBook([history], count)
    room = len(crowd._market.state.orders)
    orders = np.concatenate([episode(start=34_260 + 60 * number) for number in range(count)])
    sent = np.zeros(count, CHILD)
    for one in (crowd, alone):
        one.reset(np.arange(count), orders)
    for number in range(1, 4):
        for one in (crowd, alone):
            one.step(sent, orders["start_ns"] + number * 10 * SECOND_NS)
    assert len(crowd._market.state.orders) > room
    np.testing.assert_array_equal(crowd.frames["bid_ticks"], alone.frames["bid_ticks"])
    np.testing.assert_array_equal(crowd.frames["ask_lots"], alone.frames["ask_lots"])


@pytest.mark.parametrize("first", [0, 40])
@pytest.mark.parametrize("count", [4094, 4095, 4200])
def test_a_replay_that_outgrows_its_arrays_in_a_step_does_everything_once(count: int, first: int) -> None:
    """The pool has 4,096 places: full just before our order, with it, or while history goes on."""
    asks = [(2 + number * 1e-3, "NEW", SELL, 105, 1, 0) for number in range(count)]
    one = ReplayMarket([day((0, "NEW", BUY, 99, 1, 0), *asks, (90, "NEW", BUY, 105, count, 0))], 1)
    one.reset(np.arange(1), episode(start=1, qty=40))
    frame, fill = one.frames[0], one.fills[0]
    step(one, child(limit=first, price=105), 11)
    assert (fill["resting_lots"], fill["ahead_lots"]) == (first, 0)
    assert (frame["ask_ticks"][0], frame["ask_lots"][0]) == (105, count + first)
    step(one, child(limit=40, price=105), 21)  # what rests is cancelled; the new one is behind all others
    assert (fill["resting_lots"], fill["ahead_lots"]) == (40, count)
    assert frame["ask_lots"][0] == count + 40
    assert len(one._market.state.orders) > 4096 or count == 4094


@pytest.mark.long
@pytest.mark.skipif(not AMZN.exists(), reason="the LOBSTER sample files are not in ../shared/data/lobster")
def test_a_real_day_without_orders_of_ours_is_the_same_in_both() -> None:
    history, count = import_day(AMZN), 8
    still, replay = StaticBook([history], count, levels=5), ReplayMarket([history], count)
    orders = np.concatenate([episode(start=36_000 + 2_500 * number) for number in range(count)])
    for one in (still, replay):
        one.reset(np.arange(count), orders)
    for number in range(1, 61):
        for one in (still, replay):
            one.step(np.zeros(count, CHILD), orders["start_ns"] + number * 10 * SECOND_NS)
        for name in FRAME.names or ():
            levels = slice(0, 5 if still.frames[name].ndim == 2 else count)
            np.testing.assert_array_equal(still.frames[name][..., levels], replay.frames[name][..., levels], name)
