"""Signals: what observations predict about the next prices of a market, measured on its training days."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from serl.agents.execution.data import TRAIN
from serl.agents.execution.environment.account import mids
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.executor import FixedSampler
from serl.agents.execution.policies.policy import Policy, environment_settings
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.environments import Scenario
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.rule import SIGNED
from serl.agents.learning.rule_policy import rule_inputs, rule_names
from serl.exchange.records import Rows
from serl.researcher.inner.paired import standard_error
from serl.researcher.inner.score import order_clusters
from serl.researcher.signals import Signal

ORDERS, ENVIRONMENTS = 256, 64
"""Number of orders worked in even slices, and how many of them at a time."""
SEED = 1
Floats = NDArray[np.float64]


def market_signals(config: MarketConfig) -> dict[str, Signal]:
    """The signal of each observation of a rule, measured while orders are worked in even slices on training days; constant observations are left
    out. As in the terms of a rule, observations that are signed like a price are positive in the order's favour. Few orders are needed, because
    each has many decisions."""
    scenario = Scenario(config.model_copy(update={"part": TRAIN, "environments": ENVIRONMENTS}))
    orders = scenario.sampler.sample(np.random.Generator(np.random.PCG64(SEED)), ORDERS)
    policy = Twap()
    env = ExecutionVectorEnv(scenario.market, FixedSampler(orders), **environment_settings(policy, policy.modes[0]))
    observed, mids_ticks = _observed(env, policy, orders)
    names = rule_names(env.layout.levels)  # more than a policy in this market may see
    return signals_in(observed, mids_ticks, orders["sign"], order_clusters(scenario, orders), names)


def signals_in(
    observed: Floats, mids_ticks: Floats, signs: NDArray[np.int64], clusters: NDArray[np.int64], names: Sequence[str]
) -> dict[str, Signal]:
    """The signals in the observations (n, steps, d) of n orders, given their mids (n, steps + 1), signs and clusters, and the d names."""
    gains_bps, found = _gains_bps(mids_ticks, signs), {}
    for column, name in enumerate(names):
        values = observed[:, :, column]
        if name.partition("_")[0] in SIGNED:
            values = values * signs[:, None]
        if (one := _signal(values, gains_bps, clusters)) is not None:
            found[name] = one
    return found


def _observed(env: ExecutionVectorEnv, policy: Policy, orders: Rows) -> tuple[Floats, Floats]:
    """(n, steps, d) inputs of a rule at each decision, and (n, steps + 1) mids, the last at the end of the window."""
    steps, width = int(orders["steps"].max()), len(rule_names(env.layout.levels))
    observed, mids_ticks = np.zeros((len(orders), steps, width)), np.full((len(orders), steps + 1), np.nan)
    for first in range(0, len(orders), env.num_envs):
        rows = slice(first, first + env.num_envs)
        env.reset(seed=0, options={"episodes": orders[rows]})
        for step in range(steps):
            mids_ticks[rows, step] = mids(env.market.frames)
            observed[rows, step] = rule_inputs(env)
            env.step_without_reset(policy.actions(env))
        mids_ticks[rows, steps] = env.accounts.parents["mid"]
    return observed, mids_ticks


def _gains_bps(mids_ticks: Floats, signs: NDArray[np.int64]) -> Floats:
    """(n, steps): move from the present mid to the mean of the later mids, in bps, positive in the order's favour; NaN without a mid."""
    later = np.nancumsum(mids_ticks[:, ::-1], axis=1)[:, ::-1][:, 1:]
    counts = np.cumsum(np.isfinite(mids_ticks[:, ::-1]), axis=1)[:, ::-1][:, 1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        gains: Floats = signs[:, None] * (later / counts / mids_ticks[:, :-1] - 1.0) * 1e4
    return gains


def _signal(values: Floats, gains_bps: Floats, clusters: NDArray[np.int64]) -> Signal | None:
    """The slope of gains (n, steps) on standardised values (n, steps); None if the values are all the same."""
    known = np.isfinite(gains_bps) & np.isfinite(values)
    if not known.any() or values[known].std() < 1e-9:
        return None
    scaled = np.where(known, (values - values[known].mean()) / values[known].std(), 0.0)
    centred = np.where(known, gains_bps - gains_bps[known].mean(), 0.0)
    slope = float((scaled * centred).sum() / known.sum())
    residuals = (scaled * (centred - slope * scaled)).sum(axis=1) / known.sum() * len(values)  # (n,), their mean is 0
    error = standard_error(residuals, clusters, np.zeros(len(values), np.int64))
    return Signal(slope, slope / error if error else 0.0)
