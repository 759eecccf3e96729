"""The single environment against the checkers of gymnasium and Stable-Baselines3."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from serl.agents.execution.environment.episodes import RandomOrders
from serl.agents.execution.environment.hours import trading_hours
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.single import ExecutionEnv
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.environments import DIRECTIONAL_ID, EXECUTION_ID, execution_env
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day
from tests.agents.half_hour import SMALL


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("days") / "demo.day"
    write_day(generate_day(3, commands_per_s=2.0), file)
    return file


def trajectory(env: ExecutionEnv, seed: int) -> list[Any]:
    random = np.random.Generator(np.random.PCG64(1))
    outputs: list[Any] = [env.reset(seed=seed)[0]]
    for _ in range(25):
        observation, reward, over, _, info = env.step(random.uniform(-1, -0.5, env.action_space.shape))
        outputs += [observation, reward, info.get("results", {}).get("pa_bps", 0.0)]
        if over:
            outputs.append(env.reset()[0])
    return outputs


# Warnings are errors in all tests: a checker that complains fails.
@pytest.mark.parametrize("actions", ["market", "limit", "hybrid"])
def test_the_checkers_are_content(path: Path, actions: str) -> None:
    env = gymnasium.make(EXECUTION_ID, data=path, actions=actions, duration_s=100)
    from stable_baselines3.common.env_checker import check_env as check_for_sb3  # takes two seconds

    check_env(env.unwrapped)
    check_for_sb3(env.unwrapped)


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_stable_baselines_is_content_with_positions(actions: str) -> None:
    from stable_baselines3.common.env_checker import check_env as check_for_sb3

    env = gymnasium.make(DIRECTIONAL_ID, population=SMALL, duration_s=60, simulated_days=2, actions=actions)
    check_for_sb3(env.unwrapped)
    env.close()


@pytest.mark.long
def test_same_seed_same_trajectory(path: Path) -> None:
    first, again, other = (
        trajectory(execution_env(data=path, actions="hybrid", duration_s=100), seed) for seed in (7, 7, 8)
    )
    for ours, theirs in zip(first, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert not np.array_equal(first[0], other[0])


def test_it_is_a_view_of_the_vector_environment(path: Path) -> None:
    env = execution_env(data=path, actions="hybrid", duration_s=100)
    vector = execution_env(data=path, actions="hybrid", duration_s=100).vector
    observation, _ = env.reset(seed=5)
    observations, _ = vector.reset(seed=5)
    np.testing.assert_array_equal(observation, observations[0])
    for _ in range(23):  # over the end of two episodes
        observation, reward, over, truncated, info = env.step(np.array([-0.75, 0.25, 0.5]))
        observations, rewards, done, _, infos = vector.step(np.array([[0.125, 0.625, 0.5]]))
        assert (reward, over, truncated) == (rewards[0], done[0], False)
        if over:
            np.testing.assert_array_equal(observation, infos["final_obs"][0])
            assert info["results"]["pa_bps"] == infos["results"]["pa_bps"][0]
            observation, _ = env.reset()
        np.testing.assert_array_equal(observation, observations[0])


def test_trading_hours_have_the_mean_volume() -> None:
    day = generate_day(3, end_ns=37_800 * 10**9)
    hours = trading_hours(day, 2)
    assert hours.day == 2
    assert hours.start_ns - day.reference.first_time_ns == 300 * 10**9
    assert hours.volume_lots_per_s > 0
    market = ReplayMarket([day], 2)
    with pytest.raises(ConfigError, match="got one of 2"):
        ExecutionEnv(ExecutionVectorEnv(market, RandomOrders([trading_hours(day)])))
