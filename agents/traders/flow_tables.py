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
def next_kind(agent: Any, profile: Any, market: Any, before: int) -> int:
    """What comes after an event; cancellations the more often the more is in the book."""
    excess = 0.5 * (side_excess(market, profile, 0) + side_excess(market, profile, 1))
    more = math.exp(0.5 * profile.restoring * excess)
    limits = profile.next_share[KINDS * before + LIMIT_KIND] / more
    markets = profile.next_share[KINDS * before + MARKET_KIND]
    # Market orders keep their share whatever the book holds: volume does not depend on it.
    cancels = profile.next_share[KINDS * before + CANCEL_KIND] * more
    draw = uniform(agent)
    if draw < markets:
        return MARKET_KIND
    draw = (draw - markets) / max(1e-9, 1.0 - markets)
    return LIMIT_KIND if draw * (limits + cancels) < limits else CANCEL_KIND
