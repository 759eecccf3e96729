"""What a policy did in an environment for some steps, and how good that was."""

import itertools
from collections.abc import Iterator
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


def advantages(
    rewards: Floats, values: Floats, dones: Floats, last_values: Floats, discount: float, trace: float
) -> Floats:
    """(T, N) generalised advantages A_t = sum_l (gamma lambda)^l delta_{t+l}, delta_t = r_t + gamma V_{t+1} - V_t
    (Schulman et al. 2016, arXiv 1506.02438); dones (T, N) is 1 where step t ended an episode, last_values (N,) is V_T."""
    result = np.zeros_like(rewards)
    following, ahead = np.zeros_like(last_values), last_values
    for step in range(len(rewards) - 1, -1, -1):
        goes_on = 1 - dones[step]
        delta = rewards[step] + discount * ahead * goes_on - values[step]
        following = delta + discount * trace * goes_on * following
        result[step], ahead = following, values[step]
    return result


@dataclass(frozen=True)
class Batch:
    """Part of a rollout: (B, ..) samples, or (T, B, ..) sequences if the network has a memory."""

    observations: Tensor
    latents: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    starts: Tensor
    memory: Tensor
    """(1, B, units) what each sequence begins with."""


class Rollout:
    """T steps of N environments, for learning; sequences: parts are whole environments instead of single steps."""

    def __init__(self, whole: Batch, sequences: bool) -> None:
        self._sequences = sequences
        self.whole = whole if sequences else Batch(*(values.flatten(0, 1) for values in vars(whole).values()))
        self.size = len(whole.starts[0]) if sequences else whole.starts.numel()

    def parts(self, random: np.random.Generator, count: int) -> Iterator[Batch]:
        """`count` parts of about equal size, drawn without replacement."""
        order = torch.from_numpy(random.permutation(self.size))
        axis = 1 if self._sequences else 0
        shuffled = [values.index_select(axis, order).tensor_split(count, axis) for values in vars(self.whole).values()]
        yield from itertools.starmap(Batch, zip(*shuffled, strict=True))


class Collector:
    """Steps a gymnasium VectorEnv of boxes with autoreset in the same step; keeps what goes on from rollout to rollout."""

    def __init__(self, env: VectorEnv, network: ActorCritic, reward_scale: float) -> None:
        if env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
            raise LearningError("a vector environment with AutoresetMode.SAME_STEP is due; make it with that mode")
        self.env, self.network, self.reward_scale = env, network, reward_scale
        self._returns, self.finished = np.zeros(env.num_envs), np.zeros(0)

    def begin(self, seed: int) -> None:
        """New episodes everywhere."""
        count = self.env.num_envs
        self._observations, _ = self.env.reset(seed=seed)
        self._memory, self._starts = self.network.nothing(count), np.ones(count, np.float32)
        self._returns[:] = 0

    @torch.inference_mode()
    def collect(self, steps: int, random: np.random.Generator, discount: float, trace: float) -> Rollout:
        """The next `steps` steps; `finished` then holds the returns of the episodes that ended. DivergedError for rewards or
        observations that are not finite."""
        env, network, finished = self.env, self.network, []
        shape = (steps, env.num_envs)
        observations = np.empty((*shape, self._observations.shape[1]), np.float32)
        rewards, dones, starts = (np.empty(shape, np.float32) for _ in range(3))
        seen, given, drawn = list[Tensor](), list[Tensor](), list[Tensor]()
        first_memory = self._memory.clone()
        for step in range(steps):
            observations[step], starts[step] = self._observations, self._starts
            features, memory = self._see(observations[step])
            outputs = network.actor(features)
            latent = network.distribution.sample(outputs, network.free, random)
            for kept, value in ((seen, features), (given, outputs), (drawn, latent)):
                kept.append(value)
            actions = network.distribution.actions(latent).numpy()
            self._observations, reward, ended, truncated, info = env.step(actions)
            self._memory = memory
            done = ended | truncated
            rewards[step], dones[step], self._starts = reward * self.reward_scale, done, done.astype(np.float32)
            self._returns += reward
            if np.any(truncated):
                rewards[step] += discount * truncated * self._last_values(truncated, info)
            if np.any(done):
                finished.append(self._returns[done])
                self._returns[done] = 0
        seen.append(self._see(np.asarray(self._observations, np.float32))[0])
        self.finished = np.concatenate(finished) if finished else np.zeros(0)
        if not (np.isfinite(rewards).all() and np.isfinite(observations).all()):
            raise DivergedError("the environment gave a reward or an observation that is not finite")
        values, latents = network.values(torch.stack(seen)).numpy(), torch.stack(drawn)
        log_probs = network.distribution.log_prob(torch.stack(given), network.free, latents)
        gains = advantages(rewards, values[:-1], dones, values[-1], discount, trace)
        return Rollout(
            Batch(
                torch.from_numpy(observations), latents, log_probs, torch.from_numpy(gains),
                torch.from_numpy(gains + values[:-1]), torch.from_numpy(starts), first_memory.expand(*shape, -1) if network.memory is None else first_memory.unsqueeze(0),
            ),
            sequences=network.memory is not None,
        )  # fmt: skip

    def _see(self, observations: Any) -> tuple[Tensor, Tensor]:
        kept = self._memory * torch.from_numpy(1 - self._starts).unsqueeze(-1)
        return self.network.see(torch.from_numpy(observations), kept)

    def _last_values(self, truncated: Any, info: dict[str, Any]) -> Floats:
        """(N,) values of the last observations of episodes that were cut off, 0 elsewhere."""
        which = np.flatnonzero(truncated)
        last = torch.from_numpy(np.stack(info["final_obs"][which]).astype(np.float32))
        features, _ = self.network.see(last, self._memory[torch.from_numpy(which)])
        values = np.zeros(len(truncated), np.float32)
        values[which] = self.network.values(features).numpy()
        return values
