"""The vector environment over every market."""

from collections.abc import Callable

import numpy as np
import pytest

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.static import StaticBook
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.traders.population import load_population
from serl.exchange.errors import ConfigError
from serl.history.generate import generate_day
from tests.agents.execution.environment.stage import SECOND_NS

COUNT, OPEN_NS, CLOSE_NS = 8, 34_200 * SECOND_NS, 57_000 * SECOND_NS
HISTORY = generate_day(2, end_ns=OPEN_NS + 1500 * SECOND_NS)


def _bars() -> BarDays:
    random = np.random.default_rng(3)
    close = 10_000 + np.cumsum(random.integers(-5, 6, 390))
    first = np.concatenate([[10_000], close[:-1]])
    columns = (first, np.maximum(first, close) + 2, np.minimum(first, close) - 2, close, (first + close) / 2)
    values = np.stack([*columns, random.integers(0, 9000, 390)], axis=1)[None].astype(float)
    return BarDays(OPEN_NS + 60 * SECOND_NS * np.arange(390), 60 * SECOND_NS, values)


MARKETS: dict[str, Callable[[], ExecutionMarket]] = {
    "bars": lambda: StaticBars(_bars(), COUNT),
    "static": lambda: StaticBook([HISTORY], COUNT),
    "replay": lambda: ReplayMarket([HISTORY], COUNT),
    "dynamic": lambda: DynamicMarket(load_population("small"), COUNT),
}
EVERY = pytest.mark.parametrize("name", MARKETS)


def environment(name: str) -> ExecutionVectorEnv:
    """Orders of five minutes in steps of one."""
    hours = [Hours(0, OPEN_NS, OPEN_NS + 1200 * SECOND_NS, 10.0)]
    return ExecutionVectorEnv(MARKETS[name](), RandomOrders(hours, 300.0, 60.0), actions="hybrid")


def actions(count: int, seed: int = 0) -> np.ndarray:
    """(count, COUNT, 3) random ones."""
    return np.random.default_rng(seed).random((count, COUNT, 3)) * [0.2, 0.6, 2] - [0, 0, 1]


@EVERY
def test_the_same_seed_gives_the_same_trajectory(name: str) -> None:
    runs = []
    for _ in range(2):
        env = environment(name)
        seen = [env.reset(seed=7)[0]]
        for action in actions(8):
            observations, rewards, *_ = env.step(action)
            seen += [observations, rewards[:, None]]
        runs.append(np.concatenate(seen, axis=1))
    np.testing.assert_array_equal(runs[0], runs[1])


@EVERY
def test_quantities_are_conserved_and_observations_finite(name: str) -> None:
    env = environment(name)
    env.reset(seed=3)
    finished = 0
    for action in actions(12, seed=1):
        before = env.accounts.parents["remaining_lots"].copy()
        observations, rewards, done, _, info = env.step(action)
        assert np.isfinite(observations).all() and np.abs(observations).max() <= 10
        assert np.isfinite(rewards).all()
        going_on = ~done
        remaining = env.accounts.parents["remaining_lots"]
        np.testing.assert_array_equal(before[going_on] - env.market.fills["lots"][going_on], remaining[going_on])
        if done.any():
            finished += int(done.sum())
            assert (info["results"]["ffr"][done] <= 1).all() and (info["results"]["ffr"][done] > 0.9).all()
    assert finished >= COUNT


@EVERY
def test_a_reset_of_some_leaves_the_others_alone(name: str) -> None:
    """Environments 1 and 5 begin anew between two steps; all others see the same, bit for bit."""
    seen = []
    for disturbed in (False, True):
        env = environment(name)
        env.reset(seed=5)
        first, second = actions(2, seed=4)
        env.step(first)
        if disturbed:
            env._start_episodes(np.array([1, 5]))
        seen.append(env.step(second)[0])
    others = np.setdiff1d(np.arange(COUNT), [1, 5])
    np.testing.assert_array_equal(seen[0][others], seen[1][others])
    assert np.any(seen[0][[1, 5]] != seen[1][[1, 5]])


def test_actions_that_are_nan_are_refused() -> None:
    env = environment("bars")
    env.reset(seed=1)
    wrong = actions(1)[0]
    wrong[0, -1] = np.nan
    with pytest.raises(ConfigError, match="expected numbers, got NaN"):
        env.step(wrong)
