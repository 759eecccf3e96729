"""Builds populations from measurements: the calibrated flow, and a zero-intelligence baseline."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.calibration.measure import MeasuredFlow
from serl.agents.calibration.poisson import PoissonRates
from serl.agents.realism.tape import Floats
from serl.agents.traders.population import PopulationConfig, check_population

LATENCY_US = 1.0
ACTIVITY_S, TREND_S = 1200.0, 300.0
PATIENT_LOG_S = math.log(3600.0)
PARTICIPATION = 0.1
"""Participation of the metaorders whose impact `impact_y` sets."""


@dataclass(frozen=True)
class FreeParameters:
    """Parameters without an estimate in closed form, which the search sets. Factors multiply the measured value."""

    noise: float = 0.5
    """Steps of the reference price, relative to the measured volatility per event."""
    noise_activity: float = 0.5
    """Exponent of the activity in the size of these steps."""
    trend_feedback: float = 0.5
    """Effect of past trends on the variance of these steps."""
    lean: float = 3.0
    restoring: float = 1.0
    patient_share: float = 0.2
    """Share of orders that are never cancelled: the tape shows the lifetimes of cancelled orders only."""
    distance: float = 1.0
    """Factor on distances behind the touch."""
    inside: float = 1.0
    """Factor on the share of orders inside the spread."""
    touch_cancels: float = 1.0
    """Factor on the share of cancellations at the touch."""
    visible: float = 1.0
    """Factor on the visible quantity."""
    speed: float = 1.0
    """Factor on the waits."""
    activity: float = 1.0
    """Factor on the standard deviation of the activity."""
    impact_y: float = 0.6
    """Prefactor Y of the square-root law to which the impact of trades is scaled."""
    attention: float = 0.5
    """Share of events at which the orders of others count as the touch. It changes nothing as long as nobody else trades."""


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values).ravel()]


def impact_ticks(measured: MeasuredFlow, prefactor: float) -> float:
    """The flow's impact per mean market order such that I = Y sigma sqrt(Q / V) at PARTICIPATION.

    At a participation f, the kernel sum over k of 2^-k exp(-v / 4^k), with v in mean market orders, adds up over a metaorder
    of Q lots to f impact (2 sqrt(pi) / ln 4) sqrt(Q / (f unit)), for 1 << v << the largest scale.
    """
    day_sigma = measured.volatility_ticks * math.sqrt(measured.duration_s / 60.0)
    units = measured.volume_lots / measured.mean_market_lots
    return prefactor * day_sigma * math.log(4.0) / (2.0 * math.sqrt(math.pi * PARTICIPATION * units))


def add_patient_orders(tables: Floats, share: float) -> Floats:
    """[..., POINTS] quantile tables in which this share of orders waits PATIENT_LOG_S and the others wait as before."""
    points = np.linspace(0.0, 1.0, tables.shape[-1])
    stretched = [
        np.where(points < 1.0 - share, np.interp(points / max(1e-9, 1.0 - share), points, row), PATIENT_LOG_S)
        for row in tables
    ]
    return np.stack(stretched) if share > 0 else tables


def flow_profile(measured: MeasuredFlow, free: FreeParameters, levels: int) -> dict[str, Any]:
    """The profile of the trader `flow`."""
    events = sum(measured.counts.values())
    per_event = measured.volatility_ticks * math.sqrt(measured.duration_s / 60.0 / events)
    return {
        "next_share": _rounded(measured.next_share),
        "wait_log_s": _rounded(measured.wait_log_s + math.log(free.speed)),
        "spread_edges_ticks": _rounded(measured.spread_edges_ticks),
        "inside_share": _rounded(np.minimum(1.0, measured.inside_share * free.inside)),
        "inside_fraction": _rounded(measured.inside_fraction),
        "distance_ticks": _rounded(measured.distance_ticks * free.distance),
        "touch_cancel_share": _rounded(np.minimum(1.0, measured.touch_cancel_share * free.touch_cancels)),
        "limit_lots": _rounded(measured.limit_lots),
        "market_lots": _rounded(measured.market_lots),
        "sweep_share": measured.sweep_share,
        "through_share": measured.through_share,
        "patience_log_s": _rounded(add_patient_orders(measured.patience_log_s, free.patient_share)),
        "near_ticks": measured.near_ticks,
        "visible_levels": levels,
        "lots_per_tick": measured.lots_per_tick * free.visible,
        "far_ticks": 3.0 * measured.visible_ticks,
        "restoring": free.restoring,
        "lean": free.lean,
        "lean_ticks": 0.5 * measured.spread_ticks,
        "attention": free.attention,
        "noise_ticks": per_event * free.noise,
        "noise_activity": free.noise_activity,
        "trend_feedback": free.trend_feedback,
        "trend_events": TREND_S * events / measured.duration_s,
        "impact_ticks": impact_ticks(measured, free.impact_y),
        "impact_lots": measured.mean_market_lots,
        "repeat_share": measured.repeat_share,
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
