"""Agent: two layers that policy and value share."""

import torch
from torch import nn


class Network(nn.Module):
    """Policy and value of one trunk."""

    def __init__(self, observation_dim: int, action_dim: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(observation_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy = nn.Linear(64, action_dim)
        self.value = nn.Linear(64, 1)

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, observation_dim) to (batch, action_dim) and (batch,)."""
        features = self.trunk(observations)
        return self.policy(features), self.value(features).squeeze(-1)


def build(observation_dim: int, action_dim: int) -> nn.Module:
    """The network for these sizes."""
    return Network(observation_dim, action_dim)
