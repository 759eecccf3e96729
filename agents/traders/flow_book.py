"""How kinds/flow.py places limit orders and takes them out again."""

import math
from typing import Any

import numpy as np

from serl.agents.traders.flow_reference import reference_ticks
from serl.agents.traders.flow_tables import lots_from, quantile, side_excess, spread_state, view_ticks
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
def lean_of(profile: Any, market: Any) -> float:
    """How far the reference is above the mid, from -3 to 3."""
    gap = (reference_ticks(profile, market) - mid_ticks(market)) / profile.lean_ticks
    return profile.lean * min(3.0, max(-3.0, gap))


@inlined
def opening(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Fills an empty side around the last price, as far apart as spreads commonly are."""
    middle = market.last_ticks if market.last_ticks > 0 else int(value_at(market, market.time_ns))
    half = max(1, int(0.5 * profile.spread_edges_ticks[2]))
    for _ in range(OPENING_ORDERS):
        away = half + int(quantile(profile.distance_ticks, 2, uniform(agent)))
        lots = lots_from(agent, profile.limit_lots, 2)
        if market.bid_ticks == 0:
            limit(requests, BUY, min(middle, market.ask_ticks if market.ask_ticks > 0 else middle) - away, lots)
        if market.ask_ticks == 0:
            limit(requests, SELL, max(middle, market.bid_ticks) + away, lots)


@inlined
def place(agent: Any, profile: Any, market: Any, requests: Any, lean: float, draw: float) -> None:
    """A limit order, on the side that the reference is on or that holds less, at a distance that depends on the spread."""
    spread, state = market.ask_ticks - market.bid_ticks, spread_state(profile, market)
    where, how_far = uniform(agent), uniform(agent)
    inside = where < profile.inside_share[state] and spread > 1
    if inside:
        fraction = quantile(profile.inside_fraction, 0, how_far)
        distance = -min(spread - 1, max(1, int(math.floor(fraction * spread + 0.5))))
    else:
        distance = int(math.floor(quantile(profile.distance_ticks, state, how_far) + 0.5))
    # Orders that improve the price lean to the reference; those behind it fill up the side that holds less.
    thin = side_excess(market, profile, 1) - side_excess(market, profile, 0)
    odds = lean if inside else 0.25 * lean + profile.restoring * thin
    side = BUY if draw * (1.0 + math.exp(-odds)) < 1.0 else SELL
    lots = lots_from(agent, profile.limit_lots, 0 if inside else 1 if distance == 0 else 2)
    post(requests, side, market.bid_ticks - distance if side == BUY else market.ask_ticks + distance, lots)


@inlined
def behind(market: Any, index: int) -> int:
    """Ticks from own order `index` to its side's touch."""
    price = own_price(market, index)
    return market.bid_ticks - price if own_side(market, index) == BUY else price - market.ask_ticks


@inlined
def _patience_log_s(profile: Any, market: Any, index: int, distance: int) -> float:
    """How long an order stays where it is: drawn by hashing when and where it was sent, so that nothing is to be kept."""
    word = np.uint64(own_since(market, index)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(own_price(market, index))
    probability = np.float64(np.int64(mix(word) >> np.uint64(12))) * 2.0**-52
    band = 0 if distance <= 0 else 1 if distance <= profile.near_ticks else 2
    return quantile(profile.patience_log_s, band, probability)


@inlined
def _most_overdue(profile: Any, market: Any, at_touch: bool, tilt: float) -> int:
    """The visible order at the touch, or behind it, that is most overdue for its patience; -1 if there is none."""
    chosen, most = -1, -1e300
    bid_view, ask_view = view_ticks(profile, market, 0), view_ticks(profile, market, 1)
    for index in range(market.orders_open):
        if own_price(market, index) == 0:
            continue
        distance = behind(market, index)
        if (distance <= 0) != at_touch or distance > (bid_view if own_side(market, index) == BUY else ask_view):
            continue
        age_s = max(1e-9, 1e-9 * (market.time_ns - own_since(market, index)))
        overdue = math.log(age_s) - _patience_log_s(profile, market, index, distance)
        overdue += tilt if own_side(market, index) == SELL else -tilt
        if overdue > most:
            chosen, most = index, overdue
    return chosen


@inlined
def pull_out(profile: Any, market: Any, requests: Any, lean: float, draw: float) -> None:
    """Cancels an overdue order; sooner where the reference is against it, or much is there."""
    at_touch = draw < profile.touch_cancel_share[spread_state(profile, market)]
    excess = side_excess(market, profile, 0) - side_excess(market, profile, 1)
    tilt = lean if at_touch else 0.25 * lean - profile.restoring * excess
    chosen = _most_overdue(profile, market, at_touch, tilt)
    if chosen < 0:
        chosen = _most_overdue(profile, market, not at_touch, tilt)
    if chosen >= 0:
        cancel(requests, market, chosen)


@inlined
def sweep_far(profile: Any, market: Any, requests: Any) -> None:
    """Takes orders out that the price has left behind."""
    for index in range(min(market.orders_open, SWEEP_MAX)):
        if own_price(market, index) > 0 and behind(market, index) > profile.far_ticks:
            cancel(requests, market, index)
