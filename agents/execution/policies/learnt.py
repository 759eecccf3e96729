"""A learnt policy behind the interface of the schedules."""

import importlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.environment.observation import Layout, Scales
from serl.agents.execution.environment.vector import LAYOUT, SCALES, ExecutionVectorEnv
from serl.agents.execution.policies.policy import Floats, Policy, check_mode
from serl.exchange.errors import ConfigError


class Network(Protocol):
    """What learning leaves behind."""

    layout: Layout
    scales: Scales
    actions: str
    """The action mode it was trained in."""

    def act(self, observations: Any) -> Any:
        """(N, layout.size) -> (N, k)."""


class Learnt:
    """Shows a network the observations that it was trained on, and passes its actions on."""

    def __init__(self, network: Network, name: str = "learnt") -> None:
        self.network, self.name, self.modes = network, name, (network.actions,)

    @classmethod
    def load(cls, path: Path) -> "Learnt":
        """The policy of a file; named after it."""
        return cls(importlib.import_module("serl.agents.learning.policy").load_policy(path), path.stem)

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy; ConfigError if the environment shows something else than the network was trained on."""
        check_mode(self, env.actions)
        if (env.layout, env.observer.scales) != (self.network.layout, self.network.scales):
            raise ConfigError(f"{self.name}: an environment with the layout and scales it was trained on is due")
        return np.asarray(self.network.act(env.observe()), np.float64)


def sight(policy: Policy) -> tuple[Layout, Scales]:
    """What a policy must be shown: of a learnt one what it was trained on, of a schedule anything."""
    return (policy.network.layout, policy.network.scales) if isinstance(policy, Learnt) else (LAYOUT, SCALES)
