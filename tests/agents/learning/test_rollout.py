"""Advantages and rollouts."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from benchmarks.toy import ToyExecution
from serl.agents.learning.errors import LearningError
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.rollout import Collector, estimate_advantages


def test_advantages_by_hand() -> None:
    rewards = np.array([[1.0], [2.0], [3.0]], np.float32)
    values = np.array([[0.5], [1.0], [2.0]], np.float32)
    dones = np.array([[0.0], [1.0], [0.0]], np.float32)
    found = estimate_advantages(rewards, values, dones, np.array([4.0], np.float32), 0.5, 0.8)
    # step 2: 3 + .5*4 - 2 = 3; step 1 ends: 2 - 1 = 1; step 0: 1 + .5*1 - .5 = 1, plus .5*.8*1
    np.testing.assert_allclose(found[:, 0], [1.4, 1.0, 3.0])


def test_advantages_are_the_sum_of_their_definition() -> None:
    random = np.random.Generator(np.random.PCG64(1))
    rewards, values = (random.standard_normal((20, 3)).astype(np.float32) for _ in range(2))
    last = random.standard_normal(3).astype(np.float32)
    found = estimate_advantages(rewards, values, np.zeros((20, 3), np.float32), last, 0.9, 0.7)
    ahead = np.vstack([values[1:], last])
    deltas = rewards + 0.9 * ahead - values
    expected = [sum((0.9 * 0.7) ** (k - t) * deltas[k] for k in range(t, 20)) for t in range(20)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_truncated_episode_bootstraps_from_its_final_observation_and_a_terminated_one_does_not() -> None:
    def final_returns(truncates: bool, value: float) -> torch.Tensor:
        env = ToyExecution(2, steps=4, truncates=truncates)
        network = ActorCritic(NetworkConfig(), 8, [0.0], [1.0], 3)
        with torch.no_grad():
            network.critic.layers[-1].weight.zero_()
            network.critic.layers[-1].bias.fill_(value)
        collector = Collector(env, network, 1.0)
        collector.reset(5)
        rollout = collector.collect(4, np.random.Generator(np.random.PCG64(0)), 0.5, 1.0)
        return rollout.batch.returns.reshape(4, 2)[-1]

    torch.testing.assert_close(final_returns(False, 8.0), final_returns(False, 0.0))
    torch.testing.assert_close(final_returns(True, 8.0), final_returns(True, 0.0) + 0.5 * 8.0)


def test_an_episode_that_terminates_at_its_time_limit_does_not_bootstrap() -> None:
    """Gymnasium's TimeLimit says of such an episode that it is truncated, too."""

    class Limited(ToyExecution):
        def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
            observations, rewards, terminated, truncated, info = super().step(actions)
            return observations, rewards, terminated | truncated, truncated, info

    def returns(value: float) -> torch.Tensor:
        network = ActorCritic(NetworkConfig(), 8, [0.0], [1.0], 3)
        with torch.no_grad():
            network.critic.layers[-1].weight.zero_()
            network.critic.layers[-1].bias.fill_(value)
        collector = Collector(Limited(2, steps=4, truncates=True), network, 1.0)
        collector.reset(5)
        return collector.collect(4, np.random.Generator(np.random.PCG64(0)), 0.5, 1.0).batch.returns

    torch.testing.assert_close(returns(8.0)[-2:], returns(0.0)[-2:])


def test_next_step_autoreset_is_refused() -> None:
    env = ToyExecution(1)
    env.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    with pytest.raises(LearningError, match="SAME_STEP"):
        Collector(env, ActorCritic(NetworkConfig(), 8, [0.0], [1.0], 0), 1.0)
