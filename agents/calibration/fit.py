"""From what was measured to populations: the calibrated flow, and the zero intelligence of the literature."""

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
"""Of the metaorders whose impact `impact_y` speaks of."""


@dataclass(frozen=True)
class FreeParameters:
    """What no estimate gives in closed form; the search moves these. Factors multiply what was measured."""

    noise: float = 0.5
    """Of the reference price, in shares of the measured volatility by event."""
    noise_activity: float = 0.5
    """Exponent of the activity in the size of its steps."""
    trend_feedback: float = 0.5
    """Of past moves on their variance."""
    lean: float = 3.0
    restoring: float = 1.0
    patient_share: float = 0.2
    """Of orders that nobody means to cancel: the tape shows the lives of cancelled orders only."""
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
    """Prefactor Y of the square-root law that the memory of trades is scaled to."""


def _plain(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in np.asarray(values).ravel()]


def impact_ticks(measured: MeasuredFlow, prefactor: float) -> float:
    """The flow's impact per mean market order that gives I = Y sigma sqrt(Q / V) at PARTICIPATION.

    At a participation f the kernel sum over k of 2^-k exp(-v / 4^k), v in mean market orders, adds up over a metaorder of Q
    lots to f impact (2 sqrt(pi) / ln 4) sqrt(Q / (f unit)), for 1 << v << the last scale.
    """
    day_sigma = measured.volatility_ticks * math.sqrt(measured.duration_s / 60.0)
    units = measured.volume_lots / measured.mean_market_lots
    return prefactor * day_sigma * math.log(4.0) / (2.0 * math.sqrt(math.pi * PARTICIPATION * units))


def add_patient_orders(tables: Floats, share: float) -> Floats:
    """[..., POINTS] quantile tables in which this share of all orders waits for PATIENT_LOG_S, the others as before."""
    points = np.linspace(0.0, 1.0, tables.shape[-1])
    stretched = [
        np.where(points < 1.0 - share, np.interp(points / max(1e-9, 1.0 - share), points, row), PATIENT_LOG_S)
        for row in tables
    ]
    return np.stack(stretched) if share > 0 else tables


def flow_profile(measured: MeasuredFlow, free: FreeParameters, levels: int) -> dict[str, Any]:
    """Parameters of the trader `flow`."""
    events = sum(measured.counts.values())
    per_event = measured.volatility_ticks * math.sqrt(measured.duration_s / 60.0 / events)
    return {
        "next_share": _plain(measured.next_share),
        "wait_log_s": _plain(measured.wait_log_s + math.log(free.speed)),
        "spread_edges_ticks": _plain(measured.spread_edges_ticks),
        "inside_share": _plain(np.minimum(1.0, measured.inside_share * free.inside)),
        "inside_fraction": _plain(measured.inside_fraction),
        "distance_ticks": _plain(measured.distance_ticks * free.distance),
        "touch_cancel_share": _plain(np.minimum(1.0, measured.touch_cancel_share * free.touch_cancels)),
        "limit_lots": _plain(measured.limit_lots),
        "market_lots": _plain(measured.market_lots),
        "sweep_share": measured.sweep_share,
        "through_share": measured.through_share,
        "patience_log_s": _plain(add_patient_orders(measured.patience_log_s, free.patient_share)),
        "near_ticks": measured.near_ticks,
        "visible_levels": levels,
        "lots_per_tick": measured.lots_per_tick * free.visible,
        "far_ticks": 3.0 * measured.visible_ticks,
        "restoring": free.restoring,
        "lean": free.lean,
        "lean_ticks": 0.5 * measured.spread_ticks,
        "noise_ticks": per_event * free.noise,
        "noise_activity": free.noise_activity,
        "trend_feedback": free.trend_feedback,
        "trend_events": TREND_S * events / measured.duration_s,
        "impact_ticks": impact_ticks(measured, free.impact_y),
        "impact_lots": measured.mean_market_lots,
        "repeat_share": measured.repeat_share,
        "activity_deviation": measured.activity_deviation * free.activity,
        "activity_events": ACTIVITY_S * events / measured.duration_s,
        "activity_curve": _plain(measured.activity_curve),
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
    """Cont, Stoikov and Talreja's zero intelligence with the measured rates."""
    group = {
        "trader": "zero_intelligence",
        "latency_us": LATENCY_US,
        "start_spread_s": 0.0,
        "profile": {
            "limit_per_s": _plain(rates.limit_per_s),
            "cancel_per_s": _plain(rates.cancel_per_s),
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
