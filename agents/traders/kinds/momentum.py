"""Momentum traders: they compare a short and a long moving average of the mids that they observe.

After ABIDES's MomentumAgent: if the short average is above the long one, they buy at the ask; if below, they sell at the bid.
"""

from typing import Any, Self

from pydantic import Field, model_validator

from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.sizes import typical_lots
from serl.agents.traders.trader_api import BUY, SELL, limit, mid_ticks, recall, remember, sleep, two_sided

LONG_MAX = 200


class MomentumProfile(Profile):
    """Parameters of a momentum trader; defaults are those of RMSC04."""

    interval_s: float = Field(37.0, gt=0, description="mean wait between observations")
    short_looks: int = Field(20, ge=1, le=LONG_MAX, description="observations in the short average")
    long_looks: int = Field(50, ge=2, le=LONG_MAX, description="observations in the long average")
    position_lots_max: int = Field(
        100_000,
        ge=1,
        description="an order leads to at most this position; others of its own that still rest may add to it",
    )

    @model_validator(mode="after")
    def _short_is_shorter(self) -> Self:
        if self.short_looks > self.long_looks:
            raise ValueError(
                f"expected short_looks of at most long_looks ({self.long_looks}), got {self.short_looks}; lower it"
            )
        return self


@trader("momentum", MomentumProfile, memory=1 + LONG_MAX)
def momentum(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: number of observations, then a ring buffer of the last mids. O(long_looks)."""
    if two_sided(market):
        looks = int(recall(market, 0))
        long_looks, short_looks = int(profile.long_looks), int(profile.short_looks)
        remember(market, 1 + looks % long_looks, mid_ticks(market))
        looks += 1
        remember(market, 0, 1.0 * looks)
        if looks >= long_looks:
            long_sum = short_sum = 0.0
            for back in range(long_looks):
                mid = recall(market, 1 + (looks - 1 - back) % long_looks)
                long_sum += mid
                if back < short_looks:
                    short_sum += mid
            limit_lots = int(profile.position_lots_max)
            if short_sum / short_looks >= long_sum / long_looks:
                limit(requests, BUY, market.ask_ticks, min(typical_lots(agent), limit_lots - agent.position_lots))
            else:
                limit(requests, SELL, market.bid_ticks, min(typical_lots(agent), limit_lots + agent.position_lots))
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
