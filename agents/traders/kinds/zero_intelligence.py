"""Zero intelligence: limit orders, market orders and cancellations as independent Poisson processes.

Cont, Stoikov, Talreja, A stochastic model for order book dynamics (2010): limit orders arrive at a rate that depends on
their distance from the opposite touch, market orders at a constant rate, and every order is cancelled at a rate that
depends on its distance. One trader makes the whole flow. Sizes are log-normal, because orders of one unit, as in the model,
cannot be calibrated to quantities.
"""

import math
from typing import Any

from pydantic import Field, NonNegativeFloat

from serl.agents.traders.random import below, exponential, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.sizes import lots_around
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel,
    limit,
    market_order,
    own_price,
    own_side,
    sleep,
    two_sided,
    value_at,
)

LEVELS = 30


class ZeroIntelligenceProfile(Profile):
    """Rates of one side; both sides have the same rates."""

    limit_per_s: tuple[NonNegativeFloat, ...] = Field(
        tuple(0.2 * math.exp(-0.15 * level) for level in range(LEVELS)), min_length=LEVELS, max_length=LEVELS,
        description="limit orders at 1, 2, ... levels from the opposite touch",
    )  # fmt: skip
    cancel_per_s: tuple[NonNegativeFloat, ...] = Field(
        tuple(0.02 for _ in range(LEVELS)), min_length=LEVELS, max_length=LEVELS,
        description="cancellations of each open order at 1, 2, ... levels from the opposite touch; the last rate beyond",
    )  # fmt: skip
    market_per_s: float = Field(0.15, gt=0, description="market orders")
    limit_lots: float = Field(100.0, gt=0, description="median size of a limit order")
    market_lots: float = Field(100.0, gt=0, description="median size of a market order")
    lots_spread: float = Field(0.5, ge=0, description="standard deviation of the logarithm of sizes")
    level_ticks: int = Field(1, ge=1, description="width of a level; prices are uniform in it")
    opening_levels: int = Field(20, ge=1, le=60, description="levels that fill an empty side, one order each")


@trader("zero_intelligence", ZeroIntelligenceProfile)
def zero_intelligence(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Makes one event of the flow. Cancellations are thinned: proposed at the largest rate, accepted at the order's own rate. O(LEVELS)."""
    value = value_at(market, market.time_ns)
    if not two_sided(market):
        for level in range(int(profile.opening_levels)):
            if market.bid_ticks == 0:
                limit(
                    requests, BUY, int(value) - 1 - level, lots_around(agent, profile.limit_lots, profile.lots_spread)
                )
            if market.ask_ticks == 0:
                limit(
                    requests, SELL, int(value) + 1 + level, lots_around(agent, profile.limit_lots, profile.lots_spread)
                )
        sleep(requests, market, 2e9 + 2.0 * agent.latency_ns)
        return
    limit_rate, cancel_rate = 0.0, 0.0
    for level in range(LEVELS):
        limit_rate += profile.limit_per_s[level]
        cancel_rate = max(cancel_rate, profile.cancel_per_s[level])
    cancel_rate *= market.orders_open
    total = 2.0 * limit_rate + 2.0 * profile.market_per_s + cancel_rate
    draw = uniform(agent) * total
    side = BUY if uniform(agent) < 0.5 else SELL
    if draw < 2.0 * limit_rate:
        draw *= 0.5
        level = 0
        while level < LEVELS - 1 and draw >= profile.limit_per_s[level]:
            draw -= profile.limit_per_s[level]
            level += 1
        away_ticks = 1 + level
        if profile.level_ticks > 1:
            away_ticks += int(level * (profile.level_ticks - 1)) + below(agent, int(profile.level_ticks))
        price = market.ask_ticks - away_ticks if side == BUY else market.bid_ticks + away_ticks
        limit(requests, side, price, lots_around(agent, profile.limit_lots, profile.lots_spread))
    elif draw < 2.0 * limit_rate + 2.0 * profile.market_per_s:
        market_order(requests, side, lots_around(agent, profile.market_lots, profile.lots_spread))
    elif market.orders_open > 0:
        index = below(agent, market.orders_open)
        price = own_price(market, index)
        away_ticks = market.ask_ticks - price if own_side(market, index) == BUY else price - market.bid_ticks
        level = min(max(int((away_ticks - 1) // profile.level_ticks), 0), LEVELS - 1)
        if uniform(agent) * cancel_rate < profile.cancel_per_s[level] * market.orders_open:
            cancel(requests, market, index)
    sleep(requests, market, exponential(agent, 1e9 / total))
