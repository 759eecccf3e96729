"""The autograd learner of `python -m benchmarks ppo` computes what PPO does, so that their speeds can be compared."""

import pytest
import torch

from benchmarks.autograd import AutogradPPO
from benchmarks.toy import ToyExecution
from serl.agents.learning.network_config import Kind, NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig


@pytest.mark.parametrize("kind", ["beta", "gaussian"])
def test_both_learn_the_same_parameters_from_the_same_rollouts(kind: Kind) -> None:
    config = PPOConfig(rollout_steps=32, minibatch=64, epochs=4, entropy=0.01, threads=1)
    ours, autograd = (make([ToyExecution(16)], config, NetworkConfig(actions=kind)) for make in (PPO, AutogradPPO))
    before = ours.network.vector.clone()
    assert torch.equal(before, autograd.network.vector)
    ours.reset()
    for _ in range(3):  # of 32 gradient steps each
        rollout = ours.collectors[0].collect(config.rollout_steps, ours.random, config.gamma, config.gae_lambda)
        autograd.random.bit_generator.state = ours.random.bit_generator.state
        statistics = [made.learn([rollout], [1.0]) for made in (ours, autograd)]
    assert statistics[0]["kl"] == pytest.approx(statistics[1]["kl"], rel=1e-2)
    assert (ours.network.vector - before).abs().max() > 0.01
    torch.testing.assert_close(ours.network.vector, autograd.network.vector, rtol=0, atol=1e-5)
