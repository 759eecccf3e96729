"""Rules that take positions, to compare agents with."""

import dataclasses
from typing import Any, Protocol

import numpy as np

from serl.agents.directional.environment import DirectionalVectorEnv


class Rule(Protocol):
    """Positions for all environments at once."""

    @property
    def name(self) -> str:
        """For tables."""

    def shares(self, env: DirectionalVectorEnv) -> Any:
        """(N,) positions as shares of the largest, in [-1, 1]."""


@dataclasses.dataclass(frozen=True)
class Flat:
    """Holds nothing."""

    name: str = "flat"

    def shares(self, env: DirectionalVectorEnv) -> Any:
        """See `Rule`."""
        return np.zeros(env.num_envs)


@dataclasses.dataclass(frozen=True)
class Uniform:
    """A random position at each decision. The same windows and seed give the same positions."""

    seed: int = 0
    name: str = "random"

    def shares(self, env: DirectionalVectorEnv) -> Any:
        """See `Rule`."""
        first = env.episodes[0]
        words = [self.seed, int(env.step_numbers[0]), int(first["day"]), int(first["start_ns"])]
        return np.random.default_rng(words).uniform(-1.0, 1.0, env.num_envs)


@dataclasses.dataclass(frozen=True)
class Momentum:
    """The largest position in the direction of the mid's move over ten intervals, once it is at least this far; until then the position stays."""

    threshold_ticks: float
    direction = 1

    @property
    def name(self) -> str:
        """With the threshold."""
        return f"{type(self).__name__}, {self.threshold_ticks:g} ticks"

    def shares(self, env: DirectionalVectorEnv) -> Any:
        """See `Rule`."""
        moves = env.observer.moves_ticks
        return np.where(np.abs(moves) >= self.threshold_ticks, self.direction * np.sign(moves), env.inventory)


class MeanReversion(Momentum):
    """As `Momentum`, against the move."""

    direction = -1
