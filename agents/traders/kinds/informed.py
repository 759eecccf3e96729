"""Informed traders: they know the fundamental value ahead of time and take orders mispriced by more than a threshold.

The informed side of Glosten and Milgrom (1985), with a deterministic advantage in time: they see the value `horizon_s`
ahead. Quantity grows with the mispricing; the position is bounded.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, sleep, take, two_sided, value_at


class InformedProfile(Profile):
    """Parameters of an informed trader."""

    interval_s: float = Field(5.0, gt=0, description="mean wait between wake-ups")
    horizon_s: float = Field(60.0, ge=0, description="how far ahead it sees")
    threshold_ticks: float = Field(2.0, ge=0, description="mispricing beyond the touch that makes it act")
    lots_per_tick: float = Field(20.0, gt=0, description="quantity per tick of mispricing beyond the threshold")
    order_lots_max: int = Field(500, ge=1)
    position_lots_max: int = Field(5000, ge=1)


@trader("informed", InformedProfile)
def informed(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Takes only at the touch."""
    if two_sided(market):
        known = value_at(market, market.time_ns + int(profile.horizon_s * SECOND_NS))
        limit_lots = int(profile.position_lots_max)
        over = known - market.ask_ticks - profile.threshold_ticks
        under = market.bid_ticks - known - profile.threshold_ticks
        if over > 0:
            lots = min(int(over * profile.lots_per_tick) + 1, int(profile.order_lots_max))
            take(requests, BUY, market.ask_ticks, min(lots, limit_lots - agent.position_lots))
        elif under > 0:
            lots = min(int(under * profile.lots_per_tick) + 1, int(profile.order_lots_max))
            take(requests, SELL, market.bid_ticks, min(lots, limit_lots + agent.position_lots))
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
