"""Builds populations from measurements: the calibrated flow, and a zero-intelligence baseline."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.calibration.measure import MeasuredFlow
from serl.agents.calibration.poisson import PoissonRates
from serl.agents.impact_memory import PREFACTOR, REFERENCE_S, mean_memory, memory_weights
from serl.agents.realism.tape import Floats
from serl.agents.traders.flow_tables import KINDS, MARKET_KIND
from serl.agents.traders.population import PopulationConfig, check_population

LATENCY_US = 1.0
ACTIVITY_S, TREND_S = 1200.0, 300.0


@dataclass(frozen=True)
class FreeParameters:
    """Parameters without a closed-form estimate, which the search sets. Factors multiply the measured value."""

    noise: float = 1.4
    """Steps of the reference price, relative to the measured volatility per event."""
    noise_activity: float = 0.4
    """Exponent of the activity in the size of these steps."""
    trend_feedback: float = 0.3
    """Effect of past trends on the variance of these steps."""
    lean: float = 0.6
    cancel_lean: float = 0.15
    """Strength of the lean of cancellations, relative to limit orders."""
    push: float = 2.5
    """How strongly limit orders and cancellations lean to the side of recent market orders."""
    informed: float = 4.0
    """How strongly market orders take the side of the reference price."""
    restoring: float = 0.25
    distance: float = 1.05
    """Factor on distances behind the touch."""
    inside: float = 0.93
    """Factor on the share of orders inside the spread."""
    touch_cancels: float = 1.1
    """Factor on the share of cancellations at the touch."""
    takes: float = 1.0
    """Factor on the odds of market orders."""
    speed: float = 0.9
    """Factor on the waits."""
    activity: float = 1.0
    """Factor on the standard deviation of the activity."""


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values).ravel()]


def impact_ticks_per_root_lot(measured: MeasuredFlow) -> float:
    """c of the square-root law; see serl.agents.impact_memory. The windows can replace a day, because sigma and the root of the volume grow with time in
    the same way.

    It is not fitted, because a day does not show which of its trades belong together, or which move with the price rather than move it.
    """
    minutes = measured.duration_s / 60.0
    coefficient = PREFACTOR * measured.volatility_ticks * math.sqrt(minutes / measured.volume_lots)
    return coefficient / math.sqrt(mean_memory(memory_weights(), REFERENCE_S))


def flow_profile(measured: MeasuredFlow, free: FreeParameters, levels: int) -> dict[str, Any]:
    """The profile of the trader `flow`."""
    events, takes = sum(measured.counts.values()), measured.market_orders
    per_event = measured.volatility_ticks * math.sqrt(measured.duration_s / 60.0 / events)
    return {
        "next_share": _rounded(measured.next_share),
        "kind_odds": _rounded(measured.kind_odds * np.where(np.arange(KINDS) == MARKET_KIND, free.takes, 1.0)),
        "wait_log_s": _rounded(measured.wait_log_s + math.log(free.speed)),
        "spread_edges_ticks": _rounded(measured.spread_edges_ticks),
        "inside_share": _rounded(np.minimum(1.0, measured.inside_share * free.inside)),
        "inside_fraction": _rounded(measured.inside_fraction),
        "distance_ticks": _rounded(measured.distance_ticks * free.distance),
        "touch_cancel_share": _rounded(np.minimum(1.0, measured.touch_cancel_share * free.touch_cancels)),
        "limit_lots": _rounded(measured.limit_lots),
        "market_lots": _rounded(takes.lots),
        "touch_cancel_odds": _rounded(measured.touch_cancel_odds),
        "pile_odds": _rounded(measured.pile_odds),
        "touch_edges_lots": _rounded(takes.touch_edges_lots),
        "sweep_share": _rounded(takes.sweep_share),
        "through_share": _rounded(takes.through_share),
        "through_lots": _rounded(takes.through_lots),
        "band_edges_ticks": _rounded(measured.band_edges_ticks),
        "cancel_edges_lots": _rounded(measured.cancel_edges_lots),
        "cancel_odds": _rounded(measured.cancel_odds),
        "visible_levels": levels,
        "lots_per_tick": _rounded(measured.lots_per_tick),
        "reserve_ticks": measured.visible_ticks + measured.spread_ticks,
        "reserve_gap_ticks": measured.deep_gap_ticks,
        "reserve_lots": _rounded(measured.deep_lots),
        "far_ticks": measured.visible_ticks + 2.0 * measured.spread_ticks,
        "restoring": free.restoring,
        "lean": free.lean,
        "lean_ticks": 0.5 * measured.spread_ticks,
        "cancel_lean": free.cancel_lean,
        "push": free.push,
        "informed": free.informed,
        "noise_ticks": per_event * free.noise,
        "noise_activity": free.noise_activity,
        "trend_feedback": free.trend_feedback,
        "trend_events": TREND_S * events / measured.duration_s,
        "impact_ticks_per_root_lot": impact_ticks_per_root_lot(measured),
        "repeat_share": takes.repeat_share,
        "burst_share": measured.bursts.share,
        "burst_events": measured.bursts.events,
        "score_quiet": measured.bursts.score_quiet,
        "score_by_trade": measured.bursts.score_by_trade,
        "market_quiet": measured.bursts.market_quiet,
        "market_by_trade": measured.bursts.market_by_trade,
        "activity_deviation": measured.activity_deviation * free.activity,
        "activity_events": ACTIVITY_S * events / measured.duration_s,
        "activity_curve": _rounded(measured.activity_curve),
    }


def flow_population(
    measured: MeasuredFlow, free: FreeParameters, name: str, levels: int, tick_size: str
) -> PopulationConfig:
    """The whole market as one trader."""
    group = {
        "trader": "flow",
        "latency_us": LATENCY_US,
        "start_spread_s": 0.0,
        "profile": flow_profile(measured, free, levels),
    }
    return _population(name, tick_size, measured.first_mid_ticks, group)


def poisson_population(rates: PoissonRates, mid_ticks: float, name: str, tick_size: str) -> PopulationConfig:
    """The zero intelligence of Cont, Stoikov and Talreja with the measured rates."""
    group = {
        "trader": "zero_intelligence",
        "latency_us": LATENCY_US,
        "start_spread_s": 0.0,
        "profile": {
            "limit_per_s": _rounded(rates.limit_per_s),
            "cancel_per_s": _rounded(rates.cancel_per_s),
            "market_per_s": rates.market_per_s,
            "limit_lots": rates.limit_lots,
            "market_lots": rates.market_lots,
            "lots_spread": rates.lots_spread,
            "level_ticks": rates.level_ticks,
        },
    }
    return _population(name, tick_size, mid_ticks, group)


def _population(name: str, tick_size: str, mid_ticks: float, group: dict[str, Any]) -> PopulationConfig:
    values = {
        "name": name,
        "tick_size": tick_size,
        "value": {"mean_ticks": mid_ticks, "volatility_ticks_per_root_s": 0.0, "reversion_per_s": 0.0},
        "groups": [group],
    }
    return check_population(values, name)
