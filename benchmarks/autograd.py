"""PPO with gradients by autograd alone: what serl's gradients, which are written by hand, are measured against.

Weights, rollouts, loss, minibatches, clipping and Adam are those of serl's PPO; the networks are PyTorch layers, and one `backward` makes all gradients.
"""

from typing import Any

import torch
from torch import Tensor, nn

from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.perceptron import Perceptron
from serl.agents.learning.ppo import PPO
from serl.agents.learning.rollout import Batch


def torch_layers(perceptron: Perceptron) -> nn.Sequential:
    """The same parameters as PyTorch layers with tanh between them."""
    *hidden, last = perceptron.layers
    return nn.Sequential(*(part for layer in hidden for part in (layer, nn.Tanh())), last)


class AutogradPPO(PPO):
    """PPO without a memory, whose gradients are PyTorch's."""

    def _build_network(self, config: NetworkConfig, observation_size: int, low: Any, high: Any) -> Any:
        """See PPO."""
        assert config.memory == 0 and config.activation == "tanh", config
        network = super()._build_network(config, observation_size, low, high)
        network.actor, network.critic = torch_layers(network.actor), torch_layers(network.critic)
        return network

    def accumulate_gradients(self, batch: Batch, weight: float = 1.0) -> tuple[Tensor, ...]:
        """See PPO."""
        config, network = self.config, self.network
        outputs, errors = network.actor(batch.observations), network.values(batch.observations) - batch.returns
        log_ratios = network.distribution.log_prob(outputs, network.log_std, batch.latents) - batch.log_probs
        deviation, mean = torch.std_mean(batch.advantages)
        advantages = (batch.advantages - mean) / (deviation + 1e-8)
        ratios = log_ratios.exp()
        clipped = ratios.clamp(1 - config.clip, 1 + config.clip)
        loss = (
            config.value_weight * errors.square().mean()
            - torch.minimum(advantages * ratios, advantages * clipped).mean()
        )
        if config.entropy:
            loss = loss - config.entropy * network.distribution.entropy(outputs, network.log_std).mean()
        (weight * loss).backward()
        return outputs.detach(), log_ratios.detach(), advantages, errors.detach()
