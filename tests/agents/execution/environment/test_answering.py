"""The replay market whose day gives way (docs/answering.md): rules by hand, and what holds whatever live participants do."""

import dataclasses
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from serl.agents.execution.answering.model import _fit, answering_day, answering_days
from serl.agents.execution.answering.record import HistoryRecord, record_history
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.impact_memory import memory_weights
from serl.exchange.errors import ConfigError
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import POSITION, CommandKind, Phase
from serl.history.day import Day
from serl.history.generate import generate_day
from tests.agents.execution.environment.stage import (
    BUY,
    DEEP,
    QUOTE,
    SECOND_NS,
    SELL,
    TINY,
    day,
    episode,
    gives_way,
)

BUYER, SELLER = 0, 1
START_S = 36_000


@pytest.fixture(scope="module")
def generated() -> Day:
    return generate_day(3, start_ns=START_S * SECOND_NS, end_ns=(START_S + 600) * SECOND_NS)


def opened(history: Day, coefficient: float | None, start_s: int = 1) -> ReplayMarket:
    """One book with a buyer and a seller; plain without a coefficient."""
    answers = None if coefficient is None else [gives_way(history, coefficient)]
    market = ReplayMarket([history], 1, 2, latency_ns=0, answers=answers)
    market.reset(
        np.array([BUYER, SELLER]), np.concatenate([episode(sign=sign, qty=1, start=start_s) for sign in (-1, 1)])
    )
    return market


def send(market: ReplayMarket, until_s: float, buyer: tuple[int, ...] = (), seller: tuple[int, ...] = ()) -> None:
    """One decision: (market lots, limit lots, limit price) of each."""
    children = np.zeros(2, CHILD)
    for row, sent in enumerate((buyer, seller)):
        children[row] = (*sent, *[0] * (3 - len(sent)))
    market.step(children, np.full(2, round(until_s * SECOND_NS)))


def touch(market: ReplayMarket) -> tuple[int, ...]:
    """Bid, its lots, ask, its lots; 0 = none."""
    frame = market.frames[0]
    return tuple(int(frame[name][0]) for name in ("bid_ticks", "bid_lots", "ask_ticks", "ask_lots"))


@pytest.mark.long
def test_an_order_pays_for_its_own_impact_while_it_is_filled() -> None:
    """I = sqrt N: the shift is 1 from 1 lot on, 2 from 3 on, 3 from 7 on; so 1 lot at 1000, 2 at 1001, 4 at 1002, 3 at 1003."""
    market = opened(DEEP, 1.0, 2)
    send(market, 2.5, buyer=(10,))
    assert market.fills["notional"].tolist() == [1000 + 2 * 1001 + 4 * 1002 + 3 * 1003, 0]
    assert touch(market)[::2] == (993, 1003)
    market = opened(DEEP, 1.0, 2)
    send(market, 2.5, seller=(10,))
    assert market.fills["notional"].tolist() == [0, 990 + 2 * 989 + 4 * 988 + 3 * 987]
    assert touch(market)[::2] == (987, 997)
    send(market, 2.6, buyer=(10,))
    assert touch(market)[::2] == (990, 1000), "what is taken back gives back"
    limited = opened(DEEP, 1.0, 2)
    send(limited, 2.5, buyer=(0, 10, 1001))
    assert limited.fills["lots"][BUYER] == 3 and limited.fills["resting_lots"][BUYER] == 7, "a limit is a real price"
    assert touch(limited) == (1001, 7, 1002, 10**6 - 1000 - 3)


def test_impact_fades_with_time_and_not_with_looking() -> None:
    paths = []
    for stops in ([12, 500, 2000], [3, 4, 7, 12, 100, 499, 500, 1300, 2000]):
        history = day(*QUOTE, *[(second, "NEW", BUY, 9, 1, 0) for second in range(2, 2001)], last=9000)
        market = opened(history, 1.0, 2)
        send(market, stops[0], buyer=(400,))
        path = []
        for stop in stops:
            send(market, stop)
            path.append((stop, touch(market)[0] - 990))
        paths.append(dict(path))
    few, many = paths
    assert all(many[stop] == shift for stop, shift in few.items())
    assert 20 >= few[12] > few[500] > few[2000] > 20 * memory_weights()[-1] ** 0.5


