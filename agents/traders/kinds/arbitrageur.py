"""Arbitrageurs of a basket: they take when the price of the basket and that of its members differ by more than the costs and a threshold.

The law of one price at the touch: selling a lot of an ETF at its bid and buying its members at their asks earns b - Σ w_i a_i less fees, the
reverse Σ w_i b_i - a (Hasbrouck, Intraday price formation in US equity index markets, 2003; Ben-David, Franzoni, Moussawi, Do ETFs increase
volatility?, 2018). Arbitrageurs pay both spreads. There is no creation or redemption: positions are bounded, and close when the difference reverses.
"""

import math
from typing import Any

from pydantic import Field

from serl.agents.traders.basket_api import (
    leg_ask_lots,
    leg_ask_ticks,
    leg_basket_ticks,
    leg_bid_lots,
    leg_bid_ticks,
    leg_orders_open,
    leg_position_lots,
    leg_taker_fee_ticks,
    leg_weight,
    take_leg,
)
from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, sleep


class ArbitrageurProfile(Profile):
    """Parameters of an arbitrageur."""

    interval_s: float = Field(1.0, gt=0, description="mean wait between looks")
    threshold_ticks: float = Field(
        1.0, ge=0, description="difference beyond spreads and fees, a lot of the basket, that makes it act"
    )
    order_lots_max: int = Field(100, ge=1, description="of the basket")
    position_lots_max: int = Field(2000, ge=1, description="of the basket, long or short")


@trader("arbitrageur", ArbitrageurProfile, basket=True)
def arbitrageur(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Takes only at the touch; hedges what a leg lacks at the next wake-up. Waits while an order is in flight."""
    low, high, fees = 0.0, 0.0, 0.0  # of the members, in ticks of the basket
    buyable = sellable = 1.0 * profile.order_lots_max  # lots of the basket
    idle = priced = True
    for leg in range(market.legs + 1):
        bid, ask, weight, ticks = leg_bid_ticks(market, leg), leg_ask_ticks(market, leg), leg_weight(market, leg), leg_basket_ticks(market, leg)  # fmt: skip
        idle &= leg_orders_open(market, leg) == 0
        priced &= bid > 0 and ask > 0
        fees += ticks * leg_taker_fee_ticks(market, leg, ask)
        if leg == 0:
            buyable, sellable = min(buyable, leg_ask_lots(market, 0)), min(sellable, leg_bid_lots(market, 0))
            continue
        low, high = low + ticks * bid, high + ticks * ask
        buyable = min(buyable, leg_bid_lots(market, leg) / weight)
        sellable = min(sellable, leg_ask_lots(market, leg) / weight)
    if idle:
        position, position_max = agent.position_lots, int(profile.position_lots_max)
        change = 0
        if priced and market.bid_ticks - high - fees > profile.threshold_ticks:
            change = -max(0, min(int(sellable), position_max + position))
        elif priced and low - market.ask_ticks - fees > profile.threshold_ticks:
            change = max(0, min(int(buyable), position_max - position))
        take_leg(requests, 0, SELL, market.bid_ticks, -change)
        take_leg(requests, 0, BUY, market.ask_ticks, change)
        for leg in range(1, market.legs + 1):
            target = -int(math.floor(leg_weight(market, leg) * (position + change) + 0.5))
            lacking = target - leg_position_lots(market, leg)
            take_leg(requests, leg, BUY, leg_ask_ticks(market, leg), lacking)
            take_leg(requests, leg, SELL, leg_bid_ticks(market, leg), -lacking)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
