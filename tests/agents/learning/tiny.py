"""Markets of a few bars whose best policy is known."""

from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.environment.bars import BarDays, StaticBars
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.learning.baseline import BaselinePolicy
from serl.agents.learning.policy import Policy, load_policy
from serl.agents.learning.rule_policy import RulePolicy
from serl.exchange.records import Rows

MINUTE_NS = 60_000_000_000
START_NS = 10 * 60 * MINUTE_NS
PRICE, VOLUME, JUMP = 10_000.0, 1_000.0, 30.0
"""Ticks, so that a tick is 1 bps; lots."""


def load_trained(path: Path) -> Policy | BaselinePolicy:
    """The policy of a file, which has a network."""
    policy = load_policy(path)
    assert not isinstance(policy, RulePolicy)
    return policy


class Sales:
    """Sells 100 lots of a random day, one decision a bar."""

    def __init__(self, days: int, steps: int) -> None:
        self._days, self._steps = days, steps

    def sample(self, random: np.random.Generator, count: int) -> Rows:
        """(count,) EPISODE rows."""
        rows = np.zeros(count, EPISODE)
        rows["day"] = random.integers(self._days, size=count)
        rows["sign"], rows["qty_lots"], rows["steps"] = 1, 100, self._steps
        rows["start_ns"], rows["interval_ns"] = START_NS, MINUTE_NS
        return rows


def _env(values: Any, count: int, actions: str) -> ExecutionVectorEnv:
    starts = START_NS + MINUTE_NS * np.arange(values.shape[1])
    market = StaticBars(
        BarDays(starts, MINUTE_NS, values), count, half_spread_bps=0.5, participation=0.5, fills="touch"
    )
    scales = Scales(volume_lots=VOLUME, depth_lots=VOLUME)
    return ExecutionVectorEnv(market, Sales(*values.shape[:2]), actions=actions, scales=scales)


def flat(days: int, steps: int) -> Any:
    """(days, steps, 6) bars at PRICE."""
    values = np.full((days, steps, 6), PRICE)
    values[..., 5] = VOLUME
    return values


def announced_jumps(count: int, steps: int = 6) -> ExecutionVectorEnv:
    """On day k the VWAP of bar k + 1 is higher by JUMP; the bar before it has ten times the volume. Whoever knows sells all there."""
    values = flat(steps - 1, steps)
    for day in range(steps - 1):
        values[day, day + 1, 1] = values[day, day + 1, 4] = PRICE + JUMP
        values[day, day, 5] = 10 * VOLUME
    return _env(values, count, "market")


def wide_ranges(count: int, steps: int = 6, late_ticks: float = 0.0, actions: str = "limit") -> ExecutionVectorEnv:
    """Every bar reaches 6 ticks beyond its mid, so that a sale rests best at 4 ticks behind the ask, the last price that fills; the second
    half of the window is higher by late_ticks."""
    values = flat(1, steps)
    values[:, steps // 2 :, :5] += late_ticks
    values[..., 1] += 6
    values[..., 2] -= 6
    return _env(values, count, actions)
