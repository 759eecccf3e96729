"""Policies that react to the market or to the remaining quantity: participation, all at once, passive then crossing, patience."""

import dataclasses

import numpy as np

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import NO_INTERFACE, SCHEDULE_MODES, Floats, lots_to_actions, require_mode
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
    interface = NO_INTERFACE

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
    """Takes everything at once; what the book cannot fill is sent again at the next decision."""

    name = "aggressive"
    modes = ("market", "hybrid")
    interface = NO_INTERFACE

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
    interface = NO_INTERFACE

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


@dataclasses.dataclass(frozen=True)
class Patience:
    """Rests some even slices of the order near the mid (in bars, the last close), renewed at every decision; the quantity that is behind an even
    schedule by more than `late_slices` crosses. With rest_slices 0 and late_slices -1 it is a TWAP. It is a simple rule that a trained policy must
    beat; see `fit_patience` for its fitted form."""

    rest_slices: float = 4.0
    """Number of even slices (quantity over decisions) that rest."""
    late_slices: float = 3.0
    """Number of even slices that the order may be late; -1: the slice that is due now crosses."""
    place: float = 0.0
    """Where the slices rest, in half spreads from the mid: 0 is the mid (rounded towards the own side), 1 the same-side touch, 2 behind it."""

    name = "patience"
    modes = ("hybrid",)
    interface = NO_INTERFACE

    def __post_init__(self) -> None:
        if not (self.rest_slices >= 0 and self.late_slices >= -1 and self.place >= 0):
            raise ConfigError(
                "patience: expected resting slices and a place from 0 on, and late slices from -1 on, got "
                f"{self.rest_slices}, {self.late_slices} and {self.place}"
            )

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        require_mode(self, env.actions)
        episodes, parents, frames = env.accounts.episodes, env.accounts.parents, env.market.frames
        slice_lots, remaining = episodes["qty_lots"] / episodes["steps"], parents["remaining_lots"]
        behind = remaining - slice_lots * (episodes["steps"] - parents["step"])
        take = np.clip(np.ceil(behind - self.late_slices * slice_lots), 0, remaining)
        rest = np.minimum(np.ceil(self.rest_slices * slice_lots), remaining - take)
        bid, ask = frames["bid_ticks"][:, 0], frames["ask_ticks"][:, 0]
        half_spread = np.where((bid > 0) & (ask > 0), 0.5 * (ask - bid), 0.0)
        actions, unit = lots_to_actions(env, take, rest), env.offset_unit_ticks()
        ticks = np.ceil((self.place - 1) * half_spread)
        np.divide(ticks, unit, out=actions[:, 2], where=unit > 0)  # without offsets everything rests at the touch
        return actions