def test_history_takes_elsewhere_what_a_live_order_took_and_never_has_more_left_than_it_had() -> None:
    """Without any shift. At 12 s history wants 50 of the 101 that a live participant bought: it takes the 50 at 102, and 20 rest as they did."""
    market = opened(TINY, 0.0)
    send(market, 11, buyer=(50,))
    assert touch(market) == (99, 50, 102, 50)
    send(market, 14)
    assert touch(market) == (101, 20, 0, 0) and market.frames["traded_lots"][0] == 50
    send(market, 30)
    assert touch(market) == (99, 50, 0, 0) and market.frames["traded_lots"][0] == 20 + 30, "30 at 102 are not to be had"
    plain = opened(TINY, None)
    send(plain, 11, buyer=(50,))
    send(plain, 14)
    assert touch(plain) == (101, 70, 102, 50), "without the rules the order rests where the market has left"


def test_a_live_order_in_the_queue_stands_in_for_the_order_that_history_filled() -> None:
    history = day(
        (0, "NEW", BUY, 99, 50, 0), (0, "NEW", SELL, 105, 50, 0), (15, "NEW", SELL, 99, 20, 0), (20, "CANCEL", 0, 0, 0, 1)
    )  # fmt: skip
    market = opened(history, 5.0)
    send(market, 16, buyer=(0, 20, 100))
    assert market.fills["lots"].tolist() == [20, 0] and touch(market) == (99, 30, 105, 50)
    assert market._answers is not None and not market._answers.books["remembered_lots"].any(), (
        "the pressure was history's"
    )
    send(market, 21)
    assert touch(market) == (0, 0, 105, 50)


def test_a_quote_trades_with_what_it_moves_through_at_the_price_that_was_there_first() -> None:
    """The first lot moves history by 15 ticks: its bid 990 would pass the seller's 1003. It takes a lot there, and the push is taken back."""
    market = opened(DEEP, 15.0, 2)
    send(market, 2.2, seller=(0, 10, 1003))
    send(market, 2.5, buyer=(1,))
    assert market.fills["lots"].tolist() == [1, 1] and market.fills["notional"].tolist() == [1000, 1003]
    assert touch(market)[:2] == (990, 10**6 - 1) and market._answers is not None
    assert market._answers.books["remembered_lots"].sum() == pytest.approx(0)
    market._market.validate()


def test_a_quote_that_passes_an_order_by_several_ticks_goes_on_trading_with_it() -> None:
    """What was bought long ago is remembered longer than what was sold since: from 3000 s on history wants to be 8 ticks higher, through
    1001. On the way it takes the push back there, and nothing of its own."""
    quote = ((0, "NEW", BUY, 999, 10**6, 0), *QUOTE)
    market = opened(day(*quote, (3000, "NEW", BUY, 9, 1, 0), last=9000), 1.0, 2)
    send(market, 1000, buyer=(400,))
    send(market, 3001, seller=(159, 500, 1001))
    taken_back = int(market.fills["lots"][SELLER]) - 159
    assert 20 < taken_back < 100
    assert touch(market) == (1000, 10**6 - 159 - taken_back, 1001, 10**6 - 1000 - 400 + 500 - taken_back)
    market._market.validate()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_live_participants_do(generated: Day, seed: int) -> None:
    """No order of history has more left than it had, and none overtakes another; the book is sound and not crossed; nothing is lost."""
    random = np.random.default_rng(seed)
    market, alone, cursor = opened(generated, 0.3, START_S + 60), Market(1, limits=MarketLimits(participants_max=2)), 0
    alone.grant_operator(0)
    assert market._answers is not None
    filled, shifts = np.zeros(2, np.int64), set()
    for step in range(1, 41):
        frame = market.frames[0]
        bid, ask = int(frame["bid_ticks"][0]), int(frame["ask_ticks"][0])
        sent = [
            (int(random.integers(0, 2) * random.integers(0, 300)), int(random.integers(0, 300)), int(price + random.integers(-4, 5)))
            for price in (bid, ask)
        ]  # fmt: skip
        send(market, START_S + 60 + 10 * step, *sent)
        filled += market.fills["lots"]
        shifts.add(int(market._answers.books["shift_ticks"][0]))
        market._market.validate()
        frame = market.frames[0]
        assert frame["bid_ticks"][0] < frame["ask_ticks"][0]
        found = market._market.orders()
        found = found[found["participant"] == 0]
        before_cursor, cursor = cursor, int(market._books[0, 4])
        alone.submit(generated.commands[before_cursor:cursor])
        before = alone.orders()
        places = {int(order["order_id"]): place for place, order in enumerate(before)}
        rows = [places[int(order["order_id"])] for order in found]
        assert rows == sorted(rows), "by price and time, as in history"
        assert (found["open_lots"] <= before["open_lots"][rows]).all()
        assert (found["price_ticks"] == before["price_ticks"][rows]).all(), "the book is kept in history's prices"
    balances = market._market.state.balances[1:, 0, POSITION]
    assert balances.tolist() == [filled[BUYER], -filled[SELLER]] and (filled > 500).all()
    assert len(shifts) > 3


