"""Market statistics and history for modules, and the market of imagined days. All data is from training hours."""

import dataclasses
import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from serl.agents.execution.data import TRAIN
from serl.agents.execution.environment.bars import CLOSE, VOLUME, BarDays, StaticBars
from serl.agents.execution.environment.episodes import Hours
from serl.agents.execution.environment.static import recorded_books, recorded_trades
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.sources import Bars, Books, Source
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day
from serl.researcher.modules import adapters, checks
from serl.researcher.modules.contracts import Floats, ImagineModule, MarketStatistics

SCENARIOS_MIN, SCENARIOS_MAX = 128, 1024
"""Imagined days of a training run: one for each training day; several for each if there are fewer than SCENARIOS_MIN training days; or one for
each of SCENARIOS_MAX training days drawn at random."""
STATISTICS_DAYS = 1024
"""Maximum number of days in the statistics of bars."""
TRADE_LOTS = 100.0
"""Assumed trade size, a round lot: bars contain no trade sizes."""
SECOND_NS = 1_000_000_000


def trades_to_bars(trades: Rows, start_ns: int, end_ns: int, bar_ns: int) -> BarDays:
    """Aggregate TRADE rows to one day of bars. Bars before the first trade have its price. ConfigError without trades."""
    trades = trades[(trades["time_ns"] >= start_ns) & (trades["time_ns"] < end_ns)]
    if not len(trades):
        raise ConfigError("expected trades in the training hours, got none; use another day")
    starts = np.arange(start_ns, end_ns - bar_ns + 1, bar_ns)
    values = np.empty((len(starts), 6))
    close = float(trades["price_ticks"][0])
    firsts = np.searchsorted(trades["time_ns"], [*starts, starts[-1] + bar_ns])
    for bar, (first, last) in enumerate(itertools.pairwise(firsts)):
        prices, lots = trades["price_ticks"][first:last].astype(float), trades["lots"][first:last].sum()
        if not len(prices):
            values[bar] = close, close, close, close, close, 0
            continue
        mean = (prices * trades["lots"][first:last]).sum() / lots
        close = float(prices[-1])
        values[bar] = prices[0], prices.max(), prices.min(), close, mean, lots
    return BarDays(starts, bar_ns, values[None])


def _book_statistics(day: Day, start_ns: int, end_ns: int) -> MarketStatistics:
    trades, books = recorded_trades(day)[:-1], recorded_books(day, 1)[1:]
    trades = trades[(trades["time_ns"] >= start_ns) & (trades["time_ns"] < end_ns)]
    books = books[(books["time_ns"] >= start_ns) & (books["time_ns"] < end_ns)]
    books = books[(books["ticks"][:, :, 0] > 0).all(axis=1)]
    seconds, ticks = (end_ns - start_ns) / SECOND_NS, books["ticks"][:, :, 0]
    mid = ticks.mean(axis=1)
    times = np.arange(books["time_ns"][0], books["time_ns"][-1], SECOND_NS)
    at = np.searchsorted(books["time_ns"], times, "right") - 1
    return MarketStatistics(*map(float, (
        mid.mean(), np.ptp(ticks, axis=1).mean(), books["lots"][:, :, 0].mean(), trades["lots"].sum() / seconds,
        len(trades) / seconds, trades["lots"].mean(), np.diff(mid[at]).std(),
    )))  # fmt: skip


def _bar_statistics(bars: BarDays, days: Sequence[int], config: MarketConfig) -> MarketStatistics:
    """Statistics of bars; spread and depth are those that the static market displays."""
    values, seconds = bars.values[list(days)], bars.bar_ns / SECOND_NS
    mid, volume = values[..., CLOSE].mean(), values[..., VOLUME].mean()
    moves = np.diff(values[..., CLOSE], axis=1).std() / np.sqrt(seconds)
    spread = max(1.0, 2 * mid * config.half_spread_bps * 1e-4)
    rates = volume / seconds, volume / seconds / TRADE_LOTS
    return MarketStatistics(*map(float, (mid, spread, config.participation * volume, *rates, TRADE_LOTS, moves)))


