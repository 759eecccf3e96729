"""A spoofer: large orders on one side that are not meant to trade, and a small order on the other side that is.

For research on surveillance. The pattern is that of Lee, Eom, Park, Microstructure-based manipulation (2013), and of Wang,
Hoang, Vorobeychik, Wellman, Spoofing the limit order book (2021). The large orders stay away from the touch and are cancelled
when it comes near. Once the small order has traded, the sides swap and the position is reversed.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential, uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel,
    own_price,
    own_side,
    post,
    recall,
    remember,
    sleep,
    two_sided,
)


class SpooferProfile(Profile):
    """Parameters of a spoofer."""

    interval_s: float = Field(1.0, gt=0, description="mean wait between wake-ups")
    spoof_lots: int = Field(5000, ge=1, description="size of each large order")
    layers: int = Field(3, ge=1, le=20, description="number of large orders, one tick apart")
    distance_ticks: int = Field(4, ge=2, description="distance of the first large order from its side's touch")
    danger_ticks: int = Field(2, ge=1, description="distance from the touch below which a large order is cancelled")
    real_lots: int = Field(100, ge=1, description="target position, long or short")


@trader("spoofer", SpooferProfile, memory=1)
def spoofer(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: direction of the target position, +1 long, -1 short, 0 not drawn yet."""
    direction = recall(market, 0)
    if direction == 0.0:
        direction = 1.0 if uniform(agent) < 0.5 else -1.0
    if direction * agent.position_lots >= profile.real_lots:
        direction = -direction
    remember(market, 0, direction)
    if two_sided(market):
        side = BUY if direction > 0 else SELL
        spread = market.ask_ticks - market.bid_ticks
        large, small = 0, 0
        for index in range(market.orders_open):
            behind_ticks = market.bid_ticks - own_price(market, index)
            if own_side(market, index) == SELL:
                behind_ticks = own_price(market, index) - market.ask_ticks
            near = behind_ticks < int(profile.danger_ticks)
            far = behind_ticks > int(profile.distance_ticks + profile.layers) + spread
            if own_side(market, index) != side:
                large += 1
                if near or far:
                    cancel(requests, market, index)
            else:
                small += 1
                if behind_ticks != 0:
                    cancel(requests, market, index)
        if small == 0:
            lots = int(profile.real_lots) - int(direction) * agent.position_lots
            post(requests, side, market.bid_ticks if side == BUY else market.ask_ticks, lots)
        if large == 0:
            for layer in range(int(profile.layers)):
                away_ticks = int(profile.distance_ticks) + layer
                if side == BUY:
                    post(requests, SELL, market.ask_ticks + away_ticks, int(profile.spoof_lots))
                else:
                    post(requests, BUY, market.bid_ticks - away_ticks, int(profile.spoof_lots))
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
