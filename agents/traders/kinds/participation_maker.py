"""Adaptive market makers: a ladder of orders on both sides, sized as a share of the volume since the last wake-up.

After ABIDES's AdaptiveMarketMakerAgent (itself after Chakraborty and Kearns 2011): the ladder's width follows an
exponential moving average of the spread, up to a limit, and the ladder is skewed against the position. Every wake-up replaces it.
"""

import math
from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, cancel_all, limit, mid_ticks, recall, remember, sleep, two_sided


class ParticipationMakerProfile(Profile):
    """Parameters of an adaptive market maker; defaults are those of RMSC04."""

    interval_s: float = Field(60.0, gt=0, description="mean wait between wake-ups")
    participation: float = Field(
        0.025, gt=0, le=1, description="size of a level, as a share of the volume since the last wake-up"
    )
    order_lots_min: int = Field(20, ge=1, description="minimum size of a level")
    levels: int = Field(10, ge=1, le=30, description="levels per side")
    level_spacing: float = Field(5.0, gt=0, description="distance between levels, in tenths of the average spread")
    spread_memory: float = Field(0.75, ge=0, lt=1, description="weight of the old average spread at each wake-up")
    first_spread_ticks: float = Field(50.0, gt=0, description="initial average spread")
    spread_bps_max: float = Field(500.0, gt=0, description="maximum average spread, in basis points of the mid")
    skew: float = Field(4.0, ge=0, description="steepness of the skew against the position")
    position_lots_scale: float = Field(5000.0, gt=0, description="position at which the skew is nearly complete")


@trader("participation_maker", ParticipationMakerProfile, memory=2)
def participation_maker(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: average spread; the market's traded lots at the last wake-up."""
    spread = recall(market, 0)
    if spread == 0.0:
        spread = profile.first_spread_ticks
    if two_sided(market):
        seen = max(0, market.ask_ticks - market.bid_ticks)  # below 0 while orders are collected for an auction
        spread = profile.spread_memory * spread + (1 - profile.spread_memory) * seen
    mid = mid_ticks(market)
    spread = min(spread, profile.spread_bps_max * 1e-4 * mid)
    remember(market, 0, spread)
    traded = market.traded_lots - recall(market, 1)
    remember(market, 1, 1.0 * market.traded_lots)
    cancel_all(requests, market)
    lots = max(int(profile.order_lots_min), int(profile.participation * traded))
    skew = math.tanh(profile.skew * agent.position_lots / (4.0 * profile.position_lots_scale))
    step = max(1.0, spread * profile.level_spacing / 10.0)
    bid = min(int(mid - 0.5 * spread * (1.0 + skew)), int(math.ceil(mid)) - 1)
    ask = max(int(math.ceil(mid + 0.5 * spread * (1.0 - skew))), int(mid) + 1)
    for level in range(int(profile.levels)):
        limit(requests, BUY, bid - int(level * step), lots)
        limit(requests, SELL, ask + int(level * step), lots)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
