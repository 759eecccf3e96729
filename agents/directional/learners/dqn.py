"""Deep Q-learning for discrete positions: double (van Hasselt et al. 2016, arXiv 1509.06461) and duelling (Wang et al. 2016, arXiv 1511.06581)."""

import copy
import dataclasses
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.learning.replay_buffer import ReplayBuffer, draw_weights, layers, require_learning
from serl.agents.learning.settings import LearningSettings
from serl.agents.torch_adam import Adam
from serl.exchange.errors import ConfigError


class DQNConfig(LearningSettings):
    """Settings of the algorithm."""

    steps: int = Field(500_000, gt=0, description="total environment steps")
    hidden: int = Field(64, gt=0, description="units of each of two layers")
    learning_rate: float = Field(1e-3, gt=0)
    gamma: float = Field(0.99, ge=0, le=1, description="discount factor")
    reward_scale: float = Field(0.1, gt=0, description="factor applied to rewards, in ticks, before learning")
    tau: float = Field(0.01, gt=0, le=1, description="share of the new weights in the target network per gradient step")
    buffer: int = Field(200_000, gt=0, description="transitions in the replay buffer")
    batch: int = Field(256, gt=0)
    warm_up: int = Field(5_000, gt=0, description="random decisions before learning starts")
    exploring_share: float = Field(0.5, gt=0, le=1, description="share of the steps over which epsilon decays")
    exploring_min: float = Field(0.02, ge=0, le=1, description="smallest epsilon")
    gradient_norm_max: float = Field(10.0, gt=0)
    seed: int = Field(0, ge=0)
    threads: int = Field(1, gt=0, description="PyTorch threads")


class Batch(NamedTuple):
    """B transitions."""

    observations: Tensor
    """(B, features)"""
    actions: Tensor
    """(B,) int64"""
    rewards: Tensor
    """(B,) scaled rewards."""
    next_observations: Tensor
    """(B, features) next observations, before a new window begins."""
    continues: Tensor
    """(B,) 1, or 0 where the window has ended."""


class DuellingNetwork(nn.Module):
    """Computes the value V + A - mean A of each action."""

    def __init__(self, features: int, actions: int, hidden: int, seed: int) -> None:
        super().__init__()
        self._layers = layers(features, hidden, actions + 1)
        draw_weights(self, torch.Generator().manual_seed(seed))

    def forward(self, observations: Tensor) -> Tensor:
        """(B, actions) values of (B, features) observations."""
        found = self._layers(observations)
        value, advantage = found[:, :1], found[:, 1:]
        result: Tensor = value + advantage - advantage.mean(-1, keepdim=True)
        return result


class Auxiliary(Protocol):
    """An additional loss of a learner; see router.py."""

    def remember(self, batch: Batch, targets: Tensor) -> None:
        """Records transitions and the target values (B,) of their actions."""

    def loss(self, batch: Batch, values: Tensor) -> Tensor:
        """The additional loss for the values (B, actions)."""


class DQN:
    """A learner in one environment with discrete positions. The seed determines everything. Raises `ConfigError` if it would never learn."""

    def __init__(
        self, env: DirectionalVectorEnv, config: DQNConfig, network: nn.Module, auxiliary: Auxiliary | None = None
    ) -> None:
        require_learning("DQN", config.steps, config.warm_up)
        torch.set_num_threads(config.threads)
        self.env, self.config, self.network, self._auxiliary = env, config, network, auxiliary
        self.steps = 0
        self._target = copy.deepcopy(network)
        self._random = np.random.Generator(np.random.PCG64(config.seed))
        self._parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self._optimiser = Adam(self._parameters, lr=config.learning_rate)
        features = env.single_observation_space.shape[0]
        self._buffer = ReplayBuffer(config.buffer, features, 0, 0, features, 0)  # the columns of a Batch
        self._observations, _ = env.reset(seed=config.seed)

    def train(self) -> nn.Module:
        """Trains for all steps; returns the network."""
        while self.steps < self.config.steps:
            self.update()
        return self.network

    def update(self) -> None:
        """Makes one decision in every environment and takes a gradient step."""
        env = self.env
        actions = self._actions()
        following, rewards, done, _, info = env.step(actions)
        ended = np.where(done[:, None], info["final_obs"], following) if np.any(done) else following
        scaled = (self.config.reward_scale * rewards).astype(np.float32)
        columns = self._observations, actions, scaled, ended.astype(np.float32), (~done).astype(np.float32)
        self._buffer.add(*map(torch.from_numpy, columns))
        self._observations = following
        self.steps += env.num_envs
        if self._buffer.count >= self.config.warm_up:
            self._gradient_step()

    @torch.no_grad()
    def _actions(self) -> Any:
        config, count = self.config, self.env.num_envs
        random = self._random.integers(self.env.single_action_space.n, size=count)
        if self._buffer.count < config.warm_up:
            return random
        epsilon = max(config.exploring_min, 1 - self.steps / (config.exploring_share * config.steps))
        best = self.network(torch.from_numpy(self._observations)).argmax(-1).numpy()
        return np.where(self._random.random(count) < epsilon, random, best)

    def _gradient_step(self) -> None:
        batch = Batch(*self._buffer.sample(self._random, self.config.batch))
        batch = batch._replace(actions=batch.actions.long())
        with torch.no_grad():
            best = self.network(batch.next_observations).argmax(-1, keepdim=True)
            later = self._target(batch.next_observations).gather(1, best).squeeze(1)
            targets = batch.rewards + self.config.gamma * batch.continues * later
        values = self.network(batch.observations)
        taken = values.gather(1, batch.actions.unsqueeze(1)).squeeze(1)
        loss = functional.smooth_l1_loss(taken, targets)
        if self._auxiliary:
            loss = loss + self._auxiliary.loss(batch, values)
            self._auxiliary.remember(batch, targets)
        self._optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, self.config.gradient_norm_max)
        self._optimiser.step()
        with torch.no_grad():
            for slow, fast in zip(self._target.parameters(), self.network.parameters(), strict=True):
                slow.lerp_(fast, self.config.tau)


def require_discrete(env: DirectionalVectorEnv) -> None:
    """Raises ConfigError unless the positions are discrete."""
    if env.config.actions != "discrete":
        raise ConfigError(f"actions: expected discrete positions for Q-learning, got {env.config.actions}")


@dataclasses.dataclass(frozen=True)
class Greedy:
    """Takes the position with the highest value. See `Rule`."""

    network: nn.Module
    name: str

    @torch.no_grad()
    def shares(self, env: DirectionalVectorEnv) -> Any:
        """See `Rule`."""
        best = self.network(torch.from_numpy(env.observe())).argmax(-1).numpy()
        return best / (env.config.positions - 1) * 2 - 1
