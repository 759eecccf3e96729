"""Policies that react to the market or to the remaining quantity: participation, all at once, passive then crossing."""

import dataclasses

import numpy as np

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import SCHEDULE_MODES, Floats, lots_to_actions, require_mode
from serl.exchange.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Participation:
    """POV: own volume is a constant share of all volume since the start. The target is ρ/(1-ρ) x what others have traded so far.

    It lags the market by one step. In modes `limit` and `hybrid` the missing quantity rests at the same-side touch.
    """

    rate: float = 0.1
    """ρ in (0, 1)."""

    name = "pov"
    modes = SCHEDULE_MODES
    interface = None

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ConfigError(f"pov: expected a rate between 0 and 1, got {self.rate}")

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        require_mode(self, env.actions)
        parents = env.accounts.parents
        filled = env.accounts.episodes["qty_lots"] - parents["remaining_lots"]
        missing = np.floor(self.rate / (1 - self.rate) * parents["market_lots"]) - filled
        missing = np.clip(missing, 0, parents["remaining_lots"])
        return lots_to_actions(env, np.zeros_like(missing), missing)


class Aggressive:
    """Takes everything at once; what the book cannot fill follows at the next decision."""

    name = "aggressive"
    modes = ("market", "hybrid")
    interface = None

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        require_mode(self, env.actions)
        remaining = env.accounts.parents["remaining_lots"]
        return lots_to_actions(env, remaining, np.zeros_like(remaining))


@dataclasses.dataclass(frozen=True)
class Passive:
    """Rests everything at the same-side touch, renewed at every decision. In the last share of the window, equal slices cross the book."""

    cross_share: float = 0.2
    """Share of the steps, at the end, in which slices cross; in [0, 1]."""

    name = "passive"
    modes = ("hybrid",)
    interface = None

    def __post_init__(self) -> None:
        if not 0 <= self.cross_share <= 1:
            raise ConfigError(f"passive: expected a share of the window between 0 and 1, got {self.cross_share}")

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        require_mode(self, env.actions)
        parents, steps = env.accounts.parents, env.accounts.episodes["steps"]
        remaining, steps_left = parents["remaining_lots"], steps - parents["step"]
        take = np.where(steps_left <= self.cross_share * steps, np.ceil(remaining / steps_left), 0)
        return lots_to_actions(env, take, remaining - take)