def test_without_live_participants_the_tape_is_that_of_the_plain_replay(generated: Day) -> None:
    """Also with the rules at work: an order that is too far away to trade changes nothing."""
    markets = [opened(generated, coefficient, START_S + 60) for coefficient in (None, 1.0, 1.0)]
    for step in range(1, 50):
        for market, sent in zip(markets, ((), (), (0, 5, 1)), strict=True):
            send(market, START_S + 60 + 10 * step, buyer=sent)
        plain, idle, far = (market.frames for market in markets)
        np.testing.assert_array_equal(plain, idle)
        np.testing.assert_array_equal(plain, far)
    orders = [market._market.orders() for market in markets]
    kept = ["order_id", "price_ticks", "open_lots", "side", "participant"]
    np.testing.assert_array_equal(orders[0][kept], orders[1][kept])
    np.testing.assert_array_equal(orders[0][kept], orders[2][orders[2]["participant"] == 0][kept])
    assert markets[2]._answers is not None and markets[2]._answers.books["disturbed"][0] == 1


def test_nothing_moves_while_orders_are_collected_for_an_auction() -> None:
    """The shift moved on, the crossed book looked like a quote that had moved through a live order, and all asks of history were gone."""
    idle = [(t, "NEW", BUY, 980, 1, 0) for t in range(12, 400, 4)]
    history = day(
        *QUOTE, (10, "PHASE", 0, 0, 0, 0), (11, "NEW", BUY, 1010, 500, 0), *idle, (400, "PHASE", 0, 0, 0, 0), (401, *idle[0][1:]), last=9000
    )  # fmt: skip
    phases = history.commands["kind"] == CommandKind.PHASE
    history.commands["flags"][phases], history.commands["time_in_force"][phases] = (Phase.INTRADAY, Phase.CONTINUOUS), 0
    record = record_history(history.commands)
    assert record.taken_lots.sum() == 1000 and np.isnan(record.mid_ticks[4:-2]).all(), "no taker, and no mid meanwhile"
    market = opened(history, 0.5, start_s=2)
    send(market, 5, buyer=(400,))
    assert touch(market) == (1000, 10**6, 1010, 998_600)
    send(market, 12)
    send(market, 390)
    assert touch(market) == (1020, 500, 1010, 998_600), "as at the beginning"
    send(market, 402, buyer=(0, 300, 1030))  # an order that crosses is collected
    assert market.frames["traded_lots"][0] == 500 and market.fills["lots"].tolist() == [300, 0]
    assert touch(market)[2:] == (1007, 997_800), "800 lots in the auction, of which those bought there move nothing"
    send(market, 404, buyer=(100,))
    assert market.fills["lots"][0] == 100, "the next order is sent whole"


def test_no_round_trip_of_two_orders_gains() -> None:
    """In a quote that does not move by itself, whatever the sizes, slices, times and the side that begins.

    The first lot moves the day by .7 of a tick, less than the spread: docs/answering.md says why that matters."""
    random = np.random.default_rng(5)
    history = day(
        (0, "NEW", BUY, 999, 10**6, 0), *QUOTE, *[(second, "NEW", BUY, 9, 1, 0) for second in range(2, 3000)], last=9000
    )  # fmt: skip
    market = opened(history, 0.7, 2)
    for _ in range(60):
        market.reset(
            np.array([BUYER, SELLER]), np.concatenate([episode(sign=sign, qty=1, start=2) for sign in (-1, 1)])
        )
        size, now, cash, first = int(random.integers(2, 3000)), 2.0, 0, int(random.integers(2))
        for side in (first, 1 - first):
            cuts = np.sort(random.integers(0, size + 1, int(random.integers(0, 5))))
            for lots in np.diff([0, *cuts, size]).tolist():
                now += float(random.exponential(60)) + 1e-3
                send(market, now, *((lots,) if row == side else () for row in range(2)))
                assert market.fills["lots"][side] == lots
                cash += int(market.fills["notional"][SELLER] - market.fills["notional"][BUYER])
            now += float(random.exponential(200))
        assert cash < 0, (size, first)


