"""Agent: a policy and a value apart, with two layers each, which is the default. Parameters that only the value uses learn at the critic's rate."""

import math

import torch
from torch import nn


def layers(first: int, last: int, gain: float) -> nn.Sequential:
    """Two hidden layers and an output layer, whose initial weights are orthogonal; a small gain makes first actions cautious."""
    linear = [nn.Linear(first, 64), nn.Linear(64, 64), nn.Linear(64, last)]
    for layer in linear:
        nn.init.orthogonal_(layer.weight, gain if layer is linear[-1] else math.sqrt(2))
        nn.init.zeros_(layer.bias)
    return nn.Sequential(linear[0], nn.Tanh(), linear[1], nn.Tanh(), linear[2])


class Network(nn.Module):
    """Policy and value."""

    def __init__(self, observation_dim: int, action_dim: int) -> None:
        super().__init__()
        self.policy, self.value = layers(observation_dim, action_dim, 0.01), layers(observation_dim, 1, 1.0)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, observation_dim) to (batch, action_dim) and (batch,)."""
        return self.policy(observations), self.value(observations).squeeze(-1)


def build(observation_dim: int, action_dim: int) -> nn.Module:
    """The network for these sizes."""
    return Network(observation_dim, action_dim)
