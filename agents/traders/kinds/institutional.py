"""Institutions: large parent orders, one after the other, worked in slices.

Parent orders with a Pareto tail, worked at a steady rate, give trade signs a long memory: with tail exponent α their
autocorrelation falls as lag^-(α - 1) (Lillo, Mike, Farmer, Theory for long memory in supply and demand, 2005).
"""

import math
from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential, normal, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, own_lots, recall, remember, sleep, take


class InstitutionalProfile(Profile):
    """Parameters of an institution."""

    parent_lots: float = Field(2000.0, ge=1, description="median of log-normal sizes, minimum of Pareto sizes")
    pareto_exponent: float = Field(1.5, ge=0, le=10, description="tail exponent of the sizes; 0: log-normal")
    lots_spread: float = Field(1.0, ge=0, description="standard deviation of the logarithm, log-normal sizes only")
    parent_lots_max: int = Field(500_000, ge=1, description="larger draws are clipped to this")
    buy_share: float = Field(0.5, ge=0, le=1, description="probability that a parent order buys")
    duration_s: float = Field(
        600.0, gt=0, description="time for parent_lots; larger ones take proportionally longer (TWAP)"
    )
    participation: float = Field(0.0, ge=0, le=0.5, description="share of the market's volume (POV); 0: TWAP")
    interval_s: float = Field(10.0, gt=0, description="mean wait between slices")
    slice_lots_max: int = Field(1000, ge=1)
    pause_s: float = Field(600.0, gt=0, description="mean wait from one parent to the next")


@trader("institutional", InstitutionalProfile, memory=5)
def institutional(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: lots of the parent order (0: none), its side, and start time, position and traded volume at its start."""
    lots = int(recall(market, 0))
    if lots == 0:
        if profile.pareto_exponent > 0:
            drawn = profile.parent_lots * math.exp(-math.log(uniform(agent)) / profile.pareto_exponent)
        else:
            drawn = profile.parent_lots * math.exp(profile.lots_spread * normal(agent))
        lots = max(1, int(min(drawn, profile.parent_lots_max)))
        remember(market, 0, 1.0 * lots)
        remember(market, 1, 1.0 * (BUY if uniform(agent) < profile.buy_share else SELL))
        remember(market, 2, 1.0 * market.time_ns)
        remember(market, 3, 1.0 * agent.position_lots)
        remember(market, 4, 1.0 * market.traded_lots)
    side = BUY if recall(market, 1) == BUY else SELL
    filled = abs(agent.position_lots - int(recall(market, 3)))
    if filled >= lots:
        remember(market, 0, 0.0)
        sleep(requests, market, exponential(agent, profile.pause_s * 1e9))
        return
    if profile.participation > 0:
        # Own trades are part of the volume, so a share p of the total is p / (1 - p) of the others' volume
        others = market.traded_lots - recall(market, 4) - filled
        target = int(profile.participation / (1.0 - profile.participation) * others) + 1
    else:
        length_ns = profile.duration_s * SECOND_NS * max(1.0, lots / profile.parent_lots)
        target = int(math.ceil(lots * min(1.0, (market.time_ns - recall(market, 2)) / length_ns)))
    committed = filled
    for index in range(market.orders_open):
        committed += own_lots(market, index)
    slice_lots = min(min(target, lots) - committed, int(profile.slice_lots_max))
    take(requests, side, market.ask_ticks if side == BUY else market.bid_ticks, slice_lots)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
