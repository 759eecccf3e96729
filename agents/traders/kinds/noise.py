"""Noise traders: one order in a random direction at the opposite touch, at a random time.

After ABIDES's NoiseAgent (Byrd, Hybinette, Balch 2019). With orders > 1, they return after exponential waits.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.sizes import typical_lots
from serl.agents.traders.trader_api import BUY, SELL, limit, recall, remember, sleep


class NoiseProfile(Profile):
    """Parameters of a noise trader."""

    orders: int = Field(1, ge=1, le=10**9, description="maximum number of orders per day")
    interval_s: float = Field(60.0, gt=0, description="mean wait between orders")


@trader("noise", NoiseProfile, memory=1)
def noise(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: number of orders so far. Sends nothing if the opposite side is empty."""
    side = BUY if uniform(agent) < 0.5 else SELL
    limit(requests, side, market.ask_ticks if side == BUY else market.bid_ticks, typical_lots(agent))
    sent = recall(market, 0) + 1.0
    remember(market, 0, sent)
    if sent < profile.orders:
        sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
