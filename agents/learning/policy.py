"""Learnt policies: what they see and do (`Interface`), as files, and acting."""

import dataclasses
import importlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning import files
from serl.agents.learning.errors import LayoutMismatchError
from serl.agents.learning.networks import ActorCritic, NetworkConfig

if TYPE_CHECKING:
    from serl.agents.learning.rival import RivalPolicy

KIND = "policy"
RIVALS = ("opd", "halop", "macmic")
"""Kinds of policies of other learners; the module of the same name reads them."""


@dataclasses.dataclass(frozen=True)
class Interface:
    """What a policy sees and does; two that are equal are interchangeable."""

    names: tuple[str, ...]
    """One an observed number, in order."""
    scales: dict[str, float]
    """Units of the observations, fixed on training data."""
    actions: str
    """Action mode of the environment; `box` for other environments."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    offset_ticks: int = 0
    """What an offset of 1 means."""
    levels: int = 0
    """Price levels a side that are seen."""

    @classmethod
    def of(cls, env: VectorEnv) -> "Interface":
        """That of an environment; observations of environments that are not for execution have numbers for names."""
        box = env.single_action_space
        low, high = tuple(map(float, box.low)), tuple(map(float, box.high))
        if not isinstance(env, ExecutionVectorEnv):
            names = tuple(f"observation_{place}" for place in range(env.single_observation_space.shape[0]))
            return cls(names, {}, "box", low, high)
        return cls(
            env.layout.names, dataclasses.asdict(env.observer.scales), env.actions, low, high,
            offset_ticks=env.offset_ticks, levels=env.layout.levels,
        )  # fmt: skip

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Interface":
        """The reverse of dataclasses.asdict, with lists for tuples."""
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**known)

    def require(self, other: "Interface", what: str = "the environment") -> None:
        """LayoutMismatchError unless `other` is the same; it says both sides of what differs."""
        theirs = dataclasses.asdict(other)
        differing = [
            f"{name}: the policy was made for {mine!r}, {what} has {theirs[name]!r}"
            for name, mine in dataclasses.asdict(self).items()
            if mine != theirs[name]
        ]
        if differing:
            raise LayoutMismatchError("; ".join(differing) + "; make the environment with the policy's layout")


@dataclasses.dataclass
class Policy:
    """A network that acts. Policies with a memory keep it from call to call; `begin` clears it."""

    network: ActorCritic
    interface: Interface
    facts: dict[str, Any]
    """Where it comes from: data (fingerprints), seed, steps, versions."""
    deterministic: bool = True
    seed: int = 0
    """Of stochastic actions."""

    def begin(self, env: Any) -> None:
        """Before the first step in an environment. LayoutMismatchError if it is of another layout."""
        self.interface.require(Interface.of(env))
        self.clear(env.num_envs)

    def clear(self, count: int) -> None:
        """Forgets what was seen; `count` environments come next."""
        self._memory = self.network.nothing(count)
        self._random = np.random.Generator(np.random.PCG64(self.seed))

    @torch.inference_mode()
    def act(self, env: Any, observations: Any) -> Any:
        """(N, k) actions in the environment's box; memories of orders that have just begun start anew."""
        if isinstance(env, ExecutionVectorEnv):
            self._memory[torch.from_numpy(env.accounts.parents["step"] == 0)] = 0
        return self.actions(observations)

    @torch.inference_mode()
    def actions(self, observations: Any) -> Any:
        """(N, k) actions for (N, size) observations: the mode, or samples if the policy is not deterministic."""
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
            "network": self.network.config.model_dump(), "interface": dataclasses.asdict(self.interface),
            "versions": {name: version(name) for name in ("serl", "torch", "numpy")}, **self.facts,
        }  # fmt: skip
        files.write(path, KIND, self.network.state_dict(), facts)


def load_policy(path: Path) -> "Policy | RivalPolicy":
    """The policy of a file; PolicyFileError if it is none."""
    tensors, facts = files.read(path, KIND, *RIVALS)
    if facts["kind"] in RIVALS:
        module = importlib.import_module(f"serl.agents.learning.{facts['kind']}")
        rival: RivalPolicy = module.POLICY.of_file(tensors, facts)
        return rival
    interface = Interface.from_json(facts["interface"])
    network = ActorCritic(NetworkConfig(**facts["network"]), len(interface.names), interface.low, interface.high, 0)
    network.load_state_dict(tensors)
    return Policy(network, interface, facts)
