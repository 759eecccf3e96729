"""Residuals on rules: nothing until they have learnt, bounded, and saved in one file."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.custom_network import CustomPPO
from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.evaluation import execute_orders
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.policy import load_policy
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.residual import BOUNDS, ResidualPolicy, ResidualVectorEnv, corrected_actions
from serl.agents.learning.rule import Term
from serl.agents.learning.rule_policy import RulePolicy
from tests.agents.learning.test_rule import EVEN, NAMES
from tests.agents.learning.tiny import MINUTE_NS, START_NS, Sales, flat

RULE = dataclasses.replace(
    EVEN, take=0.3, rest=2.0, late_share=0.1, terms=(Term("offset", NAMES.index("inventory"), "tanh", 0.4),)
)
CONFIG = PPOConfig(rollout_steps=20, minibatch=200, epochs=2, seed=3, threads=1)


def environment(count: int = 20) -> ExecutionVectorEnv:
    values = flat(3, 10)
    values[..., :5] += 10 * np.random.default_rng(0).standard_normal((3, 10, 1))
    values[..., 1] += 5
    values[..., 2] -= 5
    bars = BarDays(START_NS + MINUTE_NS * np.arange(10), MINUTE_NS, values)
    return ExecutionVectorEnv(StaticBars(bars, count, participation=0.5), Sales(3, 10), actions="hybrid")


class Network(nn.Module):
    """A shared layer."""

    def __init__(self, size: int, outputs: int) -> None:
        super().__init__()
        self.trunk, self.policy, self.value = nn.Linear(size, 8), nn.Linear(8, outputs), nn.Linear(8, 1)

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        features = torch.relu(self.trunk(seen))
        return self.policy(features), self.value(features).squeeze(-1)


class Bent(Network):
    """Its outputs are not those of a layer."""

    def forward(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """See contracts."""
        outputs, values = super().forward(seen)
        return torch.tanh(outputs), values


def learner_of(build: Any = None, family: Any = "beta") -> PPO:
    arguments = [ResidualVectorEnv(environment(), RULE)], CONFIG, NetworkConfig(actions=family)
    learner = PPO(*arguments) if build is None else CustomPPO(*arguments, build)
    learner.network.start_at_zero()
    return learner


def policy_of(learner: PPO) -> ResidualPolicy:
    network: Any = learner.network
    network = network.export() if isinstance(learner, CustomPPO) else network
    interface = Interface.from_env(learner.envs[0])
    return ResidualPolicy(network, interface, {"name": "x", "seed": 0, "steps": learner.steps}, rule=RULE)


def worked(policy: Any) -> Any:
    """The actions and lots of twenty orders."""
    env = environment()
    outcome = execute_orders(env, policy, Sales(3, 10).sample(np.random.default_rng(1), 20))
    return outcome.actions, outcome.lots


@pytest.mark.parametrize("build", [None, Network], ids=["default network", "code"])
@pytest.mark.parametrize("family", ["beta", "squashed", "gaussian"])
def test_an_untrained_residual_is_its_rule(build: Any, family: Any) -> None:
    learner = learner_of(build, family)
    policy = policy_of(learner)
    rule = RulePolicy(RULE, policy.interface, {})
    for mine, expected in zip(worked(policy), worked(rule), strict=True):
        np.testing.assert_array_equal(mine, expected)
    learner.reset()
    learner.update()
    assert not np.array_equal(worked(policy_of(learner))[0], worked(rule)[0]), "and it learns"


@pytest.mark.parametrize("build", [None, Network], ids=["default network", "code"])
def test_a_file_holds_network_and_rule(build: Any, tmp_path: Path) -> None:
    learner = learner_of(build)
    learner.reset()
    learner.update()
    policy = policy_of(learner)
    policy.save(tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    assert isinstance(loaded, ResidualPolicy)
    assert loaded.interface == policy.interface and loaded.rule == RULE
    for mine, expected in zip(worked(loaded), worked(policy), strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_residuals_are_bounded() -> None:
    env = environment()
    env.reset(seed=0)
    steps_left = 10.0
    most, least = (corrected_actions(env, EVEN, np.full((20, 3), value)) for value in (7.0, -7.0))
    np.testing.assert_allclose(most[0], [(1 + BOUNDS[0]) / steps_left, BOUNDS[1] / steps_left, BOUNDS[2]])
    np.testing.assert_allclose(least[0], [0.0, 0.0, -BOUNDS[2]])


def test_a_policy_that_does_not_end_with_a_layer_cannot_start_as_the_rule() -> None:
    with pytest.raises(NotExportableError, match=r"got tanh; end it with torch\.nn\.Linear"):
        learner_of(Bent)
