"""Rules for environments with target positions that ignore the market."""

import dataclasses
from typing import Any

import numpy as np

from serl.agents.positions.targets import TargetVectorEnv


@dataclasses.dataclass(frozen=True)
class Flat:
    """Holds no position."""

    name: str = "flat"

    def shares(self, env: TargetVectorEnv) -> Any:
        """See `Rule`."""
        return np.zeros(env.num_envs)


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Takes a random position at each decision. The same windows and seed give the same positions."""

    seed: int = 0
    name: str = "random"

    def shares(self, env: TargetVectorEnv) -> Any:
        """See `Rule`."""
        first = env.episodes[0]
        words = [self.seed, int(env.step_numbers[0]), int(first["day"]), int(first["start_ns"])]
        return np.random.default_rng(words).uniform(-1.0, 1.0, env.num_envs)
