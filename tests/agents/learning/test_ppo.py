"""PPO learns, and stops at numbers that are not finite."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, Space
from pydantic import ValidationError

from benchmarks.toy import ToyExecution
from serl.agents.execution.environment.interface import Interface
from serl.agents.learning.adam import Adam, flatten
from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.network_config import Kind, NetworkConfig
from serl.agents.learning.perceptron import Perceptron
from serl.agents.learning.policy import Policy
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.rollout import Batch
from serl.agents.torch_adam import Adam as TorchAdam

TWAP_RETURN = -4.0 / 8
"""Return of equal slices in the toy: cost 4 over 8 steps."""


def learner(env: ToyExecution, network: NetworkConfig, **changes: Any) -> PPO:
    settings: dict[str, Any] = {
        "minibatch": 256,
        "rollout_steps": 32,
        "epochs": 8,
        "actor_learning_rate": 2e-3,
        "gamma": 1.0,
    }
    made = PPO([env], PPOConfig(**(settings | changes)), network)
    made.reset()
    return made


def mean_return(made: PPO, env: ToyExecution, steps: int) -> float:
    """Mean return of one episode in each environment, with deterministic actions."""
    policy = Policy(made.network, Interface.from_env(env), {})
    policy.reset(env.num_envs)
    observations, _ = env.reset(seed=99)
    total = np.zeros(env.num_envs)
    for _ in range(steps):
        observations, rewards, *_ = env.step(policy.predict(observations))
        total += rewards
    return float(total.mean())


@pytest.mark.parametrize("space", [Discrete(5), Box(-np.inf, np.inf, (1,))])
def test_actions_outside_a_finite_box_are_refused(space: Space[Any]) -> None:
    """Of `serl/Directional-v0` they are discrete by default."""
    env = ToyExecution(2)
    env.single_action_space = space
    with pytest.raises(LearningError, match=r"expected actions in a Box with finite bounds, got .*; choose"):
        PPO([env], PPOConfig(), NetworkConfig())


@pytest.mark.parametrize("memory", [0, 4])
def test_a_rollout_of_one_sample_is_refused(memory: int) -> None:
    """The learning rates were blamed for its gradient."""
    with pytest.raises(LearningError, match=r"rollout_steps: expected at least 2 samples .* 1 step of 1 environment"):
        PPO([ToyExecution(1)], PPOConfig(rollout_steps=1), NetworkConfig(memory=memory))


@pytest.mark.parametrize("hidden", [(0,), (8, 0), (-3,)])
def test_layers_without_units_are_refused(hidden: tuple[int, ...]) -> None:
    """Behind them, a network does not see its observations."""
    with pytest.raises(ValidationError, match="greater than 0"):
        NetworkConfig(hidden=hidden)


def test_minibatches_of_sequences_are_at_most_as_many_as_environments() -> None:
    """A minibatch without an environment has no loss, and would move the weights by the momentum alone."""
    made = learner(ToyExecution(2), NetworkConfig(hidden=(8,), memory=4), minibatch=8, epochs=1)
    assert np.isfinite(made.update()["losses"]).all()


@pytest.mark.parametrize(("steps", "minibatch", "memory"), [(4, 1, 0), (3, 2, 0), (1, 1, 4)])
def test_minibatches_have_at_least_two_samples(steps: int, minibatch: int, memory: int) -> None:
    """The advantage of a single one cannot be normalised: the gradient was not a number."""
    network = NetworkConfig(hidden=(8,), memory=memory)
    env = ToyExecution(3 if memory else 1)
    made = learner(env, network, rollout_steps=steps, minibatch=minibatch, epochs=1)
    assert np.isfinite(made.update()["losses"]).all()


@pytest.mark.parametrize(
    ("kind", "memory"),
    [
        ("beta", 0),
        pytest.param("squashed", 0, marks=pytest.mark.long),
        pytest.param("gaussian", 0, marks=pytest.mark.long),
        pytest.param("bins", 0, marks=pytest.mark.long),
        pytest.param("beta", 16, marks=pytest.mark.long),
    ],
)
def test_learns_better_than_equal_slices(kind: Kind, memory: int) -> None:
    """Equal slices ignore the signal; only a policy that uses it is better."""
    network = NetworkConfig(actions=kind, memory=memory, hidden=(32, 32), bins=17, deviation=0.5)
    made = learner(ToyExecution(32), network)
    before = mean_return(made, ToyExecution(512), 8)
    for _ in range(16 if memory or kind == "beta" else 25):
        made.update()
    assert before < 1.2 * TWAP_RETURN
    assert mean_return(made, ToyExecution(512), 8) > TWAP_RETURN + 0.05


def test_the_linear_schedule_decays_to_zero() -> None:
    made = learner(ToyExecution(8), NetworkConfig(), schedule="linear", steps=32 * 8 * 4)
    rates = []
    for _ in range(4):
        rates.append(made.learning_rates[0])
        made.update()
    np.testing.assert_allclose(rates, 2e-3 * np.array([1, 0.75, 0.5, 0.25]))


def textbook_loss(made: PPO, batch: Batch) -> torch.Tensor:
    config, network = made.config, made.network
    features = batch.observations
    if network.memory is not None:
        features = network.encode_sequence(features, batch.initial_state, batch.episode_starts)

    def through(perceptron: Perceptron) -> torch.Tensor:
        *hidden, last = perceptron.layers
        values = features
        for layer in hidden:
            values = torch.tanh(layer(values))
        return last(values)

    outputs, values = through(network.actor), through(network.critic).squeeze(-1)
    log_probs, entropies = network.distribution.log_prob_and_entropy(outputs, network.log_std, batch.latents)
    ratio = (log_probs - batch.log_probs).exp()
    advantages = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
    policy = -torch.minimum(advantages * ratio, advantages * ratio.clamp(1 - config.clip, 1 + config.clip)).mean()
    value = torch.nn.functional.mse_loss(values, batch.returns)
    return policy + config.value_weight * value - config.entropy * entropies.mean()


@pytest.mark.parametrize(("kind", "memory"), [("beta", 0), ("squashed", 0), ("gaussian", 6), ("bins", 0)])
def test_the_gradient_is_that_of_the_textbook_loss(kind: Kind, memory: int) -> None:
    made = learner(ToyExecution(8), NetworkConfig(actions=kind, memory=memory), entropy=0.02)
    collected = made.collectors[0].collect(32, made.random, 1.0, 0.95).batch
    batch = Batch(*(values.clone() for values in vars(collected).values()))
    with torch.no_grad():
        for parameter in made.network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    loss = textbook_loss(made, batch)
    parameters = [parameter for parameter in made.network.parameters() if parameter.numel()]
    expected = torch.autograd.grad(loss, parameters)
    made.accumulate_gradients(batch)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-6)


def test_steps_equal_those_of_torch_adam() -> None:
    def grown() -> list[torch.nn.Parameter]:
        generator = torch.Generator().manual_seed(4)
        return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 2), (5,), (1,))]

    ours, theirs = grown(), grown()
    adam = Adam(*flatten(ours), group_sizes=[11, 1])
    reference = TorchAdam([{"params": theirs[:2], "lr": 0.1}, {"params": theirs[2:], "lr": 0.3}], eps=1e-5)
    for _ in range(20):
        for group in (ours, theirs):
            sum(((parameter**4).sum() for parameter in group), torch.zeros(())).backward()
        adam.step([0.1, 0.3])
        reference.step()
        reference.zero_grad()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


class Broken(ToyExecution):
    """Returns a NaN reward after some steps."""

    steps_left = 40

    def step(self, actions: Any) -> Any:
        self.steps_left -= 1
        observations, rewards, *rest = super().step(actions)
        return observations, rewards if self.steps_left else rewards * np.nan, *rest


def test_a_nan_reward_stops_and_reports_the_step() -> None:
    made = learner(Broken(8), NetworkConfig())
    made.update()
    with pytest.raises(DivergedError, match=r"step 256: .*not finite"):
        made.update()


def test_an_infinite_gradient_stops_before_the_weights_change() -> None:
    made = learner(ToyExecution(8), NetworkConfig(), reward_scale=1e30)
    before = [parameter.clone() for parameter in made.network.parameters()]
    with pytest.raises(DivergedError, match="gradient is not finite"):
        made.update()
    assert all(bool((old == new).all()) for old, new in zip(before, made.network.parameters(), strict=True))
