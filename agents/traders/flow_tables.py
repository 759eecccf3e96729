"""Draws from the tables of kinds/flow.py."""

import math
from typing import Any

from serl.agents.traders.random import uniform
from serl.exchange.compiling import inlined

POINTS = 33
"""Of a quantile table: probabilities 0, 1/32, .. 1."""
KINDS, LIMIT_KIND, MARKET_KIND, CANCEL_KIND = 3, 0, 1, 2
BANDS, SPREAD_STATES, CURVE_STEPS = 3, 6, 13


def straight(low: float, high: float) -> list[float]:
    """The quantile table of a uniform distribution."""
    return [low + (high - low) * point / (POINTS - 1) for point in range(POINTS)]


@inlined
def quantile(table: Any, row: int, probability: float) -> float:
    """Of table `row`, linear between the points."""
    place = probability * (POINTS - 1)
    point = min(int(place), POINTS - 2)
    low, high = table[row * POINTS + point], table[row * POINTS + point + 1]
    return low + (high - low) * (place - point)


@inlined
def lots_from(agent: Any, table: Any, row: int) -> int:
    """A quantity, at least 1."""
    return max(1, int(math.floor(quantile(table, row, uniform(agent)) + 0.5)))


@inlined
def spread_state(profile: Any, market: Any) -> int:
    """0 .. SPREAD_STATES - 1, from narrow to wide."""
    state = 0
    while state < SPREAD_STATES - 1 and market.ask_ticks - market.bid_ticks > profile.spread_edges_ticks[state]:
        state += 1
    return state


@inlined
def levels_in_view(profile: Any, market: Any, side: int) -> int:
    """How many levels of a side are visible."""
    return min(market.bid_levels if side == 0 else market.ask_levels, int(profile.visible_levels))


@inlined
def view_ticks(profile: Any, market: Any, side: int) -> int:
    """From the touch to the last visible level."""
    last = levels_in_view(profile, market, side) - 1
    if last < 0:
        return 0
    return market.bid_ticks - market.bid_price[last] if side == 0 else market.ask_price[last] - market.ask_ticks


@inlined
def side_excess(market: Any, profile: Any, side: int) -> float:
    """ln of the visible quantity a tick of a side over what the flow returns to; bounded by 2 either way."""
    lots = 0
    for level in range(levels_in_view(profile, market, side)):
        lots += market.bid_qty[level] if side == 0 else market.ask_qty[level]
    density = max(1.0, 1.0 * lots) / max(1.0, 1.0 * view_ticks(profile, market, side))
    return min(2.0, max(-2.0, math.log(density / profile.lots_per_tick)))


@inlined
def next_kind(agent: Any, profile: Any, before: int) -> int:
    """What is to come after an event."""
    draw = uniform(agent)
    if draw < profile.next_share[KINDS * before + LIMIT_KIND]:
        return LIMIT_KIND
    draw -= profile.next_share[KINDS * before + LIMIT_KIND]
    return MARKET_KIND if draw < profile.next_share[KINDS * before + MARKET_KIND] else CANCEL_KIND


@inlined
def turned(profile: Any, market: Any, kind: int, draw: float) -> int:
    """A limit order becomes a cancellation where there is much in the book, and the other way round where there is little."""
    excess = 0.5 * (side_excess(market, profile, 0) + side_excess(market, profile, 1))
    if kind != (LIMIT_KIND if excess > 0 else CANCEL_KIND) or draw < math.exp(-profile.restoring * abs(excess)):
        return kind
    return CANCEL_KIND if kind == LIMIT_KIND else LIMIT_KIND
