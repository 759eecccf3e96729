"""The memory of kinds/flow.py: reference price, impact of other traders, activity, hidden parent orders."""

import math
from typing import Any

import numpy as np

from serl.agents.impact_memory import PARTS, TIMES_S, memory_weights
from serl.agents.traders.flow_tables import CURVE_STEPS, KINDS, RECENT_TRADES_DECAY, RECENT_TRADES_MAX, quantile
from serl.agents.traders.random import below, normal, uniform
from serl.agents.traders.trader_api import recall, remember, value_at
from serl.exchange.compiling import inlined

PARENTS = 10
TREND_MAX = 3.0
"""Bound on the trend in the feedback, in standard deviations."""
STARTED, TRADED, POSITION, UPDATED, NOISE, TREND, FAST, SLOW, BURST, RECENT_TRADES, LAST_PARENT, SENT_SIGN, TAKEN = (
    range(13)
)
PARENT = TAKEN + PARTS
MEMORY_SLOTS = PARENT + PARENTS
"""Size of the memory. It has named numbers, what others have taken by part of the impact's memory, then each parent's remaining orders, signed by
its side."""
PARENT_LENGTH_MAX = 1e4
_WEIGHTS, _TIMES_NS = memory_weights(), np.array([1e9 * time_s for time_s in TIMES_S])


@inlined
def _start_parent(agent: Any, profile: Any, market: Any, parent: int) -> None:
    """Starts a parent order: a random side, and a Pareto-distributed number of market orders."""
    length = math.ceil(min(PARENT_LENGTH_MAX, uniform(agent) ** (-1.0 / profile.parent_tail)))
    remember(market, PARENT + parent, length if uniform(agent) < 0.5 else -length)


@inlined
def start_memory(agent: Any, profile: Any, market: Any) -> None:
    """Starts the first parent orders of the day; earlier trades have no impact."""
    for parent in range(PARENTS):
        _start_parent(agent, profile, market, parent)
    remember(market, TRADED, 1.0 * market.traded_lots)
    remember(market, POSITION, 1.0 * agent.position_lots)
    remember(market, UPDATED, 1.0 * market.time_ns)
    remember(market, STARTED, 1.0)


@inlined
def draw_parent_sign(agent: Any, profile: Any, market: Any) -> float:
    """Sign of the next market order, from one of the parent orders: +1 buys, -1 sells."""
    repeat_draw, other_parent = uniform(agent), below(agent, PARENTS)
    parent = int(recall(market, LAST_PARENT)) if repeat_draw < profile.repeat_share else other_parent
    remember(market, LAST_PARENT, 1.0 * parent)
    remaining = recall(market, PARENT + parent)
    sign = 1.0 if remaining > 0.0 else -1.0
    remember(market, PARENT + parent, remaining - sign)
    if abs(remaining) <= 1.0:
        _start_parent(agent, profile, market, parent)
    return sign


@inlined
def _step_noise(agent: Any, profile: Any, market: Any) -> None:
    """Adds a step of noise to the reference price. The step is larger when the activity is high, and after a trend of either sign.

    That past trends raise volatility is Zumbach's effect (Zumbach and Lynch 2001).
    """
    trend = recall(market, TREND)
    size = abs(trend) / max(1e-9, profile.noise_ticks * math.sqrt(0.5 * profile.trend_events))
    size = min(TREND_MAX, size)
    feedback = math.sqrt((1.0 + profile.trend_feedback * size * size) / (1.0 + profile.trend_feedback))
    step = profile.noise_ticks * normal(agent) * feedback * math.exp(profile.noise_activity * activity(profile, market))
    remember(market, NOISE, recall(market, NOISE) + step)
    remember(market, TREND, trend * math.exp(-1.0 / profile.trend_events) + step)


@inlined
def taken_lots(market: Any) -> float:
    """N of serl.agents.impact_memory: signed lots, + bought."""
    lots = 0.0
    for part in range(PARTS):
        lots += recall(market, TAKEN + part)
    return lots


