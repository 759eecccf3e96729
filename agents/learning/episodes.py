"""Records whole episodes of policies for offline learners: observations, actions and rewards of every decision.

All policies are recorded in one environment, `serl/Execution-v0` with the settings of the market and action mode `hybrid`, which can express every
child order of a decision. A policy with other observations or another mode decides from a view of the same market and accounts. Its decision is
converted to an action of the environment, clipped to the box, and this action is executed: replaying it gives the same episode.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.observation import Observer, Scales
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.policies.policy import environment_settings
from serl.agents.learning.environments import SCALED_WITH, Scenario
from serl.agents.learning.evaluation import Contender, Floats
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.exchange.records import Rows

MODE = "hybrid"
"""Action mode of recorded episodes."""


@dataclass(frozen=True)
class Recording:
    """n orders of s decisions, worked by one policy."""

    policy: str
    orders: Rows
    """(n,) EPISODE rows."""
    observations: NDArray[np.float32]
    """(n, s + 1, size); the last is after the end."""
    actions: NDArray[np.float32]
    """(n, s, 3) in [-1, 1], as `serl/Execution-v0` takes them."""
    rewards: Floats
    """(n, s) in bps of the order."""
    remaining_lots: NDArray[np.int64]
    """(n, s + 1) remaining lots before each decision and after forced completion."""
    mids_ticks: Floats
    """(n, s + 1) mids at the same times."""
    results: dict[str, Floats]
    """(n,) each: Accounts.results, and `arrival_mid_ticks`."""


def recorded_scenario(config: MarketConfig) -> Scenario:
    """The scenario in which episodes of a market are recorded. Its environment is that of `serl/Execution-v0`, with the same units."""
    return Scenario(with_overrides(config, {"actions": MODE, "environments": SCALED_WITH}))


class _Observers(Observer):
    """The observer of an environment, which keeps the observer of a view at the same step."""

    def __init__(self, count: int, own: Observer, of_view: Observer) -> None:
        super().__init__(count, own.layout, own.scales, own.forecasts)
        self._of_view = of_view

    def begin(self, which: Any, frames: Rows) -> None:
        """See Observer."""
        super().begin(which, frames)
        self._of_view.begin(which, frames)

    def record_step(self, frames: Rows) -> None:
        """See Observer."""
        super().record_step(frames)
        self._of_view.record_step(frames)


def _view_for(env: ExecutionVectorEnv, contender: Contender) -> ExecutionVectorEnv:
    """A policy's view of an environment: the policy's own observations and actions, on the same market and accounts."""
    settings = environment_settings(contender.policy, contender.mode)
    forecasts = env.forecasts if settings.get("layout", Layout()).horizons_s else None
    view = ExecutionVectorEnv(env.market, env.sampler, fee_bps=env.accounts.fee_bps, forecasts=forecasts, **settings)
    view.accounts = env.accounts
    env.observer = _Observers(env.num_envs, env.observer, view.observer)
    return view


def _in_box(env: ExecutionVectorEnv, view: ExecutionVectorEnv, decided: Floats) -> NDArray[np.float32]:
    """(N, 3) actions in [-1, 1] for the decisions of a view."""
    take, rest, offset_ticks = view.split_actions(decided)
    low = env.single_action_space.low
    actions = np.stack((take, rest, offset_ticks / np.maximum(env.offset_unit_ticks(), 1e-9)), axis=1)
    return np.clip(2 * (actions - low) / (1 - low) - 1, -1, 1).astype(np.float32)


def record_orders(
    scenario: Scenario, scales: Scales, contender: Contender, orders: Rows, report: Callable[[int], None] = lambda done: None
) -> Recording:  # fmt: skip
    """Works (n,) EPISODE rows, which all have the same number of decisions, in a scenario of `recorded_scenario`. Calls `report` with the number
    of finished orders."""
    env = scenario.env(scales)
    view = _view_for(env, contender)
    low = env.single_action_space.low
    n, steps, size = len(orders), int(orders["steps"][0]), env.layout.size
    observations, actions = np.zeros((n, steps + 1, size), np.float32), np.zeros((n, steps, len(low)), np.float32)
    rewards, remaining, mids_ticks = np.zeros((n, steps)), np.zeros((n, steps + 1), np.int64), np.zeros((n, steps + 1))
    results: list[dict[str, Floats]] = []
    for first in range(0, n, env.num_envs):
        used = min(env.num_envs, n - first)
        rows = slice(first, first + used)
        indices = np.minimum(np.arange(first, first + env.num_envs), n - 1)
        env.reset(seed=0, options={"episodes": orders[indices]})
        arrival = env.accounts.parents["arrival_mid"][:used].copy()
        for step in range(steps + 1):
            observations[rows, step] = env.observe()[:used]
            remaining[rows, step] = env.accounts.parents["remaining_lots"][:used]
            mids_ticks[rows, step] = mids(env.market.frames)[:used]
            if step < steps:
                taken = _in_box(env, view, contender.policy.actions(view))
                fills, last = env.step_without_reset(low + (taken.astype(np.float64) + 1) / 2 * (1 - low))
                actions[rows, step] = taken[:used]
                rewards[rows, step] = np.asarray(env.reward(env, fills, last))[:used]
        found = {name: values[:used].copy() for name, values in env.accounts.results().items()}
        results.append(found | {"arrival_mid_ticks": arrival})
        report(first + used)
    together = {name: np.concatenate([part[name] for part in results]) for name in results[0]}
    return Recording(contender.name, orders, observations, actions, rewards, remaining, mids_ticks, together)
