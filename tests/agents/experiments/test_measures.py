"""Measures of quotes made by hand, and the replay that makes them from commands."""

import math

import numpy as np
import pytest

from serl.agents.experiments.measures import (
    MEASURES,
    depth_lots,
    drawdown_bps,
    effective_spread_bps,
    empty_share,
    group_pnl,
    spread_bps,
    spread_ticks,
    value_error_bps,
    variance_ratio,
    volatility_bps,
)
from serl.agents.experiments.quotes import LOTS, SPREAD_LOTS, TRADES, VOLUME_LOTS, Quotes, replay_quotes
from serl.agents.traders.population import load_population
from serl.agents.traders.records import AGENT
from serl.agents.traders.simulate import Simulation, replay_events
from serl.exchange.market import Market
from serl.exchange.records import CommandKind, EventFlag, EventKind, Side, command

SECOND_NS, MINUTE_NS = 10**9, 60 * 10**9
NEW, BUY, SELL = int(CommandKind.NEW), int(Side.BUY), int(Side.SELL)
NAN = math.nan


def quotes(rows: list[tuple[int, int, int, int, int]], end_ns: int, value: list[float] | None = None) -> Quotes:
    values = np.array(value or [100.0] * 3)
    return Quotes(np.array(rows, np.int64), end_ns, 3, 40, 0.002, 0.05, values, SECOND_NS)


def mids(ticks: list[float]) -> Quotes:
    """A mid for each minute, known just before its end; spreads of 2 ticks."""
    rows = [(minute * MINUTE_NS - 1, int(mid - 1), 5, int(mid + 1), 5) for minute, mid in enumerate(ticks)]
    rows[0] = (0, *rows[0][1:])
    return quotes(rows, (len(ticks) - 1) * MINUTE_NS)


def test_time_weighted_spread_depth_and_empty_sides() -> None:
    found = quotes([(0, 0, 0, 0, 0), (10, 98, 4, 102, 8), (40, 99, 10, 101, 30), (60, 0, 0, 101, 30)], 100)
    assert spread_ticks(found) == pytest.approx((30 * 4 + 20 * 2) / 50)
    assert spread_bps(found) == pytest.approx(1e4 * (30 * 0.04 + 20 * 0.02) / 50)
    assert depth_lots(found) == pytest.approx((30 * 6 + 20 * 20) / 50)
    assert empty_share(found) == pytest.approx(0.5)
    assert effective_spread_bps(found) == pytest.approx(20.0)


def test_crossed_prices_of_an_auction_are_no_quotes() -> None:
    found = quotes([(0, 98, 4, 102, 4), (50, 105, 9, 95, 9)], 100)
    assert (spread_ticks(found), empty_share(found)) == (4.0, 0.0)
    assert found.mids_ticks.tolist() == [100.0]


def test_volatility_and_variance_ratio_of_known_returns() -> None:
    up = mids([10_000 * 1.01**minute for minute in range(4)])
    assert volatility_bps(up) == pytest.approx(1e4 * math.log(1.01), rel=1e-2)
    bouncing = mids([10_000 + 100 * (minute % 2) for minute in range(22)])
    returns = np.diff(np.log([10_000 + 100 * (minute % 2) for minute in range(22)]))
    drift = returns.mean()
    long = sum((returns[place : place + 5].sum() - 5 * drift) ** 2 for place in range(17)) / (5 * 17 * (1 - 5 / 21))
    assert variance_ratio(bouncing) == pytest.approx(long / (((returns - drift) ** 2).sum() / 20))
    assert variance_ratio(bouncing) < 0.3, "it reverses"
    assert math.isnan(variance_ratio(up)), "too short"


def test_a_random_walk_has_a_variance_ratio_of_one() -> None:
    random = np.random.default_rng(3)
    found = [variance_ratio(mids(list(1e6 + np.cumsum(random.normal(0, 300, 200)).round()))) for _ in range(60)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.1)


def test_largest_fall_is_from_the_highest_mid_before() -> None:
    assert drawdown_bps(mids([1000, 900, 1200, 960, 1100])) == pytest.approx(2000.0)
    assert drawdown_bps(mids([1000, 1100])) == 0.0


