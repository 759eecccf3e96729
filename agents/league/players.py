"""Learnt makers and executors, and their training."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.policies.policy import Policy
from serl.agents.league.league import League
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.policy import Policy as LearntPolicy
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.learning.training import learnt_policy
from serl.agents.making.environment import MakingVectorEnv
from serl.agents.making.makers import Maker

NETWORK = NetworkConfig(hidden=(64, 64), actions="beta")
EXECUTOR = PPOConfig(rollout_steps=30, minibatch=480, gamma=1.0, gae_lambda=0.9, reward_scale=0.2, entropy=0.001)
MAKER = PPOConfig(rollout_steps=100, minibatch=800, gamma=0.99, gae_lambda=0.95, reward_scale=0.1, entropy=0.001)


@dataclasses.dataclass
class LearntMaker:
    """A maker whose quotes come from a network."""

    policy: LearntPolicy
    name: str

    def offsets(self, env: MakingVectorEnv) -> Any:
        """See `Maker`."""
        self.policy.reset(env.num_envs)
        return env.offsets(self.policy.predict(env.observe()))


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Plays one of several makers in each environment."""

    makers: Sequence[Maker]
    name: str = "mixed"

    def offsets(self, env: MakingVectorEnv) -> Any:
        """See `Maker`."""
        every = np.stack([maker.offsets(env) for maker in self.makers])
        return every[np.arange(env.num_envs) % len(self.makers), np.arange(env.num_envs)]


Keep = Callable[[str, Callable[[], LearntPolicy]], LearntPolicy]
"""Returns the policy of the learner with a name: runs its training, or returns the policy if it was trained before."""


def self_play(
    league: League, executors: Sequence[Policy], makers: Sequence[Maker], rounds: int, executor: PPOConfig, maker: PPOConfig,
    keep: Keep = lambda _name, train: train(),
) -> tuple[list[LearntPolicy], list[LearntMaker]]:  # fmt: skip
    """Trains the learners of each round. In a round, an executor learns against all makers so far, then a maker against all executors so far; each
    starts from its weights of the round before."""
    scales: Scales = league.fit_scales(Mixed(makers))
    policies: list[LearntPolicy] = []
    quoting: list[LearntMaker] = []
    for number in range(1, rounds + 1):
        name = learnt_name(number)
        env = league.executor_env(Mixed([*makers, *quoting]), scales)
        start = policies[-1] if policies else None
        policies.append(keep(f"executor-{number}", partial(learnt_policy, env, executor, NETWORK, name, start)))
        policies[-1].name = name
        making = league.maker_env([*executors, *policies])
        before = quoting[-1].policy if quoting else None
        quotes = keep(f"maker-{number}", partial(learnt_policy, making, maker, NETWORK, name, before))
        quoting.append(LearntMaker(quotes, name))
    return policies, quoting


def learnt_name(number: int) -> str:
    """The name of the learners of a round, which counts from 1."""
    return f"PPO, round {number}"
