"""The memory of kinds/flow.py: reference price, impact of past trades, activity, hidden parent orders."""

import math
from typing import Any

from serl.agents.traders.flow_tables import CURVE_STEPS, KINDS, quantile
from serl.agents.traders.random import below, normal, uniform
from serl.agents.traders.trader_api import BUY, flow_field, flow_rows, recall, remember, value_at
from serl.exchange.compiling import inlined

IMPACT_SCALES, PARENTS = 8, 10
SCALE_RATIO = 4.0
TREND_MAX = 3.0
"""Bound on the trend in its feedback, standard deviations."""
STARTED, FLOW_COUNT, NOISE, TREND, FAST, SLOW, LAST_PARENT, IMPACT = range(8)
PARENT = IMPACT + IMPACT_SCALES
MEMORY_SLOTS = PARENT + PARENTS
"""Indices of the memory: seven numbers by name, impact by scale, then each parent's remaining orders signed by its side."""
PARENT_LENGTH_MAX = 1e4


@inlined
def _start_parent(agent: Any, profile: Any, market: Any, parent: int) -> None:
    """Starts a parent order: a random side, and a Pareto-distributed number of market orders."""
    length = math.ceil(min(PARENT_LENGTH_MAX, uniform(agent) ** (-1.0 / profile.parent_tail)))
    remember(market, PARENT + parent, length if uniform(agent) < 0.5 else -length)


@inlined
def start_parents(agent: Any, profile: Any, market: Any) -> None:
    """Starts the first parent orders of the day."""
    for parent in range(PARENTS):
        _start_parent(agent, profile, market, parent)
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
    """Adds a step of noise to the reference price: larger when the activity is high, and after a trend of either sign.

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
def advance_reference(agent: Any, profile: Any, market: Any) -> None:
    """Updates the reference price with the trades since the last event and a step of noise.

    The impact kernel is a sum of exponentials of the volume traded since, at scales 4, 16, .. units with weights
    1/2, 1/4, ..: close to the inverse square root between one unit and the largest scale.
    """
    new_rows = min(int(market.flow_count - recall(market, FLOW_COUNT)), flow_rows(market))
    remember(market, FLOW_COUNT, 1.0 * market.flow_count)
    for back in range(new_rows - 1, -1, -1):
        side = flow_field(market, back, 1)
        if side >= 2:
            units = flow_field(market, back, 3) / profile.impact_lots
            signed = units if side == 2 + BUY else -units
            scale, weight = SCALE_RATIO, 0.5
            for index in range(IMPACT_SCALES):
                before = recall(market, IMPACT + index)
                remember(market, IMPACT + index, before * math.exp(-units / scale) + signed * weight)
                scale *= SCALE_RATIO
                weight *= 0.5
    _step_noise(agent, profile, market)


@inlined
def reference_ticks(profile: Any, market: Any) -> float:
    """The reference price: fundamental value, noise, and the impact of past trades."""
    impact = 0.0
    for index in range(IMPACT_SCALES):
        impact += recall(market, IMPACT + index)
    return value_at(market, market.time_ns) + recall(market, NOISE) + profile.impact_ticks * impact


@inlined
def activity(profile: Any, market: Any) -> float:
    """ln of the activity, mean 0; slow and fast halves have equal variance."""
    return profile.activity_deviation * math.sqrt(0.5) * (recall(market, FAST) + recall(market, SLOW))


@inlined
def _mean_revert(agent: Any, market: Any, slot: int, events: float) -> None:
    """Advances an Ornstein-Uhlenbeck process of unit variance by one event."""
    decay = math.exp(-1.0 / events)
    remember(market, slot, recall(market, slot) * decay + math.sqrt(1.0 - decay * decay) * normal(agent))


@inlined
def draw_wait_ns(agent: Any, profile: Any, market: Any, kind: int, next_kind: int) -> float:
    """Time from an event of `kind` to the next one, of `next_kind`."""
    _mean_revert(agent, market, SLOW, profile.activity_events)
    _mean_revert(agent, market, FAST, 0.1 * profile.activity_events)
    part = CURVE_STEPS * (market.time_ns - market.open_ns) // max(1, market.close_ns - market.open_ns)
    # Waits are measured per event, and a high activity has more of the events: the factor corrects the mean.
    speed = math.exp(0.5 * profile.activity_deviation**2 + activity(profile, market))
    speed *= profile.activity_curve[min(max(0, part), CURVE_STEPS - 1)]
    return 1e9 * math.exp(quantile(profile.wait_log_s, KINDS * kind + next_kind, uniform(agent))) / speed
