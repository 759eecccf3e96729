"""Order-book imbalance: with more lots bid than offered near the touch, the next price is more likely to be higher.

I = (bid - ask) / (bid + ask) over the best levels (Gould and Bonart, Queue imbalance as a one-tick-ahead price predictor,
2016). Above a threshold, the trader takes in the direction of the imbalance, and exits when it fades or after a maximum time.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.edge import trade_edge
from serl.agents.traders.random import exponential
from serl.agents.traders.records import DEPTH_MAX
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import sleep, two_sided


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
    """Memory: time of the last entry."""
    if two_sided(market):
        bid_lots, ask_lots = 0, 0
        for level in range(min(int(profile.levels), market.bid_levels)):
            bid_lots += market.bid_qty[level]
        for level in range(min(int(profile.levels), market.ask_levels)):
            ask_lots += market.ask_qty[level]
        ratio = (bid_lots - ask_lots) / (bid_lots + ask_lots)
        trade_edge(agent, profile, market, requests, ratio, profile.hold_s)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
