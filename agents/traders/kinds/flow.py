"""The order flow of a whole market as one trader, drawn from tables measured on a day (serl.agents.calibration).

The kind and time of the next event follow a Markov renewal process over limit orders, market orders and cancellations: each
pair of consecutive kinds has its own distribution of waits, which covers both reactions within a millisecond and lulls of
seconds. A slowly varying activity scales the waits. The kind also depends on the spread: market orders come when it is narrow.
The price of an order depends on the spread; how much of the touch a market order takes depends on the lots there; which order
is cancelled depends on its age, its size, its distance from the touch, and the lots at the touch. Orders behind the touch keep
the density. Signs of market orders come from hidden parent orders with heavy-tailed lengths (Lillo, Mike, Farmer 2005), unless
the order is informed: then it takes the side on which the reference price lies. Prices and sides also lean towards that price.
It is the fundamental value, plus noise, plus the impact of what other traders take: the square root of what is remembered of
it, as on a day that gives way (serl.agents.impact_memory).
"""

import math
from typing import Any

from pydantic import Field, PositiveFloat, model_validator

from serl.agents.traders.flow_book import (
    cancel_far,
    cancel_order,
    is_at_front,
    keep_reserve,
    open_book,
    overlook_others,
    own_range,
    place_limit_order,
    reference_gap,
)
from serl.agents.traders.flow_density import DENSITY_SLOTS, advance_density, restore_density
from serl.agents.traders.flow_reference import (
    RECENT_TRADES,
    SENT_SIGN,
    STARTED,
    advance_reference,
    draw_parent_sign,
    draw_wait_ns,
    start_memory,
)
from serl.agents.traders.flow_tables import (
    CANCEL_AGES,
    CANCEL_SIZES,
    CURVE_STEPS,
    DISTANCE_BANDS,
    INSIDE_BAND,
    KINDS,
    LIMIT_KIND,
    MARKET_KIND,
    RECENT_TRADES_DECAY,
    SPREAD_STATES,
    TOUCH_STATES,
    band_of,
    draw_lots,
    expected_kind,
    kind_at_spread,
    uniform_table,
)
from serl.agents.traders.random import uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, market_order, recall, remember, sleep, take, two_sided
from serl.exchange.compiling import inlined

LAST_KIND, KIND_DRAW, PUSHED = DENSITY_SLOTS, DENSITY_SLOTS + 1, DENSITY_SLOTS + 2
DRAWS_PER_EVENT = 256
"""Random numbers reserved for each event; opening a book uses the most."""


def _table(low: float, high: float, copies: int = 1) -> Any:
    """A field for `copies` consecutive quantile tables."""
    default = tuple(uniform_table(low, high)) * copies
    return Field(default, min_length=len(default), max_length=len(default))


def _numbers(*values: float) -> Any:
    return Field(values, min_length=len(values), max_length=len(values))


