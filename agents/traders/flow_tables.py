"""Draws from the measured tables of kinds/flow.py."""

import math
from typing import Any

from serl.agents.traders.random import uniform
from serl.exchange.compiling import inlined

EQUAL_PARTS, HALVINGS = 32, 5
PROBABILITIES = (
    *(part / EQUAL_PARTS for part in range(EQUAL_PARTS)),
    *(1.0 - 0.5**half / EQUAL_PARTS for half in range(1, HALVINGS + 1)),
    1.0,
)
"""Probabilities of the points of a quantile table: 0, 1/32, .. 31/32, then repeatedly the middle of what is left, then 1."""
POINTS = len(PROBABILITIES)
KINDS, LIMIT_KIND, MARKET_KIND, CANCEL_KIND = 3, 0, 1, 2
SPREAD_STATES, TOUCH_STATES, CURVE_STEPS = 6, 7, 13
DISTANCE_BANDS, CANCEL_AGES, CANCEL_SIZES = 5, 16, 5
INSIDE_BAND = DISTANCE_BANDS
"""Band of orders inside the spread, in the tables of sizes."""
RECENT_TRADES_MAX = 4.0
RECENT_TRADES_DECAY = math.exp(-1.0 / 6.0)
"""Decay of recent trades per event. Of memories of 4, 6, 8, 12 and 20 messages, six explains the waits in the training hours of GOOG and of AMZN
best (found by trial)."""
AGE_LOG_S_MIN, AGE_STEP = -11.5, 1.15
"""In ln seconds: ages of cancelled orders are counted in steps from 10 us to a quarter of an hour."""


def uniform_table(low: float, high: float) -> list[float]:
    """The quantile table of a uniform distribution."""
    return [low + (high - low) * probability for probability in PROBABILITIES]


@inlined
def quantile(table: Any, row: int, probability: float) -> float:
    """The quantile from row `row` of a table, linear between the points."""
    position = EQUAL_PARTS * probability
    point = min(int(position), EQUAL_PARTS - 1)
    share = position - point
    if point == EQUAL_PARTS - 1:
        while share >= 0.5 and point < POINTS - 2:
            share = 2.0 * share - 1.0
            point += 1
        if point < POINTS - 2:
            share *= 2.0
    low, high = table[row * POINTS + point], table[row * POINTS + point + 1]
    return low + (high - low) * share


@inlined
def draw_lots(agent: Any, table: Any, row: int) -> int:
    """Draws a quantity from row `row` of a table, at least 1."""
    return max(1, int(math.floor(quantile(table, row, uniform(agent)) + 0.5)))


@inlined
def band_of(edges: Any, value: Any) -> int:
    """The number of edges, in ascending order, that lie below a value: 0 .. len(edges)."""
    band = 0
    while band < len(edges) and value > edges[band]:
        band += 1
    return band


@inlined
def spread_state(profile: Any, market: Any) -> int:
    """The spread's state, from 0 (narrow) to SPREAD_STATES - 1 (wide)."""
    return band_of(profile.spread_edges_ticks, market.ask_ticks - market.bid_ticks)


@inlined
def levels_in_view(profile: Any, market: Any, side: int) -> int:
    """Number of visible levels of a side."""
    return min(market.bid_levels if side == 0 else market.ask_levels, int(profile.visible_levels))


@inlined
def view_ticks(profile: Any, market: Any, side: int) -> int:
    """Ticks from the touch to the last visible level of a side."""
    last = levels_in_view(profile, market, side) - 1
    if last < 0:
        return 0
    return market.bid_ticks - market.bid_price[last] if side == 0 else market.ask_price[last] - market.ask_ticks


@inlined
def market_share(profile: Any, kind: int, recent_trades: float) -> float:
    """The share of market orders after an event of `kind`, which is higher after recent trades."""
    share = profile.next_share[KINDS * kind + MARKET_KIND]
    if kind == MARKET_KIND:
        return share
    return share * (profile.market_quiet + profile.market_by_trade * min(RECENT_TRADES_MAX, recent_trades))


@inlined
def expected_kind(profile: Any, kind: int, recent_trades: float, draw: float) -> int:
    """The kind of the event that follows an event of `kind`, at any spread."""
    limits = profile.next_share[KINDS * kind + LIMIT_KIND]
    takes = market_share(profile, kind, recent_trades)
    place = draw * (limits + takes + profile.next_share[KINDS * kind + CANCEL_KIND])
    if place < limits:
        return LIMIT_KIND
    return MARKET_KIND if place < limits + takes else CANCEL_KIND


@inlined
def kind_at_spread(profile: Any, market: Any, kind: int, recent_trades: float, draw: float) -> int:
    """The kind of the event that follows an event of `kind`, at the spread of the book."""
    state = KINDS * spread_state(profile, market)
    limits = profile.next_share[KINDS * kind + LIMIT_KIND] * profile.kind_odds[state + LIMIT_KIND]
    takes = market_share(profile, kind, recent_trades) * profile.kind_odds[state + MARKET_KIND]
    cancels = profile.next_share[KINDS * kind + CANCEL_KIND] * profile.kind_odds[state + CANCEL_KIND]
    place = draw * (limits + takes + cancels)
    if place < limits:
        return LIMIT_KIND
    return MARKET_KIND if place < limits + takes else CANCEL_KIND


@inlined
def age_step(age_ns: int) -> int:
    """The step of an order's age, 0 .. CANCEL_AGES - 1."""
    age_log_s = math.log(max(1e-9, 1e-9 * age_ns))
    return min(CANCEL_AGES - 1, max(0, int((age_log_s - AGE_LOG_S_MIN) / AGE_STEP)))
