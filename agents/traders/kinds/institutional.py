"""Institutions: large parent orders worked in slices, one after the other.

Parents with a Pareto tail, worked at a steady rate, make the signs of trades remember each other for long: with tail exponent α
their autocorrelation falls as lag^-(α - 1) (Lillo, Mike, Farmer, Theory for long memory in supply and demand, 2005).
"""

import math
from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential, normal, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, own_lots, recall, remember, sleep, take


class InstitutionalProfile(Profile):
    """Parameters of an institution."""

    parent_lots: float = Field(2000.0, ge=1, description="median of the log-normal, least of the Pareto sizes")
    pareto_exponent: float = Field(1.5, ge=0, le=10, description="tail exponent of the sizes; 0: log-normal")
    lots_spread: float = Field(1.0, ge=0, description="standard deviation of the logarithm, log-normal sizes only")
    parent_lots_max: int = Field(500_000, ge=1, description="larger draws are cut to this")
    buy_share: float = Field(0.5, ge=0, le=1, description="of the parents; 0: always sells, 1: always buys")
    duration_s: float = Field(
        600.0, gt=0, description="time for parent_lots, larger ones take longer in proportion (TWAP)"
    )
    participation: float = Field(0.0, ge=0, le=0.5, description="of everybody's volume (POV); 0: TWAP")
    interval_s: float = Field(10.0, gt=0, description="mean wait between slices")
    slice_lots_max: int = Field(1000, ge=1)
    pause_s: float = Field(600.0, gt=0, description="mean wait from one parent to the next")


@trader("institutional", InstitutionalProfile, memory=5)
def institutional(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: lots of the parent (0: none), side, start, position at the start, everybody's volume at the start."""
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
    done = abs(agent.position_lots - int(recall(market, 3)))
    if done >= lots:
        remember(market, 0, 0.0)
        sleep(requests, market, exponential(agent, profile.pause_s * 1e9))
        return
    if profile.participation > 0:
        # Its own trades are part of the volume: a share p of the whole is p / (1 - p) of the others'
        others = market.traded_lots - recall(market, 4) - done
        due = int(profile.participation / (1.0 - profile.participation) * others) + 1
    else:
        length_ns = profile.duration_s * SECOND_NS * max(1.0, lots / profile.parent_lots)
        due = int(math.ceil(lots * min(1.0, (market.time_ns - recall(market, 2)) / length_ns)))
    for index in range(market.orders_open):
        done += own_lots(market, index)
    slice_lots = min(min(due, lots) - done, int(profile.slice_lots_max))
    take(requests, side, market.ask_ticks if side == BUY else market.bid_ticks, slice_lots)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