class FlowProfile(Profile):
    """Tables hold the quantiles at flow_tables.PROBABILITIES, linear in between."""

    @model_validator(mode="before")
    @classmethod
    def _of_this_model(cls, values: Any) -> Any:
        if isinstance(values, dict) and "wait_log_s" in values and "touch_edges_lots" not in values:
            raise ValueError(
                "expected a population of this version, got one of an earlier `serl calibrate` (no touch_edges_lots); calibrate its day again"
            )
        return values

    next_share: tuple[float, ...] = _numbers(0.4, 0.03, 0.57, 0.4, 0.25, 0.35, 0.63, 0.02, 0.35)
    """Shares of the kinds limit, market, cancel after each of these kinds: [kind, next kind]."""
    kind_odds: tuple[float, ...] = _numbers(*(1.0 for _ in range(SPREAD_STATES * KINDS)))
    """Factors on these shares: [spread state, kind]."""
    wait_log_s: tuple[float, ...] = _table(-10.0, 1.0, KINDS * KINDS)
    """ln seconds between two events: [first kind, second kind, point]."""
    spread_edges_ticks: tuple[float, ...] = _numbers(1.0, 2.0, 3.0, 5.0, 8.0)
    """Edges of the spread states: the spread is in state k above the k-th edge."""
    inside_share: tuple[float, ...] = _numbers(0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    """Share of limit orders that go inside the spread, by spread state."""
    inside_fraction: tuple[float, ...] = _table(0.05, 0.95)
    """How far into the spread these orders go, 0..1."""
    distance_ticks: tuple[float, ...] = _table(0.0, 20.0, SPREAD_STATES)
    """Distance of the other limit orders behind their own touch: [spread state, point]."""
    touch_cancel_share: tuple[float, ...] = _numbers(0.5, 0.4, 0.35, 0.3, 0.3, 0.3)
    """Share of cancellations that are at the touch, by spread state."""
    touch_cancel_odds: tuple[float, ...] = _numbers(*(1.0 for _ in range(TOUCH_STATES)))
    """Factors on half this share for a side, by the state of its touch."""
    pile_odds: tuple[float, ...] = _numbers(*(1.0 for _ in range(TOUCH_STATES)))
    """Factors on the odds of orders at the touch, by its state."""
    limit_lots: tuple[float, ...] = _table(1.0, 200.0, INSIDE_BAND + 1)
    """Sizes of limit orders: [distance band, then inside the spread; point]."""
    touch_edges_lots: tuple[float, ...] = _numbers(10.0, 50.0, 99.0, 100.0, 200.0, 400.0)
    """Edges of the touch states: a touch is in state k above the k-th edge."""
    market_lots: tuple[float, ...] = _table(1.0, 200.0, TOUCH_STATES)
    """Sizes of market orders that do not exhaust the touch: [touch state, point]."""
    sweep_share: tuple[float, ...] = _numbers(*(0.3 for _ in range(TOUCH_STATES)))
    """Share of market orders that take exactly the touch, by touch state."""
    through_share: tuple[float, ...] = _numbers(*(0.1 for _ in range(TOUCH_STATES)))
    """Share of market orders that trade through the touch, by touch state."""
    through_lots: tuple[float, ...] = _table(1.0, 200.0)
    """How many lots more than those at the touch these orders take."""
    band_edges_ticks: tuple[float, ...] = _numbers(0.0, 2.0, 5.0, 10.0)
    """Edges of the distance bands: an order is in band k behind the k-th edge; band 0 is the touch."""
    cancel_edges_lots: tuple[float, ...] = _numbers(10.0, 100.0, 300.0, 1000.0)
    """Edges of the size classes: a cancelled order is in class k above the k-th edge."""
    cancel_odds: tuple[float, ...] = _numbers(*(1.0 for _ in range(DISTANCE_BANDS * CANCEL_AGES * CANCEL_SIZES)))
    """Relative probability that an order is the one cancelled: [distance band, step of its age, size class]."""
    visible_levels: int = Field(10, ge=1, le=10)
    lots_per_tick: tuple[PositiveFloat, ...] = _numbers(50.0, 50.0)
    """Density on the visible levels of bids and asks to which the flow returns."""
    reserve_ticks: float = Field(0.0, ge=0, description="own orders reach so far behind the touch")
    reserve_gap_ticks: float = Field(1.0, ge=1, description="mean distance between those that are added there")
    reserve_lots: tuple[float, ...] = _table(1.0, 200.0)
    """Sizes of the orders that `keep_reserve` sends."""
    far_ticks: float = Field(200.0, gt=0, description="orders further than this behind the touch are cancelled")
    restoring: float = Field(1.0, ge=0, description="how strongly the flow returns to lots_per_tick")
    lean: float = Field(1.0, ge=0, description="how strongly limit orders lean towards the reference price")
    push: float = Field(0.0, ge=0, description="added to the lean for each recent trade, towards its side")
    cancel_lean: float = Field(0.1, ge=0, description="how strongly cancellations do, relative to limit orders")
    informed: float = Field(1.0, ge=0, description="how strongly market orders take the side of the reference price")
    lean_ticks: float = Field(5.0, gt=0, description="distance of the reference from the mid that counts as one")
    noise_ticks: float = Field(0.3, ge=0, description="standard deviation of the reference's step at an event")
    noise_activity: float = Field(0.5, ge=0, description="exponent of the activity in the size of that step")
    trend_feedback: float = Field(0.5, ge=0, description="effect of the squared trend on the variance of that step")
    trend_events: float = Field(1000.0, gt=1, description="memory of the trend, events")
    impact_ticks_per_root_lot: float = Field(
        0.3,
        ge=0,
        description="impact on the reference of what others take, per root of a lot that is remembered in full",
    )
    parent_tail: float = Field(1.5, gt=1, description="Pareto exponent of the length of parent orders")
    repeat_share: float = Field(0.5, ge=0, le=1, description="share of market orders with the same parent as the last")
    burst_share: float = Field(
        0.0, ge=0, lt=1, description="share of the variance of a wait's normal score that has a memory"
    )
    burst_events: float = Field(5.0, gt=0, description="this memory, events")
    score_quiet: float = Field(0.0, ge=0, le=3, description="that score without recent trades")
    score_by_trade: float = Field(0.0, ge=-3, le=0, description="change of that score for each recent trade")
    market_quiet: float = Field(
        1.0, ge=0, description="factor on the share of market orders without recent trades, after other events"
    )
    market_by_trade: float = Field(0.0, ge=0, description="added to it for each recent trade")
    activity_deviation: float = Field(0.5, ge=0, description="standard deviation of the logarithm of the activity")
    activity_events: float = Field(
        2000.0, gt=1, description="memory of the activity's slow half, events; the fast half has a tenth"
    )
    activity_curve: tuple[float, ...] = _numbers(*(1.0 for _ in range(CURVE_STEPS)))
    """Relative speed in equal parts of the day."""


@inlined
def informed_sign(profile: Any, sign: float, gap: float, draw: float) -> float:
    """The sign of a market order: that of the parent order, or that of the gap to the reference price, more often the wider the gap is."""
    return -sign if sign * gap < 0.0 and draw > math.exp(-profile.informed * abs(gap)) else sign


@inlined
def send_market_order(agent: Any, profile: Any, market: Any, requests: Any, sign: float) -> None:
    """Sends a market order: through the touch, exactly the touch, or less."""
    side = BUY if sign > 0 else SELL
    price = market.ask_ticks if side == BUY else market.bid_ticks
    touch_lots = market.ask_lots if side == BUY else market.bid_lots
    state = band_of(profile.touch_edges_lots, touch_lots)
    draw = uniform(agent)
    lots = draw_lots(agent, profile.market_lots, state)
    if draw < profile.through_share[state]:
        market_order(requests, side, touch_lots + draw_lots(agent, profile.through_lots, 0))
    elif draw < profile.through_share[state] + profile.sweep_share[state]:
        take(requests, side, price, touch_lots)
    else:
        take(requests, side, price, min(lots, max(1, touch_lots - 1)))


@trader("flow", FlowProfile, memory=DENSITY_SLOTS + 3, depth=10)
def flow(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Makes one event per wake-up. Memory: that of flow_reference.py and flow_density.py, the kind of the last event, the draw for the kind of the
    next, and the signs of recent market orders. O(own orders).

    Every event has its own random numbers, the same with and without the orders of others, so the two markets differ only by the reaction.
    """
    agent.draws = (agent.draws // DRAWS_PER_EVENT + 1) * DRAWS_PER_EVENT
    if recall(market, STARTED) == 0.0:
        start_memory(agent, profile, market)
    advance_reference(agent, profile, market)
    last_kind, kind_draw = int(recall(market, LAST_KIND)), recall(market, KIND_DRAW)
    next_draw, density_draw, draw = uniform(agent), uniform(agent), uniform(agent)
    order_draw, front_draw = uniform(agent), uniform(agent)
    at_front = False
    recent_trades = recall(market, RECENT_TRADES)
    deep_bid_ticks, deep_ask_ticks = 0, 0
    bid_excess, ask_excess = 0.0, 0.0
    if two_sided(market):
        own_bid_ticks, deep_bid_ticks, own_ask_ticks, deep_ask_ticks = own_range(market)
        overlook_others(market, own_bid_ticks, own_ask_ticks)
        bid_excess, ask_excess = advance_density(profile, market)
        kind = kind_at_spread(profile, market, last_kind, recent_trades, kind_draw)
        at_front = is_at_front(profile, market, kind, front_draw)
        if not at_front:
            kind = restore_density(profile, kind, 0.5 * (bid_excess + ask_excess), density_draw)
    else:
        kind = expected_kind(profile, last_kind, recent_trades, kind_draw)
    remember(market, LAST_KIND, 1.0 * kind)
    remember(market, KIND_DRAW, next_draw)
    next_kind = expected_kind(profile, kind, recent_trades, next_draw)
    wait_ns = draw_wait_ns(agent, profile, market, kind, next_kind)
    remember(market, SENT_SIGN, 0.0)
    if two_sided(market):
        gap = reference_gap(profile, market)
        pushed = RECENT_TRADES_DECAY * recall(market, PUSHED)
        lean = profile.lean * gap + profile.push * pushed
        if kind == MARKET_KIND:
            sign = informed_sign(profile, draw_parent_sign(agent, profile, market), gap, order_draw)
            remember(market, SENT_SIGN, sign)
            pushed += sign
            send_market_order(agent, profile, market, requests, sign)
        elif kind == LIMIT_KIND:
            side = place_limit_order(agent, profile, market, requests, at_front, lean, ask_excess - bid_excess, draw)
            remember(market, SENT_SIGN, 1.0 if side == BUY else -1.0)
        else:
            cancel_order(profile, market, requests, at_front, lean, ask_excess - bid_excess, order_draw)
        remember(market, PUSHED, pushed)
        cancel_far(profile, market, requests)
        if deep_bid_ticks > 0 and deep_ask_ticks > 0:
            keep_reserve(agent, profile, market, requests, deep_bid_ticks, deep_ask_ticks)
    else:
        open_book(agent, profile, market, requests)
        wait_ns = max(wait_ns, 1e6 + 2.0 * agent.latency_ns)
    sleep(requests, market, wait_ns)
