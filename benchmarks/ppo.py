"""PPO in a toy execution environment of numpy (256 environments, 8 numbers seen), learning included, on one thread.

Plain Gaussian actions, two tanh layers of 64 for the actor and as many for the critic, 10 epochs of rollouts of 64 steps. ratio_to_sb3: against
Stable-Baselines3's PPO with the same environment, network, epochs and minibatch, by turns in the same run; best of the rounds
of each. The first two figures are those of the largest minibatch.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.sb3 import learner
from benchmarks.toy import ToyExecution
from serl.agents.learning.networks import NetworkConfig
from serl.agents.learning.ppo import PPO, PPOConfig

ENVIRONMENTS, ROLLOUT_STEPS, ROUNDS = 256, 64, 8
MINIBATCHES = (256, 1024, 4096)


def _seconds(update: Callable[[], Any]) -> float:
    began = time.perf_counter()
    update()
    return time.perf_counter() - began


def _rates(minibatch: int) -> dict[str, float]:
    """Environment steps a second of both, and their ratio."""
    config = PPOConfig(rollout_steps=ROLLOUT_STEPS, minibatch=minibatch)
    network = NetworkConfig(actions="gaussian")
    ours = PPO([ToyExecution(ENVIRONMENTS)], config, network)
    ours.begin()
    theirs = learner(ToyExecution(ENVIRONMENTS), config, network.hidden)
    steps = ENVIRONMENTS * ROLLOUT_STEPS
    rounds = [(_seconds(ours.update), _seconds(lambda: theirs.learn(steps))) for _ in range(ROUNDS + 1)][1:]
    mine, other = (steps / min(seconds) for seconds in zip(*rounds, strict=True))
    return {"steps_per_s": mine, "sb3_steps_per_s": other, "ratio_to_sb3": mine / other}


def run() -> dict[str, Any]:
    """All figures."""
    rates = {str(minibatch): _rates(minibatch) for minibatch in MINIBATCHES}
    last = rates[str(MINIBATCHES[-1])]
    return {
        "steps_per_s": last["steps_per_s"],
        "ratio_to_sb3": last["ratio_to_sb3"],
        "by_minibatch": rates,
    }
