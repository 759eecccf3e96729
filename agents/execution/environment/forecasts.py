"""Forecasts of a recorded day's mid as observations: at each decision the last one from before it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.execution.environment.layout import FORECAST_FEATURES
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import STEP_NS, build_grid
from serl.agents.signals.inputs import day_inputs
from serl.agents.signals.labels import DOWN, UP
from serl.exchange.records import Rows
from serl.history.day import Day


class Forecasts:
    """What a forecaster says every 100 ms of days, of which it sees neither our orders nor how a day answers them.

    A decision at a time sees the forecast of the last multiple of 100 ms strictly before it, made from the book after everything up to then.

    Attributes:
        horizons_s: of the forecasts.
        name: of the forecaster, for the interface of policies.
    """

    def __init__(self, forecaster: Forecaster, days: Sequence[Day], name: str) -> None:
        self.horizons_s, self.name = forecaster.horizons_s, name
        parts, first_ns = [], []
        for day in days:
            grid = build_grid(day)
            inputs, known = day_inputs(grid)
            rows = np.zeros((len(known), len(self.horizons_s), len(FORECAST_FEATURES)), np.float32)
            probabilities = forecaster.probabilities(inputs)
            up, down = probabilities[:, :, UP], probabilities[:, :, DOWN]
            rows[known] = np.stack([up - down, up + down], axis=2)
            parts.append(rows)
            first_ns.append(int(grid.time_ns[0]))
        self._rows = np.concatenate(parts)
        self._first_ns = np.array(first_ns)
        self._counts = np.array([len(part) for part in parts])
        self._starts = np.cumsum(self._counts) - self._counts

    def observe(self, episodes: Rows, times_ns: Any) -> Any:
        """(n, H x 2) float32 for EPISODE rows (n,) at times (n,): by horizon, as in FORECAST_FEATURES. 0 where nothing is known."""
        day = episodes["day"]
        place = (times_ns - 1 - self._first_ns[day]) // STEP_NS
        rows = self._rows[self._starts[day] + np.clip(place, 0, self._counts[day] - 1)]
        rows[(place < 0) | (place >= self._counts[day])] = 0.0
        rows[:, :, 0] *= episodes["sign"][:, None]
        return rows.reshape(len(rows), -1)
