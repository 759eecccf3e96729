"""PPO in serl's own markets, end to end: from the first environment step until the last update.

- Markets and settings are those of `serl train` (configs/training): bars (256 environments, minutes of a random walk), replay (64, the book of the AMZN
  day of LOBSTER, or else of a generated day) and dynamic (32, simulated traders who react).
- Networks and epochs: two tanh layers of 64 for the actor and as many for the critic, 10 epochs.
- Every learner uses one thread; the dynamic market uses all cores, whichever learner runs in it.
- The learners alternate in the same run, for five rounds after one that is not counted. Figures are medians over the rounds, ratio_min and ratio_max
  the smallest and the largest ratio of a round.

sb3: relative to Stable-Baselines3's PPO with equal networks, rollouts, minibatches, epochs and steps, both with plain Gaussian actions.
serl_beta: with the Beta actions of the settings.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.sb3 import learner
from benchmarks.training_markets import NAMES, open_market
from serl.agents.learning.environments import Scenario
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig

UPDATES = {"bars": 12, "replay": 12, "dynamic": 6}
"""Rollouts, each followed by its epochs, that a learner does in its turn."""
ROUNDS = 5


def _learn(ppo: PPO, updates: int) -> None:
    """Starts new episodes and trains."""
    ppo.reset()
    for _ in range(updates):
        ppo.update()


def _learners(
    scenario: Scenario, config: PPOConfig, network: NetworkConfig, updates: int
) -> dict[str, Callable[[], object]]:
    """By name, what trains in a turn. Each begins with new episodes, because the market is shared."""
    scales, gaussian = scenario.fit_scales(), network.model_copy(update={"actions": "gaussian"})
    sb3 = learner(scenario.env(scales), config, network.hidden)
    steps = updates * config.rollout_steps * scenario.config.environments
    return {
        "serl": partial(_learn, PPO([scenario.env(scales)], config, gaussian), updates),
        "sb3": partial(sb3.learn, steps),
        "serl_beta": partial(_learn, PPO([scenario.env(scales)], config, network), updates),
    }


def _seconds(train: Callable[[], object]) -> float:
    torch.set_num_threads(1)
    began = time.perf_counter()
    train()
    return time.perf_counter() - began


def _beside(slower: Any, faster: Any) -> dict[str, float]:
    """Ratios of the rounds' seconds."""
    ratios = np.asarray(slower) / np.asarray(faster)
    return {"ratio": float(np.median(ratios)), "ratio_min": float(ratios.min()), "ratio_max": float(ratios.max())}


def figures(name: str) -> dict[str, Any]:
    """The learners in one market by turns."""
    settings, scenario = open_market(name)
    config, updates = settings.ppo.model_copy(update={"threads": 1}), UPDATES[name]
    learners = _learners(scenario, config, settings.network, updates)
    rounds = [[_seconds(train) for train in learners.values()] for _ in range(ROUNDS + 1)][1:]
    seconds = dict(zip(learners, np.transpose(rounds), strict=True))
    steps = updates * config.rollout_steps * scenario.config.environments
    return {
        "steps": steps,
        "steps_per_s": {learner: steps / float(np.median(took)) for learner, took in seconds.items()},
        "sb3": _beside(seconds["sb3"], seconds["serl"]),
    }


def run() -> dict[str, Any]:
    """All figures."""
    return {name: figures(name) for name in NAMES}
