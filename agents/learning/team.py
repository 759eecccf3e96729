"""Agents that share parent orders and talk: K neighbouring environments are a team, every one sees what the others said last.

A message is a function of what an agent observes. Episodes of all environments are equally long, so that teams begin and end together.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from serl.agents.execution.environment.vector import ExecutionVectorEnv, Reward, Sampler
from serl.agents.learning.errors import LearningError
from serl.exchange.records import Rows

Floats = NDArray[np.float64]
Communicate = Callable[[Floats], Floats]
"""(K, d) observations of a team to its (K, m) messages in [-1, 1]."""
SQUASHES: dict[str, Callable[[Floats], Floats]] = {
    "tanh": np.tanh,
    "sign": np.sign,
    "clip": lambda values: np.clip(values, -1.0, 1.0),
}


class Messages(Protocol):
    """A `Communicate` that is data: what a policy's file can say."""

    @property
    def size(self) -> int:
        """Numbers of a message."""

    def __call__(self, observations: Floats, /) -> Floats:
        """See Communicate."""

    def described(self) -> dict[str, Any]:
        """Plain JSON; see messages.py."""


@dataclasses.dataclass(frozen=True)
class Channels:
    """Messages: squash(gain x an observed number) a channel."""

    columns: tuple[int, ...]
    gains: tuple[float, ...]
    squashes: tuple[str, ...]

    @property
    def size(self) -> int:
        """See Messages."""
        return len(self.columns)

    def described(self) -> dict[str, Any]:
        """See Messages."""
        return {name: list(value) for name, value in dataclasses.asdict(self).items()}

    def __call__(self, observations: Floats) -> Floats:
        """See Communicate."""
        said = np.asarray(observations, np.float64)[:, list(self.columns)] * self.gains
        return np.stack([SQUASHES[name](said[:, place]) for place, name in enumerate(self.squashes)], axis=1)


def shared(episodes: Rows, agents: int) -> Rows:
    """(n * K,) the EPISODE rows (n,) divided among K agents each, in shares as equal as whole lots allow; LearningError for orders of
    fewer lots than agents."""
    rows = np.repeat(episodes, agents)
    place = np.arange(len(rows)) % agents
    each, more = np.divmod(rows["qty_lots"], agents)
    if np.any(each == 0):
        raise LearningError(f"team: parent orders of at least {agents} lots are due, got {rows['qty_lots'].min()}")
    rows["qty_lots"] = each + (place < more)
    return rows


@dataclasses.dataclass(frozen=True)
class TeamOrders:
    """Parent orders of a sampler, shared."""

    sampler: Sampler
    agents: int

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """(count,) EPISODE rows of count / K parent orders."""
        rows = self.sampler.sample(random, count // self.agents).copy()
        rows["qty_lots"] = np.maximum(rows["qty_lots"], self.agents)
        return shared(rows, self.agents)


@dataclasses.dataclass(frozen=True)
class TeamReward:
    """The reward of the whole order for everybody: sum of q r / sum of q."""

    reward: Reward
    agents: int

    def __call__(self, env: ExecutionVectorEnv, fills: Rows, last: Any) -> Any:
        """(N,) rewards."""
        own = np.asarray(self.reward(env, fills, last), np.float64).reshape(-1, self.agents)
        lots = env.accounts.episodes["qty_lots"].reshape(-1, self.agents)
        return np.repeat((own * lots).sum(axis=1) / lots.sum(axis=1), self.agents)


def heard(messages: Floats) -> NDArray[np.float32]:
    """(K, (K - 1) m) what each of a team hears of (K, m) messages: those of the others, in their order."""
    others = [np.delete(messages, place, axis=0).ravel() for place in range(len(messages))]
    return np.stack(others).astype(np.float32)


def said(communicate: Communicate, observations: Any, agents: int) -> NDArray[np.float32]:
    """(N, (K - 1) m) what is heard of messages about (N, d) observations, team by team."""
    teams = np.asarray(observations, np.float64).reshape(-1, agents, observations.shape[1])
    return np.concatenate([heard(np.asarray(communicate(team))) for team in teams])


class Team(VectorEnv):  # type: ignore[misc]
    """An execution environment whose observations end with the others' messages about the decision before; silence at first.
    `unwrapped` is the environment."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, env: VectorEnv, messages: Messages, agents: int) -> None:
        if env.num_envs % agents:
            raise LearningError(f"team: environments in teams of {agents} are due, got {env.num_envs}")
        self.env, self.messages, self.agents, self.num_envs = env, messages, agents, env.num_envs
        self._silence = np.zeros((env.num_envs, (agents - 1) * messages.size), np.float32)
        seen = env.single_observation_space
        self.single_observation_space = gymnasium.spaces.Box(
            -10.0, 10.0, (seen.shape[0] + self._silence.shape[1],), np.float32
        )
        self.single_action_space, self.action_space = env.single_action_space, env.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)

    @property
    def unwrapped(self) -> VectorEnv:
        """The environment without messages."""
        return self.env.unwrapped

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """New episodes, and silence."""
        self._seen, info = self.env.reset(seed=seed, options=options)
        return np.concatenate((self._seen, self._silence), axis=1), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One decision of all; info is empty."""
        now = said(self.messages, self._seen, self.agents)
        self._seen, rewards, ended, truncated, _ = self.env.step(actions)
        now[ended] = 0
        return np.concatenate((self._seen, now), axis=1), rewards, ended, truncated, {}


def sizes(team: "tuple[int, Messages] | None") -> int:
    """How many numbers a policy hears."""
    return 0 if team is None else (team[0] - 1) * team[1].size
