"""Populations of several symbols: who trades what, values that share a factor, and what refuses them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from serl.agents.backtest.run import backtest
from serl.agents.backtest.strategy import Strategy
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.paths import value_paths
from serl.agents.traders.population import PopulationConfig, check_population, load_population
from serl.agents.traders.simulate import Simulation, fingerprint, replay_events, simulate, tape_hash
from serl.agents.traders.trader_api import SECOND_NS
from serl.agents.traders.value import ValueConfig
from serl.demo.source import simulated
from serl.history.day import read_day, write_day
from tests.agents.traders.test_engine import check
from tests.agents.traders.trader_bench import ZERO, population
from tests.doc_blocks import blocks

MINUTE_NS = 60 * SECOND_NS
VALUE = {"trader": "value", "count": 10, "profile": {"interval_s": 2, "noise_variance_ticks2": 1}}
PAIR = [
    {"name": "A", "loading": 0.8},
    {"name": "B", "loading": 0.5, "value": {"mean_ticks": 4000}, "tick_size": "0.05"},
]


def correlation(paths: Any) -> float:
    """Of the changes of two paths (2, n)."""
    return float(np.corrcoef(np.diff(paths, axis=1))[0, 1])


def test_a_group_trades_every_symbol_unless_it_names_some() -> None:
    config = population(ZERO, {"trader": "noise", "count": 3, "symbols": ["C", "A"]}, symbols=["A", "B", "C"])
    assert [(group.trader, group.symbol, group.count) for group in config.groups] == [
        ("zero_intelligence", 0, 1), ("zero_intelligence", 1, 1), ("zero_intelligence", 2, 1), ("noise", 0, 3), ("noise", 2, 3),
    ]  # fmt: skip
    assert config.traders == 9


def test_a_checked_population_is_the_same_when_it_is_checked_again() -> None:
    """Hosts and experiments do so with its dump."""
    for config in (population(VALUE, ZERO, symbols=PAIR), load_population("basket"), load_population("small")):
        again = check_population(config.model_dump(), "again")
        assert again == config
        assert (
            fingerprint(again)
            == fingerprint(config)
            == fingerprint(check_population(config.model_dump(mode="json"), "x"))
        )


def test_symbols_have_prices_ticks_and_means_of_their_own() -> None:
    config = population(VALUE, ZERO, symbols=PAIR)
    assert [config.parameters_of(group).model_dump().get("mean_ticks") for group in config.groups] == [
        10_000,
        4000,
        None,
        None,
    ]
    alone = population(VALUE).groups[0]
    assert population(VALUE).parameters_of(alone).model_dump()["mean_ticks"] == 100_000, "the kind's own"
    day = simulate(config, 1, config.open_ns + 10 * MINUTE_NS)
    assert [(one.name, one.tick_size) for one in day.reference.symbols] == [("A", "0.01"), ("B", "0.05")]
    prices = [
        np.median(day.commands["price_ticks"][(day.commands["symbol"] == n) & (day.commands["price_ticks"] > 0)])
        for n in (0, 1)
    ]
    assert prices == pytest.approx([10_000, 4000], rel=0.02)
    assert [one["tick_size"] for one in config.symbol_settings] == ["0.01", "0.05"]


def test_accounts_and_the_written_day_agree_with_the_markets(tmp_path: Path) -> None:
    config = load_population("basket")
    simulation = Simulation(config, 3)
    for minute in (1, 5, 20):
        simulation.advance(config.open_ns + minute * MINUTE_NS + 12_345_678)
        check(simulation)
    write_day(simulation.day(), tmp_path / "basket.day")
    events = replay_events(read_day(tmp_path / "basket.day"))
    assert tape_hash(events) == tape_hash(replay_events(simulation.day()))
    assert set(events["symbol"].tolist()) == set(range(len(config.symbols)))
    counts = simulation.day().reference.counts
    assert counts["empty_side_bid"] == counts["empty_side_ask"] == counts["requests_dropped"] == 0


def test_an_empty_side_of_any_symbol_is_reported() -> None:
    config = population({**ZERO, "symbols": ["A"]}, symbols=["A", "B"])
    counts = simulate(config, 1, config.open_ns + MINUTE_NS).reference.counts
    assert counts["empty_side_bid"] == counts["empty_side_ask"] == 1


def test_steps_of_values_have_the_configured_correlation() -> None:
    """23,400 steps: the standard error is .0065 or less; 4.5 of them."""
    value = ValueConfig(mean_ticks=10_000, volatility_ticks_per_root_s=0.5)
    duration = 23_400 * SECOND_NS
    for first, second in ((0.8, 0.5), (0.9, -0.9), (1.0, 1.0), (0.0, 0.9), (0.0, 0.0)):
        paths = [value.path(7, number, duration, loading) for number, loading in enumerate((first, second))]
        assert correlation(paths) == pytest.approx(first * second, abs=0.03)
        for path in paths:
            assert np.diff(path).std() == pytest.approx(0.5, rel=0.03), "a loading changes no volatility"


def test_a_value_follows_others_at_the_distance_of_its_own_path() -> None:
    """Also the mean of two others; a population without it has the fingerprint from before."""
    settings = {"mean_ticks": 3000, "volatility_ticks_per_root_s": 2.0, "reversion_per_s": 0.01}
    alone = {"name": "C", "value": settings}
    config, without = (
        population(ZERO, symbols=["A", "B", one]) for one in ({**alone, "follows": {"A": 0.5, "B": -0.25}}, alone)
    )
    paths, own = value_paths(config, 7), value_paths(without, 7)
    assert (paths[:2] == own[:2]).all()
    moves = 0.5 * (own[0] - 10_000) - 0.25 * (own[1] - 10_000)
    np.testing.assert_allclose(paths[2], own[2] + moves, atol=1e-9)
    assert np.abs(moves).max() > 10 and "follows" not in str(without.model_dump(mode="json"))
    assert check_population(config.model_dump(mode="json"), "again") == config


def test_a_value_without_loading_is_what_it_was() -> None:
    """Also beside others that share a factor."""
    value = ValueConfig(mean_ticks=10_000, volatility_ticks_per_root_s=0.5)
    path = value.path(7, 0, 100 * SECOND_NS)
    assert path[:4].round(6).tolist() == [10_000.0, 9999.878157, 9999.723929, 10000.313545]
    mixed = Simulation(population(ZERO, symbols=["A", {"name": "B", "loading": 0.9}]), 7)
    assert np.array_equal(mixed.crowd.traders.value[0][:100], path[:100])


@pytest.mark.parametrize(("loading", "low", "high"), [(0.95, 0.75, 0.95), (0.0, -0.2, 0.2)])
def test_simulated_returns_have_the_correlation_of_their_values(loading: float, low: float, high: float) -> None:
    """Returns of the mid over two minutes of a day. Noise of the book lowers the correlation of .9025."""
    config = population(VALUE, ZERO, symbols=[{"name": name, "loading": loading} for name in "AB"])
    simulation = Simulation(config, 2)
    mids = []
    for time_ns in range(config.open_ns + MINUTE_NS, config.close_ns + 1, 2 * MINUTE_NS):
        simulation.advance(time_ns)
        best = simulation.market.state.best[:2]
        assert best.min() > 0
        mids.append(best.mean(axis=1))
    assert low < correlation(np.array(mids).T) < high


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"symbols": ["A", "A"]}, "symbols: expected different names, got A twice; rename one"),
        ({"symbols": [{"name": "A", "tick": 1}]}, "symbols.0.tick: expected one of name, "),
        ({"symbols": [{"name": "A", "loading": 2}]}, "symbols.0.loading: expected a number less than or equal to 1, got 2"),
        ({"symbols": [{"name": "A", "value": {"mean_ticks": 0}}]}, "symbols.A.value: mean_ticks: expected a number greater than 0, got 0"),
        ({"symbols": [{"name": "A", "value": {"step_s": 2}}]}, "symbols.A.value.step_s: expected none, all values have one grid"),
        ({"symbols": ["A", {"name": "B", "follows": {"Q": 1}}]}, "symbols.B.follows: expected symbols without follows or a basket (A), got 'Q'"),
        ({"symbols": [{"name": "A", "follows": {"A": 1}}]}, "symbols.A.follows: expected symbols without follows or a basket (), got 'A'"),
        ({"symbols": ["A", {"name": "B", "follows": {"A": float("nan")}}]}, "symbols.1.follows.A: expected a finite number"),
        ({"symbols": ["A"], "groups": [{**ZERO, "symbols": ["B"]}]}, "groups.0.symbols: expected some of A, got 'B'"),
        ({"symbols": ["A", "B"], "groups": [{**ZERO, "symbols": ["B"], "symbol": 1}]}, "groups.0: expected symbol or symbols, got both"),
    ],
)  # fmt: skip
def test_bad_symbols_are_refused_with_a_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PopulationError) as caught:
        check_population({"name": "test", "groups": [ZERO], **changes}, "test")
    assert message in str(caught.value)


@pytest.fixture
def two() -> PopulationConfig:
    return population(ZERO, symbols=["A", "B"])


def test_what_knows_one_symbol_refuses_several(two: PopulationConfig, tmp_path: Path) -> None:
    with pytest.raises(PopulationError, match=r"test: symbols: expected one symbol in an environment, got A, B"):
        DynamicMarket(two, 1)
    with pytest.raises(PopulationError, match="expected one symbol in the demo, got ALFA, BETA"):
        simulated("basket", 1)


class Looker(Strategy):
    """Does nothing."""


def test_a_backtest_has_all_symbols_of_its_population(two: PopulationConfig) -> None:
    window = two.open_ns, two.open_ns + MINUTE_NS
    result = backtest(Looker, population=two, seed=4, window_ns=window, events_kept=True)
    assert [one.name for one in result.symbols] == ["A", "B"]
    assert result.events is not None
    assert tape_hash(result.events) == tape_hash(replay_events(simulate(two, 4, window[1])))


def test_the_documented_symbols_are_a_population() -> None:
    pair, fund = (
        check_population(yaml.safe_load(block.text), "traders.md")
        for block in blocks("traders.md", "yaml")
        if "symbols:" in block.text
    )
    traded = [(group.count, pair.symbol_names[group.symbol]) for group in pair.groups[-2:]]
    assert traded == [(2, "BETA"), (2, "CETI")]
    assert fund.values[2].mean_ticks == 1700
    assert [group.symbol for group in fund.groups[-3:]] == [2, 0, 1]
