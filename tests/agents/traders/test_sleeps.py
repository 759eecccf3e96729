"""A trader that hardly sleeps, or sleeps for no time, does not hold a run up for ever."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from serl.agents.backtest import loop
from serl.agents.backtest.market import BacktestMarket
from serl.agents.backtest.run import backtest
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.records import EPISODE
from serl.agents.traders import hosting, inprocess
from serl.agents.traders.build import Crowd
from serl.agents.traders.engine import WAKEUPS_A_CALL
from serl.agents.traders.errors import SimulationError
from serl.agents.traders.population import PopulationConfig
from serl.agents.traders.records import WAKEUPS
from serl.agents.traders.registry import load_kind
from serl.agents.traders.simulate import Simulation
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import COMMAND, EVENT
from tests.agents.traders.trader_bench import ZERO, population

SECOND_NS = 1_000_000_000


class Interrupted(Exception):
    """What a signal would raise."""


def with_sleeper(sleep_ns: float) -> PopulationConfig:
    group = {"trader": "restless", "profile": {"sleep_ns": sleep_ns}, "start_spread_s": 0}
    return population(ZERO, group, modules=["tests.agents.traders.sample_traders"])


def interrupt_at(paused: int) -> Callable[[Any, int], None]:
    """A market's `_make_room`, at which a signal is waiting once a loop has paused."""

    def make_room(_: Any, status: int) -> None:
        if status == paused:
            raise Interrupted

    return make_room


@pytest.mark.parametrize("sleep_ns", [0.0, -1e9, float("nan")])
def test_a_trader_that_sleeps_for_no_time_is_named(sleep_ns: float) -> None:
    config = with_sleeper(sleep_ns)
    simulation = Simulation(config, 1)
    message = rf"trader 1 \(restless\): expected sleep\(\) with more than 0 ns, got {sleep_ns:.10g}; "
    with pytest.raises(SimulationError, match=message):
        simulation.advance(config.open_ns + SECOND_NS)


def test_a_strategy_that_sleeps_for_no_time_is_named() -> None:
    config = with_sleeper(1e9)  # imports the module of the strategy
    with pytest.raises(SimulationError, match=r"trader 0 \(sleepless\): expected .*, got -1; "):
        backtest(
            load_kind("sleepless"), population=config, window_ns=(config.open_ns, config.open_ns + SECOND_NS)
        )  # fmt: skip


def test_an_environment_names_a_trader_that_sleeps_for_no_time() -> None:
    config = with_sleeper(-1.0)
    market, episodes = DynamicMarket(config, 1, threads=1), np.zeros(1, EPISODE)
    episodes["start_ns"], episodes["interval_ns"], episodes["steps"] = config.open_ns + SECOND_NS, SECOND_NS, 10
    episodes["sign"], episodes["qty_lots"] = 1, 10
    with pytest.raises(SimulationError, match=r"trader 1 \(restless\)"):
        market.reset(np.arange(1), episodes)
    market.close()


def test_a_simulation_looks_for_signals_while_traders_hardly_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_sleeper(1.0)
    monkeypatch.setattr(Simulation, "_make_room", interrupt_at(inprocess.PAUSED))
    simulation = Simulation(config, 1)
    with pytest.raises(Interrupted):
        simulation.advance(config.open_ns + SECOND_NS // 100)
    assert simulation.crowd.traders.counter[WAKEUPS] == WAKEUPS_A_CALL


def test_a_backtest_looks_for_signals_while_its_strategy_hardly_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_sleeper(1e9)
    monkeypatch.setattr(BacktestMarket, "_make_room", interrupt_at(loop.PAUSED))
    with pytest.raises(Interrupted):
        backtest(load_kind("restless"), population=config, window_ns=(config.open_ns, config.open_ns + SECOND_NS))


def test_a_host_looks_for_signals_while_traders_hardly_sleep() -> None:
    config = with_sleeper(1.0)
    crowd, book = Crowd(config, 1), Market(config.symbol_names, limits=MarketLimits(participants_max=2))
    row, scratch, nothing = np.zeros(1, COMMAND), np.zeros(64, EVENT), np.zeros(0, EVENT)
    until_ns = config.open_ns + SECOND_NS // 100
    status = hosting.run_traders(
        crowd.traders, book.state, row, scratch, nothing, nothing, np.zeros(2, np.int64), until_ns
    )
    assert status == hosting.PAUSED and crowd.traders.counter[WAKEUPS] == WAKEUPS_A_CALL
