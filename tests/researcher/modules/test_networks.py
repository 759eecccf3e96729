"""Networks of agent modules: of the default's shape they train as the default does."""

from typing import Any

import pytest
import torch

from benchmarks.toy import ToyExecution
from serl.agents.learning.custom_network import CustomPPO
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.researcher.modules import build, specs
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.example import example
from serl.researcher.validation import entrypoints

CONFIG = PPOConfig(rollout_steps=20, epochs=3, minibatch=60, entropy=0.001, seed=4, threads=1)


def function(form: Form) -> Any:
    text = example(Kind.AGENT, form)
    return build.build(specs.parse(Kind.AGENT, text)) if form == "spec" else entrypoints.load(Kind.AGENT, text)


def trained(learner: PPO) -> Any:
    """All parameters after some updates, actor first."""
    learner.reset()
    for _ in range(4):
        learner.update()
    return learner.network.vector


@pytest.mark.parametrize("family", ["beta", "squashed"])
def test_a_specified_network_of_the_default_shape_trains_bit_for_bit_as_the_default(family: Any) -> None:
    network = NetworkConfig(actions=family)
    ours = PPO([ToyExecution(12)], CONFIG, network)
    custom = CustomPPO([ToyExecution(12)], CONFIG, network, function("spec"))
    assert torch.equal(ours.network.vector, custom.network.vector), "the initial weights"
    before = ours.network.vector.clone()
    assert torch.equal(trained(ours), trained(custom))
    assert not torch.equal(ours.network.vector, before)


def test_a_coded_network_of_the_default_shape_differs_only_in_its_random_numbers() -> None:
    ours = PPO([ToyExecution(12)], CONFIG, NetworkConfig())
    custom = CustomPPO([ToyExecution(12)], CONFIG, NetworkConfig(), function("code"))
    assert custom.network.group_sizes == ours.network.group_sizes
    with torch.no_grad():
        custom.network.vector.copy_(ours.network.vector)
    assert torch.equal(trained(ours), trained(custom))
