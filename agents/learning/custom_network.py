"""PPO for custom networks: any module that returns policy outputs and values, such as those that a researcher proposes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from serl.agents.learning.activations import with_own_tanh
from serl.agents.learning.adam import flatten
from serl.agents.learning.distributions import distribution
from serl.agents.learning.errors import NotExportableError
from serl.agents.learning.graphs import Graph, trace_graph
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig

CHECKED_ROWS = 3
"""Number of observations in the trial run of a network loaded from a file."""


class CustomNetwork(nn.Module):
    """Wraps a module, which maps (B, size) to (B, outputs) and (B,) values, with the interface of an ActorCritic. Uses only the settings of the
    action distribution from `config`.

    Parameters that only the values depend on learn at the critic's rate, all others at the actor's. If the module has the layers of an
    ActorCritic, its parameters have the same order, so the result of training is the same."""

    memory: None = None

    def __init__(self, module: nn.Module, config: NetworkConfig, size: int, low: Any, high: Any) -> None:
        super().__init__()
        module = with_own_tanh(module)
        self.module, self.config, self._shape = module, config, (size, low, high)
        self.distribution = action_distribution(config, low, high)
        self.log_std = nn.Parameter(torch.full((self.distribution.log_std_size,), math.log(config.deviation)))
        of_critic = value_parameters(module, size)
        known = {id(parameter) for parameter in of_critic}
        of_actor = [*(each for each in module.parameters() if id(each) not in known), self.log_std]
        self.vector, self.gradient = flatten([*of_actor, *of_critic])
        self.group_sizes = [sum(parameter.numel() for parameter in group) for group in (of_actor, of_critic)]
        """See ActorCritic."""

    def start_at_zero(self) -> None:
        """See ActorCritic. Raises NotExportableError unless a linear layer returns the policy's outputs."""
        traced = trace_graph(self.module)  # its constants are the module's own parameters
        result = traced.graph["given"][0]
        name, arguments = traced.graph["nodes"][result["node"]][:2] if "node" in result else ("an input", [])
        if name != "linear":
            raise NotExportableError(
                f"beside a policy module: expected outputs of the policy from a linear layer, got {name}; end it with torch.nn.Linear"
            )
        for argument in arguments[1:]:
            if argument is not None:
                traced.get_buffer(argument["tensor"]).zero_()

    def initial_state(self, count: int) -> Tensor:
        """(count, 0), because there is no memory."""
        return torch.zeros(count, 0)

    def encode(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See ActorCritic."""
        return observations, state

    def encode_sequence(self, observations: Tensor, state: Tensor, episode_starts: Tensor) -> Tensor:
        """See ActorCritic."""
        return observations

    def outputs_and_values(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(.., size) to (.., outputs) and (..) values."""
        outputs, values = self.module(features.flatten(0, -2))
        return outputs.reshape(*features.shape[:-1], -1), values.reshape(features.shape[:-1])

    def actor(self, features: Tensor) -> Tensor:
        """(.., size) to (.., outputs)."""
        return self.outputs_and_values(features)[0]

    def values(self, features: Tensor) -> Tensor:
        """(..) values."""
        return self.outputs_and_values(features)[1]

    def export(self) -> "CustomNetwork":
        """The same network as plain data; see graphs.py. Raises NotExportableError if that is not possible."""
        network = CustomNetwork(trace_graph(self.module), self.config, *self._shape)
        network.load_state_dict({"log_std": self.log_std.detach()}, strict=False)
        return network

    def to_json(self) -> dict[str, Any]:
        """The network's part of a policy file's metadata; only for exported networks."""
        return {"network": self.config.model_dump(), "graph": self.module.graph}


def value_parameters(module: nn.Module, size: int) -> list[nn.Parameter]:
    """The parameters that the values of a module depend on but the policy's outputs do not. size: numbers in an observation."""
    parameters = list(module.parameters())
    if not parameters:  # a graph, which does not train
        return []
    outputs, values = module(torch.zeros(CHECKED_ROWS, size))
    policy, value = (
        torch.autograd.grad(result.sum(), parameters, allow_unused=True, retain_graph=True)
        if result.requires_grad
        else [None] * len(parameters)
        for result in (outputs, values)
    )
    return [
        each for each, of_policy, of_value in zip(parameters, policy, value, strict=True) if of_policy is None and of_value is not None
    ]  # fmt: skip


def action_distribution(config: NetworkConfig, low: Any, high: Any) -> Any:
    """The distribution of actions between `low` and `high`."""
    lowest, highest = (torch.as_tensor(np.asarray(bound, np.float32)) for bound in (low, high))
    return distribution(config.actions, lowest, highest, config.bins)


def load_custom_network(
    metadata: dict[str, Any], tensors: dict[str, Tensor], observation_size: int, low: Any, high: Any
) -> CustomNetwork:
    """Loads the exported network of a policy file. Raises NotExportableError if its graph does not fit these sizes."""
    config, prefix = NetworkConfig(**metadata["network"]), "module."
    constants = {name.removeprefix(prefix): values for name, values in tensors.items() if name.startswith(prefix)}
    graph = Graph(metadata["graph"], constants)
    outputs = action_distribution(config, low, high).output_size
    graph.check(CHECKED_ROWS, observation_size, (CHECKED_ROWS, outputs), (CHECKED_ROWS,))
    network = CustomNetwork(graph, config, observation_size, low, high)
    network.load_state_dict({"log_std": tensors["log_std"]}, strict=False)
    return network


class CustomPPO(PPO):
    """PPO with a custom network, made by `build(observation size, outputs)`."""

    def __init__(self, envs: Sequence[VectorEnv], config: PPOConfig, network: NetworkConfig, build: Any) -> None:
        self._build = build
        super().__init__(envs, config, network)

    def _build_network(self, config: NetworkConfig, observation_size: int, low: Any, high: Any) -> Any:
        """See PPO."""
        torch.manual_seed(self.config.seed)
        module = self._build(observation_size, action_distribution(config, low, high).output_size)
        return CustomNetwork(module, config, observation_size, low, high)
