"""Schedules that are fixed at the start: how much of a parent order must be done after each of its steps.

With `market` actions every slice crosses the book. With `limit` actions it rests at the own touch, and what it does not fill is added to
the next one; the rest of the window's end is forced. With `hybrid` actions a slice rests, and what earlier slices left unfilled crosses.
"""

import dataclasses
from typing import Any

import numpy as np

from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import SCHEDULE_MODES, Floats, check_mode, lots_as_actions
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows

ROUNDING_LOTS = 1e-6
"""More than the error of a share times a quantity, less than the distance of a fraction of lots from the next whole lot."""


class Schedule:
    """A policy that follows a share of the quantity over the steps; whole lots, rounded down, so that nothing is early."""

    name = ""
    modes = SCHEDULE_MODES
    interface = None

    def share(self, episodes: Rows, step: Any) -> Any:
        """(N,) share of the quantity that is due once the slices before `step` are sent: 0 at step 0, 1 at the last."""
        raise AssertionError("a schedule says what is due when")

    def target_lots(self, episodes: Rows, step: Any) -> Any:
        """(N,) the same in whole lots."""
        return np.floor(episodes["qty_lots"] * self.share(episodes, step) + ROUNDING_LOTS).astype(np.int64)

    def actions(self, env: ExecutionVectorEnv) -> Floats:
        """See Policy."""
        check_mode(self, env.actions)
        episodes, parents = env.accounts.episodes, env.accounts.parents
        step, remaining = parents["step"], parents["remaining_lots"]
        done = episodes["qty_lots"] - remaining
        due = np.clip(self.target_lots(episodes, step + 1) - done, 0, remaining)
        late = np.clip(self.target_lots(episodes, step) - done, 0, due)
        return lots_as_actions(env, late, due - late)


class Twap(Schedule):
    """Equal slices: k/N of the quantity after k of N steps."""

    name = "twap"

    def share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule."""
        return step / episodes["steps"]


@dataclasses.dataclass(frozen=True)
class AlmgrenChriss(Schedule):
    """The mean-variance optimum of Almgren and Chriss, Optimal execution of portfolio transactions (2000), equations 16 to 20.

    What is left after k of N steps of length τ is Q sinh κ(N-k)τ / sinh κNτ with 2 (cosh κτ - 1) / τ² = λσ²/η. ConfigError unless
    λ >= 0, σ >= 0 and η > 0. With κ = 0 it is TWAP.
    """

    risk_aversion: float = 1e-6
    """λ, per tick and lot."""
    volatility: float = 2.0
    """σ of the mid, ticks per square root of a second."""
    impact: float = 1.0
    """η, what trading a lot a second costs a lot: ticks times seconds per lot."""

    name = "ac"

    def __post_init__(self) -> None:
        if self.risk_aversion < 0 or self.volatility < 0 or self.impact <= 0:
            raise ConfigError(
                f"ac: risk aversion and volatility of at least 0 and a positive impact are due, got {self.risk_aversion}, "
                f"{self.volatility} and {self.impact}"
            )

    def urgency(self, interval_ns: Any) -> Any:
        """κτ of steps of this length; no unit."""
        squared = self.risk_aversion * self.volatility**2 / self.impact
        return np.arccosh(0.5 * squared * (np.asarray(interval_ns) * 1e-9) ** 2 + 1)

    def share(self, episodes: Rows, step: Any) -> Any:
        """See Schedule."""
        return 1 - left_share(self.urgency(episodes["interval_ns"]), episodes["steps"], step)


def left_share(urgency: Any, steps: Any, step: Any) -> Any:
    """sinh u(N-k) / sinh uN, (N-k)/N for u = 0; written with exponentials of negative numbers, which do not overflow."""
    urgency = np.asarray(urgency, np.float64)
    safe = np.where(urgency > 0, urgency, 1.0)
    curved = np.exp(-safe * step) * np.expm1(-2 * safe * (steps - step)) / np.expm1(-2 * safe * steps)
    return np.where(urgency > 0, curved, (steps - step) / steps)
