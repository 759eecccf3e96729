"""PPO in a toy execution environment in numpy (256 environments, 8 observed numbers), learning included, on two cores.

Plain Gaussian actions, two tanh layers of 64 for the actor and as many for the critic, 10 epochs of rollouts of 64 steps. ratio_to_sb3: relative to
Stable-Baselines3's PPO with the same environment, network, epochs and minibatch. Both alternate in the same run, each with one and with two
threads; best of the rounds and threads of each. The first two figures are those of the largest minibatch.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.sb3 import learner
from benchmarks.toy import ToyExecution
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig

ENVIRONMENTS, ROLLOUT_STEPS, ROUNDS = 256, 64, 4
MINIBATCHES = (256, 1024, 4096)


def _seconds(update: Callable[[], Any], threads: int) -> float:
    torch.set_num_threads(threads)
    began = time.perf_counter()
    update()
    return time.perf_counter() - began


def _learners(minibatch: int, threads: int) -> list[tuple[Callable[[], Any], int]]:
    """An update of ours and one of theirs, and how many threads PyTorch has in each."""
    config = PPOConfig(rollout_steps=ROLLOUT_STEPS, minibatch=minibatch, threads=threads)
    network = NetworkConfig(actions="gaussian")
    ours = PPO([ToyExecution(ENVIRONMENTS)], config, network)
    ours.reset()
    theirs = learner(ToyExecution(ENVIRONMENTS), config, network.hidden)
    return [(ours.update, 1), (partial(theirs.learn, ENVIRONMENTS * ROLLOUT_STEPS), threads)]


def _rates(minibatch: int) -> dict[str, float]:
    """Environment steps a second of both, and their ratio."""
    turns = _learners(minibatch, 1) + _learners(minibatch, 2)
    rounds = [[_seconds(*turn) for turn in turns] for _ in range(ROUNDS + 1)][1:]
    fastest = np.min(rounds, axis=0)
    mine, other = ENVIRONMENTS * ROLLOUT_STEPS / np.minimum(fastest[:2], fastest[2:])
    return {"steps_per_s": float(mine), "sb3_steps_per_s": float(other), "ratio_to_sb3": float(mine / other)}


def run() -> dict[str, Any]:
    """All figures."""
    rates = {str(minibatch): _rates(minibatch) for minibatch in MINIBATCHES}
    last = rates[str(MINIBATCHES[-1])]
    return {
        "steps_per_s": last["steps_per_s"],
        "ratio_to_sb3": last["ratio_to_sb3"],
        "by_minibatch": rates,
    }
