"""Order-book imbalance: with more lots bid than offered near the touch, the next price is more likely to be higher.

I = (bid - ask) / (bid + ask) over the best levels (Gould and Bonart, Queue imbalance as a one-tick-ahead price predictor,
2016). Above a threshold the trader takes in its direction, and exits when it fades or after a maximum time.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential
from serl.agents.traders.records import DEPTH_MAX
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, recall, remember, sleep, take, two_sided


class ImbalanceProfile(Profile):
    """Parameters of an imbalance trader."""

    interval_s: float = Field(2.0, gt=0, description="mean wait between wake-ups")
    levels: int = Field(5, ge=1, le=DEPTH_MAX, description="levels per side")
    enter_above: float = Field(0.5, gt=0, lt=1, description="imbalance above which it enters")
    leave_below: float = Field(0.1, ge=0, lt=1, description="imbalance in its favour below which it exits")
    hold_s: float = Field(60.0, gt=0, description="maximum time in a position")
    order_lots: int = Field(100, ge=1)
    position_lots_max: int = Field(300, ge=1)


@trader("imbalance", ImbalanceProfile, memory=1, depth=DEPTH_MAX)
def imbalance(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: time of its last entry."""
    if two_sided(market):
        bid_lots, ask_lots = 0, 0
        for level in range(min(int(profile.levels), market.bid_levels)):
            bid_lots += market.bid_qty[level]
        for level in range(min(int(profile.levels), market.ask_levels)):
            ask_lots += market.ask_qty[level]
        ratio = (bid_lots - ask_lots) / (bid_lots + ask_lots)
        position, limit_lots = agent.position_lots, int(profile.position_lots_max)
        expired = market.time_ns - recall(market, 0) > profile.hold_s * SECOND_NS
        if position > 0 and (expired or ratio < profile.leave_below):
            take(requests, SELL, market.bid_ticks, position)
        elif position < 0 and (expired or -ratio < profile.leave_below):
            take(requests, BUY, market.ask_ticks, -position)
        elif ratio > profile.enter_above and position < limit_lots:
            take(requests, BUY, market.ask_ticks, min(int(profile.order_lots), limit_lots - position))
            remember(market, 0, 1.0 * market.time_ns)
        elif ratio < -profile.enter_above and position > -limit_lots:
            take(requests, SELL, market.bid_ticks, min(int(profile.order_lots), limit_lots + position))
            remember(market, 0, 1.0 * market.time_ns)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
