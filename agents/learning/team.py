"""Teams of agents that share parent orders and communicate. K consecutive environments are a team; each agent receives the messages that the
others sent at the previous decision.

A message is a function of the sender's observation. The episodes of all environments have the same length, so the agents of a team start and
end together.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward, Sampler
from serl.agents.execution.environment.windows import split_lots
from serl.agents.learning.errors import LearningError
from serl.exchange.records import Rows

Floats = NDArray[np.float64]
Communicate = Callable[[Floats], Floats]
"""Maps (K, d) observations of a team to its (K, m) messages in [-1, 1]."""
SQUASHES: dict[str, Callable[[Floats], Floats]] = {
    "tanh": np.tanh,
    "sign": np.sign,
    "clip": lambda values: np.clip(values, -1.0, 1.0),
}


class Messages(Protocol):
    """A `Communicate` that can be stored as data in a policy file."""

    @property
    def size(self) -> int:
        """Numbers per message."""

    def __call__(self, observations: Floats, /) -> Floats:
        """See Communicate."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; see messages.py."""


@dataclasses.dataclass(frozen=True)
class Channels:
    """Messages in which each channel is squash(gain x observation[column])."""

    columns: tuple[int, ...]
    gains: tuple[float, ...]
    squashes: tuple[str, ...]

    @property
    def size(self) -> int:
        """See Messages."""
        return len(self.columns)

    def to_json(self) -> dict[str, Any]:
        """See Messages."""
        return {name: list(value) for name, value in dataclasses.asdict(self).items()}

    def __call__(self, observations: Floats) -> Floats:
        """See Communicate."""
        scaled = np.asarray(observations, np.float64)[:, list(self.columns)] * self.gains
        return np.stack([SQUASHES[name](scaled[:, index]) for index, name in enumerate(self.squashes)], axis=1)


def split_orders(episodes: Rows, agents: int, lot_multiple: int = 1) -> Rows:
    """(n * K,) EPISODE rows: (n,) orders split among K agents each, as evenly as whole multiples of lots allow. Raises LearningError for an order
    with fewer multiples than agents."""
    least = agents * lot_multiple
    if np.any(episodes["qty_lots"] < least):
        raise LearningError(
            f"team: expected parent orders of at least {least} lots, got {episodes['qty_lots'].min()}; use larger orders"
        )
    rows = np.repeat(episodes, agents)
    rows["qty_lots"] = split_lots(episodes["qty_lots"], agents, lot_multiple)
    return rows


@dataclasses.dataclass(frozen=True)
class TeamSampler:
    """Samples parent orders and splits each among the agents of a team."""

    sampler: Sampler
    agents: int
    lot_multiple: int = 1

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """(count,) EPISODE rows of count / K parent orders."""
        rows = self.sampler.sample(random, count // self.agents).copy()
        rows["qty_lots"] = np.maximum(rows["qty_lots"], self.agents * self.lot_multiple)
        return split_orders(rows, self.agents, self.lot_multiple)


@dataclasses.dataclass(frozen=True)
class TeamReward:
    """Gives every agent the reward of the whole order: sum of q r / sum of q."""

    reward: Reward
    agents: int

    def __call__(self, env: ExecutionVectorEnv, fills: Rows, last: Any) -> Any:
        """(N,) rewards."""
        own = np.asarray(self.reward(env, fills, last), np.float64).reshape(-1, self.agents)
        lots = env.accounts.episodes["qty_lots"].reshape(-1, self.agents)
        return np.repeat((own * lots).sum(axis=1) / lots.sum(axis=1), self.agents)


def messages_of_others(messages: Floats) -> NDArray[np.float32]:
    """(K, (K - 1) m) messages that each agent of a team receives: those of the others among the team's (K, m) messages, in order."""
    others = [np.delete(messages, agent, axis=0).ravel() for agent in range(len(messages))]
    return np.stack(others).astype(np.float32)


def received_messages(communicate: Communicate, observations: Any, agents: int) -> NDArray[np.float32]:
    """(N, (K - 1) m) messages that each agent receives, for (N, d) observations of all agents."""
    teams = np.asarray(observations, np.float64).reshape(-1, agents, observations.shape[1])
    return np.concatenate([messages_of_others(np.asarray(communicate(team))) for team in teams])


class TeamVectorEnv(VectorEnv):
    """An execution environment whose observations end with the messages that the others sent at the previous decision, initially 0.
    `unwrapped` is the environment without messages."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, env: VectorEnv, messages: Messages, agents: int) -> None:
        if env.num_envs % agents:
            raise LearningError(f"team: expected a multiple of {agents} environments, got {env.num_envs}")
        self.env, self.messages, self.agents, self.num_envs = env, messages, agents, env.num_envs
        self._no_messages = np.zeros((env.num_envs, (agents - 1) * messages.size), np.float32)
        size = env.single_observation_space.shape[0] + self._no_messages.shape[1]
        self.single_observation_space = gymnasium.spaces.Box(-10.0, 10.0, (size,), np.float32)
        self.single_action_space, self.action_space = env.single_action_space, env.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    @property
    def unwrapped(self) -> VectorEnv:
        """The environment without messages."""
        return self.env.unwrapped

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes, without messages."""
        self._observations, info = self.env.reset(seed=seed, options=options)
        return np.concatenate((self._observations, self._no_messages), axis=1), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Executes one decision of all agents; info is empty."""
        received = received_messages(self.messages, self._observations, self.agents)
        self._observations, rewards, terminated, truncated, _ = self.env.step(actions)
        received[terminated] = 0
        return np.concatenate((self._observations, received), axis=1), rewards, terminated, truncated, {}


def received_size(team: "tuple[int, Messages] | None") -> int:
    """How many numbers an agent of a team receives at each decision."""
    return 0 if team is None else (team[0] - 1) * team[1].size
