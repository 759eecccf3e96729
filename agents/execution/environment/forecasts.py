"""Forecasts of the mid of recorded and of simulated days as observations: at each decision the last one from before it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.data import file_sha256
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import STEP_NS, build_grid
from serl.agents.signals.inputs import Inputs, day_inputs
from serl.agents.signals.labels import DOWN, UP
from serl.agents.signals.live import LiveForecaster, Observation
from serl.agents.traders.forecasters import small_model
from serl.exchange.records import Rows, Side
from serl.history.day import Day

TREND, MOVE, FILL_BUY, FILL_SELL, VOLUME = range(5)
"""Columns of what is kept of a forecast."""
COLUMN_NAMES = ("trend", "move", "fill_buy", "fill_sell", "volume")
COLUMNS = len(COLUMN_NAMES)


def forecaster_name(path: Path) -> str:
    """Of a file, with its checksum: policies work with no other."""
    return f"{path.name} sha256 {file_sha256(path)[:16]}"


class Forecasts(Protocol):
    """What forecasts an observation contains."""

    horizons_s: tuple[float, ...]
    """Of the forecasts."""
    name: str
    """Of the forecaster, for the interface of policies."""

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """(n, H x FORECAST_FEATURES) float32 for environments `which` (n,), their EPISODE rows and times: by horizon, as in FORECAST_FEATURES. 0 where nothing
        is known."""


def _columns(forecaster: Forecaster, inputs: Inputs, model: str | None = None) -> Any:
    """(n, H, COLUMNS) of n forecasts."""
    probabilities, fills = forecaster.probabilities(inputs, model), forecaster.fills(inputs.features)
    up, down = probabilities[:, :, UP], probabilities[:, :, DOWN]
    volumes = np.log(forecaster.volumes(inputs.features) / forecaster.volume.means)
    return np.stack([up - down, up + down, fills[:, :, Side.BUY], fills[:, :, Side.SELL], volumes], axis=2)


def _seen(rows: Any, episodes: Rows) -> Any:
    """(n, H x FORECAST_FEATURES) of (n, H, COLUMNS), for the sides of the orders."""
    sells = episodes["sign"][:, None] > 0
    trends = rows[:, :, TREND] * episodes["sign"][:, None]
    fills = np.where(sells, rows[:, :, FILL_SELL], rows[:, :, FILL_BUY])
    seen = np.stack([trends, rows[:, :, MOVE], fills, rows[:, :, VOLUME]], axis=2)
    return seen.astype(np.float32).reshape(len(rows), -1)


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
        return _seen(self.columns(which), episodes)

    def columns(self, which: Any) -> Any:
        """(n, H, COLUMNS) float32 of environments `which` now, 0 where nothing is known."""
        features = self._market.forecast_features(which)
        known = np.isfinite(features).all(axis=1)
        rows = np.zeros((len(features), len(self.horizons_s), COLUMNS), np.float32)
        if known.any():
            inputs = Inputs(
                features[known], np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
            )  # small models see no books
            rows[known] = _columns(self._forecaster, inputs, self._model)
        return rows


class ServedForecasts:
    """What a forecaster says of a symbol of a running exchange, whose book and trades it is shown every 100 ms.

    A decision sees the forecast of the last look; until a minute of looks without a gap, and a minute after a book without a side, nothing is known.
    """

    def __init__(self, forecaster: Forecaster, name: str) -> None:
        """See Forecasts."""
        self.horizons_s, self.name = forecaster.horizons_s, name
        self._forecaster, self._live = forecaster, LiveForecaster(forecaster, None, name)
        self._inputs: Inputs | None = None

    def look(self, seen: Observation) -> None:
        """Takes the market at a multiple of 100 ms."""
        self._inputs = self._live.observe(seen)

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """See Forecasts."""
        rows = np.zeros((len(episodes), len(self.horizons_s), COLUMNS), np.float32)
        if self._inputs is not None:
            rows[:] = _columns(self._forecaster, self._inputs)
        return _seen(rows, episodes)


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
            inputs, known = day_inputs(grid)
            rows = np.zeros((len(known), len(self.horizons_s), COLUMNS), np.float32)
            rows[known] = _columns(forecaster, inputs)
            parts.append(rows)
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
        return _seen(rows, episodes)
