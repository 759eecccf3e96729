"""PPO for continuous positions."""

import dataclasses
from typing import Any

from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.policy import Policy
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.training import learnt_policy
from serl.exchange.errors import ConfigError

SETTINGS = PPOConfig(rollout_steps=100, minibatch=800, gamma=0.99, gae_lambda=0.95, reward_scale=0.1, entropy=0.001)
"""Default settings, for callers that give only steps and a seed."""


def train_ppo(env: DirectionalVectorEnv, steps: int, seed: int, config: PPOConfig = SETTINGS) -> Policy:
    """Trains a policy with PPO in an environment with continuous positions. Raises `ConfigError` for other environments."""
    if env.config.actions != "continuous":
        raise ConfigError(f"actions: expected continuous positions for PPO, got {env.config.actions}")
    return learnt_policy(env, config.model_copy(update={"steps": steps, "seed": seed}), NetworkConfig())


@dataclasses.dataclass
class PPOPositions:
    """Takes the central position of a policy. See `Rule`."""

    policy: Policy
    name: str

    def shares(self, env: DirectionalVectorEnv) -> Any:
        """See `Rule`."""
        self.policy.reset(env.num_envs)
        return self.policy.predict(env.observe())[:, 0]
