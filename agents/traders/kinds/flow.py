"""The order flow of a whole market as one trader, drawn from tables measured on a day (serl.agents.calibration).

The kind and time of the next event follow a Markov renewal process over limit orders, market orders and cancellations: each
pair of consecutive kinds has its own distribution of waits, which covers both reactions within a millisecond and lulls of
seconds. A slowly varying activity scales the waits. The price of an order depends on the spread, its lifetime on its
distance from the touch. Signs of market orders come from hidden parent orders with heavy-tailed lengths (Lillo, Mike,
Farmer 2005). Prices and sides lean towards a reference price: the fundamental value, plus noise, plus the impact of all
trades, which decays as the inverse square root of the volume traded since (Bouchaud, Gefen, Potters, Wyart 2004; Tóth et
al. 2011).
"""

from typing import Any

import numpy as np
from pydantic import Field

from serl.agents.traders.flow_book import (
    cancel_far,
    cancel_overdue,
    open_book,
    overlook_others,
    place_limit_order,
    reference_lean,
)
from serl.agents.traders.flow_reference import (
    MEMORY_SLOTS,
    advance_reference,
    draw_parent_sign,
    draw_wait_ns,
    start_parents,
)
from serl.agents.traders.flow_tables import (
    BANDS,
    CURVE_STEPS,
    KINDS,
    LIMIT_KIND,
    MARKET_KIND,
    SPREAD_STATES,
    draw_lots,
    draw_next_kind,
    restore_density,
    uniform_table,
)
from serl.agents.traders.random import uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, market_order, recall, remember, sleep, take, two_sided
from serl.exchange.compiling import inlined

NEXT_KIND = MEMORY_SLOTS
DRAWS_PER_EVENT, ATTENTION_DRAW = 256, 200
"""Random numbers reserved for each event; opening a book uses the most. The one for the attention is taken from behind the others, so that
populations that differ in their attention alone have the same day until somebody else sends an order."""


def _table(low: float, high: float, copies: int = 1) -> Any:
    """A field for `copies` consecutive quantile tables."""
    default = tuple(uniform_table(low, high)) * copies
    return Field(default, min_length=len(default), max_length=len(default))


def _numbers(*values: float) -> Any:
    return Field(values, min_length=len(values), max_length=len(values))


