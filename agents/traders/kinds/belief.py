"""Belief learning: quotes the price with the largest expected gain, judged by the outcomes of others' prices.

Gjerstad and Dickhaut, Price formation in double auctions (1998). A bid at b is believed to be taken with probability
p(b) = (TB + A) / (TB + A + RB): TB lots of bids taken at b or less, A lots offered at b or less, RB lots of bids shown at b or
more that were not taken; for asks both inequalities are reversed. Orders younger than the grace time do not count as
rejected yet (Wellman and Wah 2017). The valuation is the fundamental value plus a private part, minus a cost per lot held.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential, normal, uniform
from serl.agents.traders.records import FLOW_ROWS
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.sizes import lots_around
from serl.agents.traders.trader_api import (
    BUY,
    SECOND_NS,
    SELL,
    cancel_all,
    flow_field,
    flow_rows,
    limit,
    recall,
    remember,
    sleep,
    value_at,
)


class BeliefProfile(Profile):
    """Parameters of a belief learner."""

    interval_s: float = Field(20.0, gt=0, description="mean wait between orders; each replaces the last one")
    memory_rows: int = Field(64, ge=2, le=FLOW_ROWS, description="number of latest public orders and trades used")
    grace_s: float = Field(5.0, ge=0, description="age from which an order that was not taken counts as rejected")
    private_ticks: float = Field(10.0, ge=0, description="standard deviation of the private part, drawn once")
    holding_ticks_per_lot: float = Field(0.01, ge=0, description="reduction of the valuation per lot held")
    order_lots: float = Field(50.0, gt=0, description="median size")
    lots_spread: float = Field(0.5, ge=0, description="standard deviation of the logarithm of sizes")


@trader("belief", BeliefProfile, memory=2)
def belief(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: whether the private part was drawn, the private part. Candidates are the observed prices: O(memory_rows²)."""
    if recall(market, 0) == 0.0:
        remember(market, 0, 1.0)
        remember(market, 1, profile.private_ticks * normal(agent))
    valuation = value_at(market, market.time_ns) + recall(market, 1)
    valuation -= profile.holding_ticks_per_lot * agent.position_lots
    side = BUY if uniform(agent) < 0.5 else SELL
    # A seller uses negated prices, so that its asks are treated as bids
    sign = 1 if side == BUY else -1
    rows = min(flow_rows(market), int(profile.memory_rows))
    shown_before_ns = market.time_ns - int(profile.grace_s * SECOND_NS)
    best_gain, best_price = 0.0, 0
    for candidate in range(rows):
        price = flow_field(market, candidate, 2)
        gain = sign * (valuation - price)
        if gain <= best_gain:
            continue
        taken, offered, shown, taken_above = 0, 0, 0, 0  # lots
        for back in range(rows):
            lots = flow_field(market, back, 3)
            above_ticks = sign * (flow_field(market, back, 2) - price)
            row_side = flow_field(market, back, 1)
            if row_side >= 2:  # a trade
                taken += lots if above_ticks <= 0 else 0
                taken_above += lots if above_ticks >= 0 else 0
            elif row_side != side:
                offered += lots if above_ticks <= 0 else 0
            elif above_ticks >= 0 and flow_field(market, back, 0) <= shown_before_ns:
                shown += lots
        rejected = max(0, shown - taken_above)
        accepted = taken + offered
        if accepted > 0:
            gain *= accepted / (accepted + rejected)
            if gain > best_gain:
                best_gain, best_price = gain, price
    cancel_all(requests, market)
    limit(requests, side, best_price, lots_around(agent, profile.order_lots, profile.lots_spread))
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
