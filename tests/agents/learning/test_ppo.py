"""PPO learns, and stops when numbers are not finite."""

from typing import Any

import numpy as np
import pytest

from benchmarks.toy import ToyExecution
from serl.agents.learning.distributions import Kind
from serl.agents.learning.errors import DivergedError
from serl.agents.learning.networks import NetworkConfig
from serl.agents.learning.policy import Interface, Policy
from serl.agents.learning.ppo import PPO, PPOConfig

TWAP_RETURN = -4.0 / 8
"""Of equal slices in the toy: cost 4 over 8 steps."""


def learner(env: ToyExecution, network: NetworkConfig, **changes: Any) -> PPO:
    settings = {"minibatch": 256, "rollout_steps": 32, "epochs": 8, "actor_learning_rate": 2e-3, "discount": 1.0}
    made = PPO([env], PPOConfig(**(settings | changes)), network)
    made.begin()
    return made


def mean_return(made: PPO, env: ToyExecution, steps: int) -> float:
    """Of an episode each of all environments, without chance in the actions."""
    policy = Policy(made.network, Interface.of(env), {})
    policy.begin(env)
    observations, _ = env.reset(seed=99)
    total = np.zeros(env.num_envs)
    for _ in range(steps):
        observations, rewards, *_ = env.step(policy.act(env, observations))
        total += rewards
    return float(total.mean())


@pytest.mark.parametrize(("kind", "memory"), [("beta", 0), ("squashed", 0), ("gaussian", 0), ("bins", 0), ("beta", 16)])
def test_learns_better_than_equal_slices(kind: Kind, memory: int) -> None:
    """Equal slices disregard the signal; only a policy that uses it gets above them."""
    network = NetworkConfig(actions=kind, memory=memory, hidden=(32, 32), bins=17, deviation=0.5)
    made = learner(ToyExecution(64), network)
    before = mean_return(made, ToyExecution(512), 8)
    for _ in range(25):
        made.update()
    assert before < 1.2 * TWAP_RETURN
    assert mean_return(made, ToyExecution(512), 8) > TWAP_RETURN + 0.05


def test_the_rate_goes_down_to_nothing() -> None:
    made = learner(ToyExecution(8), NetworkConfig(), schedule="linear", steps=32 * 8 * 4)
    rates = []
    for _ in range(4):
        made.update()
        rates.append(made.optimiser.param_groups[0]["lr"])
    np.testing.assert_allclose(rates, 2e-3 * np.array([1, 0.75, 0.5, 0.25]))


class Broken(ToyExecution):
    """Gives a reward that is no number after some steps."""

    steps_left = 40

    def step(self, actions: Any) -> Any:
        self.steps_left -= 1
        observations, rewards, *rest = super().step(actions)
        return observations, rewards if self.steps_left else rewards * np.nan, *rest


def test_a_reward_that_is_no_number_stops_with_the_step() -> None:
    made = learner(Broken(8), NetworkConfig())
    made.update()
    with pytest.raises(DivergedError, match=r"step 256: .*not finite"):
        made.update()


def test_a_gradient_that_is_no_number_stops_before_the_weights_change() -> None:
    made = learner(ToyExecution(8), NetworkConfig(), reward_scale=1e30)
    before = [parameter.clone() for parameter in made.network.parameters()]
    with pytest.raises(DivergedError, match="gradient is not finite"):
        made.update()
    assert all(bool((old == new).all()) for old, new in zip(before, made.network.parameters(), strict=True))
