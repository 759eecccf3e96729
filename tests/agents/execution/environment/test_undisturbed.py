"""The reward of markets that react, against its definition."""

import numpy as np
import pytest

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.rewards import ScheduleAdvantage
from serl.agents.execution.environment.static import StaticBook
from serl.agents.execution.environment.undisturbed import UndisturbedAdvantage, UndisturbedMids
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import oracle_foresight
from serl.agents.traders.population import load_population
from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.history.generate import generate_day

N, STEPS, INTERVAL_S = 4, 6, 10.0
START_NS, END_NS = time_of_day_ns("09:32"), time_of_day_ns("09:36")
HOURS = [Hours(day, START_NS, END_NS, 20.0) for day in (3, 8, 11)]
ORDERS = RandomOrders(HOURS, STEPS * INTERVAL_S, INTERVAL_S, 0.2, 0.4)


def simulated() -> DynamicMarket:
    return DynamicMarket(load_population("small"), N, threads=1)


def test_mids_are_those_of_each_window_without_orders() -> None:
    paths = UndisturbedMids.run(simulated(), HOURS, INTERVAL_S)
    episodes = ORDERS.sample(np.random.Generator(np.random.PCG64(2)), N)
    known = oracle_foresight(ExecutionVectorEnv(simulated(), ORDERS), episodes)
    for step in range(STEPS + 1):
        np.testing.assert_array_equal(paths.at(episodes, np.full(N, step)), known.mids[:, step])


def test_stretches_of_a_day_have_intervals_of_their_own() -> None:
    """Folds cut a day into pieces that begin between the intervals of its first one."""
    hours = [
        Hours(day, START_NS + offset_ns, START_NS + offset_ns + 80 * 10**9, 20.0)
        for day in (3, 8)
        for offset_ns in (0, 123_456_789_012)
    ]
    paths = UndisturbedMids.run(simulated(), hours, INTERVAL_S)
    episodes = RandomOrders(hours, STEPS * INTERVAL_S, INTERVAL_S, 0.2, 0.4).sample(np.random.default_rng(3), N)
    assert len(np.unique((episodes["start_ns"] - START_NS) % 10**10)) == 2
    known = oracle_foresight(ExecutionVectorEnv(simulated(), ORDERS), episodes)
    for step in range(STEPS + 1):
        np.testing.assert_array_equal(paths.at(episodes, np.full(N, step)), known.mids[:, step])
    episodes["start_ns"][0] += 1
    with pytest.raises(ConfigError, match="expected orders that begin at a multiple of 10 s after their hours"):
        paths.at(episodes, np.zeros(N, np.int64))


def test_agents_that_share_a_book_have_the_mids_of_one() -> None:
    """Days were given to single agents, which the market of a team refuses."""
    days = [generate_day(seed, start_ns=START_NS - 10**9, end_ns=END_NS + 10**9) for seed in (1, 2, 3)]
    hours = [Hours(day, START_NS, END_NS, 20.0) for day in range(3)]
    alone, together = (UndisturbedMids.run(ReplayMarket(days, 2, agents), hours, INTERVAL_S).ticks for agents in (1, 2))
    np.testing.assert_array_equal(alone, together)
    assert np.isfinite(alone).all()


def test_it_sums_to_the_shortfall_less_that_of_even_slices_without_our_orders() -> None:
    paths = UndisturbedMids.run(simulated(), HOURS, INTERVAL_S)
    env = ExecutionVectorEnv(simulated(), ORDERS, actions="hybrid", reward=UndisturbedAdvantage(paths), fee_bps=0.5)
    random = np.random.Generator(np.random.PCG64(1))
    env.reset(seed=5)
    episodes, arrival = env.accounts.episodes.copy(), env.accounts.parents["arrival_mid"].copy()
    total = np.zeros(N)
    moved = False
    for step in range(STEPS):
        moved |= bool(np.any(mids(env.market.frames) != paths.at(episodes, np.full(N, step))))
        _, rewards, _, _, info = env.step(random.uniform(0, 0.5, (N, 3)))
        total += rewards
    assert moved  # by our orders
    without_us = np.mean([paths.at(episodes, np.full(N, step)) for step in range(STEPS)], axis=0)
    even = episodes["sign"] * (without_us / arrival - 1) * 1e4
    np.testing.assert_allclose(total, info["results"]["is_bps"] - even, atol=1e-9)


def test_without_impact_it_is_the_schedule_advantage() -> None:
    day = generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:00"))
    hours = [Hours(0, time_of_day_ns("09:35"), time_of_day_ns("09:55"), 50.0)]
    orders = RandomOrders(hours, 60.0, 10.0, 0.1, 0.4)
    paths = UndisturbedMids.run(StaticBook([day], N), hours, 10.0)
    found = []
    for reward in (ScheduleAdvantage(3.0, 2.0), UndisturbedAdvantage(paths, 3.0, 2.0)):
        env = ExecutionVectorEnv(StaticBook([day], N), orders, actions="hybrid", reward=reward, fee_bps=0.5)
        env.reset(seed=5)
        random = np.random.Generator(np.random.PCG64(1))
        found.append([env.step(random.uniform(0, 0.5, (N, 3)))[1] for _ in range(STEPS)])
    np.testing.assert_allclose(np.array(found[0]), np.array(found[1]), atol=1e-9)
