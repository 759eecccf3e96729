"""How kinds/flow.py places and cancels limit orders."""

import math
from typing import Any

from serl.agents.traders.flow_reference import reference_ticks
from serl.agents.traders.flow_tables import (
    CANCEL_AGES,
    CANCEL_KIND,
    CANCEL_SIZES,
    DISTANCE_BANDS,
    INSIDE_BAND,
    LIMIT_KIND,
    age_step,
    band_of,
    draw_lots,
    quantile,
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
    own_lots,
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
    """Distance of the reference price above the mid, in units of lean_ticks, bounded to [-3, 3]."""
    return min(3.0, max(-3.0, (reference_ticks(profile, market) - mid_ticks(market)) / profile.lean_ticks))


@inlined
def open_book(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Fills an empty side with orders around the last price, half a common spread away."""
    middle = market.last_ticks if market.last_ticks > 0 else int(value_at(market, market.time_ns))
    half = max(1, int(0.5 * profile.spread_edges_ticks[2]))
    for _ in range(OPENING_ORDERS):
        distance_ticks = half + int(quantile(profile.distance_ticks, 2, uniform(agent)))
        lots = draw_lots(agent, profile.limit_lots, DISTANCE_BANDS - 1)
        if market.bid_ticks == 0:
            limit(
                requests, BUY, min(middle, market.ask_ticks if market.ask_ticks > 0 else middle) - distance_ticks, lots
            )
        if market.ask_ticks == 0:
            limit(requests, SELL, max(middle, market.bid_ticks) + distance_ticks, lots)


@inlined
def own_range(market: Any) -> Any:
    """(best bid, deepest bid, best ask, deepest ask) of the flow's own orders; 0 on a side without orders. O(own orders)."""
    bid, deep_bid, ask, deep_ask = 0, 0, 0, 0
    for index in range(market.orders_open):
        price = own_price(market, index)
        if price == 0:
            continue
        if own_side(market, index) == BUY:
            bid, deep_bid = max(bid, price), price if deep_bid == 0 else min(deep_bid, price)
        else:
            ask, deep_ask = price if ask == 0 else min(ask, price), max(deep_ask, price)
    return bid, deep_bid, ask, deep_ask


@inlined
def overlook_others(market: Any, bid: int, ask: int) -> None:
    """Sets the touch of each side in the view to `bid` and `ask`, the flow's own best orders; the lots at the touch then include those of others
    ahead of it. Levels do not change. Nothing changes where nobody else is ahead."""
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
def is_at_front(profile: Any, market: Any, kind: int, draw: float) -> bool:
    """Whether the next event is at the front of the book: a limit order inside the spread, or a cancellation at the touch."""
    if kind == LIMIT_KIND:
        inside = draw < profile.inside_share[spread_state(profile, market)]
        return inside and market.ask_ticks - market.bid_ticks > 1
    share = 0.5 * profile.touch_cancel_share[spread_state(profile, market)]
    bid_odds = profile.touch_cancel_odds[band_of(profile.touch_edges_lots, market.bid_lots)]
    ask_odds = profile.touch_cancel_odds[band_of(profile.touch_edges_lots, market.ask_lots)]
    return kind == CANCEL_KIND and draw < share * (bid_odds + ask_odds)


@inlined
def place_limit_order(
    agent: Any, profile: Any, market: Any, requests: Any, inside: bool, lean: float, thin: float, draw: float
) -> int:
    """Sends a limit order towards the reference price or on the thinner side, at a distance that depends on the spread; returns its side.

    thin: by how much bids are thinner than asks, see flow_density.py.
    """
    spread, state = market.ask_ticks - market.bid_ticks, spread_state(profile, market)
    distance_draw = uniform(agent)
    if inside:
        fraction = quantile(profile.inside_fraction, 0, distance_draw)
        distance = -min(spread - 1, max(1, int(math.floor(fraction * spread + 0.5))))
    else:
        distance = int(math.floor(quantile(profile.distance_ticks, state, distance_draw) + 0.5))
    # Orders inside the spread lean towards the reference; orders behind the touch refill the thinner side.
    odds = lean if inside else 0.25 * lean + profile.restoring * thin
    side = BUY if draw * (1.0 + math.exp(-odds)) < 1.0 else SELL
    lots = draw_lots(agent, profile.limit_lots, INSIDE_BAND if inside else band_of(profile.band_edges_ticks, distance))
    # If this order reaches another trader's order ahead of the visible touch (overlook_others), it takes it.
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
def _cancel_weight(profile: Any, market: Any, index: int, at_touch: bool, views: Any, factors: Any) -> float:
    """Relative probability that own order `index` is the one cancelled; 0 if it is out of view, or not at (behind) the touch as `at_touch` requires.

    views: ticks in view of (bids, asks). factors: factors on the odds of (bids, asks).
    """
    side, distance = own_side(market, index), ticks_behind_touch(market, index)
    if own_price(market, index) == 0 or (distance <= 0) != at_touch or distance > views[side]:
        return 0.0
    band = band_of(profile.band_edges_ticks, distance)
    step = age_step(market.time_ns - own_since(market, index))
    size = band_of(profile.cancel_edges_lots, own_lots(market, index))
    return profile.cancel_odds[CANCEL_SIZES * (CANCEL_AGES * band + step) + size] * factors[side]


@apart
def _draw_order(profile: Any, market: Any, at_touch: bool, tilt: float, draw: float) -> int:
    """A random own order in view, at the touch or behind it; -1 if there is none."""
    views = view_ticks(profile, market, 0), view_ticks(profile, market, 1)
    ask_factor = math.exp(tilt)
    factors = 1.0 / ask_factor, ask_factor
    if at_touch:
        factors = (
            factors[0] * profile.pile_odds[band_of(profile.touch_edges_lots, market.bid_lots)],
            factors[1] * profile.pile_odds[band_of(profile.touch_edges_lots, market.ask_lots)],
        )
    total = 0.0
    for index in range(market.orders_open):
        total += _cancel_weight(profile, market, index, at_touch, views, factors)
    chosen, left = -1, draw * total
    for index in range(market.orders_open):
        weight = _cancel_weight(profile, market, index, at_touch, views, factors)
        if weight > 0.0:
            chosen = index
            left -= weight
            if left < 0.0:
                break
    return chosen


@inlined
def cancel_order(
    profile: Any, market: Any, requests: Any, at_touch: bool, lean: float, thin: float, draw: float
) -> None:
    """Cancels an order chosen by distance and age; orders against the reference price or on the denser side are cancelled sooner. O(own orders)."""
    tilt = profile.cancel_lean * (lean if at_touch else 0.25 * lean + profile.restoring * thin)
    chosen = _draw_order(profile, market, at_touch, tilt, draw)
    if chosen < 0:
        chosen = _draw_order(profile, market, not at_touch, tilt, draw)
    if chosen >= 0:
        cancel(requests, market, chosen)


@inlined
def _full(profile: Any, market: Any, side: int) -> bool:
    """Whether a side has as many levels as are visible."""
    return (market.bid_levels if side == BUY else market.ask_levels) >= profile.visible_levels


@inlined
def keep_reserve(
    agent: Any, profile: Any, market: Any, requests: Any, deep_bid_ticks: int, deep_ask_ticks: int
) -> None:
    """Sends one more order behind the deepest own order of each side, until they reach reserve_ticks and all visible levels exist. A price move
    will uncover these orders."""
    for side in range(2):
        gap_draw, lots = uniform(agent), draw_lots(agent, profile.reserve_lots, 0)
        reach = market.bid_ticks - deep_bid_ticks if side == BUY else deep_ask_ticks - market.ask_ticks
        if reach < profile.reserve_ticks or (profile.reserve_ticks > 0.0 and not _full(profile, market, side)):
            gap = 1 + int(-math.log(1.0 - gap_draw) * (profile.reserve_gap_ticks - 1.0) + 0.5)
            limit(requests, side, deep_bid_ticks - gap if side == BUY else deep_ask_ticks + gap, lots)


@inlined
def cancel_far(profile: Any, market: Any, requests: Any) -> None:
    """Cancels orders too far from the touch on sides that are full without them."""
    bids_full, asks_full = _full(profile, market, BUY), _full(profile, market, SELL)
    for index in range(min(market.orders_open, SWEEP_MAX)):
        full = bids_full if own_side(market, index) == BUY else asks_full
        if full and own_price(market, index) > 0 and ticks_behind_touch(market, index) > profile.far_ticks:
            cancel(requests, market, index)
