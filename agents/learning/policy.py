"""Learnt policies: their files, and their actions through the interface of all execution policies."""

import dataclasses
import importlib
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Floats
from serl.agents.learning import files, rule_policy
from serl.agents.learning.custom_network import CustomNetwork, load_custom_network
from serl.agents.learning.errors import DivergedError, PolicyFileError
from serl.agents.learning.messages import messages_from_json, messages_to_json
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.rule_policy import RulePolicy
from serl.agents.learning.team import Messages, received_messages, received_size
from serl.exchange.errors import SerlError

if TYPE_CHECKING:
    from serl.agents.learning.baseline import BaselinePolicy

KIND = "policy"
SEED_FOLDER = re.compile(r"seed-\d+")
RESIDUAL = "residual"
BASELINES = ("opd", "halop", "macmic")
"""Kinds of policy files of the baselines; each is read by the module of the same name."""


@dataclasses.dataclass
class Policy:
    """A policy that is a network. If the network has a memory, the policy keeps one for each environment until its order is finished."""

    network: ActorCritic | CustomNetwork
    interface: Interface
    metadata: dict[str, Any]
    """Data (with fingerprints), seed, steps and versions."""
    name: str = "learnt"
    team: tuple[int, Messages] | None = None
    """The number of agents that share a parent order, and their messages. An agent without its team receives no messages."""
    deterministic: bool = True
    seed: int = 0
    """Seed of stochastic actions."""

    def __post_init__(self) -> None:
        self.modes = (self.interface.actions,)
        self.reset(1)

    def reset(self, count: int) -> None:
        """Clears memory and received messages, for `count` environments."""
        self._state = self.network.initial_state(count)
        self._received = np.zeros((count, received_size(self.team)), np.float32)
        self._random = np.random.Generator(np.random.PCG64(self.seed))

    @torch.inference_mode()
    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See execution's Policy. Raises LayoutMismatchError if the environment has other observations or actions, and DivergedError for actions
        that are not finite."""
        self.interface.require(Interface.from_env(env))
        if len(self._state) != env.num_envs:
            self.reset(env.num_envs)
        self._state[torch.from_numpy(env.accounts.parents["step"] == 0)] = 0
        actions = np.asarray(self.predict(self._observe(env)), np.float64)
        if not np.isfinite(actions).all():
            raise DivergedError(f"{self.name}: expected finite actions, got NaN or infinity; train the policy again")
        return actions

    def _observe(self, env: ExecutionVectorEnv) -> Any:
        """Observations, followed by the messages that the other agents of the team sent at the previous decision."""
        observations = env.observe()
        if self.team is None:
            return observations
        agents, messages = self.team
        if len(self._received) != env.num_envs:
            self._received = np.zeros((env.num_envs, received_size(self.team)), np.float32)
        self._received[env.accounts.parents["step"] == 0] = 0
        extended = np.concatenate((observations, self._received), axis=1)
        if env.agents == agents:
            self._received = received_messages(messages, observations, agents)
        return extended

    @torch.inference_mode()
    def predict(self, observations: Any) -> Any:
        """(N, k) actions in the box for (N, size) observations: the mode, or samples if the policy is not deterministic."""
        network, distribution = self.network, self.network.distribution
        features, self._state = network.encode(torch.as_tensor(observations), self._state)
        outputs = network.actor(features)
        if self.deterministic:
            latents = distribution.mode(outputs, network.log_std)
        else:
            latents = distribution.sample(outputs, network.log_std, self._random)
        return distribution.actions(latents).numpy()

    def save(self, path: Path) -> None:
        """Writes the whole policy to a file."""
        files.write(path, KIND, self.network.state_dict(), self.to_metadata())

    def to_metadata(self) -> dict[str, Any]:
        """The metadata of the policy's file."""
        return {
            **self.network.to_json(), "team": messages_to_json(*self.team) if self.team else None, "interface": dataclasses.asdict(self.interface),
            "versions": {name: version(name) for name in ("serl", "torch", "numpy")}, **self.metadata,
        }  # fmt: skip


def load_policy(path: Path) -> "Policy | RulePolicy | BaselinePolicy":
    """Loads a policy file. Raises PolicyFileError if the file is not a policy, another LearningError if its parts do not fit together."""
    tensors, metadata = files.read(path, KIND, rule_policy.KIND, RESIDUAL, *BASELINES)
    try:
        return _from_file(path, tensors, metadata)
    except SerlError:
        raise
    except (LookupError, TypeError, AttributeError, ArithmeticError, ValueError, RuntimeError) as error:
        raise PolicyFileError(
            f"{path}: expected a policy that serl wrote, got a damaged one ({error!r}); train it again"
        ) from None


def _from_file(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> Any:
    if metadata["kind"] == rule_policy.KIND:
        return RulePolicy.from_file(metadata, _display_name(path))
    if metadata["kind"] == RESIDUAL:
        from serl.agents.learning.residual import ResidualPolicy  # a policy itself

        return ResidualPolicy.from_file(tensors, metadata, _display_name(path))
    if metadata["kind"] in BASELINES:
        module = importlib.import_module(f"serl.agents.learning.{metadata['kind']}")
        baseline: BaselinePolicy = module.POLICY.from_file(tensors, metadata)
        baseline.name = _display_name(path)
        return baseline
    interface = Interface.from_json(metadata["interface"])
    team = messages_from_json(metadata.get("team"), len(interface.names))
    network = load_network(metadata, tensors, interface, team)
    return Policy(network, interface, metadata, _display_name(path), team)


def load_network(
    metadata: dict[str, Any], tensors: dict[str, Tensor], interface: Interface, team: tuple[int, Messages] | None
) -> ActorCritic | CustomNetwork:
    """Builds the network of a policy file from its metadata and tensors. Raises a LearningError or a PyTorch error if they are invalid."""
    size, low, high = len(interface.names) + received_size(team), interface.low, interface.high
    if "graph" in metadata:
        return load_custom_network(metadata, tensors, size, low, high)
    network = ActorCritic(NetworkConfig(**metadata["network"]), size, low, high, 0)
    network.load_state_dict(tensors)
    return network


def _display_name(path: Path) -> str:
    """The name of the run's folder, or of the file; for a candidate's training in the researcher, its key and `seed-N`."""
    folder = path.parent
    if path.stem != KIND or not folder.name:
        return path.stem
    return f"{folder.parent.name}-{folder.name}" if SEED_FOLDER.fullmatch(folder.name) else folder.name
