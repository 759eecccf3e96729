"""Takers that trade on forecasts of the mid: they buy when it will probably rise, and exit when the forecast fades or its horizon has passed.

They use the forecast for the horizon nearest to `horizon_s`. Its edge is P(up) - P(down).
"""

from typing import Any

from pydantic import Field

from serl.agents.traders.edge import trade_edge
from serl.agents.traders.random import exponential
from serl.agents.traders.registry import Profile, trader
from serl.agents.traders.trader_api import (
    DOWN,
    UP,
    forecast,
    forecast_horizon_s,
    nearest_horizon,
    sleep,
    two_sided,
)


class ForecastTakerProfile(Profile):
    """Parameters of a taker that trades on forecasts."""

    interval_s: float = Field(1.0, gt=0, description="mean wait between wake-ups")
    horizon_s: float = Field(10.0, gt=0, description="of the forecast, and maximum time in a position")
    enter_above: float = Field(0.3, gt=0, lt=1, description="P(up) - P(down) above which it buys")
    leave_below: float = Field(0.0, ge=-1, lt=1, description="the same in its favour, below which it exits")
    order_lots: int = Field(100, ge=1)
    position_lots_max: int = Field(300, ge=1)


@trader("forecast_taker", ForecastTakerProfile, memory=1, forecasts=True)
def forecast_taker(agent: Any, profile: Any, market: Any, requests: Any) -> None:
    """Memory: time of the last entry. Without a forecast the edge is 0."""
    if two_sided(market):
        edge, hold_s, index = 0.0, profile.horizon_s, nearest_horizon(market, profile.horizon_s)
        if index >= 0:
            edge = forecast(market, index, UP) - forecast(market, index, DOWN)
            hold_s = forecast_horizon_s(market, index)
        trade_edge(agent, profile, market, requests, edge, hold_s)
    sleep(requests, market, exponential(agent, profile.interval_s * 1e9))
