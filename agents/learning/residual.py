"""Residual policies (Silver et al. 2018, arXiv 1812.06298; Johannink et al. 2019, arXiv 1812.03201): a network corrects a rule within bounds.

The network's action is a residual in [-1, 1]^3. The residual times BOUNDS is added to the rule's outputs before these become actions of mode
`hybrid` (see rule_policy.py). Networks start with a last layer of 0, so an untrained residual is 0 and the policy is exactly its rule.
"""

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Floats
from serl.agents.learning import files
from serl.agents.learning.custom_network import CustomNetwork
from serl.agents.learning.messages import messages_from_json
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import RESIDUAL, Policy, load_network
from serl.agents.learning.rule import OUTPUTS, Rule
from serl.agents.learning.rule_policy import rule_from_json, rule_names, rule_outputs, shares_of
from serl.agents.learning.team import Messages

BOUNDS = np.array([1.0, 2.0, 0.5])
"""Largest corrections: of what crosses and what rests, in even slices, and of the offset."""
MODE = "hybrid"
LOW, HIGH = (-1.0,) * len(OUTPUTS), (1.0,) * len(OUTPUTS)


def corrected_actions(env: ExecutionVectorEnv, rule: Rule, residual: Any, name: str = RESIDUAL) -> Floats:
    """(N, 3) actions of mode `hybrid`; a residual (N, 3) of 0 gives those of the rule."""
    residual = np.clip(np.asarray(residual, np.float64), -1.0, 1.0)
    return shares_of(env, rule_outputs(env, rule, name) + BOUNDS * residual)


class ResidualVectorEnv(VectorEnv):
    """An execution environment whose actions are residuals of a rule. `unwrapped` is the environment itself."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, env: ExecutionVectorEnv, rule: Rule) -> None:
        self.env, self.rule, self.num_envs = env, rule, env.num_envs
        self.single_observation_space, self.observation_space = env.single_observation_space, env.observation_space
        self.single_action_space = gymnasium.spaces.Box(np.array(LOW, np.float32), np.array(HIGH, np.float32))
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, env.num_envs)

    @property
    def unwrapped(self) -> ExecutionVectorEnv:
        """The environment without the rule."""
        return self.env

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See ExecutionVectorEnv."""
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """See ExecutionVectorEnv; actions are (N, 3) residuals."""
        return self.env.step(corrected_actions(self.env, self.rule, actions))


@dataclasses.dataclass
class ResidualPolicy(Policy):
    """A network and the rule that it corrects."""

    rule: Rule = dataclasses.field(kw_only=True)

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        return corrected_actions(env, self.rule, super().actions(env), self.name)

    def save(self, path: Path) -> None:
        """Writes the whole policy to a file."""
        files.write(path, RESIDUAL, self.network.state_dict(), self.to_metadata() | {"rule": self.rule.to_json()})

    @classmethod
    def from_file(cls, tensors: dict[str, Tensor], metadata: dict[str, Any], name: str) -> "ResidualPolicy":
        """Builds the policy from a file's content."""
        interface = Interface.from_json(metadata["interface"])
        team = messages_from_json(metadata.get("team"), len(interface.names))
        rule = rule_from_json(metadata["rule"], rule_names(interface.levels))
        return cls(load_residual(metadata, tensors, interface, team), interface, metadata, name, team, rule=rule)


def load_residual(
    metadata: dict[str, Any], tensors: dict[str, Tensor], interface: Interface, team: tuple[int, Messages] | None
) -> ActorCritic | CustomNetwork:
    """Like `load_network`, for the network of a residual, whose box is not that of the actions."""
    return load_network(metadata, tensors, dataclasses.replace(interface, low=LOW, high=HIGH), team)
