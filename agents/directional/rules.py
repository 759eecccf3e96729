"""Rules that take positions, as baselines for agents."""

import dataclasses
from typing import Any

import numpy as np

from serl.agents.directional.environment import DirectionalVectorEnv
from serl.agents.positions.rules import Flat, Uniform

__all__ = ["Flat", "MeanReversion", "Momentum", "Uniform"]


@dataclasses.dataclass(frozen=True)
class Momentum:
    """Takes the largest position in the direction of the mid's move over ten intervals if the move reaches the threshold; otherwise keeps the
    position."""

    threshold_ticks: float
    direction = 1

    @property
    def name(self) -> str:
        """The name, with the threshold."""
        return f"{type(self).__name__}, {self.threshold_ticks:g} ticks"

    def shares(self, env: DirectionalVectorEnv) -> Any:
        """See `Rule`."""
        moves = env.observer.moves_ticks
        return np.where(np.abs(moves) >= self.threshold_ticks, self.direction * np.sign(moves), env.inventory)


class MeanReversion(Momentum):
    """Like `Momentum`, but against the move."""

    direction = -1
