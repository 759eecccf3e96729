"""Several agents in one book: against an agent alone, by hand, and under PettingZoo's tests."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.execution.environment.hours import trading_hours
from serl.agents.execution.environment.parallel import ExecutionParallelEnv
from serl.agents.execution.environment.records import EPISODE, FRAME
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.traders.simulate import simulate
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day
from serl.history.generate import generate_day
from tests.agents.traders.test_rules import population

SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(3)


@pytest.fixture(scope="module")
def sampler(day: Day) -> RandomOrders:
    return RandomOrders([trading_hours(day)], duration_s=100, share_min=0.05, share_max=0.2)


def orders(count: int, **fields: Any) -> Rows:
    rows = np.zeros(count, EPISODE)
    rows["sign"], rows["qty_lots"], rows["start_ns"], rows["steps"] = 1, 600, 36_000 * SECOND_NS, 12
    rows["interval_ns"] = 10 * SECOND_NS
    for name, values in fields.items():
        rows[name] = values
    return rows


@pytest.mark.parametrize("latency_ns", [0, 1_000_000, 2_000_000_000])
def test_an_agent_that_does_not_trade_changes_nothing(day: Day, latency_ns: int) -> None:
    rows = orders(2, sign=[1, -1], start_ns=[36_000 * SECOND_NS, 40_003 * SECOND_NS])
    random = np.random.Generator(np.random.PCG64(2))
    alone = ExecutionVectorEnv(ReplayMarket([day], 2, latency_ns=latency_ns), RandomOrders([]), actions="hybrid")
    shared = ExecutionVectorEnv(ReplayMarket([day], 2, 2, latency_ns=latency_ns), RandomOrders([]), actions="hybrid")
    alone.reset(options={"episodes": rows})
    shared.reset(options={"episodes": rows.repeat(2)})
    idle = np.zeros((2, 3))
    for _ in range(11):  # in the last step the idle agents' orders are completed by force
        np.testing.assert_array_equal(alone.observe(), shared.observe()[1::2])
        actions = random.uniform([0, 0, -1], [0.2, 0.9, 1], (2, 3))
        theirs = alone.step_without_reset(actions)[0]
        ours = shared.step_without_reset(np.stack([idle, actions], axis=1).reshape(4, 3))[0][1::2]
        for name in ("lots", "notional", "resting_lots", "ahead_lots"):
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
        for name in FRAME.names or ():
            np.testing.assert_array_equal(shared.market.frames[name][1::2], alone.market.frames[name], err_msg=name)


def test_agents_queue_behind_each_other_and_see_one_book(day: Day) -> None:
    env = ExecutionVectorEnv(ReplayMarket([day], 1, 3), RandomOrders([]), actions="hybrid")
    env.reset(options={"episodes": orders(3)})
    frames, before = env.market.frames, int(env.market.frames["ask_lots"][0, 0])
    env.market.step(env.accounts.children(np.zeros(3), np.ones(3), np.zeros(3), frames), frames["time_ns"] + 2_000_000)
    assert env.market.fills["lots"].tolist() == [0, 0, 0]
    assert env.market.fills["resting_lots"].tolist() == [600] * 3
    assert env.market.fills["ahead_lots"].tolist() == [before, before + 600, before + 1200]
    assert len(set(map(bytes, frames))) == 1
    assert frames["ask_lots"][0, 0] == before + 1800


def test_what_agents_trade_with_each_other_is_no_market_volume(day: Day) -> None:
    market = ReplayMarket([day], 1, 2)
    env = ExecutionVectorEnv(market, RandomOrders([]), actions="hybrid")
    frames = market.frames
    for second in range(36_000, 37_000):  # to a moment with room inside the spread
        env.reset(options={"episodes": orders(2, sign=[1, -1], qty_lots=50, start_ns=second * SECOND_NS)})
        inside = int(frames["bid_ticks"][0, 0]) + 1
        if inside < frames["ask_ticks"][0, 0]:
            break
    children = env.accounts.children(np.zeros(2), [1, 0], np.zeros(2), frames)
    children["limit_ticks"][0] = inside
    children["market_lots"][1] = 0
    market.step(children, frames["time_ns"] + 2_000_000)
    children["limit_lots"][:], children["market_lots"][:] = 0, [0, 50]
    resting = market.fills["resting_lots"].tolist()
    assert resting == [50, 0]
    children["limit_lots"][0], children["limit_ticks"][0] = 50, inside
    market.step(children, frames["time_ns"] + 2_000_000)
    assert market.fills["lots"].tolist() == [50, 50]
    assert market.fills["notional"].tolist() == [50 * inside] * 2
    assert frames["traded_lots"].tolist() == [0, 0]


def test_markets_reset_with_all_their_agents(day: Day) -> None:
    env = ExecutionVectorEnv(ReplayMarket([day], 2, 2), RandomOrders([]))
    with pytest.raises(ConfigError, match="same day and window"):
        env.reset(options={"episodes": orders(4, steps=[12, 11, 12, 12])})
    with pytest.raises(ConfigError, match="all 2 agents"):
        env.market.reset(np.array([1, 2]), orders(2))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("actions", ["market", "hybrid"])
def test_pettingzoo_is_content(day: Day, sampler: RandomOrders, shared: bool, actions: str) -> None:
    def build() -> ExecutionParallelEnv:
        return ExecutionParallelEnv(ReplayMarket([day], 1, 3), sampler, shared=shared, actions=actions)

    parallel_api_test(build(), num_cycles=40)
    parallel_seed_test(build)


def test_messages_reach_the_others_in_the_next_observation(day: Day, sampler: RandomOrders) -> None:
    env = ExecutionParallelEnv(ReplayMarket([day], 1, 3), sampler, message_size=2)
    observations, _ = env.reset(seed=1)
    assert [observation[-4:].tolist() for observation in observations.values()] == [[0] * 4] * 3
    sent = {agent: np.array([0.01, 0.1 * place, -0.1 * place]) for place, agent in enumerate(env.agents)}
    observations = env.step(sent)[0]
    received = [np.round(observation[-4:], 3).tolist() for observation in observations.values()]
    np.testing.assert_allclose(received, [[0.1, -0.1, 0.2, -0.2], [0, 0, 0.2, -0.2], [0, 0, 0.1, -0.1]])
    assert env.reset()[0]["agent_0"][-4:].tolist() == [0] * 4


def test_a_shared_order_is_divided_and_rewarded_as_one(day: Day, sampler: RandomOrders) -> None:
    env = ExecutionParallelEnv(ReplayMarket([day], 1, 3), sampler)
    env.reset(seed=4)
    episodes = env.vector.accounts.episodes
    parent_lots = int(sampler.sample(np.random.Generator(np.random.PCG64(4)), 1)["qty_lots"][0])
    assert int(episodes["qty_lots"].sum()) == parent_lots
    assert np.ptp(episodes["qty_lots"]) <= 1
    total = 0.0
    infos: dict[str, Any] = {}
    while env.agents:
        sent = {agent: np.array([0.05 * (place + 1), 0, 0]) for place, agent in enumerate(env.agents)}
        _, rewards, _, _, infos = env.step(sent)
        assert len(set(rewards.values())) == 1
        total += rewards["agent_0"]
    qty = episodes["qty_lots"]
    advantages = np.array([infos[agent]["results"]["pa_bps"] for agent in env.possible_agents])
    assert total == pytest.approx(advantages @ qty / qty.sum(), abs=0.05)  # equal to first order


def test_own_orders_have_one_window_and_own_rewards(day: Day, sampler: RandomOrders) -> None:
    env = ExecutionParallelEnv(ReplayMarket([day], 1, 3), sampler, shared=False)
    env.reset(seed=4)
    episodes = env.vector.accounts.episodes
    assert len(set(episodes["start_ns"].tolist())) == 1
    assert len(set(episodes["qty_lots"].tolist())) > 1
    rewards = env.step({agent: np.array([0.3, 0, 0]) for agent in env.agents})[1]
    assert len(set(rewards.values())) > 1
    with pytest.raises(ConfigError, match="one book, got 2 books"):
        ExecutionParallelEnv(ReplayMarket([day], 2, 2), sampler)


def test_own_orders_are_sized_by_the_volume_of_their_day(day: Day) -> None:
    """Of days with different volumes, each agent's order had the size of another day, or was refused."""
    busy = trading_hours(day)
    quiet = dataclasses.replace(busy, day=1, volume_lots_per_s=busy.volume_lots_per_s / 20)
    orders = RandomOrders([busy, quiet], duration_s=100, share_min=0.1, share_max=0.1)
    env = ExecutionParallelEnv(ReplayMarket([day, day], 1, 3), orders, shared=False)
    seen = set()
    for seed in range(8):
        env.reset(seed=seed)
        episodes = env.vector.accounts.episodes
        number = int(episodes["day"][0])
        assert episodes["qty_lots"].tolist() == [round(0.1 * (busy, quiet)[number].volume_lots_per_s * 100)] * 3
        seen.add(number)
    assert seen == {0, 1}