@inlined
def _counted_lots(market: Any, bought: float) -> float:
    """The part that counts of the lots that others bought from the flow, by which its position has fallen.

    If the flow has just sent an order on the other side, it took what others had offered. Its own trades follow the reference price
    (`informed_sign`) whoever rests, so such fills count only where they reverse what others took before, as on a day that gives way: otherwise
    one could push the price and exit at it.
    """
    if recall(market, SENT_SIGN) * bought >= 0.0:
        return bought
    lots = taken_lots(market)
    return math.copysign(min(abs(bought), abs(lots)), bought) if bought * lots < 0.0 else 0.0


@inlined
def advance_reference(agent: Any, profile: Any, market: Any) -> None:
    """Updates the reference price with what others have taken since the last event and a step of noise."""
    passed_ns = market.time_ns - recall(market, UPDATED)
    recent = RECENT_TRADES_DECAY * recall(market, RECENT_TRADES)
    remember(market, RECENT_TRADES, recent + (1.0 if market.traded_lots > recall(market, TRADED) else 0.0))
    remember(market, TRADED, 1.0 * market.traded_lots)
    remember(market, UPDATED, 1.0 * market.time_ns)
    for part in range(PARTS - 1):
        before = recall(market, TAKEN + part)
        if before != 0.0:
            remember(market, TAKEN + part, before * math.exp(-passed_ns / _TIMES_NS[part]))
    bought = recall(market, POSITION) - agent.position_lots
    remember(market, POSITION, 1.0 * agent.position_lots)
    if bought != 0.0:
        counted = _counted_lots(market, bought)
        for part in range(PARTS):
            remember(market, TAKEN + part, recall(market, TAKEN + part) + _WEIGHTS[part] * counted)
    _step_noise(agent, profile, market)


@inlined
def reference_ticks(profile: Any, market: Any) -> float:
    """The reference price: fundamental value, noise, and the impact of what others have taken."""
    lots = taken_lots(market)
    impact = math.copysign(profile.impact_ticks_per_root_lot * math.sqrt(abs(lots)), lots)
    return value_at(market, market.time_ns) + recall(market, NOISE) + impact


@inlined
def activity(profile: Any, market: Any) -> float:
    """ln of the activity, mean 0; its slow and fast parts have equal variance."""
    return profile.activity_deviation * math.sqrt(0.5) * (recall(market, FAST) + recall(market, SLOW))


@inlined
def _mean_revert(agent: Any, market: Any, slot: int, events: float) -> None:
    """Advances an Ornstein-Uhlenbeck process of unit variance by one event."""
    decay = math.exp(-1.0 / events)
    remember(market, slot, recall(market, slot) * decay + math.sqrt(1.0 - decay * decay) * normal(agent))


@inlined
def draw_wait_ns(agent: Any, profile: Any, market: Any, kind: int, next_kind: int) -> float:
    """Time from an event of `kind` to the next event, of `next_kind`. Short waits follow each other and trades: a part of their normal score is a
    process with memory, and recent trades lower the score."""
    _mean_revert(agent, market, SLOW, profile.activity_events)
    _mean_revert(agent, market, FAST, 0.1 * profile.activity_events)
    _mean_revert(agent, market, BURST, profile.burst_events)
    share = profile.burst_share
    score = math.sqrt(share) * recall(market, BURST) + math.sqrt(1.0 - share) * normal(agent)
    score += profile.score_quiet + profile.score_by_trade * min(RECENT_TRADES_MAX, recall(market, RECENT_TRADES))
    probability = 0.5 * math.erfc(-math.sqrt(0.5) * score)
    part = CURVE_STEPS * (market.time_ns - market.open_ns) // max(1, market.close_ns - market.open_ns)
    # Waits are measured per event, and a high activity has more of the events: the factor corrects the mean.
    speed = math.exp(0.5 * profile.activity_deviation**2 + activity(profile, market))
    speed *= profile.activity_curve[min(max(0, part), CURVE_STEPS - 1)]
    return 1e9 * math.exp(quantile(profile.wait_log_s, KINDS * kind + next_kind, probability)) / speed
