"""A router over sub-policies, after MacroHFT (Zong et al. 2024, KDD, arXiv 2406.14537).

One duelling double DQN learns in the windows of each label (labels.py). Then the router learns in all windows to weigh these fixed sub-policies:
Q(o, a) = sum_k w_k(o) Q_k(o, a), with weights from a softmax. A memory of past observations, actions and values pulls its values towards those of
similar situations: the loss includes alpha times the squared difference from the mean value of the nearest remembered observations with the same
action. In the paper, adaptive layer norm conditions the sub-policies on a context, and hidden features are the keys of the memory. Here networks see
only the observation, which is also the key.
"""

from collections.abc import Mapping

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from serl.agents.directional.config import DirectionalConfig
from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.directional.learners.dqn import DQN, Batch, DQNConfig, DuellingNetwork, require_discrete
from serl.agents.directional.learners.labels import labelled_windows
from serl.agents.execution.environment.vector import Sampler
from serl.agents.learning.replay_buffer import draw_weights, layers
from serl.agents.learning.settings import LearningSettings
from serl.agents.positions.config import position_market, windows


class RouterConfig(LearningSettings):
    """Settings of the sub-policies, the router and its memory."""

    part: DQNConfig = Field(DQNConfig(steps=100_000), description="of each sub-policy")
    router: DQNConfig = Field(DQNConfig(steps=200_000), description="of the router")
    windows: int = Field(768, gt=0, description="training windows that get labels")
    memory: int = Field(2048, gt=0, description="remembered decisions")
    nearest: int = Field(5, gt=0, description="of those with the same action")
    memory_weight: float = Field(0.5, ge=0, description="alpha; 0: no memory")

    @model_validator(mode="after")
    def _remembers_the_nearest(self) -> "RouterConfig":
        if self.nearest > self.memory:
            raise ValueError(f"nearest: expected at most as many as are remembered ({self.memory}), got {self.nearest}")
        return self


class Router(nn.Module):
    """Weighs the values of fixed sub-policies."""

    def __init__(self, parts: Mapping[str, nn.Module], features: int, hidden: int, seed: int) -> None:
        super().__init__()
        self._weights = layers(features, hidden, len(parts))
        draw_weights(self._weights, torch.Generator().manual_seed(seed))
        self.parts = nn.ModuleDict(parts)
        self.parts.requires_grad_(False)

    def weights(self, observations: Tensor) -> Tensor:
        """(B, parts) weights of (B, features) observations."""
        return torch.softmax(self._weights(observations), -1)

    def forward(self, observations: Tensor) -> Tensor:
        """(B, actions) values."""
        values = torch.stack([part(observations) for part in self.parts.values()], -1)
        return (values * self.weights(observations).unsqueeze(1)).sum(-1)


class Memory:
    """A memory of the last decisions: an `Auxiliary` of a DQN."""

    def __init__(self, config: RouterConfig, features: int) -> None:
        self._config = config
        self._observations, self._values = torch.zeros(config.memory, features), torch.zeros(config.memory)
        self._actions = torch.full((config.memory,), -1)
        self._count = 0

    def remember(self, batch: Batch, targets: Tensor) -> None:
        """See Auxiliary."""
        rows = torch.arange(self._count, self._count + len(targets)) % self._config.memory
        self._observations[rows], self._actions[rows], self._values[rows] = batch.observations, batch.actions, targets
        self._count += len(targets)

    def recall(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) mean values of the nearest remembered observations with the same action, weighted by the inverse of 1 + their squared distance; and
        (B,) whether there are enough."""
        distances = torch.cdist(observations, self._observations).square()
        distances = distances.masked_fill(actions.unsqueeze(1) != self._actions, torch.inf)
        nearest, rows = distances.topk(self._config.nearest, largest=False)
        weights = 1 / (1 + nearest)
        means = (weights * self._values[rows]).sum(1) / weights.sum(1).clamp_min(1e-12)
        return means, torch.isfinite(nearest).all(1)

    def loss(self, batch: Batch, values: Tensor) -> Tensor:
        """See Auxiliary."""
        if self._count < self._config.memory:
            return torch.zeros(())
        means, enough = self.recall(batch.observations, batch.actions)
        taken = values.gather(1, batch.actions.unsqueeze(1)).squeeze(1)
        return self._config.memory_weight * torch.where(enough, taken - means, 0.0).square().mean()


def train_dqn(env: DirectionalVectorEnv, config: DQNConfig) -> nn.Module:
    """Trains a duelling network in an environment. Raises `ConfigError` unless its positions are discrete."""
    require_discrete(env)
    features, actions = env.single_observation_space.shape[0], env.single_action_space.n
    return DQN(env, config, DuellingNetwork(features, actions, config.hidden, config.seed)).train()


def train_router(config: DirectionalConfig, settings: RouterConfig, environments: int, seed: int) -> Router:
    """Trains sub-policies and their router on training days. Raises `ConfigError`."""
    market = position_market(config, environments)

    def env_of(sampler: Sampler) -> DirectionalVectorEnv:
        return DirectionalVectorEnv(market, sampler, config)

    def seeded(part: DQNConfig, offset: int) -> DQNConfig:
        return part.model_copy(update={"seed": 100 * seed + offset})

    every = windows(config)
    try:
        labelled = labelled_windows(env_of(every), settings.windows, seed)
        parts = {
            label: train_dqn(env_of(sampler), seeded(settings.part, number))
            for number, (label, sampler) in enumerate(labelled.items())
        }
        env, own = env_of(every), seeded(settings.router, len(parts))
        features = env.single_observation_space.shape[0]
        memory = Memory(settings, features) if settings.memory_weight else None
        router = Router(parts, features, own.hidden, own.seed)
        DQN(env, own, router, memory).train()
    finally:
        market.close()
    return router
