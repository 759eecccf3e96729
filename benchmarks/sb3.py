"""Stable-Baselines3's PPO over a gymnasium VectorEnv with autoreset in the same step, with the settings of ours."""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from serl.agents.learning.ppo_config import PPOConfig


class Adapter(VecEnv):
    """Adapter of a VectorEnv to Stable-Baselines3's VecEnv; collects the returns of finished episodes."""

    def __init__(self, env: VectorEnv, seed: int) -> None:
        self.env, self._seed = env, seed
        self.finished: list[float] = []
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self._returns = np.zeros(env.num_envs)

    def reset(self) -> Any:
        """New episodes."""
        observations, _ = self.env.reset(seed=self._seed)
        return observations

    def step_async(self, actions: Any) -> None:
        """Store the actions."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Step all environments."""
        observations, rewards, ended, truncated, info = self.env.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for place in np.flatnonzero(truncated):
            infos[place] = {"terminal_observation": info["final_obs"][place], "TimeLimit.truncated": True}
        done = ended | truncated
        self._returns += rewards
        if done.any():
            self.finished.append(float(self._returns[done].mean()))
            self._returns[done] = 0
        return observations, rewards.astype(np.float32), done, infos

    def close(self) -> None:
        """Nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the environment, repeated per index."""
        return [getattr(self.env, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the environment."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """Call a method of the environment once."""
        return [getattr(self.env, method_name)(*arguments, **named)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No environment is wrapped."""
        return [False] * self.num_envs


def learner(env: VectorEnv, config: PPOConfig, hidden: tuple[int, ...]) -> PPO:
    """Stable-Baselines3's PPO with a plain Gaussian, tanh networks of these sizes and one learning rate, the actor's."""
    torch.set_num_threads(config.threads)
    return PPO(
        "MlpPolicy", Adapter(env, config.seed), learning_rate=config.actor_learning_rate, n_steps=config.rollout_steps,
        batch_size=config.minibatch, n_epochs=config.epochs, gamma=config.gamma, gae_lambda=config.gae_lambda,
        clip_range=config.clip, ent_coef=config.entropy, vf_coef=config.value_weight,
        max_grad_norm=config.gradient_norm_max, policy_kwargs={"net_arch": list(hidden)}, seed=config.seed, device="cpu",
    )  # fmt: skip
