"""Actor and critic: two multilayer perceptrons, optionally behind a shared GRU."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from serl.agents.learning.adam import flatten
from serl.agents.learning.distributions import distribution
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.perceptron import Perceptron


class ActorCritic(nn.Module):
    """Maps observations (.., size) to parameters of the action distribution and a value. `seed` determines the orthogonal initial weights."""

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
        sizes = [config.memory or observation_size, *config.hidden]
        self.actor = Perceptron([*sizes, self.distribution.output_size], config.activation, 0.01, generator)
        self.critic = Perceptron([*sizes, 1], config.activation, 1.0, generator)
        self.log_std = nn.Parameter(torch.full((self.distribution.log_std_size,), math.log(config.deviation)))
        memory = [] if self.memory is None else list(self.memory.parameters())
        of_actor, of_critic = [*self.actor.parameters(), self.log_std, *memory], list(self.critic.parameters())
        self.vector, self.gradient = flatten([*of_actor, *of_critic])
        """All parameters and all gradients; the parameters are views of the first vector, their gradients views of the second."""
        self.group_sizes = [sum(parameter.numel() for parameter in group) for group in (of_actor, of_critic)]
        """How many numbers belong to the actor (including the memory), and how many to the critic."""

    def to_json(self) -> dict[str, Any]:
        """The network's part of a policy file's metadata."""
        return {"network": self.config.model_dump()}

    def start_at_zero(self) -> None:
        """Sets the actor's last layer to 0, so that its central action is the middle of the box until it has learnt."""
        with torch.no_grad():
            for parameter in self.actor.layers[-1].parameters():
                parameter.zero_()

    def initial_state(self, count: int) -> Tensor:
        """(count, units) memory at the start of episodes."""
        return torch.zeros(count, self.config.memory)

    def encode(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """(features, next memory) of one step, from (B, size) observations and the memory before it."""
        if self.memory is None:
            return observations, state
        after = self.memory(observations, state)
        return after, after

    def encode_sequence(self, observations: Tensor, state: Tensor, episode_starts: Tensor) -> Tensor:
        """(T, B, units) features of (T, B, size) observations, from the memory (1, B, units) before them; episode_starts (T, B) is 1 where
        an episode starts."""
        if self.memory is None:
            return observations
        state, features = state.squeeze(0), []
        for step, start in zip(observations, episode_starts, strict=True):
            state = self.memory(step, state * (1 - start).unsqueeze(-1))
            features.append(state)
        return torch.stack(features)

    def outputs_and_values(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(.., outputs) of the actor and (..) values."""
        return self.actor(features), self.values(features)

    def values(self, features: Tensor) -> Tensor:
        """(..) values."""
        return self.critic(features).squeeze(-1)
