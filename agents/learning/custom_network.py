"""PPO for networks of any make: one module that gives policy and value, with gradients by autograd."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from serl.agents.learning.adam import flatten
from serl.agents.learning.distributions import distribution
from serl.agents.learning.graphs import Graph, traced
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.rollout import Batch

ROWS = 3
"""Observations that a network out of a file is tried on."""


class ForeignNetwork(nn.Module):  # type: ignore[misc]
    """A module, (B, size) to (B, outputs) and (B,) values, in the place of an ActorCritic. Of `config` the family of actions counts."""

    memory = None

    def __init__(self, module: nn.Module, config: NetworkConfig, low: Any, high: Any) -> None:
        super().__init__()
        self.module, self.config, self._box = module, config, (low, high)
        self.distribution = family(config, low, high)
        self.free = nn.Parameter(torch.full((self.distribution.free,), math.log(config.deviation)))
        self.vector, self.gradient = flatten([*module.parameters(), self.free])
        self.groups = [self.vector.numel(), 0]
        """All learns with the actor's rate."""

    def nothing(self, count: int) -> Tensor:
        """(count, 0): it has no memory."""
        return torch.zeros(count, 0)

    def see(self, observations: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """See ActorCritic."""
        return observations, memory

    def actor(self, features: Tensor) -> Tensor:
        """(.., size) to (.., outputs)."""
        outputs: Tensor = self.module(features.flatten(0, -2))[0]
        return outputs.reshape(*features.shape[:-1], -1)

    def values(self, features: Tensor) -> Tensor:
        """(..) values."""
        values: Tensor = self.module(features.flatten(0, -2))[1]
        return values.reshape(features.shape[:-1])

    def exported(self) -> "ForeignNetwork":
        """The same network as plain data, see graphs.py; NotExportableError if it cannot be."""
        network = ForeignNetwork(traced(self.module), self.config, *self._box)
        network.load_state_dict({"free": self.free.detach()}, strict=False)
        return network

    def described(self) -> dict[str, Any]:
        """What a policy's file says of it."""
        return {"network": self.config.model_dump(), "graph": self.module.graph}


def family(config: NetworkConfig, low: Any, high: Any) -> Any:
    """The distribution of actions between low and high."""
    lowest, highest = (torch.as_tensor(np.asarray(bound, np.float32)) for bound in (low, high))
    return distribution(config.actions, lowest, highest, config.bins)


def of_file(facts: dict[str, Any], tensors: dict[str, Tensor], size: int, low: Any, high: Any) -> ForeignNetwork:
    """What `described` and the state of an exported network said. NotExportableError if that is no network of these sizes."""
    config, prefix = NetworkConfig(**facts["network"]), "module."
    numbers = {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}
    graph = Graph(facts["graph"], numbers)
    graph.check(ROWS, size, (ROWS, family(config, low, high).outputs), (ROWS,))
    network = ForeignNetwork(graph, config, low, high)
    network.load_state_dict({"free": tensors["free"]}, strict=False)
    return network


class ForeignPPO(PPO):
    """PPO whose network is a module of any make, made by `build(observation size, outputs)`."""

    def __init__(self, envs: Sequence[VectorEnv], config: PPOConfig, network: NetworkConfig, build: Any) -> None:
        self._build = build
        super().__init__(envs, config, network)

    def _network(self, config: NetworkConfig, size: int, low: Any, high: Any) -> Any:
        """See PPO."""
        torch.manual_seed(self.config.seed)
        return ForeignNetwork(self._build(size, family(config, low, high).outputs), config, low, high)

    def differentiate(self, batch: Batch, weight: float = 1.0) -> tuple[Tensor, ...]:
        """See PPO: the same loss; its slopes in outputs and values go back through the module by autograd."""
        share = weight / batch.returns.numel()
        outputs, values = self.network.module(batch.observations)
        with torch.no_grad():
            of_outputs, of_free, log_ratios, gains = self._slopes(outputs.detach(), batch, share)
            errors = values.detach() - batch.returns
            self.network.free.grad.add_(of_free)
        torch.autograd.backward([outputs, values], [of_outputs, errors * (2 * share * self.config.value_weight)])
        return outputs.detach(), log_ratios, gains, errors