def test_distance_to_the_value_counts_from_the_first_mid() -> None:
    rows = [(0, 0, 0, 0, 0), (1_500_000_000, 99, 1, 101, 1), (2_500_000_000, 109, 1, 111, 1)]
    found = quotes(rows, 3 * SECOND_NS, value=[1.0, 1.0, 100.0, 100.0, 5.0])
    assert value_error_bps(found) == pytest.approx(1e4 * math.sqrt((0.0 + 0.1**2) / 2))


def test_nothing_to_measure_is_not_a_number() -> None:
    empty = Quotes(np.zeros((1, 5), np.int64), MINUTE_NS, 0, 0, NAN, 0.01, np.ones(3), SECOND_NS)
    found = {name: measure.compute(empty) for name, measure in MEASURES.items()}
    known = {name: value for name, value in found.items() if not math.isnan(value)}
    assert known == {"trades": 0.0, "volume_lots": 0.0, "empty_share": 1.0}


def test_profit_of_a_group_is_the_mean_of_its_traders_in_money() -> None:
    population = load_population("small")
    agents = np.zeros(population.traders, AGENT)
    agents["kind"] = [0] + [1] * 10 + [2] * 20
    agents["position_lots"][1:3], agents["cash_ticks"][1:3] = [10, -5], [-900, 600]
    found = group_pnl(population, agents, quotes([(0, 98, 1, 102, 1)], 1))
    assert found == {
        "pnl.0.zero_intelligence": 0.0,
        "pnl.1.value": pytest.approx(0.05 * (100 + 100) / 10),
        "pnl.2.noise": 0.0,
    }


def test_the_replay_finds_quotes_trades_and_what_takers_pay() -> None:
    market = Market(1)
    made = [
        command(NEW, side=BUY, price_ticks=98, qty_lots=10),
        command(NEW, side=SELL, price_ticks=102, qty_lots=10),
        command(NEW, side=SELL, price_ticks=104, qty_lots=10),
        command(NEW, side=BUY, price_ticks=104, qty_lots=15),  # takes 10 at 102 and 5 at 104, the mid is 100
        command(NEW, side=SELL, price_ticks=98, qty_lots=4),  # takes 4 at 98, the mid is 101
    ]
    rows = np.concatenate(made)
    rows["command_id"], rows["time_ns"] = np.arange(1, 6), 10 * np.arange(1, 6)
    found, totals, costs = replay_quotes(market, rows, 5)
    assert found.tolist() == [
        [5, 0, 0, 0, 0], [10, 98, 10, 0, 0], [20, 98, 10, 102, 10], [40, 98, 10, 104, 5], [50, 98, 6, 104, 5],
    ]  # fmt: skip
    assert (totals[TRADES], totals[VOLUME_LOTS], costs[LOTS]) == (3, 19, 19)
    assert costs[SPREAD_LOTS] == pytest.approx(2 * (10 * 0.02 + 5 * 0.04 + 4 * 3 / 101))


def test_the_replay_measures_the_symbol_that_is_asked_for() -> None:
    population = load_population("basket")
    simulation = Simulation(population, 3)
    simulation.advance(population.open_ns + 60 * SECOND_NS)
    fills = replay_events(simulation.day())
    fills = fills[(fills["kind"] == EventKind.FILL) & (fills["flags"] & EventFlag.MAKER > 0)]
    for symbol in range(4):
        market = Market(population.symbol_names, limits=simulation.market.limits)
        found, totals, _ = replay_quotes(market, simulation.commands, population.open_ns, symbol)
        assert tuple(found[-1, [1, 3]]) == simulation.market.best(symbol)
        assert totals[TRADES] == np.count_nonzero(fills["symbol"] == symbol) > 0


def test_the_replay_of_a_simulation_is_its_market() -> None:
    population = load_population("small")
    simulation = Simulation(population, 3)
    simulation.advance(population.open_ns + 120 * SECOND_NS)
    market = Market(population.symbol_names, limits=simulation.market.limits)
    found, totals, _ = replay_quotes(market, simulation.commands, population.open_ns)
    assert market.state_hash() == simulation.market.state_hash()
    assert tuple(found[-1, [1, 3]]) == simulation.market.best()
    events = replay_events(simulation.day())
    fills = events[(events["kind"] == EventKind.FILL) & (events["flags"] & EventFlag.MAKER > 0)]
    assert (totals[TRADES], totals[VOLUME_LOTS]) == (len(fills), fills["qty_lots"].sum())
