"""Trading on an edge, a number from -1 to 1 that predicts the direction of the price; shared by takers on imbalances and on forecasts."""

from typing import Any

from serl.agents.traders.trader_api import BUY, SECOND_NS, SELL, recall, remember, take
from serl.exchange.compiling import inlined


@inlined
def trade_edge(agent: Any, profile: Any, market: Any, requests: Any, edge: float, hold_s: float) -> None:
    """Takes in the direction of an edge beyond `enter_above`, up to `position_lots_max`. Exits when the edge in the position's favour is below
    `leave_below`, or `hold_s` after the last entry. Memory 0: time of that entry."""
    position, limit_lots = agent.position_lots, int(profile.position_lots_max)
    expired = market.time_ns - recall(market, 0) > hold_s * SECOND_NS
    if position > 0 and (expired or edge < profile.leave_below):
        take(requests, SELL, market.bid_ticks, position)
    elif position < 0 and (expired or -edge < profile.leave_below):
        take(requests, BUY, market.ask_ticks, -position)
    elif edge > profile.enter_above and position < limit_lots:
        take(requests, BUY, market.ask_ticks, min(int(profile.order_lots), limit_lots - position))
        remember(market, 0, 1.0 * market.time_ns)
    elif edge < -profile.enter_above and position > -limit_lots:
        take(requests, SELL, market.bid_ticks, min(int(profile.order_lots), limit_lots + position))
        remember(market, 0, 1.0 * market.time_ns)
