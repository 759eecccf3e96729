"""Communicate: how far behind its schedule an agent is, and which way the book leans for it."""

import torch
from torch import Tensor

IMBALANCE, BEHIND_SCHEDULE = 21, 44


def communicate(observations: Tensor) -> Tensor:
    """(n_agents, 2) messages in [-1, 1] of (n_agents, d) observations."""
    return torch.tanh(observations[:, [BEHIND_SCHEDULE, IMBALANCE]])