def test_messages_are_numbers(day: Day, sampler: RandomOrders) -> None:
    """NaN would be in what the others observe."""
    env = ExecutionParallelEnv(ReplayMarket([day], 1, 2), sampler, message_size=1)
    env.reset(seed=1)
    with pytest.raises(ConfigError, match="actions: expected numbers, got NaN"):
        env.step({agent: np.array([0.01, np.nan]) for agent in env.agents})
    with pytest.raises(ConfigError, match="actions: expected one of each agent, got none of agent_1"):
        env.step({"agent_0": np.zeros(2)})


def test_a_shared_order_is_split_into_the_lots_of_the_market() -> None:
    day = simulate(population(lot_multiple=10), 1, 36_000 * SECOND_NS)
    sampler = RandomOrders([trading_hours(day)], duration_s=60)
    env = ExecutionParallelEnv(ReplayMarket([day], 1, 3), sampler)
    totals = []
    for seed in range(5):
        env.reset(seed=seed)
        lots = env.vector.accounts.episodes["qty_lots"]
        assert not (lots % 10).any() and 10 <= lots.min() >= lots.max() - 10
        totals.append(int(lots.sum()))
    expected = [int(sampler.sample(np.random.Generator(np.random.PCG64(seed)), 1)["qty_lots"][0]) for seed in range(5)]
    assert totals == [max(30, lots) for lots in expected]