def history(source: Source, config: MarketConfig) -> list[tuple[BarDays, int]]:
    """(days of bars, index of the day) of all training days. Days with a book are aggregated to bars of the length of the decision interval.
    ConfigError for simulated days."""
    hours = source.hours(TRAIN)
    if isinstance(source, Bars):
        days = sorted({one.day for one in hours})
        return [(source.data.table.bars, day) for day in days]
    if isinstance(source, Books):
        bar_ns = round(config.interval_s * SECOND_NS)
        trades = [recorded_trades(day)[:-1] for day in source.days]
        return [(trades_to_bars(trades[one.day], one.start_ns, one.end_ns, bar_ns), 0) for one in hours]
    raise ConfigError(
        "imagine, profiles: expected a static or replay market with data, got simulated days, which have no history"
    )


def statistics(source: Source, config: MarketConfig) -> MarketStatistics:
    """Statistics of the first training hours. ConfigError for simulated days."""
    hours = source.hours(TRAIN)
    if isinstance(source, Books):
        return _book_statistics(source.days[hours[0].day], hours[0].start_ns, hours[0].end_ns)
    days = [day for _, day in history(source, config)]
    days = days[:: -(-len(days) // STATISTICS_DAYS)]
    assert isinstance(source, Bars)
    return _bar_statistics(source.data.table.bars, days, config)


@dataclasses.dataclass(frozen=True)
class Imagined:
    """Days that an imagine module generates, as a Source of static bars."""

    config: MarketConfig
    histories: Sequence[tuple[BarDays, int]]
    module: ImagineModule
    seed: int
    half_spread_bps: float

    @cached_property
    def days(self) -> BarDays:
        """The imagined days; ModuleError if the module breaks its contract."""
        random = np.random.Generator(np.random.PCG64(self.seed))
        histories = self.histories
        if len(histories) > SCENARIOS_MAX:
            chosen = random.choice(len(histories), SCENARIOS_MAX, replace=False)
            histories = [histories[place] for place in np.sort(chosen)]
        each = -(-SCENARIOS_MIN // len(histories))
        made = [self._imagine(bars, day, each, random) for bars, day in histories]
        return dataclasses.replace(made[0], values=np.concatenate([days.values for days in made]))

    def _imagine(self, bars: BarDays, day: int, count: int, random: np.random.Generator) -> BarDays:
        past: Floats = adapters.history_of(bars, day)
        horizon = len(past)
        drawn = checks.scenarios(self.module(past, random, count, horizon), count, horizon)
        return adapters.days_of(drawn, float(bars.values[day, 0, 0]), bars.starts_ns, bars.bar_ns)

    def market(self) -> StaticBars:
        """See Source."""
        config = self.config
        return StaticBars(
            self.days, config.environments, half_spread_bps=self.half_spread_bps, impact_bps=config.impact_bps,
            participation=config.participation, fills=config.fills,
        )  # fmt: skip

    def hours(self, part: str) -> Sequence[Hours]:
        """See Source. All parts have the same hours."""
        days = self.days
        seconds = len(days.starts_ns) * days.bar_ns / SECOND_NS
        speeds = days.values[..., VOLUME].sum(axis=1) / seconds
        span = int(days.starts_ns[0]), int(days.starts_ns[-1]) + days.bar_ns
        return [Hours(day, *span, float(speed)) for day, speed in enumerate(speeds) if speed > 0]

    def dates(self, days: Any) -> Any:
        """See Source. Every scenario is a date of its own."""
        return days

    def volume_curve(self) -> None:
        """See Source."""

    def describe(self) -> dict[str, Any]:
        """See Source."""
        return {"data": "imagined", "days": len(self.days.values)}
