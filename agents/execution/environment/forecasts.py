"""Forecasts of a recorded day's mid as observations: at each decision the last one from before it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import STEP_NS, build_grid
from serl.agents.signals.inputs import Inputs, day_inputs
from serl.agents.signals.labels import DOWN, UP
from serl.exchange.records import Rows, Side
from serl.history.day import Day

TREND, MOVE, FILL_BUY, FILL_SELL, VOLUME = range(5)
"""Columns of what is kept of a forecast; COLUMNS of them."""
COLUMNS = 5


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
            rows = np.zeros((len(known), len(self.horizons_s), COLUMNS), np.float32)
            rows[known] = _columns(forecaster, inputs)
            parts.append(rows)
            first_ns.append(int(grid.time_ns[0]))
        self._rows = np.concatenate(parts)
        self._first_ns = np.array(first_ns)
        self._counts = np.array([len(part) for part in parts])
        self._starts = np.cumsum(self._counts) - self._counts

    def observe(self, episodes: Rows, times_ns: Any) -> Any:
        """(n, H x FORECAST_FEATURES) float32 for EPISODE rows (n,) at times (n,): by horizon, as in FORECAST_FEATURES. 0 where nothing is known."""
        day = episodes["day"]
        place = (times_ns - 1 - self._first_ns[day]) // STEP_NS
        rows = self._rows[self._starts[day] + np.clip(place, 0, self._counts[day] - 1)]
        rows[(place < 0) | (place >= self._counts[day])] = 0.0
        rows[:, :, TREND] *= episodes["sign"][:, None]
        fills = np.where(episodes["sign"][:, None] > 0, rows[:, :, FILL_SELL], rows[:, :, FILL_BUY])
        seen = np.stack([rows[:, :, TREND], rows[:, :, MOVE], fills, rows[:, :, VOLUME]], axis=2)
        return seen.reshape(len(rows), -1)


def _columns(forecaster: Forecaster, inputs: Inputs) -> Any:
    """(n, H, COLUMNS) of n forecasts."""
    probabilities, fills = forecaster.probabilities(inputs), forecaster.fills(inputs.features)
    up, down = probabilities[:, :, UP], probabilities[:, :, DOWN]
    volumes = np.log(forecaster.volumes(inputs.features) / forecaster.volume.means)
    return np.stack([up - down, up + down, fills[:, :, Side.BUY], fills[:, :, Side.SELL], volumes], axis=2)
