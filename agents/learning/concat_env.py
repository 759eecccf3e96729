"""Concatenated vector environments, so that every batch has a fixed share of samples from each."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from serl.agents.execution.environment.interface import Interface


class ConcatVectorEnv(VectorEnv):
    """The given vector environments as one, in order. Raises LayoutMismatchError unless all have the observations and actions of the first.

    Their episodes must not be truncated. `unwrapped` is the first one."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, envs: Sequence[VectorEnv]) -> None:
        for env in envs[1:]:
            Interface.from_env(envs[0]).require(Interface.from_env(env), "another environment")
        self.envs = envs
        self.num_envs = sum(env.num_envs for env in envs)
        self._ends = np.cumsum([env.num_envs for env in envs])[:-1]
        self.single_action_space = envs[0].single_action_space
        self.single_observation_space = envs[0].single_observation_space
        batch = gymnasium.vector.utils.batch_space
        self.action_space = batch(self.single_action_space, self.num_envs)
        self.observation_space = batch(self.single_observation_space, self.num_envs)

    @property
    def unwrapped(self) -> VectorEnv:
        """The first environment."""
        return self.envs[0].unwrapped

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments; each vector environment has its own seed."""
        seeds = [None] * len(self.envs)
        if seed is not None:
            seeds = np.random.SeedSequence(seed).generate_state(len(self.envs)).tolist()
        observations = [env.reset(seed=own_seed)[0] for env, own_seed in zip(self.envs, seeds, strict=True)]
        return np.concatenate(observations), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments; info is empty."""
        split = np.split(np.asarray(actions), self._ends)
        steps = [env.step(own_actions)[:4] for env, own_actions in zip(self.envs, split, strict=True)]
        observations, rewards, terminated, truncated = (np.concatenate(values) for values in zip(*steps, strict=True))
        return observations, rewards, terminated, truncated, {}
