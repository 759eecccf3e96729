"""Rewards against their definitions."""

import numpy as np
import pytest

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.rewards import PriceAdvantage, ScheduleAdvantage
from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward
from serl.exchange.config import time_of_day_ns
from serl.history.generate import generate_day

N, STEPS = 6, 6


def environment(reward: Reward) -> ExecutionVectorEnv:
    day = generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:00"))
    hours = Hours(0, time_of_day_ns("09:35"), time_of_day_ns("09:55"), 50.0)
    return ExecutionVectorEnv(
        ReplayMarket([day], N),
        RandomOrders([hours], 60.0, 10.0, 0.1, 0.4),
        actions="hybrid",
        reward=reward,
        fee_bps=0.5,
    )


@pytest.mark.long
def test_schedule_advantage_sums_to_the_shortfall_less_that_of_even_slices_at_the_mid() -> None:
    env, random = environment(ScheduleAdvantage()), np.random.Generator(np.random.PCG64(1))
    env.reset(seed=5)
    arrival, total, even = env.accounts.parents["arrival_mid"].copy(), np.zeros(N), np.zeros(N)
    sign, last_mids = env.accounts.episodes["sign"].copy(), np.zeros(N)
    for _ in range(STEPS):
        last_mids = mids(env.market.frames)
        even += sign * (last_mids / arrival - 1) * 1e4 / STEPS
        _, rewards, done, _, info = env.step(random.uniform(0, 0.5, (N, 3)))
        total += rewards
    assert done.all()
    np.testing.assert_allclose(total, info["results"]["is_bps"] - even, atol=1e-9)


def test_deviating_from_the_schedule_costs() -> None:
    taken = []
    for reward in (ScheduleAdvantage(), ScheduleAdvantage(7.0)):
        env = environment(reward)
        env.reset(seed=5)
        taken.append(env.step(np.zeros((N, 3)))[1])
    np.testing.assert_allclose(taken[0] - taken[1], 7.0 / STEPS**2)


def test_forced_completion_costs() -> None:
    last = []
    for reward in (ScheduleAdvantage(), ScheduleAdvantage(unfilled_bps=7.0)):
        env = environment(reward)
        env.reset(seed=5)
        last.append([env.step(np.zeros((N, 3)))[1] for _ in range(STEPS)][-1])
    np.testing.assert_allclose(last[0] - last[1], 7.0)


def test_price_advantage_comes_at_the_end() -> None:
    env = environment(PriceAdvantage())
    env.reset(seed=5)
    total = np.zeros(N)
    for _ in range(STEPS):
        _, rewards, _, _, info = env.step(np.full((N, 3), 0.2))
        total += rewards
    assert total == pytest.approx(info["results"]["pa_bps"], abs=0.05)


def test_the_middle_of_paced_actions_is_an_even_slice() -> None:
    env = environment(ScheduleAdvantage())
    paced = ExecutionVectorEnv(env.market, env.sampler, actions="paced")
    paced.reset(seed=5)
    qty = paced.accounts.episodes["qty_lots"].copy()
    for step in range(STEPS):
        np.testing.assert_allclose(paced.accounts.parents["remaining_lots"], qty * (1 - step / STEPS), atol=1)
        paced.step_without_reset(np.tile([0.5, 0.0, 0.0], (N, 1)))
    assert paced.accounts.parents["unfilled_lots"].max() == 0
