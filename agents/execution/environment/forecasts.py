"""Forecasts as observations, on recorded, simulated and served days: each decision sees the last forecast made before it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.data import file_sha256
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.realism.days import day_origin
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import STEP_NS, build_grid
from serl.agents.signals.inputs import Inputs, day_inputs
from serl.agents.signals.labels import DOWN, UP
from serl.agents.signals.live import LiveForecaster, Observation
from serl.agents.traders.forecasters import small_model
from serl.clients.instrument import Instrument
from serl.exchange.records import Rows, Side
from serl.history.day import Day

TREND, MOVE, FILL_BUY, FILL_SELL, VOLUME = range(5)
"""Columns of the stored forecasts."""
COLUMN_NAMES = ("trend", "move", "fill_buy", "fill_sell", "volume")
COLUMNS = len(COLUMN_NAMES)


def forecaster_name(path: Path) -> str:
    """Name of a forecaster file with its checksum: a policy works only with this forecaster."""
    return f"{path.name} sha256 {file_sha256(path)[:16]}"


class Forecasts(Protocol):
    """The forecasts in an observation."""

    horizons_s: tuple[float, ...]
    """Horizons of the forecasts."""
    name: str
    """Name of the forecaster, for the interface of policies."""

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """(n, H x FORECAST_FEATURES) float32 for environments `which` (n,), their EPISODE rows and times: by horizon, in the order of
        FORECAST_FEATURES; 0 where nothing is known."""


def _columns(forecaster: Forecaster, inputs: Inputs, model: str | None = None) -> Any:
    """(n, H, COLUMNS) values of n forecasts."""
    probabilities, fills = forecaster.probabilities(inputs, model), forecaster.fills(inputs.features)
    up, down = probabilities[:, :, UP], probabilities[:, :, DOWN]
    volumes = np.log(forecaster.volumes(inputs.features) / forecaster.volume.means)
    return np.stack([up - down, up + down, fills[:, :, Side.BUY], fills[:, :, Side.SELL], volumes], axis=2)


def _seen(rows: Any, episodes: Rows) -> Any:
    """Converts (n, H, COLUMNS) to (n, H x FORECAST_FEATURES) for the sides of the orders."""
    sells = episodes["sign"][:, None] > 0
    trends = rows[:, :, TREND] * episodes["sign"][:, None]
    fills = np.where(sells, rows[:, :, FILL_SELL], rows[:, :, FILL_BUY])
    seen = np.stack([trends, rows[:, :, MOVE], fills, rows[:, :, VOLUME]], axis=2)
    return seen.astype(np.float32).reshape(len(rows), -1)


class SimulatedForecasts:
    """Forecasts of the forecaster among the traders of each environment's market, which sees our orders as the other traders do.

    A decision sees what the forecaster would forecast at its last observation strictly before the decision: the traders have run up to the
    decision's time and no further. So nothing is forecast in between, unless traders read forecasts.
    """

    def __init__(self, forecaster: Forecaster, market: DynamicMarket, name: str) -> None:
        """See Forecasts. market: its population has this forecaster as the last trader."""
        self.horizons_s, self.name = forecaster.horizons_s, name
        self._forecaster, self._market, self._model = forecaster, market, small_model(forecaster)

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """See Forecasts."""
        return _seen(self.columns(which), episodes)

    def columns(self, which: Any) -> Any:
        """(n, H, COLUMNS) float32, current values of environments `which`, 0 where nothing is known."""
        features = self._market.forecast_features(which)
        known = np.isfinite(features).all(axis=1)
        rows = np.zeros((len(features), len(self.horizons_s), COLUMNS), np.float32)
        if known.any():
            inputs = Inputs(
                features[known], np.zeros((0, 0), np.float32), np.zeros(0, np.int64)
            )  # small models do not observe books
            rows[known] = _columns(self._forecaster, inputs, self._model)
        return rows


class ServedForecasts:
    """Forecasts for a symbol of a running exchange, whose book and trades the forecaster observes every 100 ms.

    A decision sees the forecast of the last observation. Nothing is known before a minute of observations without a gap, and for a minute after a
    book with an empty side.
    """

    def __init__(self, forecaster: Forecaster, name: str) -> None:
        """See Forecasts."""
        self.horizons_s, self.name = forecaster.horizons_s, name
        self._forecaster, self._live = forecaster, LiveForecaster(forecaster, None, name)
        self._inputs: Inputs | None = None

    def require_sizes(self, instrument: Instrument) -> None:
        """Raises SignalError if the exchange's ticks or lots are of another size than in the training."""
        self._forecaster.require_sizes(instrument, f"{self.name}: {instrument.name}")

    def look(self, seen: Observation) -> None:
        """Observes the market at a multiple of 100 ms."""
        self._inputs = self._live.observe(seen)

    def observe(self, which: Any, episodes: Rows, times_ns: Any) -> Any:
        """See Forecasts."""
        rows = np.zeros((len(episodes), len(self.horizons_s), COLUMNS), np.float32)
        if self._inputs is not None:
            rows[:] = _columns(self._forecaster, self._inputs)
        return _seen(rows, episodes)


class RecordedForecasts:
    """Forecasts every 100 ms of recorded days. The forecaster sees neither our orders nor how a day gives way to them.

    A decision sees the forecast of the last multiple of 100 ms strictly before it, made from the book after everything up to that multiple.
    """

    def __init__(self, forecaster: Forecaster, days: Sequence[Day], name: str) -> None:
        """See Forecasts."""
        self.horizons_s, self.name = forecaster.horizons_s, name
        parts, first_ns = [], []
        for day in days:
            grid = build_grid(day)
            forecaster.require_sizes(grid.reference, f"{name}: {day_origin(day)}")
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
