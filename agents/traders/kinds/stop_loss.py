"""Holders with a stop: after a large enough fall they sell with market orders, which makes the price fall further.

Osler, Stop-loss orders and price cascades in currency markets (2005). Each trader draws its stop distance once, so the stops
of a herd lie at many prices. After a sale it waits and buys again.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, market_order, mid_ticks, recall, remember, sleep, take, two_sided


class StopLossProfile(Profile):
    """Parameters of a holder."""

    interval_s: float = Field(5.0, gt=0, description="mean wait between wake-ups")
    holding_lots: int = Field(200, ge=1, description="target position")
    stop_ticks_min: float = Field(10.0, gt=0, description="minimum distance of the stop")
    stop_ticks: float = Field(40.0, ge=0, description="mean of the distance's exponential part, drawn once")
    trailing: float = Field(1.0, ge=0, le=1, description="share of a rise since the purchase that the stop follows")
    pause_s: float = Field(1800.0, gt=0, description="mean wait after a sale before it buys again")


@trader("stop_loss", StopLossProfile, memory=3)
def stop_loss(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: distance of the stop (0: not drawn), its reference mid (0: no position), whether it is selling."""
    distance, reference, selling = recall(market, 0), recall(market, 1), recall(market, 2) > 0.0
    if distance == 0.0:
        distance = profile.stop_ticks_min + exponential(agent, profile.stop_ticks)
        remember(market, 0, distance)
    wait_ns = exponential(agent, profile.interval_s * 1e9)
    held, mid = agent.position_lots, mid_ticks(market)
    if selling and held == 0 and market.orders_open == 0:
        remember(market, 1, 0.0)
        remember(market, 2, 0.0)
        wait_ns = exponential(agent, profile.pause_s * 1e9)
    elif selling:
        if market.orders_open == 0:
            market_order(requests, SELL, held)
    elif held == 0 and two_sided(market) and market.orders_open == 0:
        take(requests, BUY, market.ask_ticks, int(profile.holding_lots))
        remember(market, 1, mid)
    elif held > 0 and two_sided(market):
        reference += profile.trailing * max(0.0, mid - reference)
        remember(market, 1, reference)
        if mid <= reference - distance:
            remember(market, 2, 1.0)
            market_order(requests, SELL, held)
    sleep(requests, market, wait_ns)
