"""Baskets and those who trade them against their members."""

from typing import Any

import numpy as np
import pytest

from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.run import backtest
from serl.agents.backtest.strategy import Strategy
from serl.agents.traders.build import Crowd
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.host_processes import HostSettings
from serl.agents.traders.population import PopulationConfig, check_population
from serl.agents.traders.registry import load_kind
from serl.agents.traders.simulate import Simulation, replay_events, simulate, tape_hash
from serl.agents.traders.tables import traders
from serl.agents.traders.trader_api import SECOND_NS
from serl.exchange.table import Names
from tests.agents.traders.test_engine import check
from tests.agents.traders.test_symbols import MINUTE_NS, VALUE
from tests.agents.traders.trader_bench import ZERO, agent_field, population

SYMBOLS = [
    "A",
    {"name": "B", "value": {"mean_ticks": 4000}, "tick_size": "0.05"},
    {"name": "ETF", "basket": {"A": 0.5, "B": 0.25}},
]
"""A tick of B is five of the ETF: its price is .5 A + 1.25 B."""
SHARES = {**VALUE, "symbols": ["A", "B"]}
"""Nobody but arbitrageurs knows what the ETF is worth."""
ETF, FIRST = 2, 5
"""The ETF's symbol, and the first group of the arbitrageurs; the next two are their accounts in A and B."""


def arbitrageurs(**profile: Any) -> dict[str, Any]:
    return {
        "trader": "arbitrageur",
        "count": 3,
        "latency_us": 100,
        "start_s": 5,
        "profile": {"position_lots_max": 10**6, **profile},
    }


def market(*groups: dict[str, Any], **others: Any) -> PopulationConfig:
    return population(ZERO, SHARES, *groups, symbols=SYMBOLS, **others)


def errors_ticks(simulation: Simulation, minutes: int) -> Any:
    """Mid of the ETF minus that of its members, each ten seconds from the second minute on."""
    found = []
    for time_s in range(60, 60 * minutes + 1, 10):
        simulation.advance(simulation.population.open_ns + time_s * SECOND_NS)
        best = simulation.market.state.best[:3]
        assert best.min() > 0
        a, b, etf = best.mean(axis=1)
        found.append(etf - 0.5 * a - 1.25 * b)
    return np.array(found)


def positions(simulation: Simulation) -> Any:
    """(accounts, arbitrageurs): lots of the ETF, of A, of B."""
    return np.stack([agent_field(simulation, FIRST + account, "position_lots") for account in range(3)])


@pytest.mark.parametrize("seed", [1, 2])
def test_with_arbitrageurs_the_basket_follows_its_members(seed: int) -> None:
    alone, followed = (
        np.abs(errors_ticks(Simulation(market(*groups), seed), 60)).mean() for groups in ([], [arbitrageurs()])
    )
    assert followed < 4 < 8 < alone


def test_their_positions_are_hedged_and_bounded() -> None:
    simulation = Simulation(market(arbitrageurs(position_lots_max=500)), 1)
    errors_ticks(simulation, 60)
    check(simulation)
    etf, a, b = positions(simulation)
    assert np.abs(etf).max() == 500, "the limit is reached"
    assert np.abs(a + 0.5 * etf).max() <= 0.5
    assert np.abs(b + 0.25 * etf).max() <= 0.5


def test_fees_and_the_threshold_are_costs() -> None:
    """Beyond the largest difference that there is, nobody trades."""
    until = 10 * MINUTE_NS
    for groups, others in (
        ([arbitrageurs(threshold_ticks=1000)], {}),
        ([arbitrageurs()], {"market": {"fees": {"taker_ppm": 50_000}}}),
    ):
        config = market(*groups, **others)
        simulation = Simulation(config, 1)
        simulation.advance(config.open_ns + until)
        assert not positions(simulation).any()


def test_a_basket_is_worth_its_members() -> None:
    config = market()
    a, b, etf = Simulation(config, 3).crowd.traders.value
    assert np.allclose(etf, 0.5 * a + 1.25 * b)
    assert config.values[ETF].mean_ticks == 0.5 * 10_000 + 1.25 * 4000


