"""How kinds/flow.py places and cancels limit orders."""

import math
from typing import Any

from serl.agents.traders.flow_reference import reference_ticks
from serl.agents.traders.flow_tables import (
    CANCEL_AGES,
    age_step,
    cancel_band,
    draw_lots,
    quantile,
    side_excess,
    spread_state,
    view_ticks,
)
from serl.agents.traders.random import uniform
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel,
    limit,
    mid_ticks,
    own_price,
    own_side,
    own_since,
    value_at,
)
from serl.exchange.compiling import apart, inlined

OPENING_ORDERS = 40
SWEEP_MAX = 16


@inlined
def reference_gap(profile: Any, market: Any) -> float:
    """How far the reference price is above the mid, in lean_ticks, bounded to [-3, 3]."""
    return min(3.0, max(-3.0, (reference_ticks(profile, market) - mid_ticks(market)) / profile.lean_ticks))


@inlined
def open_book(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Fills an empty side with orders around the last price, half a common spread away."""
    middle = market.last_ticks if market.last_ticks > 0 else int(value_at(market, market.time_ns))
    half = max(1, int(0.5 * profile.spread_edges_ticks[2]))
    for _ in range(OPENING_ORDERS):
        distance_ticks = half + int(quantile(profile.distance_ticks, 2, uniform(agent)))
        lots = draw_lots(agent, profile.limit_lots, 2)
        if market.bid_ticks == 0:
            limit(
                requests, BUY, min(middle, market.ask_ticks if market.ask_ticks > 0 else middle) - distance_ticks, lots
            )
        if market.ask_ticks == 0:
            limit(requests, SELL, max(middle, market.bid_ticks) + distance_ticks, lots)


@inlined
def overlook_others(market: Any) -> None:
    """Sets the touch of each side in the view to the best price of the flow's own orders there; the lots at the touch include those of others
    on the way. Levels stay as they are. Nothing changes where nobody else is ahead."""
    bid, ask = 0, 0
    for index in range(market.orders_open):
        price = own_price(market, index)
        if price > 0 and own_side(market, index) == BUY:
            bid = max(bid, price)
        elif price > 0:
            ask = price if ask == 0 else min(ask, price)
    if 0 < bid < market.bid_ticks:
        lots = 0
        for level in range(market.bid_levels):
            lots += market.bid_qty[level] if market.bid_price[level] >= bid else 0
        market.bid_ticks, market.bid_lots = bid, lots
    if ask > market.ask_ticks:
        lots = 0
        for level in range(market.ask_levels):
            lots += market.ask_qty[level] if market.ask_price[level] <= ask else 0
        market.ask_ticks, market.ask_lots = ask, lots


@inlined
def place_limit_order(agent: Any, profile: Any, market: Any, requests: Any, lean: float, draw: float) -> int:
    """Sends a limit order towards the reference price or on the thinner side, at a distance that depends on the spread; returns its side."""
    spread, state = market.ask_ticks - market.bid_ticks, spread_state(profile, market)
    inside_draw, distance_draw = uniform(agent), uniform(agent)
    inside = inside_draw < profile.inside_share[state] and spread > 1
    if inside:
        fraction = quantile(profile.inside_fraction, 0, distance_draw)
        distance = -min(spread - 1, max(1, int(math.floor(fraction * spread + 0.5))))
    else:
        distance = int(math.floor(quantile(profile.distance_ticks, state, distance_draw) + 0.5))
    # Orders inside the spread lean towards the reference; orders behind the touch refill the thinner side.
    thin = side_excess(market, profile, 1) - side_excess(market, profile, 0)
    odds = lean if inside else 0.25 * lean + profile.restoring * thin
    side = BUY if draw * (1.0 + math.exp(-odds)) < 1.0 else SELL
    lots = draw_lots(agent, profile.limit_lots, 0 if inside else 1 if distance == 0 else 2)
    # Another trader's order ahead of the touch that is seen (overlook_others) is taken if this one reaches it.
    if side == BUY:
        limit(requests, BUY, min(market.bid_ticks - distance, market.ask_ticks - 1), lots)
    else:
        limit(requests, SELL, max(market.ask_ticks + distance, market.bid_ticks + 1), lots)
    return side


@inlined
def ticks_behind_touch(market: Any, index: int) -> int:
    """Ticks from its side's touch back to own order `index`."""
    price = own_price(market, index)
    return market.bid_ticks - price if own_side(market, index) == BUY else price - market.ask_ticks


@inlined
def _cancel_weight(profile: Any, market: Any, index: int, at_touch: bool, tilt: float) -> float:
    """How likely own order `index` is the one that is cancelled, relative to others; 0 if it is out of view, or not at (behind) the touch."""
    side = own_side(market, index)
    distance = ticks_behind_touch(market, index)
    if own_price(market, index) == 0 or (distance <= 0) != at_touch:
        return 0.0
    if distance > view_ticks(profile, market, 0 if side == BUY else 1):
        return 0.0
    band = cancel_band(profile.cancel_edges_ticks, distance)
    step = age_step(market.time_ns - own_since(market, index))
    return profile.cancel_odds[CANCEL_AGES * band + step] * math.exp(tilt if side == SELL else -tilt)


@apart
def _draw_order(profile: Any, market: Any, at_touch: bool, tilt: float, draw: float) -> int:
    """A random order in view at the touch, or behind it; -1 if there is none."""
    total = 0.0
    for index in range(market.orders_open):
        total += _cancel_weight(profile, market, index, at_touch, tilt)
    chosen, left = -1, draw * total
    for index in range(market.orders_open):
        weight = _cancel_weight(profile, market, index, at_touch, tilt)
        if weight > 0.0 and left >= 0.0:
            chosen = index
            left -= weight
    return chosen


@inlined
def cancel_order(profile: Any, market: Any, requests: Any, lean: float, draw: float, order_draw: float) -> None:
    """Cancels an order by its distance and age; orders against the reference price or on the denser side go sooner. O(own orders)."""
    at_touch = draw < profile.touch_cancel_share[spread_state(profile, market)]
    excess = side_excess(market, profile, 0) - side_excess(market, profile, 1)
    tilt = profile.cancel_lean * (lean if at_touch else 0.25 * lean - profile.restoring * excess)
    chosen = _draw_order(profile, market, at_touch, tilt, order_draw)
    if chosen < 0:
        chosen = _draw_order(profile, market, not at_touch, tilt, order_draw)
    if chosen >= 0:
        cancel(requests, market, chosen)


@inlined
def cancel_far(profile: Any, market: Any, requests: Any) -> None:
    """Cancels orders that are too far from the touch."""
    for index in range(min(market.orders_open, SWEEP_MAX)):
        if own_price(market, index) > 0 and ticks_behind_touch(market, index) > profile.far_ticks:
            cancel(requests, market, index)
