"""Forecasts in a backtest: made every 100 ms from the strategy's own market, so they react to its orders."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from serl.agents.backtest.errors import BacktestError
from serl.agents.signals.features import LONGEST
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import LEVELS, STEP_NS
from serl.agents.signals.inputs import Inputs
from serl.agents.signals.live import OF_THE_BOOK, LiveForecaster, Observation, level_arrays
from serl.agents.signals.message import Forecast
from serl.history.day import Day

if TYPE_CHECKING:
    from serl.agents.backtest.market import BacktestMarket


class Forecasting(NamedTuple):
    """A forecaster, and the name of its file."""

    forecaster: Forecaster
    source: str

    def symbol(self, symbols: list[str]) -> str:
        """The symbol to forecast: the one the forecaster was trained on, or the market's only one. Raises BacktestError if there is neither."""
        trained = self.forecaster.symbol
        if trained not in symbols and len(symbols) > 1:
            raise BacktestError(
                f"{self.source}: expected a forecaster of one of {', '.join(symbols)[:200]}, got one of {trained}; give another"
            )
        return trained if trained in symbols else symbols[0]

    def check_unseen(self, day: Day, window_ns: tuple[int, int]) -> None:
        """Raises BacktestError if the forecaster was trained on any part of a day's window."""
        if self.forecaster.was_trained_on(day, window_ns):
            raise BacktestError(
                f"{self.source}: expected a forecaster that was not trained on the hours of the backtest, got one that was; give another --window"
            )

    def check_sizes(self, day: Day) -> None:
        """Raises SignalError if the day's ticks or lots are of another size than in the training."""
        references = {one.name: one for one in day.reference.symbols}
        name = self.symbol(list(references))
        self.forecaster.require_sizes(references[name], f"{self.source}: {name}")


class ForecastFollower:
    """Observes the book and trades of one symbol at each multiple of 100 ms."""

    def __init__(self, market: "BacktestMarket", forecasting: Forecasting, start_ns: int) -> None:
        """start_ns: when the strategy starts; observation begins a minute earlier."""
        self.symbol = forecasting.symbol(market.symbols)
        self._market, self._live = market, LiveForecaster(forecasting.forecaster, None, forecasting.source)
        self._next_ns = max(0, start_ns // STEP_NS - LONGEST - 1) * STEP_NS
        self._trade_count, self._is_continued = 0, False
        self._last: tuple[Observation, Inputs] | None = None
        self._made: Forecast | None = None

    def advance(self, time_ns: int, run_until: Callable[[int], None]) -> None:
        """Observes at all multiples before `time_ns`, each after everything that happens up to and at it.

        run_until: runs the market up to a time (exclusive).
        """
        while self._next_ns < time_ns:
            run_until(self._next_ns + 1)
            self._observe(self._next_ns)
            self._next_ns += STEP_NS

    def _observe(self, time_ns: int) -> None:
        taken = self._taken()
        levels = level_arrays(*self._market.book(self.symbol, LEVELS))
        seen = Observation(time_ns, *levels, *taken, self._is_continued)
        inputs = self._live.observe(seen)
        self._last, self._made, self._is_continued = None if inputs is None else (seen, inputs), None, True

    def _taken(self) -> tuple[int, int]:
        """(bought, sold): lots that takers traded in the book since the last observation."""
        total = self._market.trade_count(self.symbol)
        new, self._trade_count = total - self._trade_count, total
        taken = [0, 0]
        if new and self._is_continued:
            for trade in self._market.trades(self.symbol, new):
                if trade.off_book == OF_THE_BOOK:
                    taken[trade.aggressor_side] += trade.qty_lots
        return taken[0], taken[1]

    def forecast(self) -> Forecast | None:
        """The latest forecast, computed on first request; None while the last minute had no bid, no ask or no spread."""
        if self._made is None and self._last is not None:
            self._made = self._live.forecast(self.symbol, *self._last)
        return self._made
