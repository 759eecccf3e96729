"""Backtests in a day that gives way (docs/answering.md): the same as in an execution environment, and sound reports whatever a strategy does.

The loop takes half a minute to compile, so most of this is for `make test-long`; the rules themselves are tested with the execution environment.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import serl
from serl.agents.backtest.answering_market import AnsweringMarket
from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.market import BacktestMarket
from serl.agents.backtest.run import backtest
from serl.agents.execution.answering.tape import Tape
from serl.agents.execution.environment.records import CHILD
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.traders.population import load_population
from serl.agents.traders.registry import load_kind
from serl.cli import serl as command
from serl.exchange import Terms, TimeInForce
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import EVENT, POSITION, EventKind, Side
from serl.history.day import Day, Reference, SymbolReference, write_day
from serl.history.generate import generate_day
from tests.agents.execution.environment.stage import BUY, DEEP, QUOTE, SECOND_NS, day, episode, gives_way

START_S = 36_000
HISTORY, STRATEGY = 0, 1
KIND, CHANGED = EventKind, (EventKind.ACCEPTED, EventKind.RESTED)


@pytest.fixture(scope="module")
def generated() -> Day:
    return generate_day(3, start_ns=START_S * SECOND_NS, end_ns=(START_S + 600) * SECOND_NS)


def opened(history: Day, coefficient: float) -> AnsweringMarket:
    """coefficient: ticks per root of a lot that trades now."""
    return AnsweringMarket(history, gives_way(history, coefficient), events_kept=True)


def advance(market: BacktestMarket, time_s: float) -> None:
    market.run_until(round(time_s * SECOND_NS))
    market.new_reports()


def act(market: BacktestMarket, random: np.random.Generator) -> None:
    """Whatever a strategy can send in a day that answers, also what is rejected."""
    (symbol,) = market.symbols
    bid, ask = (best or 995 for best in market.best(symbol))
    for _ in range(int(random.integers(1, 4))):
        side, lots = int(random.integers(2)), int(random.integers(1, 300))
        send, near = (market.buy, market.sell)[side], int((bid, ask)[side] + random.integers(-4, 5))
        orders = market.open_orders()
        chosen = orders[int(random.integers(len(orders)))] if orders else None
        match int(random.integers(11)), chosen:
            case 0, _:
                send(symbol, lots)
            case 1, _:
                send(symbol, lots, near, post_only=True)
            case 2, _:
                send(symbol, lots, near, time_in_force=TimeInForce.IOC)
            case 3, _:
                send(symbol, *((0, near), (5, -3))[int(random.integers(2))])
            case 4, order if order is not None:
                market.cancel(order)
            case 5, order if order is not None:
                market.reduce(order, lots // 4)
            case 6, order if order is not None:
                market.replace(order, order.filled_lots + lots, near)
            case 7, order if order is not None:
                market.replace(order, order.filled_lots + lots, (ask + 3, bid - 3)[order.side])
            case 8, order if order is not None:
                market.replace(order, order.filled_lots, -5)
            case 9, _ if random.integers(4) == 0:
                market.mass_cancel()
            case _:
                send(symbol, lots, near, time_in_force=TimeInForce.DAY)


class Idle(serl.Strategy):
    """Sends nothing."""


class Far(serl.Strategy):
    """Has orders that are too far away to trade."""

    def on_wake(self, market: Any) -> None:
        for order in market.open_orders()[:-1]:
            market.cancel(order)
        market.buy(market.symbols[0], 5, 1)
        market.sell(market.symbols[0], 5, 10**6)


@pytest.mark.long
@pytest.mark.parametrize("strategy", [Idle, Far])
def test_who_takes_nothing_makes_the_tape_of_the_plain_backtest(generated: Day, strategy: type[serl.Strategy]) -> None:
    plain = backtest(strategy, day=generated, events_kept=True)
    answering = backtest(strategy, day=generated, events_kept=True, answers="square_root")
    assert plain.events is not None and len(plain.events) > 8000
    np.testing.assert_array_equal(plain.events, answering.events)
    np.testing.assert_array_equal(plain.mids, answering.mids)
    assert answering.settings["answering"] == "square_root, 0.035 ticks per root lot"


@pytest.mark.long
def test_reports_are_those_of_orders_that_are_not_cut_in_pieces() -> None:
    """In a quote that never moves, without impact, both tapes are the same event by event: also of orders that take, rest and are replaced."""
    markets = BacktestMarket(DEEP.reference.symbols, history=DEEP.commands, events_kept=True), opened(DEEP, 0.0)
    for market in markets:
        random = np.random.default_rng(5)
        for step in range(1, 300):
            advance(market, 10 * step)
            act(market, random)
        advance(market, 9000)
    plain, answering = (market.events() for market in markets)
    np.testing.assert_array_equal(plain, answering)
    kinds = plain["kind"][plain["participant"] == STRATEGY].tolist()
    assert all(
        kinds.count(kind) > 20 for kind in (KIND.FILL, KIND.RESTED, KIND.REPLACED, KIND.REJECTED, KIND.CANCELLED)
    )


@pytest.mark.long
@pytest.mark.parametrize(("coefficient", "seed"), [(0.3, 0), (1.0, 1)])
def test_fills_and_shifts_are_those_of_the_execution_environment(generated: Day, coefficient: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    replay = ReplayMarket([generated], 1, latency_ns=0, answers=[gives_way(generated, coefficient)])
    replay.reset(np.array([0]), episode(sign=-1, qty=1, start=START_S + 60))
    market, known, shifts = opened(generated, coefficient), 0, set()
    (symbol,) = market.symbols
    advance(market, START_S + 60)
    for step in range(1, 50):
        bid = market.best(symbol)[0]
        assert bid is not None
        child = (
            int(random.integers(0, 2) * random.integers(0, 400)),
            int(random.integers(1, 300)),
            bid + int(random.integers(-4, 5)),
        )
        until_s = START_S + 60 + 10 * step
        replay.step(np.array([child], CHILD), np.array([until_s * SECOND_NS]))
        for order in market.open_orders():
            market.cancel(order)
        if child[0]:
            market.buy(symbol, child[0])
        market.buy(symbol, *child[1:])
        advance(market, until_s)
        fills, known = market.fills()[known:], len(market.fills())
        assert sum(fill.qty_lots for fill in fills) == replay.fills["lots"][0]
        assert sum(fill.qty_lots * fill.price_ticks for fill in fills) == replay.fills["notional"][0]
        assert replay._answers is not None and market.shift_ticks == replay._answers.books["shift_ticks"][0]
        frame = replay.frames[0]
        for side, levels in zip(("bid", "ask"), market.book(symbol), strict=True):
            shown = frame[f"{side}_ticks"] > 0
            assert [level.price_ticks for level in levels] == frame[f"{side}_ticks"][shown].tolist()
            assert [level.qty_lots for level in levels] == frame[f"{side}_lots"][shown].tolist()
        shifts.add(market.shift_ticks)
    assert market.position(symbol) > 5000 and len(shifts) > 10


def check_reports(market: AnsweringMarket) -> dict[int, tuple[int, int]]:
    """(open lots, limit price) of the orders that are open, by all the reports; each report follows from those before."""
    events = market.events()
    assert (np.diff(events["sequence"]) == 1).all() and (np.diff(events["time_ns"]) >= 0).all()
    own, orders = events[events["participant"] == STRATEGY], dict[int, tuple[int, int]]()
    assert own["report"].tolist() == list(range(1, len(own) + 1))
    for event in own:
        order_id, qty, leaves = int(event["order_id"]), int(event["qty_lots"]), int(event["leaves_lots"])
        before, price = orders.get(order_id, (0, 0))
        match event["kind"]:
            case KIND.ACCEPTED:
                assert order_id not in orders and qty == leaves
            case KIND.FILL | KIND.REDUCED:
                assert before - qty == leaves >= 0
            case KIND.CANCELLED:
                assert (before, leaves) == (qty, 0)
            case KIND.REPLACED:
                assert before == qty
            case KIND.RESTED:
                assert before == qty == leaves
            case _:
                continue
        orders[order_id] = leaves, int(event["price_ticks"]) if event["kind"] in CHANGED else price
    return {order_id: order for order_id, order in orders.items() if order[0]}


@pytest.mark.long
@pytest.mark.parametrize(("seed", "coefficient", "quiet"), [(0, 0.3, False), (1, 1.0, False), (2, 1.0, True)])
def test_whatever_a_strategy_does(generated: Day, seed: int, coefficient: float, quiet: bool) -> None:
    """It knows its orders as the book has them, at real prices; its position is that of its fills; and no order of history has more left
    than it had, nor overtakes another. quiet: a day without commands, whose shift moves by many ticks at once."""
    history, start_s = (DEEP, 2) if quiet else (generated, START_S + 60)
    random, market, shifts = np.random.default_rng(seed), opened(history, coefficient), set()
    alone, cursor = Market(1, limits=MarketLimits(participants_max=2)), 0
    alone.grant_operator(HISTORY)
    (symbol,) = market.symbols
    for step in range(1, 61):
        advance(market, start_s + 7 * step)
        market.market.validate()
        bid, ask = market.best(symbol)
        assert bid is None or ask is None or bid < ask
        orders, shift = market.market.orders(), market.shift_ticks
        shifts.add(shift)
        own = orders[orders["participant"] == STRATEGY]
        in_book = {int(row["order_id"]): (int(row["open_lots"]), int(row["price_ticks"]) + shift) for row in own}
        if step % 10 == 0:
            assert check_reports(market) == in_book
        known = {order.order_id: order for order in market.open_orders()}
        assert {order_id: order.open_lots for order_id, order in known.items()} == dict(
            zip(own["order_id"].tolist(), own["open_lots"].tolist(), strict=True)
        )
        assert all(known[int(row["order_id"])].filled_lots == row["total_lots"] - row["open_lots"] for row in own)
        assert market.market.state.balances[STRATEGY, 0, POSITION] == market.position(symbol)
        found, before_cursor, cursor = orders[orders["participant"] == HISTORY], cursor, int(market._word[5])
        alone.submit(history.commands[before_cursor:cursor])
        before = alone.orders()
        places = {int(order["order_id"]): place for place, order in enumerate(before)}
        rows = [places[int(order["order_id"])] for order in found]
        assert rows == sorted(rows) and (found["open_lots"] <= before["open_lots"][rows]).all()
        act(market, random)
    assert len(market.fills()) > 100 and len(shifts) > 5


@pytest.mark.long
def test_a_round_trip_earns_nothing_and_a_purchase_leaves_a_trace_that_fades() -> None:
    history = day(*QUOTE, *[(second, "NEW", BUY, 9, 1, 0) for second in range(2, 3000)], last=9000)
    market = opened(history, 1.0)
    advance(market, 5)
    market.buy("X", 900)
    bids: list[int] = []
    for time_s in (6, 60, 600, 2000):
        advance(market, time_s)
        bids.append(market.best("X")[0] or 0)
    assert market.trades("X", 1)[0].price_ticks == bids[0] + 10 == 1030, "the last lots cost 30 ticks more"
    assert bids == sorted(bids, reverse=True) and 990 < bids[-1] < bids[1] < bids[0]
    market.sell("X", 900)
    advance(market, 2001)
    cash = sum((1 if fill.side == Side.SELL else -1) * fill.qty_lots * fill.price_ticks for fill in market.fills())
    assert market.position("X") == 0 and cash < -900 * 10
    assert (market.best("X")[0] or 0) < 990, "the sale is younger"


@pytest.mark.long
def test_every_order_that_rests_keeps_its_price_or_is_cancelled() -> None:
    market = opened(DEEP, 1.0)
    advance(market, 2)
    for price in range(1, 301):
        market.buy("X", 1, price)
    advance(market, 3)
    market.buy("X", 100)
    advance(market, 4)
    market.market.validate()
    assert market.shift_ticks == 10
    bids, _ = market.book("X", 0)
    assert [level.price_ticks for level in bids] == [1000, *range(300, 10, -1)], "ten have no price in history's book"
    events = market.events()
    gone = events[(events["kind"] == KIND.CANCELLED) & (events["participant"] == STRATEGY)]
    assert sorted(gone["price_ticks"].tolist()) == list(range(1, 11)) and not gone["leaves_lots"].any()
    assert len(market.open_orders()) == 290


@pytest.mark.long
def test_a_halt_rejects_orders_and_stops_the_shift() -> None:
    marks = [(second, "NEW", BUY, 9, 1, 0) for second in (11, 19, 30)]
    history = day(*QUOTE, (10, "HALT", 0, 0, 0, 0), *marks[:2], (20, "RESUME", 0, 0, 0, 0), marks[2], last=9000)
    market = opened(history, 1.0)
    advance(market, 5)
    market.buy("X", 400)
    advance(market, 12)
    before = market.shift_ticks
    orders = [market.buy("X", 5, 2000), market.buy("X", 5)]
    advance(market, 20)
    assert [order.reason for order in orders] == ["HALTED", "HALTED"] and market.shift_ticks == before == 19
    advance(market, 31)
    assert market.shift_ticks < before
    taken = market.buy("X", 5, 2000)
    advance(market, 32)
    assert taken.filled_lots == 5


@pytest.mark.long
def test_a_command_with_too_many_events_ends_the_run() -> None:
    market = opened(DEEP, 1.0)
    market._happened = Tape(np.zeros(20, EVENT), market._happened.counts)
    advance(market, 2)
    market.buy("X", 100)
    with pytest.raises(BacktestError, match="events because of one command, got more; send smaller orders"):
        advance(market, 3)


class Taker(serl.Strategy):
    """Buys a lot at the market at each wake-up."""

    def on_wake(self, market: Any) -> None:
        market.buy(market.symbols[0], 1)


class Special(serl.Strategy):
    """Sends what it is given."""

    def __init__(self, **order: Any) -> None:
        self.order = order

    def on_wake(self, market: Any) -> None:
        market.buy(market.symbols[0], 10, 9, **self.order)


def two_symbols(one: Day) -> Day:
    return Day(one.commands, one.rows, Reference((SymbolReference("X"), SymbolReference("Y")), "", "made"))


def test_what_does_not_go_with_it_is_refused(generated: Day) -> None:
    with pytest.raises(BacktestError, match="answering: expected a day, got a population"):
        backtest(Taker, population=load_population("small"), answers="fitted")
    with pytest.raises(BacktestError, match="expected a strategy in Python, got the compiled momentum"):
        backtest(load_kind("momentum"), day=generated, answers="square_root")
    with pytest.raises(BacktestError, match="expected a day with one symbol, got X, Y"):
        backtest(Taker, day=two_symbols(DEEP), answers="square_root")
    accounts = generated.commands.copy()
    accounts["participant"][::2] = 1
    with pytest.raises(BacktestError, match="expected a day without accounts, got one with 2"):
        backtest(Taker, day=Day(accounts, generated.rows, generated.reference), answers="square_root")


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "got"),
    [({"terms": Terms(display_lots=1)}, "one with terms"), ({"time_in_force": TimeInForce.FOK}, "FOK")],
)
def test_orders_that_do_not_go_with_it_are_refused(generated: Day, order: dict[str, Any], got: str) -> None:
    with pytest.raises(BacktestError, match=f"DAY, GTC, IOC or post-only, got {got}"):
        backtest(Special(**order), day=generated, answers="square_root")


@pytest.mark.long
def test_the_command(generated: Day, tmp_path: Path) -> None:
    """The page names the option and the coefficient; a coefficient that cannot be fitted, and a population, are refused."""
    write_day(generated, tmp_path / "a.day")
    (tmp_path / "bot.py").write_text(
        "import serl\n\nclass Bot(serl.Strategy):\n    def on_wake(self, market):\n        market.buy(market.symbols[0], 1)\n"
    )

    def invoke(*options: str) -> Any:
        return CliRunner().invoke(
            command, ["backtest", str(tmp_path / "bot.py"), "-o", str(tmp_path / "report.html"), *options]
        )

    done = invoke("--day", str(tmp_path / "a.day"), "--answering", "square_root", "--window", "10:00:10-10:05:00")
    assert done.exit_code == 0, done.output
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    assert run["settings"]["answering"] == "square_root, 0.035 ticks per root lot" and run["counts"]["fill"] > 200
    assert "square_root, 0.035 ticks per root lot" in (tmp_path / "report.html").read_text()
    short = invoke("--day", str(tmp_path / "a.day"), "--answering", "fitted")
    assert "from 0 fits over 300 s; give another day, or the coefficient square_root" in str(short.exception)
    refused = invoke("--population", "small", "--answering", "fitted")
    assert refused.exit_code == 2 and "expected --answering with --day only" in refused.output