def test_the_market_grows_under_the_rules() -> None:
    """More orders than a market has room for at first, at as many prices."""
    many = [(20 + number / 1000, "NEW", BUY, 900 - number // 10, 1, 0) for number in range(6000)]
    market = opened(day(*QUOTE, *many), 1.0, 2)
    send(market, 19, buyer=(5, 5, 995))
    assert touch(market)[:2] == (995, 5)
    send(market, 30)
    market._market.validate()
    assert market._market.state.counters["orders_open"][0] == 6002


def test_the_coefficient_is_that_of_the_day(generated: Day) -> None:
    """A day whose mid moves by half a tick for each root lot that takers buy in a minute, and noise."""
    random = np.random.default_rng(1)
    rows: list[tuple[float, str, int, int, int, int]] = []
    price, moves = 10_000, [0]
    for minute in range(200):
        quotes, lots = len(rows), int(random.integers(-900, 900)) or 1
        asked_s = max(0, 60 * minute - 40)
        rows += [(asked_s, "NEW", side, price + at, 4000, 0) for side, at in ((BUY, -1), (SELL, 1))]
        rows.append((60 * minute + 15, "NEW", BUY if lots > 0 else SELL, price + (1 if lots > 0 else -1), abs(lots), 0))
        rows += [(60 * minute + 20, "CANCEL", 0, 0, 0, quotes + number) for number in (1, 2)]
        moves.append(round(0.5 * np.sign(lots) * abs(lots) ** 0.5 + random.normal(0, 2)))
        price += moves[-1]
    found = answering_day(day(*rows).commands)
    minute_fit, five = found.fits
    assert minute_fit.low < 0.5 < minute_fit.high and minute_fit.high - minute_fit.low < 0.1 and minute_fit.r2 > 0.8
    assert found.coefficient == five.ticks_per_root_lot and five.low < five.ticks_per_root_lot < five.high
    volume = np.abs(found.record.taken_lots).sum()
    law = answering_day(day(*rows).commands, "square_root")
    assert law.coefficient == law.square_root_ticks == pytest.approx((np.square(moves).sum() / volume) ** 0.5, rel=0.05)
    assert "fitted over 60 s" in found.describe() and dataclasses.replace(found, fits=()).describe()
    assert answering_days([generated], "none") is None
    with pytest.raises(ConfigError, match="from 0 fits over 300 s; give another day, or the coefficient square_root"):
        answering_day(generated.commands)
    with pytest.raises(ConfigError, match="expected a day with trades, got none"):
        answering_day(DEEP.commands[:2], "square_root")
    still = day(
        (0, "NEW", BUY, 99, 9, 0), (0, "NEW", SELL, 101, 9, 0), (60, "NEW", BUY, 101, 1, 0), (200, "NEW", BUY, 98, 1, 0)
    )
    with pytest.raises(ConfigError, match="whose mid stands still; give another day"):
        answering_day(still.commands, "square_root")


def test_the_interval_of_a_fit_to_few_windows_contains_the_truth() -> None:
    """24 windows whose noise grows with the trades, as that of real days does; White's interval would contain the truth in 82 % of them."""
    random, windows, contained = np.random.default_rng(2), 24, []
    time_ns = SECOND_NS * (60 * np.arange(windows + 2) + 30)
    for _ in range(1000):
        roots = np.round(20 * random.standard_t(5, windows + 2))
        noise = random.standard_normal(windows + 2) * (10 + np.abs(roots))
        record = SimpleNamespace(time_ns=time_ns, taken_lots=(np.sign(roots) * roots**2).astype(np.int64))
        mids = time_ns, np.cumsum(roots + noise)
        fit = _fit(cast(HistoryRecord, record), mids, 60.0)
        assert fit is not None and fit.windows == windows
        contained.append(fit.low < 1 < fit.high)
    assert np.mean(contained) > 0.89
