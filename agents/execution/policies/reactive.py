"""Policies that look at the market or at what is left: participation, all at once, passive then cross."""

import dataclasses

import numpy as np

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import SCHEDULE_MODES, Floats, check_mode, lots_as_actions
from serl.exchange.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Participation:
    """POV: own volume is a rate of all volume since the start, as far as it was seen: due = ρ/(1-ρ) x what others traded.

    It trails the market by one step. In modes `limit` and `hybrid` what is due rests at the own touch.
    """

    rate: float = 0.1
    """ρ in (0, 1)."""

    name = "pov"
    modes = SCHEDULE_MODES
    interface = None

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ConfigError(f"pov: a rate between 0 and 1 is due, got {self.rate}")

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        check_mode(self, env.actions)
        parents = env.accounts.parents
        done = env.accounts.episodes["qty_lots"] - parents["remaining_lots"]
        due = np.floor(self.rate / (1 - self.rate) * parents["market_lots"]) - done
        due = np.clip(due, 0, parents["remaining_lots"])
        return lots_as_actions(env, np.zeros_like(due), due)


class Aggressive:
    """Everything at the market, at once; what the book does not hold follows at the next decision."""

    name = "aggressive"
    modes = ("market", "hybrid")
    interface = None

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        check_mode(self, env.actions)
        remaining = env.accounts.parents["remaining_lots"]
        return lots_as_actions(env, remaining, np.zeros_like(remaining))


@dataclasses.dataclass(frozen=True)
class Passive:
    """Everything rests at the own touch, moved there at every decision; in the last share of the window equal slices of it cross."""

    cross_share: float = 0.2
    """Of the steps, at the end, in [0, 1]."""

    name = "passive"
    modes = ("hybrid",)
    interface = None

    def __post_init__(self) -> None:
        if not 0 <= self.cross_share <= 1:
            raise ConfigError(f"passive: a share of the window between 0 and 1 is due, got {self.cross_share}")

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        check_mode(self, env.actions)
        parents, steps = env.accounts.parents, env.accounts.episodes["steps"]
        remaining, left = parents["remaining_lots"], steps - parents["step"]
        take = np.where(left <= self.cross_share * steps, np.ceil(remaining / left), 0)
        return lots_as_actions(env, take, remaining - take)
