"""Schedules: how much of a parent order should be traded after each of its steps, fixed at the start.

With `market` actions every slice crosses the book. With `limit` actions it rests at the same-side touch, and the unfilled part is added to
the next slice. With `hybrid` actions the slice rests, and the unfilled part of earlier slices crosses.
"""

import dataclasses
from typing import Any

import numpy as np

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import NO_INTERFACE, SCHEDULE_MODES, Floats, lots_to_actions, require_mode
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

ROUNDING_LOTS = 1e-6
"""Larger than the floating-point error of a share times a quantity."""
SQUARED_MAX = 1e100
"""Of λσ²/η, and of σ: everything is due at once long before, and larger numbers overflow."""


class Schedule:
    """A policy that follows a target share of the quantity, in whole lots, rounded down so that nothing is traded early."""

    name = ""
    modes = SCHEDULE_MODES
    interface = NO_INTERFACE

    def target_share(self, episodes: Rows, step: Any) -> Any:
        """(N,) target share of the quantity after the first `step` slices: 0 at step 0, 1 after the last."""
        raise AssertionError("subclasses define their schedule")

    def target_lots(self, episodes: Rows, step: Any) -> Any:
        """(N,) target_share in whole lots."""
        return np.floor(episodes["qty_lots"] * self.target_share(episodes, step) + ROUNDING_LOTS).astype(np.int64)

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        require_mode(self, env.actions)
        episodes, parents = env.accounts.episodes, env.accounts.parents
        step, remaining = parents["step"], parents["remaining_lots"]
        filled = episodes["qty_lots"] - remaining
        missing = np.clip(self.target_lots(episodes, step + 1) - filled, 0, remaining)
        late = np.clip(self.target_lots(episodes, step) - filled, 0, missing)
        return lots_to_actions(env, late, missing - late)


class Twap(Schedule):
    """Equal slices: k/N of the quantity after k of N steps."""

    name = "twap"

    def target_share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule."""
        return step / episodes["steps"]


@dataclasses.dataclass(frozen=True)
class AlmgrenChriss(Schedule):
    """The mean-variance optimum of Almgren and Chriss, Optimal execution of portfolio transactions (2000), equations 16 to 20.

    The remaining quantity after k of N steps of length τ is Q sinh κ(N-k)τ / sinh κNτ with 2 (cosh κτ - 1) / τ² = λσ²/η. κ = 0 is TWAP.
    ConfigError unless λ >= 0, σ >= 0 and η > 0.
    """

    risk_aversion: float = 1e-6
    """λ, per tick and lot."""
    volatility: float = 2.0
    """σ of the mid, ticks per square root of a second."""
    impact: float = 1.0
    """η, temporary impact: ticks per lot for each lot per second."""

    name = "ac"

    def __post_init__(self) -> None:
        in_range = self.risk_aversion >= 0 and 0 <= self.volatility <= SQUARED_MAX and self.impact > 0
        if not (in_range and self._squared <= SQUARED_MAX):
            raise ConfigError(
                f"ac: expected risk aversion and volatility of at least 0 and a positive impact, all finite, got {self.risk_aversion}, "
                f"{self.volatility} and {self.impact}"
            )

    @property
    def _squared(self) -> float:
        """λσ²/η."""
        return self.risk_aversion * self.volatility**2 / self.impact

    def urgency(self, interval_ns: Any) -> Any:
        """κτ for steps of this length; dimensionless."""
        return np.arccosh(0.5 * self._squared * (np.asarray(interval_ns) * 1e-9) ** 2 + 1)

    def target_share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule."""
        return 1 - remaining_share(self.urgency(episodes["interval_ns"]), episodes["steps"], step)


def remaining_share(urgency: Any, steps: Any, step: Any) -> Any:
    """sinh u(N-k) / sinh uN, or (N-k)/N for u = 0; computed with exponentials of negative numbers, which cannot overflow."""
    urgency = np.asarray(urgency, np.float64)
    safe = np.where(urgency > 0, urgency, 1.0)
    curved = np.exp(-safe * step) * np.expm1(-2 * safe * (steps - step)) / np.expm1(-2 * safe * steps)
    return np.where(urgency > 0, curved, (steps - step) / steps)