@pytest.mark.long
def test_arbitrageurs_have_an_account_in_each_symbol() -> None:
    config = market(arbitrageurs())
    assert [(group.symbol, group.account_of) for group in config.groups[FIRST:]] == [(2, None), (0, FIRST), (1, FIRST)]
    assert (config.traders, config.independent_traders) == (32, 26)
    assert check_population(config.model_dump(), "again") == config
    day = simulate(config, 1, config.open_ns + 5 * MINUTE_NS)
    made = traders(day, config)
    own = made["trader"] >= config.traders - 9
    symbol = made.columns["symbol"]
    assert isinstance(symbol, Names)
    assert symbol.codes[own].tolist() == [2, 2, 2, 0, 0, 0, 1, 1, 1]
    assert (made["traded_lots"][own] > 0).all()


def test_a_host_has_its_traders_with_all_their_accounts() -> None:
    """Each trader has the same times wherever it runs."""
    config = market(arbitrageurs())
    whole = Crowd(config, 7).traders.agents
    parts = [Crowd(config, 7, host, 4).traders for host in range(4)]
    assert sorted(np.concatenate([part.agents["number"] for part in parts])) == list(range(config.traders))
    for part in parts:
        for field in ("wake_ns", "latency_ns", "seed", "symbol", "legs"):
            assert np.array_equal(part.agents[field], whole[field][part.agents["number"]]), field
        for place in np.flatnonzero(part.agents["legs"]):
            rows = part.legs[part.agents["leg_start"][place] :][:3]
            assert part.agents["number"][rows["agent"]].tolist() == [
                part.agents["number"][place] + 3 * leg for leg in range(3)
            ]
            assert part.agents["wake_ns"][rows["agent"][1:]].tolist() == [-1, -1]
    late = Crowd(config, 7)
    late.start_at(config.open_ns + MINUTE_NS)
    assert np.array_equal(late.traders.agents["wake_ns"] < 0, whole["wake_ns"] < 0)
    with pytest.raises(PopulationError, match="expected at most 26, one per trader, got 27"):
        HostSettings(config, 1, "", 27, 0, ("",) * 27)


class Looker(Strategy):
    """Does nothing."""


def test_backtests_among_arbitrageurs_and_not_as_one() -> None:
    config = market(arbitrageurs())
    window = config.open_ns, config.open_ns + 2 * MINUTE_NS
    result = backtest(Looker, population=config, seed=4, window_ns=window, events_kept=True)
    assert result.events is not None
    assert tape_hash(result.events) == tape_hash(replay_events(simulate(config, 4, window[1])))
    with pytest.raises(BacktestError, match="expected a kind that trades one symbol, got arbitrageur"):
        backtest(load_kind("arbitrageur"), population=config, window_ns=window)


@pytest.mark.parametrize(
    ("symbols", "group", "message"),
    [
        (["A"], {}, "groups.0: expected symbols with a basket for arbitrageur, got A; give one a basket"),
        (SYMBOLS, {"symbols": ["A", "ETF"]}, "groups.0: expected symbols with a basket for arbitrageur, got A, ETF"),
        (SYMBOLS, {"symbol": 2}, "groups.0: expected neither symbol nor account_of for arbitrageur, got one; use symbols"),
        (["A", {"name": "X", "basket": {"Q": 1}}], {}, "symbols.X.basket: expected symbols without a basket (A), got 'Q'"),
        (["A", {"name": "X", "basket": {"A": -1}}], {}, "symbols.1.basket.A: expected a number greater than 0, got -1"),
        (["A", {"name": "X", "basket": {"A": 1}, "follows": {"A": 1}}], {}, "symbols.X.basket: expected neither value, loading nor follows"),
        (["A", {"name": "X", "basket": {"A": 1}, "loading": 0.5}], {}, "symbols.X.basket: expected neither value, loading nor follows beside it"),
    ],
)  # fmt: skip
def test_bad_baskets_are_refused_with_a_reason(symbols: Any, group: dict[str, Any], message: str) -> None:
    with pytest.raises(PopulationError) as caught:
        check_population({"name": "test", "symbols": symbols, "groups": [{"trader": "arbitrageur", **group}]}, "test")
    assert message in str(caught.value)
