"""Rules that take positions, to compare agents with."""

import dataclasses
from typing import Any

import numpy as np

from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.positions.rules import Flat, Uniform

__all__ = ["Flat", "MeanReversion", "Momentum", "Uniform"]


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
