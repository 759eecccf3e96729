"""The order flow of a whole market as one trader, drawn from tables that are measured on a day (serl.agents.calibration).

What happens next, and when, is a Markov renewal process over limit orders, market orders and cancellations: the wait has a
distribution for each pair of consecutive kinds, so that both the reactions within a millisecond and the lulls of seconds
are there; a slowly moving activity speeds the waits up and down. Where an order goes depends on the spread, how long it
stays on its distance from the touch. Signs of market orders come from hidden parent orders with heavy-tailed lengths
(Lillo, Mike, Farmer 2005). Everything leans towards a reference price, the latent opinion of the market: the fundamental
value, noise, and the impact of all trades with a memory that decays as the inverse square root of the volume traded
since (Bouchaud, Gefen, Potters, Wyart 2004; Tóth et al. 2011).
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.flow_book import lean_of, opening, place, pull_out, sweep_far
from serl.agents.traders.flow_reference import (
    SLOTS,
    advance_reference,
    advance_wait,
    begin_parents,
    parent_sign,
)
from serl.agents.traders.flow_tables import (
    BANDS,
    CURVE_STEPS,
    KINDS,
    LIMIT_KIND,
    MARKET_KIND,
    SPREAD_STATES,
    lots_from,
    next_kind,
    straight,
    turned,
)
from serl.agents.traders.random import uniform
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import BUY, SELL, market_order, recall, remember, sleep, take, two_sided
from serl.exchange.compiling import inlined

NEXT_KIND = SLOTS
DRAWS_PER_EVENT = 256
"""Random numbers set aside for each event; opening a book takes the most."""


def _table(low: float, high: float, copies: int = 1) -> Any:
    """A field for `copies` quantile tables one after the other."""
    default = tuple(straight(low, high)) * copies
    return Field(default, min_length=len(default), max_length=len(default))


def _numbers(*values: float) -> Any:
    return Field(values, min_length=len(values), max_length=len(values))


class FlowProfile(Profile):
    """Tables hold quantiles at POINTS equally spaced probabilities from 0 to 1, linear in between."""

    next_share: tuple[float, ...] = _numbers(0.4, 0.03, 0.57, 0.4, 0.25, 0.35, 0.63, 0.02, 0.35)
    """Share of limit, market, cancel after each of limit, market, cancel."""
    wait_log_s: tuple[float, ...] = _table(-10.0, 1.0, KINDS * KINDS)
    """ln seconds between two kinds: [before, after, point]."""
    spread_edges_ticks: tuple[float, ...] = _numbers(1.0, 2.0, 3.0, 5.0, 8.0)
    """The spread is in state k above the k-th edge."""
    inside_share: tuple[float, ...] = _numbers(0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    """Of limit orders inside the spread, by spread state."""
    inside_fraction: tuple[float, ...] = _table(0.05, 0.95)
    """How far into the spread they go, 0..1."""
    distance_ticks: tuple[float, ...] = _table(0.0, 20.0, SPREAD_STATES)
    """Of other limit orders, behind their own touch: [spread state, point]."""
    touch_cancel_share: tuple[float, ...] = _numbers(0.5, 0.4, 0.35, 0.3, 0.3, 0.3)
    """Of cancellations at the touch, by spread state."""
    limit_lots: tuple[float, ...] = _table(1.0, 200.0, BANDS)
    """[inside the spread, at the touch, behind it; point]"""
    market_lots: tuple[float, ...] = _table(1.0, 200.0)
    """Of market orders that leave something at the touch."""
    sweep_share: float = Field(0.3, ge=0, le=1, description="of market orders that take all of the touch and no more")
    through_share: float = Field(0.1, ge=0, le=1, description="of market orders that trade through the touch")
    patience_log_s: tuple[float, ...] = _table(-6.0, 4.0, BANDS)
    """ln seconds from an order to its cancellation: [at the touch, near, far; point]."""
    near_ticks: float = Field(5.0, gt=0, description="orders up to so far behind the touch are near")
    visible_levels: int = Field(10, ge=1, le=10)
    lots_per_tick: float = Field(50.0, gt=0, description="on the visible levels of a side, that the flow returns to")
    far_ticks: float = Field(200.0, gt=0, description="orders further than this behind the touch are taken out")
    restoring: float = Field(1.0, ge=0, description="how strongly the flow returns to lots_per_tick")
    lean: float = Field(1.0, ge=0, description="how strongly the flow leans to the reference price")
    lean_ticks: float = Field(5.0, gt=0, description="distance of the reference from the mid that counts as one")
    noise_ticks: float = Field(0.3, ge=0, description="standard deviation of the reference's step at an event")
    noise_activity: float = Field(0.5, ge=0, description="exponent of the activity in the size of that step")
    trend_feedback: float = Field(0.5, ge=0, description="of the squared trend on the variance of that step")
    trend_events: float = Field(1000.0, gt=1, description="memory of the trend")
    impact_ticks: float = Field(1.0, ge=0, description="of one unit of volume on the reference, at once")
    impact_lots: float = Field(100.0, gt=0, description="unit of volume: a mean market order")
    parent_tail: float = Field(1.5, gt=1, description="Pareto exponent of the length of parent orders")
    repeat_share: float = Field(0.5, ge=0, le=1, description="of market orders that are the last one's parent's too")
    activity_deviation: float = Field(0.5, ge=0, description="standard deviation of the logarithm of the activity")
    activity_events: float = Field(
        2000.0, gt=1, description="memory of the slow half of the activity; the fast: a tenth"
    )
    activity_curve: tuple[float, ...] = _numbers(*(1.0 for _ in range(CURVE_STEPS)))
    """Relative speed in each of equal parts of the day."""


@inlined
def cross(agent: Any, profile: Any, market: Any, requests: Any, sign: float) -> None:
    """A market order."""
    side = BUY if sign > 0 else SELL
    price = market.ask_ticks if side == BUY else market.bid_ticks
    there = market.ask_lots if side == BUY else market.bid_lots
    draw = uniform(agent)
    lots = lots_from(agent, profile.market_lots, 0)
    if draw < profile.through_share:
        market_order(requests, side, there + lots)
    elif draw < profile.through_share + profile.sweep_share:
        take(requests, side, price, there)
    else:
        take(requests, side, price, min(lots, max(1, there - 1)))


@trader("flow", FlowProfile, memory=SLOTS + 1, depth=10)
def flow(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """One event. Memory: as flow_reference.py says, and the kind of the event to come. O(own orders) for a cancellation.

    When it acts, what it means to do, its noise and the sides of its parents do not depend on the book: a market that
    somebody disturbed goes on with the same randomness (common random numbers), and differs by the answer alone.
    """
    agent.draws = (agent.draws // DRAWS_PER_EVENT + 1) * DRAWS_PER_EVENT
    if recall(market, 0) == 0.0:
        begin_parents(agent, profile, market)
    advance_reference(agent, profile, market)
    kind = int(recall(market, NEXT_KIND))
    following = next_kind(agent, profile, kind)
    remember(market, NEXT_KIND, 1.0 * following)
    wait_ns = advance_wait(agent, profile, market, kind, following)
    sign = parent_sign(agent, profile, market) if kind == MARKET_KIND else 0.0
    turn, draw = uniform(agent), uniform(agent)
    if two_sided(market):
        lean, done = lean_of(profile, market), turned(profile, market, kind, turn)
        if done == MARKET_KIND:
            cross(agent, profile, market, requests, sign)
        elif done == LIMIT_KIND:
            place(agent, profile, market, requests, lean, draw)
        else:
            pull_out(profile, market, requests, lean, draw)
        sweep_far(profile, market, requests)
    else:
        opening(agent, profile, market, requests)
        wait_ns = max(wait_ns, 1e6 + 2.0 * agent.latency_ns)
    sleep(requests, market, wait_ns)
