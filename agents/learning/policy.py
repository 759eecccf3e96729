"""Learnt policies: as files, and acting behind the interface of all policies."""

import dataclasses
import importlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import Floats
from serl.agents.learning import files
from serl.agents.learning.custom_network import ForeignNetwork, of_file
from serl.agents.learning.errors import DivergedError
from serl.agents.learning.messages import facts_of, of_facts
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.team import Messages, said, sizes

if TYPE_CHECKING:
    from serl.agents.learning.baseline import RivalPolicy

KIND = "policy"
RIVALS = ("opd", "halop", "macmic")
"""Kinds of policies of other learners; the module of the same name reads them."""


@dataclasses.dataclass
class Policy:
    """A network that acts. One with a memory keeps it from call to call, for each environment until its order is over."""

    network: ActorCritic | ForeignNetwork
    interface: Interface
    facts: dict[str, Any]
    """Where it comes from: data (fingerprints), seed, steps, versions."""
    name: str = "learnt"
    team: tuple[int, Messages] | None = None
    """How many agents share a parent order, and what they tell each other; one that acts alone hears nothing."""
    deterministic: bool = True
    seed: int = 0
    """Of stochastic actions."""

    def __post_init__(self) -> None:
        self.modes = (self.interface.actions,)
        self.clear(1)

    def clear(self, count: int) -> None:
        """Forgets what was seen; `count` environments come next."""
        self._memory = self.network.nothing(count)
        self._heard = np.zeros((count, sizes(self.team)), np.float32)
        self._random = np.random.Generator(np.random.PCG64(self.seed))

    @torch.inference_mode()
    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See the Policy of execution; LayoutMismatchError if the environment shows or takes something else, DivergedError for actions that are
        not finite."""
        self.interface.require(Interface.of(env))
        if len(self._memory) != env.num_envs:
            self.clear(env.num_envs)
        self._memory[torch.from_numpy(env.accounts.parents["step"] == 0)] = 0
        actions = np.asarray(self.answer(self._hear(env)), np.float64)
        if not np.isfinite(actions).all():
            raise DivergedError(f"{self.name}: finite actions are due, got NaN or infinity; train it anew")
        return actions

    def _hear(self, env: ExecutionVectorEnv) -> Any:
        """What is observed, and what the others said about what they observed at the decision before."""
        seen = env.observe()
        if self.team is None:
            return seen
        agents, messages = self.team
        if len(self._heard) != env.num_envs:
            self._heard = np.zeros((env.num_envs, sizes(self.team)), np.float32)
        self._heard[env.accounts.parents["step"] == 0] = 0
        everything = np.concatenate((seen, self._heard), axis=1)
        if env.agents == agents:
            self._heard = said(messages, seen, agents)
        return everything

    @torch.inference_mode()
    def answer(self, observations: Any) -> Any:
        """(N, k) actions in the box for (N, size) observations: the mode, or samples if the policy is not deterministic."""
        network = self.network
        features, self._memory = network.see(torch.as_tensor(observations), self._memory)
        outputs, family = network.actor(features), network.distribution
        if self.deterministic:
            latents = family.mode(outputs, network.free)
        else:
            latents = family.sample(outputs, network.free, self._random)
        return family.actions(latents).numpy()

    def save(self, path: Path) -> None:
        """Writes a file that holds all of it. PolicyFileError if that cannot be."""
        facts = {
            **self.network.described(), "team": facts_of(*self.team) if self.team else None, "interface": dataclasses.asdict(self.interface),
            "versions": {name: version(name) for name in ("serl", "torch", "numpy")}, **self.facts,
        }  # fmt: skip
        files.write(path, KIND, self.network.state_dict(), facts)


def load_policy(path: Path) -> "Policy | RivalPolicy":
    """The policy of a file; PolicyFileError if it is none."""
    tensors, facts = files.read(path, KIND, *RIVALS)
    if facts["kind"] in RIVALS:
        module = importlib.import_module(f"serl.agents.learning.{facts['kind']}")
        rival: RivalPolicy = module.POLICY.of_file(tensors, facts)
        rival.name = _name(path)
        return rival
    interface = Interface.from_json(facts["interface"])
    team = of_facts(facts.get("team"), len(interface.names))
    return Policy(network_of(facts, tensors, interface, team), interface, facts, _name(path), team)


def network_of(
    facts: dict[str, Any], tensors: dict[str, Tensor], interface: Interface, team: tuple[int, Messages] | None
) -> ActorCritic | ForeignNetwork:
    """The network that `described` and the state of one said; an error of LearningError, or of PyTorch, if they say none."""
    size, low, high = len(interface.names) + sizes(team), interface.low, interface.high
    if "graph" in facts:
        return of_file(facts, tensors, size, low, high)
    network = ActorCritic(NetworkConfig(**facts["network"]), size, low, high, 0)
    network.load_state_dict(tensors)
    return network


def _name(path: Path) -> str:
    """For people: of the run's folder, or of the file."""
    return path.parent.name if path.stem == KIND and path.parent.name else path.stem
