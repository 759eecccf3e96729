"""A spoofer: large orders on one side that are not meant to trade, and a small one that is on the other.

For research on surveillance; the pattern of Lee, Eom, Park, Microstructure-based manipulation (2013), and of Wang, Hoang,
Vorobeychik, Wellman, Spoofing the limit order book (2021). The large ones stand away from the touch and are cancelled as soon
as it comes near. Once the small one has traded, sides change and the position is turned round.
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

    interval_s: float = Field(1.0, gt=0, description="mean wait between looks")
    spoof_lots: int = Field(5000, ge=1, description="of each large order")
    layers: int = Field(3, ge=1, le=20, description="large orders, one tick apart")
    distance_ticks: int = Field(4, ge=2, description="of the first one from its side's touch")
    danger_ticks: int = Field(2, ge=1, description="distance from its side's touch at which one is cancelled")
    real_lots: int = Field(100, ge=1, description="of the position it wants, either way")


@trader("spoofer", SpooferProfile, memory=1)
def spoofer(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: +1 it wants to have bought, -1 sold, 0 not drawn."""
    wanted = recall(market, 0)
    if wanted == 0.0:
        wanted = 1.0 if uniform(agent) < 0.5 else -1.0
    if wanted * agent.position_lots >= profile.real_lots:
        wanted = -wanted
    remember(market, 0, wanted)
    if two_sided(market):
        side = BUY if wanted > 0 else SELL
        spread = market.ask_ticks - market.bid_ticks
        large, small = 0, 0
        for index in range(market.orders_open):
            behind = market.bid_ticks - own_price(market, index)
            if own_side(market, index) == SELL:
                behind = own_price(market, index) - market.ask_ticks
            near = behind < int(profile.danger_ticks)
            far = behind > int(profile.distance_ticks + profile.layers) + spread
            if own_side(market, index) != side:
                large += 1
                if near or far:
                    cancel(requests, market, index)
            else:
                small += 1
                if behind != 0:
                    cancel(requests, market, index)
        if small == 0:
            lots = int(profile.real_lots) - int(wanted) * agent.position_lots
            post(requests, side, market.bid_ticks if side == BUY else market.ask_ticks, lots)
        if large == 0:
            for layer in range(int(profile.layers)):
                away = int(profile.distance_ticks) + layer
                if side == BUY:
                    post(requests, SELL, market.ask_ticks + away, int(profile.spoof_lots))
                else:
                    post(requests, BUY, market.bid_ticks - away, int(profile.spoof_lots))
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
