"""The population of a trained flow."""

from typing import Any

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.flow.training import Numbers
from serl.agents.calibration.tables import quantiles
from serl.agents.realism.tape import HOUR_NS, Tape
from serl.agents.traders.kinds.neural_flow import NOON_NS, NeuralFlowProfile
from serl.agents.traders.population import PopulationConfig, check_population

LATENCY_US = 1.0


def tables_of(windows: list[Tape], start_ns: int, end_ns: int) -> Numbers:
    """The tables that a flow needs in addition to the network: gaps and sizes at the last visible level, the spread at the opening, and its training
    hours. Raises CalibrationError if the book never shows all its levels."""
    shown = windows[0].levels
    gaps, lots, spreads = [], [], []
    for window in windows:
        ticks = window.book_ticks[1:]
        full = (ticks[:, :, -1] > 0).all(axis=1)
        gaps.append(np.abs(ticks[full][:, :, -1] - ticks[full][:, :, -2]).ravel())
        lots.append(window.book_lots[1:][full][:, :, -1].ravel())
        spreads.append((window.ask - window.bid)[1:][window.two_sided[1:]])
    if not sum(map(len, gaps)):
        raise CalibrationError(
            f"levels: expected a book that shows {shown} levels on both sides at some time, got none; give fewer --levels"
        )
    hours = [(start_ns - NOON_NS) / HOUR_NS, (end_ns - NOON_NS) / HOUR_NS]
    return {
        "deep_gap_ticks": quantiles(np.concatenate(gaps)), "deep_lots": quantiles(np.concatenate(lots)), "hours": np.array(hours),
        "opening_spread_ticks": np.array([np.median(np.concatenate(spreads))]), "visible_levels": np.array([shown]),
    }  # fmt: skip


def flow_population(numbers: str, name: str, tick_size: str, mid_ticks: float) -> PopulationConfig:
    """The whole market as one trader that opens around `mid_ticks`."""
    values = {
        "name": name, "tick_size": tick_size,
        "value": {"mean_ticks": mid_ticks, "volatility_ticks_per_root_s": 0.0, "reversion_per_s": 0.0},
        "groups": [{"trader": "neural_flow", "latency_us": LATENCY_US, "start_spread_s": 0.0, "profile": {"numbers": numbers}}],
    }  # fmt: skip
    return check_population(values, name)


def flow_profile(flow: PopulationConfig) -> NeuralFlowProfile:
    """The profile of a trained flow. Raises CalibrationError for other populations."""
    kinds = [group.trader for group in flow.groups]
    if kinds != ["neural_flow"] or len(flow.symbols) != 1:
        raise CalibrationError(
            f"{flow.name}: expected a population of `serl flow train`, with one trader, got traders {', '.join(kinds)} of {len(flow.symbols)} symbols"
        )
    profile = flow.groups[0].parameters()
    assert isinstance(profile, NeuralFlowProfile)
    return profile


def with_profile(flow: PopulationConfig, name: str, changes: dict[str, Any], **settings: Any) -> PopulationConfig:
    """A flow under another name, with changes to its profile and to the population's settings."""
    values: dict[str, Any] = {**flow.model_dump(exclude_defaults=True), "name": name, **settings}
    values["groups"][0]["profile"] = {**flow.groups[0].profile, **changes}
    return check_population(values, name)


def in_scenario(flow: PopulationConfig, volatility: float, value_lean: float | None, name: str) -> PopulationConfig:
    """A flow with `volatility` times its volatility, which follows the value with `value_lean` (None: unchanged). Raises CalibrationError for other
    populations."""
    profile = flow_profile(flow)
    lean = profile.value_lean if value_lean is None else value_lean
    return with_profile(flow, name, {"pace": profile.pace * volatility**2, "value_lean": lean})