class FlowProfile(Profile):
    """Tables hold quantiles at POINTS equally spaced probabilities from 0 to 1, linear in between."""

    next_share: tuple[float, ...] = _numbers(0.4, 0.03, 0.57, 0.4, 0.25, 0.35, 0.63, 0.02, 0.35)
    """Shares of limit, market, cancel after each of limit, market, cancel."""
    wait_log_s: tuple[float, ...] = _table(-10.0, 1.0, KINDS * KINDS)
    """ln seconds between two events: [first kind, second kind, point]."""
    spread_edges_ticks: tuple[float, ...] = _numbers(1.0, 2.0, 3.0, 5.0, 8.0)
    """The spread is in state k above the k-th edge."""
    inside_share: tuple[float, ...] = _numbers(0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    """Share of limit orders that go inside the spread, by spread state."""
    inside_fraction: tuple[float, ...] = _table(0.05, 0.95)
    """How far into the spread these go, 0..1."""
    distance_ticks: tuple[float, ...] = _table(0.0, 20.0, SPREAD_STATES)
    """Distance of the other limit orders behind their own touch: [spread state, point]."""
    touch_cancel_share: tuple[float, ...] = _numbers(0.5, 0.4, 0.35, 0.3, 0.3, 0.3)
    """Share of cancellations that are at the touch, by spread state."""
    limit_lots: tuple[float, ...] = _table(1.0, 200.0, BANDS)
    """Sizes of limit orders: [inside the spread, at the touch, behind it; point]."""
    market_lots: tuple[float, ...] = _table(1.0, 200.0)
    """Sizes of market orders that do not exhaust the touch."""
    sweep_share: float = Field(0.3, ge=0, le=1, description="share of market orders that take exactly the touch")
    through_share: float = Field(0.1, ge=0, le=1, description="share of market orders that trade through the touch")
    patience_log_s: tuple[float, ...] = _table(-6.0, 4.0, BANDS)
    """ln seconds from an order to its cancellation: [at the touch, near, far; point]."""
    near_ticks: float = Field(5.0, gt=0, description="orders up to this distance behind the touch are near")
    visible_levels: int = Field(10, ge=1, le=10)
    lots_per_tick: float = Field(
        50.0, gt=0, description="density on the visible levels of a side that the flow returns to"
    )
    far_ticks: float = Field(200.0, gt=0, description="orders further than this behind the touch are cancelled")
    restoring: float = Field(1.0, ge=0, description="how strongly the flow returns to lots_per_tick")
    lean: float = Field(1.0, ge=0, description="how strongly the flow leans towards the reference price")
    lean_ticks: float = Field(5.0, gt=0, description="distance of the reference from the mid that counts as one")
    noise_ticks: float = Field(0.3, ge=0, description="standard deviation of the reference's step at an event")
    noise_activity: float = Field(0.5, ge=0, description="exponent of the activity in the size of that step")
    trend_feedback: float = Field(0.5, ge=0, description="effect of the squared trend on the variance of that step")
    trend_events: float = Field(1000.0, gt=1, description="memory of the trend, events")
    impact_ticks: float = Field(1.0, ge=0, description="immediate impact of one unit of volume on the reference")
    impact_lots: float = Field(100.0, gt=0, description="unit of volume: a mean market order")
    parent_tail: float = Field(1.5, gt=1, description="Pareto exponent of the length of parent orders")
    repeat_share: float = Field(0.5, ge=0, le=1, description="share of market orders with the same parent as the last")
    attention: float = Field(
        1.0,
        ge=0,
        le=1,
        description="share of events at which other traders' orders ahead of all of the flow's own count as the touch",
    )
    activity_deviation: float = Field(0.5, ge=0, description="standard deviation of the logarithm of the activity")
    activity_events: float = Field(
        2000.0, gt=1, description="memory of the activity's slow half, events; the fast half has a tenth"
    )
    activity_curve: tuple[float, ...] = _numbers(*(1.0 for _ in range(CURVE_STEPS)))
    """Relative speed in equal parts of the day."""


@inlined
def draw_ahead(agent: Any, count: int) -> float:
    """The random number `count` places ahead; the next draw is the same as without it."""
    draws = agent.draws
    agent.draws = draws + np.uint64(count)
    drawn = uniform(agent)
    agent.draws = draws
    return drawn


@inlined
def send_market_order(agent: Any, profile: Any, market: Any, requests: Any, sign: float) -> None:
    """Sends a market order: through the touch, exactly the touch, or less."""
    side = BUY if sign > 0 else SELL
    price = market.ask_ticks if side == BUY else market.bid_ticks
    touch_lots = market.ask_lots if side == BUY else market.bid_lots
    draw = uniform(agent)
    lots = draw_lots(agent, profile.market_lots, 0)
    if draw < profile.through_share:
        market_order(requests, side, touch_lots + lots)
    elif draw < profile.through_share + profile.sweep_share:
        take(requests, side, price, touch_lots)
    else:
        take(requests, side, price, min(lots, max(1, touch_lots - 1)))


@trader("flow", FlowProfile, memory=MEMORY_SLOTS + 1, depth=10)
def flow(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """One event per wake-up. Memory: that of flow_reference.py and the kind of the next event. O(own orders) to cancel.

    The times, intended kinds, noise and parent sides do not depend on the book: a market with an extra order continues with
    the same random numbers (common random numbers), and differs only by the reaction.
    """
    agent.draws = (agent.draws // DRAWS_PER_EVENT + 1) * DRAWS_PER_EVENT
    if recall(market, 0) == 0.0:
        start_parents(agent, profile, market)
    advance_reference(agent, profile, market)
    kind = int(recall(market, NEXT_KIND))
    next_kind = draw_next_kind(agent, profile, kind)
    remember(market, NEXT_KIND, 1.0 * next_kind)
    wait_ns = draw_wait_ns(agent, profile, market, kind, next_kind)
    sign = draw_parent_sign(agent, profile, market) if kind == MARKET_KIND else 0.0
    density_draw, draw = uniform(agent), uniform(agent)
    attention_draw = draw_ahead(agent, ATTENTION_DRAW)
    if two_sided(market):
        if attention_draw >= profile.attention:
            overlook_others(market)
        lean, actual_kind = reference_lean(profile, market), restore_density(profile, market, kind, density_draw)
        if actual_kind == MARKET_KIND:
            send_market_order(agent, profile, market, requests, sign)
        elif actual_kind == LIMIT_KIND:
            place_limit_order(agent, profile, market, requests, lean, draw)
        else:
            cancel_overdue(profile, market, requests, lean, draw)
        cancel_far(profile, market, requests)
    else:
        open_book(agent, profile, market, requests)
        wait_ns = max(wait_ns, 1e6 + 2.0 * agent.latency_ns)
    sleep(requests, market, wait_ns)
