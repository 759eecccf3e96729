"""One parent order, worked with market orders, as a share of the volume (POV) or evenly over time (TWAP).

`serl impact --simulated` simulates a market with and without it, everything else being equal. With `order_lots` 0 it does
nothing; it is present only so that both markets number and space their traders the same way.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, market_order, recall, remember, sleep


class MetaorderProfile(Profile):
    """Parameters of a parent order."""

    side: float = Field(1.0, ge=-1, le=1, description="1 buys, -1 sells")
    order_lots: int = Field(0, ge=0, description="total quantity")
    child_lots: int = Field(100, ge=1, description="size of a child order")
    lot_multiple: int = Field(1, ge=1, description="orders are multiples of it, as order_lots and child_lots must be")
    start_s: float = Field(3600.0, ge=0, description="start, after the open")
    participation: float = Field(
        0.1, ge=0, lt=1, description="share of the volume, its own included; 0: use duration_s"
    )
    duration_s: float = Field(600.0, gt=0, description="length of an even schedule (participation 0)")
    interval_s: float = Field(1.0, gt=0, description="time between wake-ups")


@trader("metaorder", MetaorderProfile, memory=2)
def metaorder(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: 1 after the start, the market's traded lots at the start. Its position is its filled quantity."""
    elapsed_s = (market.time_ns - market.open_ns) / SECOND_NS - profile.start_s
    order_lots = int(profile.order_lots)
    if elapsed_s < 0:
        sleep(requests, market, -elapsed_s * SECOND_NS)
        return
    if recall(market, 0) == 0.0:
        remember(market, 0, 1.0)
        remember(market, 1, 1.0 * market.traded_lots)
    filled = abs(agent.position_lots)
    if filled >= order_lots:
        return
    if profile.participation > 0:
        others = market.traded_lots - recall(market, 1) - filled
        target = int(profile.participation / (1.0 - profile.participation) * others)
    else:
        target = int(order_lots * min(1.0, elapsed_s / profile.duration_s))
    lots = min(target, order_lots) - filled
    lots -= lots % int(profile.lot_multiple)
    if lots >= min(int(profile.child_lots), order_lots - filled):
        market_order(requests, BUY if profile.side > 0 else SELL, min(lots, 4 * int(profile.child_lots)))
    sleep(requests, market, profile.interval_s * SECOND_NS)
