"""Rollouts: the steps of a policy in a vector environment, with advantages and returns."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from torch import Tensor

from serl.agents.learning.errors import DivergedError, LearningError
from serl.agents.learning.networks import ActorCritic

Floats = NDArray[np.float32]


def estimate_advantages(
    rewards: Floats, values: Floats, dones: Floats, last_values: Floats, gamma: float, gae_lambda: float
) -> Floats:
    """(T, N) generalised advantage estimates A_t = sum_l (gamma lambda)^l delta_{t+l}, delta_t = r_t + gamma V_{t+1} - V_t
    (Schulman et al. 2016, arXiv 1506.02438). dones (T, N) is 1 where step t ended an episode; last_values (N,) is V_T."""
    advantages = np.zeros_like(rewards)
    next_advantages, next_values = np.zeros_like(last_values), last_values
    for step in range(len(rewards) - 1, -1, -1):
        not_done = 1 - dones[step]
        delta = rewards[step] + gamma * next_values * not_done - values[step]
        next_advantages = delta + gamma * gae_lambda * not_done * next_advantages
        advantages[step], next_values = next_advantages, values[step]
    return advantages


@dataclass(frozen=True)
class Batch:
    """Samples of a rollout (B, ..), or sequences (T, B, ..) if the network has a memory."""

    observations: Tensor
    latents: Tensor
    """Sampled actions before the distribution's transform, see distributions.py."""
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    episode_starts: Tensor
    """1 where an episode starts."""
    initial_state: Tensor
    """(1, B, units) memory at the start of each sequence."""


def join_batches(parts: Sequence[Batch]) -> Batch:
    """Joins steps (T, N, ..) of several environments along N."""
    joined = zip(*(vars(part).values() for part in parts), strict=True)
    return Batch(*(torch.cat(list(values), dim=1) for values in joined))


class Rollout:
    """T steps of N environments. With `sequences`, a minibatch consists of whole environments instead of single steps."""

    def __init__(self, steps: Batch, sequences: bool) -> None:
        """steps: (T, N, ..) each."""
        self._sequences = sequences
        self.batch = steps if sequences else Batch(*(values.flatten(0, 1) for values in vars(steps).values()))
        self.size = len(steps.episode_starts[0]) if sequences else steps.episode_starts.numel()

    def minibatches(self, random: np.random.Generator, count: int) -> Iterator[Batch]:
        """Yields `count` minibatches of nearly equal size, drawn without replacement."""
        order = torch.from_numpy(random.permutation(self.size))
        axis = 1 if self._sequences else 0
        shuffled = [values.index_select(axis, order).tensor_split(count, axis) for values in vars(self.batch).values()]
        yield from itertools.starmap(Batch, zip(*shuffled, strict=True))


class Collector:
    """Collects rollouts from a gymnasium VectorEnv with box spaces and SAME_STEP autoreset; episodes continue from one rollout to the next."""

    def __init__(self, env: VectorEnv, network: ActorCritic, reward_scale: float) -> None:
        autoreset = env.metadata.get("autoreset_mode")
        if autoreset != AutoresetMode.SAME_STEP:
            raise LearningError(
                f"expected a vector environment with AutoresetMode.SAME_STEP, got {autoreset}; make it with that mode"
            )
        self.env, self.network, self.reward_scale, self.num_envs = env, network, reward_scale, env.num_envs
        self.episode_returns = np.zeros(0)
        """Returns of the episodes that ended in the last rollout."""
        self._running_returns = np.zeros(env.num_envs)

    def reset(self, seed: int) -> None:
        """Starts a new episode in every environment."""
        count = self.env.num_envs
        self._observations, _ = self.env.reset(seed=seed)
        self._state, self._episode_starts = self.network.initial_state(count), np.ones(count, np.float32)
        self._running_returns[:] = 0

    def begin(self, steps: int, gamma: float, gae_lambda: float) -> None:
        """Announces the next rollout. Does nothing here; parts on a cluster start to collect in parallel."""

    def collect(self, steps: int, random: np.random.Generator, gamma: float, gae_lambda: float) -> Rollout:
        """Runs the next `steps` steps and sets `episode_returns`; see `collect_steps`."""
        return Rollout(self.collect_steps(steps, random, gamma, gae_lambda), self.network.memory is not None)

    @torch.inference_mode()
    def collect_steps(self, steps: int, random: np.random.Generator, gamma: float, gae_lambda: float) -> Batch:
        """Runs the next `steps` steps (T, N, ..) and sets `episode_returns`. Raises DivergedError for a reward or observation that is not finite."""
        env, network, episode_returns = self.env, self.network, []
        shape = (steps, env.num_envs)
        observations = np.empty((*shape, self._observations.shape[1]), np.float32)
        rewards, dones, episode_starts = (np.empty(shape, np.float32) for _ in range(3))
        all_features, all_outputs, all_latents = list[Tensor](), list[Tensor](), list[Tensor]()
        initial_state = self._state.clone()
        for step in range(steps):
            observations[step], episode_starts[step] = self._observations, self._episode_starts
            features, state = self._encode(observations[step])
            outputs = network.actor(features)
            latents = network.distribution.sample(outputs, network.log_std, random)
            all_features.append(features)
            all_outputs.append(outputs)
            all_latents.append(latents)
            actions = network.distribution.actions(latents).numpy()
            self._observations, reward, terminated, truncated, info = env.step(actions)
            self._state = state
            done = terminated | truncated
            rewards[step], dones[step] = reward * self.reward_scale, done
            self._episode_starts = done.astype(np.float32)
            self._running_returns += reward
            cut = truncated & ~terminated  # gymnasium's TimeLimit also truncates episodes that have terminated
            if np.any(cut):
                rewards[step] += gamma * cut * self._final_values(cut, info)
            if np.any(done):
                episode_returns.append(self._running_returns[done])
                self._running_returns[done] = 0
        all_features.append(self._encode(np.asarray(self._observations, np.float32))[0])
        self.episode_returns = np.concatenate(episode_returns) if episode_returns else np.zeros(0)
        if not (np.isfinite(rewards).all() and np.isfinite(observations).all()):
            raise DivergedError("a reward or an observation of the environment is not finite; check its prices")
        values, latents = network.values(torch.stack(all_features)).numpy(), torch.stack(all_latents)
        log_probs, _ = network.distribution.log_prob_and_entropy(torch.stack(all_outputs), network.log_std, latents)
        advantages = estimate_advantages(rewards, values[:-1], dones, values[-1], gamma, gae_lambda)
        recurrent = network.memory is not None
        return Batch(
            torch.from_numpy(observations), latents, log_probs, torch.from_numpy(advantages),
            torch.from_numpy(advantages + values[:-1]), torch.from_numpy(episode_starts),
            initial_state.unsqueeze(0) if recurrent else initial_state.expand(*shape, -1),
        )  # fmt: skip

    def _encode(self, observations: Any) -> tuple[Tensor, Tensor]:
        """(features, next memory); the memory is cleared where an episode starts."""
        state = self._state * torch.from_numpy(1 - self._episode_starts).unsqueeze(-1)
        return self.network.encode(torch.from_numpy(observations), state)

    def _final_values(self, truncated: Any, info: dict[str, Any]) -> Floats:
        """(N,) values of the final observations of truncated episodes, 0 elsewhere."""
        which = np.flatnonzero(truncated)
        final = torch.from_numpy(np.stack(info["final_obs"][which]).astype(np.float32))
        features, _ = self.network.encode(final, self._state[torch.from_numpy(which)])
        values = np.zeros(len(truncated), np.float32)
        values[which] = self.network.values(features).numpy()
        return values
