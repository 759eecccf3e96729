"""How kinds/flow.py places and cancels limit orders."""

import math
from typing import Any

import numpy as np

from serl.agents.traders.flow_reference import reference_ticks
from serl.agents.traders.flow_tables import draw_lots, quantile, side_excess, spread_state, view_ticks
from serl.agents.traders.random import mix, uniform
from serl.agents.traders.trader_api import (
    BUY,
    SELL,
    cancel,
    limit,
    mid_ticks,
    own_price,
    own_side,
    own_since,
    post,
    value_at,
)
from serl.exchange.compiling import inlined

OPENING_ORDERS = 40
SWEEP_MAX = 16


@inlined
def reference_lean(profile: Any, market: Any) -> float:
    """How far the reference price is above the mid, in lean_ticks bounded to [-3, 3], times the strength."""
    gap = (reference_ticks(profile, market) - mid_ticks(market)) / profile.lean_ticks
    return profile.lean * min(3.0, max(-3.0, gap))


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
def place_limit_order(agent: Any, profile: Any, market: Any, requests: Any, lean: float, draw: float) -> None:
    """Sends a limit order towards the reference price or on the thinner side, at a distance that depends on the spread."""
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
    # One tick short of the best opposite order, which need not be in the touch that is seen (overlook_others).
    price = min(market.bid_ticks - distance, market.ask_price[0] - 1)
    if side == SELL:
        price = max(market.ask_ticks + distance, market.bid_price[0] + 1)
    post(requests, side, price, lots)


@inlined
def ticks_behind_touch(market: Any, index: int) -> int:
    """Ticks from its side's touch back to own order `index`."""
    price = own_price(market, index)
    return market.bid_ticks - price if own_side(market, index) == BUY else price - market.ask_ticks


@inlined
def _patience_log_s(profile: Any, market: Any, index: int, distance: int) -> float:
    """ln of how long an order stays, s. Hashing the order's time and price replaces a stored random number per order."""
    word = np.uint64(own_since(market, index)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(own_price(market, index))
    probability = np.float64(np.int64(mix(word) >> np.uint64(12))) * 2.0**-52
    band = 0 if distance <= 0 else 1 if distance <= profile.near_ticks else 2
    return quantile(profile.patience_log_s, band, probability)


@inlined
def _most_overdue(profile: Any, market: Any, at_touch: bool, tilt: float) -> int:
    """The visible order at the touch, or behind it, whose age most exceeds its patience; -1 if there is none."""
    chosen, longest = -1, -1e300
    bid_view, ask_view = view_ticks(profile, market, 0), view_ticks(profile, market, 1)
    for index in range(market.orders_open):
        if own_price(market, index) == 0:
            continue
        distance = ticks_behind_touch(market, index)
        if (distance <= 0) != at_touch or distance > (bid_view if own_side(market, index) == BUY else ask_view):
            continue
        age_s = max(1e-9, 1e-9 * (market.time_ns - own_since(market, index)))
        overdue = math.log(age_s) - _patience_log_s(profile, market, index, distance)
        overdue += tilt if own_side(market, index) == SELL else -tilt
        if overdue > longest:
            chosen, longest = index, overdue
    return chosen


@inlined
def cancel_overdue(profile: Any, market: Any, requests: Any, lean: float, draw: float) -> None:
    """Cancels the most overdue order; orders against the reference price or on the denser side go sooner."""
    at_touch = draw < profile.touch_cancel_share[spread_state(profile, market)]
    excess = side_excess(market, profile, 0) - side_excess(market, profile, 1)
    tilt = lean if at_touch else 0.25 * lean - profile.restoring * excess
    chosen = _most_overdue(profile, market, at_touch, tilt)
    if chosen < 0:
        chosen = _most_overdue(profile, market, not at_touch, tilt)
    if chosen >= 0:
        cancel(requests, market, chosen)


@inlined
def cancel_far(profile: Any, market: Any, requests: Any) -> None:
    """Cancels orders that are too far from the touch."""
    for index in range(min(market.orders_open, SWEEP_MAX)):
        if own_price(market, index) > 0 and ticks_behind_touch(market, index) > profile.far_ticks:
            cancel(requests, market, index)
