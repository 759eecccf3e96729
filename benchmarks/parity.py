"""`python -m benchmarks.parity [--seeds 5]`: our PPO and Stable-Baselines3's learn equally well in the same environment.

Both with plain Gaussian actions, the same network, settings and one learning rate, in the toy execution environment; a line per checkpoint
of the learning curve: mean return over seeds and its 95 % interval (Student's t). Exit status 1 unless the intervals of the difference contain 0 in
all but one of the checkpoints (with 95 % intervals one in twenty misses by chance).
"""

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.sb3 import learner
from benchmarks.toy import ToyExecution
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.ppo import PPO
from serl.agents.learning.ppo_config import PPOConfig
from serl.agents.students_t import student

Floats = NDArray[np.float64]
ENVIRONMENTS, ROLLOUT_STEPS = 32, 32


def config_of(seed: int) -> PPOConfig:
    """Equal learning rates for actor and critic, because Stable-Baselines3 has only one."""
    return PPOConfig(
        rollout_steps=ROLLOUT_STEPS, minibatch=256, seed=seed, threads=1,
        actor_learning_rate=1e-3, critic_learning_rate=1e-3,
    )  # fmt: skip


def curves(seeds: int, updates: int) -> tuple[Floats, Floats]:
    """(seeds, updates) mean returns of the episodes that ended in each rollout: ours, theirs."""
    ours, theirs = np.zeros((seeds, updates)), np.zeros((seeds, updates))
    for seed in range(seeds):
        mine = PPO([ToyExecution(ENVIRONMENTS)], config_of(seed), NetworkConfig(actions="gaussian"))
        mine.reset()
        ours[seed] = [mine.update()["return"] for _ in range(updates)]
        other: Any = learner(ToyExecution(ENVIRONMENTS), config_of(seed + 1000), (64, 64))
        other.learn(updates * ENVIRONMENTS * ROLLOUT_STEPS)
        finished = np.array(other.env.finished).reshape(updates, -1)
        theirs[seed] = finished.mean(1)
    return ours, theirs


def difference(ours: Floats, theirs: Floats) -> tuple[Floats, Floats]:
    """(difference of the means over seeds, half width of its 95 % interval), for each checkpoint."""
    seeds = len(ours)
    error = np.sqrt((ours.var(0, ddof=1) + theirs.var(0, ddof=1)) / seeds)
    return ours.mean(0) - theirs.mean(0), student(2 * seeds - 2) * error


def main() -> None:
    """Print the curves and compare them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parity", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, choices=(2, 5, 10))
    parser.add_argument("--updates", type=int, default=80)
    arguments = parser.parse_args()
    ours, theirs = curves(arguments.seeds, arguments.updates)
    windows = [one.reshape(arguments.seeds, 8, -1).mean(2) for one in (ours, theirs)]
    gap, half = difference(*windows)
    steps = ENVIRONMENTS * ROLLOUT_STEPS * arguments.updates // 8
    for place in range(8):
        means = [f"{one[:, place].mean():8.4f} ± {one[:, place].std(ddof=1):.4f}" for one in windows]
        print(
            f"{(place + 1) * steps:>8,} steps  ours {means[0]}  sb3 {means[1]}  gap {gap[place]:7.4f} ± {half[place]:.4f}"
        )
    missed = int((np.abs(gap) > half).sum())
    print(f"{missed} of 8 intervals of the difference do not contain 0")
    sys.exit(missed > 1)


if __name__ == "__main__":
    main()
