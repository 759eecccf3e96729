"""One parent order, worked with market orders: at a share of the volume (POV) or evenly over time (TWAP).

The probe of market impact: `serl law` simulates a market with and without it, everything else being the same. With
`order_lots` 0 it does nothing, and is there so that the other market is numbered and spaced alike.
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, market_order, recall, remember, sleep


class MetaorderProfile(Profile):
    """Parameters of a parent order."""

    side: float = Field(1.0, ge=-1, le=1, description="1 buys, -1 sells")
    order_lots: int = Field(0, ge=0, description="all that it wants")
    child_lots: int = Field(100, ge=1, description="size of a child order")
    start_s: float = Field(3600.0, ge=0, description="after the open")
    participation: float = Field(0.1, ge=0, lt=1, description="share of the volume, its own in it; 0: by duration_s")
    duration_s: float = Field(600.0, gt=0, description="of an even schedule (participation 0)")
    interval_s: float = Field(1.0, gt=0, description="between looks")


@trader("metaorder", MetaorderProfile, memory=2)
def metaorder(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: 1 after the start, lots that had traded by then. Its position counts what it got."""
    elapsed_s = (market.time_ns - market.open_ns) / SECOND_NS - profile.start_s
    wanted = int(profile.order_lots)
    if elapsed_s < 0:
        sleep(requests, market, -elapsed_s * SECOND_NS)
        return
    if recall(market, 0) == 0.0:
        remember(market, 0, 1.0)
        remember(market, 1, 1.0 * market.traded_lots)
    done = abs(agent.position_lots)
    if done >= wanted:
        return
    if profile.participation > 0:
        others = market.traded_lots - recall(market, 1) - done
        due = int(profile.participation / (1.0 - profile.participation) * others)
    else:
        due = int(wanted * min(1.0, elapsed_s / profile.duration_s))
    lots = min(due, wanted) - done
    if lots >= min(int(profile.child_lots), wanted - done):
        market_order(requests, BUY if profile.side > 0 else SELL, min(lots, 4 * int(profile.child_lots)))
    sleep(requests, market, profile.interval_s * SECOND_NS)
