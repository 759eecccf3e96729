"""Actor and critic: two multilayer perceptrons, with a GRU before both as an option."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from serl.agents.learning.adam import flatten
from serl.agents.learning.distributions import distribution
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.perceptron import Perceptron


class ActorCritic(nn.Module):  # type: ignore[misc]
    """Observations (.., size) to the parameters of a distribution and a value; orthogonal initial weights from `seed`."""

    def __init__(self, config: NetworkConfig, observation_size: int, low: Any, high: Any, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.config = config
        lowest, highest = (torch.as_tensor(np.asarray(bound, np.float32)) for bound in (low, high))
        self.distribution = distribution(config.actions, lowest, highest, config.bins)
        self.memory = nn.GRUCell(observation_size, config.memory) if config.memory else None
        if self.memory is not None:
            for parameter in self.memory.parameters():
                nn.init.uniform_(parameter, -(config.memory**-0.5), config.memory**-0.5, generator=generator)
        first = config.memory or observation_size
        hidden = [first, *config.hidden]
        self.actor = Perceptron([*hidden, self.distribution.outputs], config.activation, 0.01, generator)
        self.critic = Perceptron([*hidden, 1], config.activation, 1.0, generator)
        self.free = nn.Parameter(torch.full((self.distribution.free,), math.log(config.deviation)))
        shared = [] if self.memory is None else list(self.memory.parameters())
        acting, judging = [*self.actor.parameters(), self.free, *shared], list(self.critic.parameters())
        self.vector, self.gradient = flatten([*acting, *judging])
        """Of all parameters, which are views of them."""
        self.groups = [sum(parameter.numel() for parameter in group) for group in (acting, judging)]
        """Numbers in the vector that are of the actor, to which the memory belongs, and of the critic."""

    def described(self) -> dict[str, Any]:
        """What a policy's file says of it."""
        return {"network": self.config.model_dump()}

    def nothing(self, count: int) -> Tensor:
        """(count, memory) what an episode begins with."""
        return torch.zeros(count, self.config.memory)

    def see(self, observations: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(features, next memory) of one step, (B, size)."""
        if self.memory is None:
            return observations, memory
        after = self.memory(observations, memory)
        return after, after

    def see_sequence(self, observations: Tensor, memory: Tensor, starts: Tensor) -> Tensor:
        """(T, B, memory) features of (T, B, size) observations, memory (1, B, memory) before them; starts (T, B) is 1 where an episode begins."""
        if self.memory is None:
            return observations
        memory, features = memory.squeeze(0), []
        for seen, start in zip(observations, starts, strict=True):
            memory = self.memory(seen, memory * (1 - start).unsqueeze(-1))
            features.append(memory)
        return torch.stack(features)

    def values(self, features: Tensor) -> Tensor:
        """(..) values."""
        return self.critic(features).squeeze(-1)
