"""Forecasts of the mid of recorded and of simulated days as observations: at each decision the last one from before it."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.layout import FORECAST_FEATURES
from serl.agents.signals.features import day_features
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import STEP_NS, build_grid
from serl.agents.signals.labels import DOWN, UP
from serl.agents.traders.forecasters import small_model
from serl.exchange.records import Rows
from serl.history.day import Day


class Forecasts(Protocol):
    """What forecasts an observation contains."""

    horizons_s: tuple[float, ...]
    """Of the forecasts."""
    name: str
    """Of the forecaster, for the interface of policies."""

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """(n, H x 2) float32 for environments `which` (n,), their EPISODE rows and times: by horizon, as in FORECAST_FEATURES. 0 where nothing
        is known."""


def _numbers(forecaster: Forecaster, features: Any, model: str | None = None) -> Any:
    """(n, H, 2) float32 of features (n, F), NaN where they are not known: FORECAST_FEATURES for a seller."""
    known = np.isfinite(features).all(axis=1)
    rows = np.zeros((len(features), len(forecaster.horizons_s), len(FORECAST_FEATURES)), np.float32)
    if not known.any():
        return rows
    probabilities = forecaster.probabilities(features[known], model)
    up, down = probabilities[:, :, UP], probabilities[:, :, DOWN]
    rows[known] = np.stack([up - down, up + down], axis=2)
    return rows


class SimulatedForecasts:
    """What the forecaster among the traders of each environment's market says, which sees our orders as the other traders do.

    A decision sees what it would forecast at its last look strictly before it: the traders have been run up to the decision's time, and no
    further. So nothing is forecast in between, unless traders read it.
    """

    def __init__(self, forecaster: Forecaster, market: DynamicMarket, name: str) -> None:
        """See Forecasts. market: the last trader of its population is this forecaster."""
        self.horizons_s, self.name = forecaster.horizons_s, name
        self._forecaster, self._market, self._model = forecaster, market, small_model(forecaster)

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """See Forecasts."""
        rows = _numbers(self._forecaster, self._market.forecast_features(which), self._model)
        rows[:, :, 0] *= episodes["sign"][:, None]
        return rows.reshape(len(rows), -1)


class RecordedForecasts:
    """What a forecaster says every 100 ms of days, of which it sees neither our orders nor how a day answers them.

    A decision at a time sees the forecast of the last multiple of 100 ms strictly before it, made from the book after everything up to then.
    """

    def __init__(self, forecaster: Forecaster, days: Sequence[Day], name: str) -> None:
        """See Forecasts."""
        self.horizons_s, self.name = forecaster.horizons_s, name
        parts, first_ns = [], []
        for day in days:
            grid = build_grid(day)
            parts.append(_numbers(forecaster, day_features(grid)))
            first_ns.append(int(grid.time_ns[0]))
        self._rows = np.concatenate(parts)
        self._first_ns = np.array(first_ns)
        self._counts = np.array([len(part) for part in parts])
        self._starts = np.cumsum(self._counts) - self._counts

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """See Forecasts."""
        day = episodes["day"]
        place = (times_ns - 1 - self._first_ns[day]) // STEP_NS
        rows = self._rows[self._starts[day] + np.clip(place, 0, self._counts[day] - 1)]
        rows[(place < 0) | (place >= self._counts[day])] = 0.0
        rows[:, :, 0] *= episodes["sign"][:, None]
        return rows.reshape(len(rows), -1)
