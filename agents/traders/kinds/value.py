"""Value traders: they observe the fundamental value with noise, update a Bayesian estimate, and trade towards it.

After ABIDES's ValueAgent, itself after Wah and Wellman (2017): between observations the estimate reverts to the mean and
its variance grows; an observation moves it in proportion to its variance. Every wake-up cancels the old orders.
"""

import math
from typing import Any

from pydantic import Field

from serl.agents.traders.random import below, exponential, normal, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.sizes import typical_lots
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel_all,
    limit,
    mid_ticks,
    recall,
    remember,
    sleep,
    two_sided,
    value_at,
)


class ValueProfile(Profile):
    """Parameters of a value trader; defaults are those of RMSC04, in ticks of one cent."""

    interval_s: float = Field(175.4, gt=0, description="mean wait between wake-ups; 1 / 5.7e-12 ns")
    mean_ticks: float = Field(100_000, gt=0, description="assumed mean of the fundamental value")
    reversion_per_s: float = Field(1.67e-6, ge=0, description="assumed rate of reversion; 1.67e-15 / ns")
    noise_variance_ticks2: float = Field(1000.0, gt=0, description="variance of an observation; mean / 100")
    drift_variance_ticks2_per_s: float = Field(2.5, gt=0, description="growth of the estimate's variance")
    aggressive_share: float = Field(0.1, ge=0, le=1, description="share of orders that cross to the opposite touch")
    depth_spreads: float = Field(2.0, ge=0, description="other orders stand up to this many spreads behind it")


@trader("value", ValueProfile, memory=3)
def value(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: estimate, its variance, time of the last observation."""
    estimate, variance, last_ns = recall(market, 0), recall(market, 1), recall(market, 2)
    if last_ns == 0.0:
        estimate, last_ns = profile.mean_ticks, 1.0 * market.open_ns
    elapsed_s = (market.time_ns - last_ns) * 1e-9
    decay = math.exp(-profile.reversion_per_s * elapsed_s)
    estimate = profile.mean_ticks + (estimate - profile.mean_ticks) * decay
    variance = variance * decay * decay + profile.drift_variance_ticks2_per_s * elapsed_s
    observation = value_at(market, market.time_ns) + math.sqrt(profile.noise_variance_ticks2) * normal(agent)
    weight = variance / (variance + profile.noise_variance_ticks2)
    estimate += weight * (observation - estimate)
    remember(market, 0, estimate)
    remember(market, 1, variance * (1.0 - weight))
    remember(market, 2, 1.0 * market.time_ns)
    cancel_all(requests, market)
    lots = typical_lots(agent)
    if two_sided(market):
        # while orders are collected for an auction, the spread may be negative and thus no distance to rest behind the touch
        away_ticks_max = max(0, int(profile.depth_spreads * (market.ask_ticks - market.bid_ticks)))
        away_ticks = 0 if uniform(agent) < profile.aggressive_share else below(agent, away_ticks_max + 1)
        if estimate < mid_ticks(market):
            limit(requests, SELL, market.bid_ticks + away_ticks, lots)
        else:
            limit(requests, BUY, market.ask_ticks - away_ticks, lots)
    else:
        limit(requests, BUY if uniform(agent) < 0.5 else SELL, int(estimate), lots)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
