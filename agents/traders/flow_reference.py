"""What kinds/flow.py remembers: reference price, impact of past trades, activity, hidden parent orders."""

import math
from typing import Any

from serl.agents.traders.flow_tables import CURVE_STEPS, KINDS, quantile
from serl.agents.traders.random import below, normal, uniform
from serl.agents.traders.trader_api import BUY, flow_field, flow_rows, recall, remember, value_at
from serl.exchange.compiling import inlined

IMPACT_SCALES, PARENTS = 8, 10
SCALE_RATIO = 4.0
TREND_MAX = 3.0
"""Standard deviations of the trend that its feedback is bounded at."""
BEGUN, SEEN, NOISE, TREND, FAST, SLOW, LAST_PARENT, IMPACT = range(8)
PARENT = IMPACT + IMPACT_SCALES
SLOTS = PARENT + PARENTS
"""Memory: the first eight by name; impact by scale; parents: orders yet to come, with the sign of their side."""
LENGTH_MAX = 1e4


@inlined
def _begin_parent(agent: Any, profile: Any, market: Any, parent: int) -> None:
    """A new parent order: a side, and a Pareto number of market orders."""
    length = math.ceil(min(LENGTH_MAX, uniform(agent) ** (-1.0 / profile.parent_tail)))
    remember(market, PARENT + parent, length if uniform(agent) < 0.5 else -length)


@inlined
def begin_parents(agent: Any, profile: Any, market: Any) -> None:
    """The first parents of the day."""
    for parent in range(PARENTS):
        _begin_parent(agent, profile, market, parent)
    remember(market, BEGUN, 1.0)


@inlined
def parent_sign(agent: Any, profile: Any, market: Any) -> float:
    """Takes one market order from a parent: +1 buys, -1 sells."""
    again, other = uniform(agent), below(agent, PARENTS)
    parent = int(recall(market, LAST_PARENT)) if again < profile.repeat_share else other
    remember(market, LAST_PARENT, 1.0 * parent)
    left = recall(market, PARENT + parent)
    sign = 1.0 if left > 0.0 else -1.0
    remember(market, PARENT + parent, left - sign)
    if abs(left) <= 1.0:
        _begin_parent(agent, profile, market, parent)
    return sign


@inlined
def _step_noise(agent: Any, profile: Any, market: Any) -> None:
    """One step of noise: larger where the activity is high, and after a trend of either sign.

    The latter, volatility that follows from coarse moves of the past, is Zumbach's effect (Zumbach and Lynch 2001).
    """
    trend = recall(market, TREND)
    size = abs(trend) / max(1e-9, profile.noise_ticks * math.sqrt(0.5 * profile.trend_events))
    size = min(TREND_MAX, size)
    feedback = math.sqrt((1.0 + profile.trend_feedback * size * size) / (1.0 + profile.trend_feedback))
    step = profile.noise_ticks * normal(agent) * feedback * math.exp(profile.noise_activity * activity(profile, market))
    remember(market, NOISE, recall(market, NOISE) + step)
    remember(market, TREND, trend * math.exp(-1.0 / profile.trend_events) + step)


@inlined
def advance_reference(agent: Any, profile: Any, market: Any) -> None:
    """Takes in the trades since the last event, and a step of noise.

    The kernel of impact is a sum of exponentials of the volume traded since, at scales 4, 16, .. units with weights
    1/2, 1/4, ..: close to the inverse square root between one unit and the last scale.
    """
    fresh = min(int(market.flow_count - recall(market, SEEN)), flow_rows(market))
    remember(market, SEEN, 1.0 * market.flow_count)
    for back in range(fresh - 1, -1, -1):
        side = flow_field(market, back, 1)
        if side >= 2:
            units = flow_field(market, back, 3) / profile.impact_lots
            signed = units if side == 2 + BUY else -units
            scale, weight = SCALE_RATIO, 0.5
            for place in range(IMPACT_SCALES):
                before = recall(market, IMPACT + place)
                remember(market, IMPACT + place, before * math.exp(-units / scale) + signed * weight)
                scale *= SCALE_RATIO
                weight *= 0.5
    _step_noise(agent, profile, market)


@inlined
def reference_ticks(profile: Any, market: Any) -> float:
    """The price that the flow leans to."""
    impact = 0.0
    for place in range(IMPACT_SCALES):
        impact += recall(market, IMPACT + place)
    return value_at(market, market.time_ns) + recall(market, NOISE) + profile.impact_ticks * impact


@inlined
def activity(profile: Any, market: Any) -> float:
    """ln of the activity: mean 0, half of its variance slow."""
    return profile.activity_deviation * math.sqrt(0.5) * (recall(market, FAST) + recall(market, SLOW))


@inlined
def _mean_revert(agent: Any, market: Any, place: int, events: float) -> None:
    kept = math.exp(-1.0 / events)
    remember(market, place, recall(market, place) * kept + math.sqrt(1.0 - kept * kept) * normal(agent))


@inlined
def advance_wait(agent: Any, profile: Any, market: Any, before: int, after: int) -> float:
    """ns until the next event."""
    _mean_revert(agent, market, SLOW, profile.activity_events)
    _mean_revert(agent, market, FAST, 0.1 * profile.activity_events)
    part = CURVE_STEPS * (market.time_ns - market.open_ns) // max(1, market.close_ns - market.open_ns)
    # Waits were measured over events, and there are more events where the activity is high.
    speed = math.exp(0.5 * profile.activity_deviation**2 + activity(profile, market))
    speed *= profile.activity_curve[min(max(0, part), CURVE_STEPS - 1)]
    return 1e9 * math.exp(quantile(profile.wait_log_s, KINDS * before + after, uniform(agent))) / speed
