"""Forecasts as observations of agents with positions, made by the forecaster among the traders of each market, as for execution agents."""

from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.execution.environment.forecasts import COLUMN_NAMES, SimulatedForecasts, forecaster_name
from serl.agents.positions.market import PositionMarket
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.traders.forecasters import KIND
from serl.exchange.errors import ConfigError


class PositionForecasts:
    """For each horizon: P(up) - P(down) and P(up) + P(down) of the mid, the probabilities that a buy and a sell order at the touch are filled, and ln
    of the expected volume divided by its mean in the training hours. A decision sees the last observation strictly before it."""

    def __init__(self, path: Path, market: Any) -> None:
        """market: its population must have the file's forecaster as the last trader, as in `position_market`. Raises ConfigError for other markets."""
        if not isinstance(market, PositionMarket) or market.population.groups[-1].trader != KIND:
            raise ConfigError(
                f"forecaster: expected a market of `position_market` with these settings, got another for {path}; make it so"
            )
        forecaster = read_forecaster(path)
        self._forecasts, self._all = (
            SimulatedForecasts(forecaster, market, forecaster_name(path)),
            np.arange(market.count),
        )
        #: names of the numbers, in order
        self.names = tuple(f"{name}_{seconds:g}s" for seconds in forecaster.horizons_s for name in COLUMN_NAMES)

    def observe(self) -> Any:
        """(N, names) float32; 0 in the first minute, and for a minute after a book with an empty side."""
        return self._forecasts.columns(self._all).reshape(len(self._all), -1)
