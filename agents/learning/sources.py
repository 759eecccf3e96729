"""Sources of markets: bars, recorded books or simulated days. Each has its own split and builds its markets."""

import dataclasses
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from serl.agents.execution.answering.model import answering_days
from serl.agents.execution.bar_costs import half_spreads_bps
from serl.agents.execution.data import (
    BOOK_HOURS,
    TEST,
    TRAIN,
    VALIDATION,
    Dataset,
    bar_dataset,
    book_dataset,
    file_sha256,
    volume_lots_per_s,
)
from serl.agents.execution.environment.bars import StaticBars
from serl.agents.execution.environment.dynamic import DynamicMarket
from serl.agents.execution.environment.episodes import Hours
from serl.agents.execution.environment.hours import WARM_UP_S, lot_multiple
from serl.agents.execution.environment.market import ExecutionMarket
from serl.agents.execution.environment.records import CHILD, EPISODE
from serl.agents.execution.environment.replay import ReplayMarket
from serl.agents.execution.environment.state_cache import MB_PER_DAY
from serl.agents.execution.environment.static import StaticBook, recorded_trades
from serl.agents.execution.errors import DataError
from serl.agents.execution.policies.volume import VolumeCurve
from serl.agents.learning.folds import FOLD, fold_of_hours, fold_seeds
from serl.agents.learning.market_config import MarketConfig
from serl.agents.realism.days import load_day, window_text
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.traders.forecasters import with_observed_forecaster
from serl.agents.traders.overrides import load_changed
from serl.agents.traders.phases import Phases
from serl.agents.traders.registry import load_kind
from serl.exchange.config import time_of_day_ns, time_of_day_text
from serl.exchange.errors import ConfigError
from serl.history.day import Day

BARS_SUFFIX = ".parquet"
FIRST_SEEDS = {TRAIN: 0, VALIDATION: 1_000_000, TEST: 2_000_000}
"""Seed of the first simulated day of each part."""
PLACES = "part", "fold", "folds", "hours", "first_day", "simulated_days", "duration_s"
"""Settings that determine where orders are in given data."""
SIZING_DAYS = 4
"""Number of simulated training days whose volume determines the size of orders."""
SECOND_NS = 1_000_000_000


Stretch = tuple[int, int, int]
"""(day, start, end), times in ns after midnight."""
DAY_NS = 86_400 * SECOND_NS


class Source(Protocol):
    """Builds a scenario's market and knows its trading hours."""

    def market(self) -> ExecutionMarket:
        """The market of the settings."""

    def hours(self, part: str) -> Sequence[Hours]:
        """Hours that the parent orders of a part must be within. Raises DataError for an unknown part."""

    def dates(self, days: Any) -> Any:
        """(n,) index of the date of each day in `days` (n,); days of the same date are not independent."""

    def volume_curve(self) -> VolumeCurve | None:
        """The volume curve of the training part; None if a part is not a whole day."""

    def describe(self) -> dict[str, Any]:
        """Names and fingerprints of the data, as JSON."""

    def learnt_in(self, trained: dict[str, Any]) -> Sequence[Stretch]:
        """The stretches of these days in which a policy was trained, given the description in its file (`Scenario.describe`); empty for other data."""


def open_source(config: MarketConfig, days: Sequence[Day] | None = None) -> Source:
    """Opens the source that the settings name; `days` replaces their files. Raises DataError if the files do not fit the kind of market."""
    if config.kind == "dynamic":
        return Simulated(config)
    bars = [path for path in config.data if path.suffix == BARS_SUFFIX]
    if bars and (len(config.data) > 1 or config.kind == "replay"):
        raise DataError(
            f"{config.kind} market: expected one file of bars ({BARS_SUFFIX}) for a static market, or days with a book, got "
            f"{', '.join(map(str, config.data))}; bars contain no orders to replay"
        )
    if bars and config.hours is not None:
        raise ConfigError(
            f"market.hours: expected none for bars, whose orders lie in whole days, got {config.hours}; leave `hours` out"
        )
    if bars:
        return Bars(config, bar_dataset(bars[0]))
    if days is None and not config.data:
        raise DataError("market.data: expected at least one file, got none; name it in the settings or with --market")
    _require_different(config.data)
    return Books(config, [load_day(path) for path in config.data] if days is None else days)


def _require_different(files: Sequence[Path]) -> None:
    """Raises DataError for a day that is named twice, because intervals would count its blocks twice."""
    resolved = [path.resolve() for path in files]
    for number, path in enumerate(resolved):
        if path in resolved[:number]:
            raise DataError(f"market.data: expected different days, got {files[number]} twice; leave one out")


def _part(parts: Any, part: str, what: str) -> Any:
    if part not in parts:
        raise DataError(f"part: expected one of {', '.join(parts)} for {what}, got {part!r}")
    return parts[part]


def shares_time(source: Source, part: str, trained: dict[str, Any]) -> bool:
    """Whether orders of a part may overlap in time with those of a training (see `Source.learnt_in`)."""
    stretches: dict[int, list[tuple[int, int]]] = {}
    for day, start_ns, end_ns in source.learnt_in(trained):
        stretches.setdefault(day, []).append((start_ns, end_ns))
    return bool(stretches) and any(
        hours.start_ns < end_ns and start_ns < hours.end_ns
        for hours in source.hours(part)
        for start_ns, end_ns in stretches.get(hours.day, ())
    )


def _as_trained(config: MarketConfig, trained: dict[str, Any]) -> MarketConfig:
    """The same settings with the days and hours in which a policy was trained, from the description in its file."""
    fields, saved = MarketConfig.model_fields, trained["market"]
    return config.model_copy(update={name: saved.get(name, fields[name].default) for name in PLACES})


@dataclasses.dataclass(frozen=True)
class Bars:
    """Days of bars, in a static market."""

    config: MarketConfig
    data: Dataset

    def market(self) -> StaticBars:
        """See Source."""
        config, bar_ns = self.config, self.data.table.bars.bar_ns
        if round(config.interval_s * SECOND_NS) % bar_ns:
            raise DataError(
                f"market.interval_s: expected a multiple of the bars' {bar_ns / SECOND_NS:g} s, got {config.interval_s:g}"
            )
        return StaticBars(
            self.data.table.bars, config.environments, half_spread_bps=self.half_spread_bps(),
            impact_bps=config.impact_bps, participation=config.participation, fills=config.fills,
        )  # fmt: skip

    def half_spread_bps(self) -> Any:
        """The half spread of the settings, or (D,) one for each day, from the training dates of its stock; the median for a stock without any."""
        if self.config.spreads == "fixed":
            return self.config.half_spread_bps
        table = self.data.table
        dates = np.isin(table.dates, self.data.parts[TRAIN].dates)
        found = half_spreads_bps(table, dates[table.date])
        return np.where(np.isnan(found), np.nanmedian(found), found)[table.symbol]

    def hours(self, part: str) -> Sequence[Hours]:
        """See Source. Leaves out stretches that are shorter than an order."""
        shortest_ns = self.config.duration_s * SECOND_NS
        named = TRAIN if part == FOLD else part
        found: Sequence[Hours] = _part(self.data.parts, named, self.data.name).hours
        found = fold_of_hours(found, [int(self.dates(hours.day)) for hours in found], part, self.config)
        return [hours for hours in found if hours.end_ns - hours.start_ns >= shortest_ns]

    def dates(self, days: Any) -> Any:
        """See Source."""
        return self.data.table.date[days]

    def volume_curve(self) -> VolumeCurve:
        """See Source."""
        days = sorted({hours.day for hours in self.data.parts[TRAIN].hours})
        return VolumeCurve.fit_bars(self.data.table.bars, days, (f"{self.data.name} {TRAIN}",))

    def describe(self) -> dict[str, Any]:
        """See Source."""
        return {"data": self.data.name, "fingerprint": self.data.fingerprint}

    def learnt_in(self, trained: dict[str, Any]) -> Sequence[Stretch]:
        """See Source."""
        if "market" not in trained or trained.get("fingerprint") != self.data.fingerprint:
            return []
        there = _as_trained(self.config, trained)
        return [(hours.day, hours.start_ns, hours.end_ns) for hours in Bars(there, self.data).hours(there.part)]


@dataclasses.dataclass(frozen=True)
class Books:
    """Recorded days with the book of one symbol each, in a static or a replay market."""

    config: MarketConfig
    days: Sequence[Day]

    @cached_property
    def _split(self) -> list[Dataset]:
        return [book_dataset(path, day) for path, day in zip(self.config.data, self.days, strict=True)]

    def market(self) -> ExecutionMarket:
        """See Source."""
        config, latency_ns = self.config, round(self.config.latency_us * 1000)
        if config.kind == "static":
            return StaticBook(self.days, config.environments, latency_ns=latency_ns)
        return ReplayMarket(
            self.days, config.environments, latency_ns=latency_ns, answers=answering_days(self.days, config.answers)
        )

    def hours(self, part: str) -> Sequence[Hours]:
        """See Source. Hours in the settings replace those of the settings' part. Raises ConfigError if another part overlaps with them, because its
        orders are meant to be unseen."""
        found = self._hours(TRAIN if part == FOLD else part)
        return fold_of_hours(found, [int(self.dates(hours.day)) for hours in found], part, self.config)

    def _hours(self, part: str) -> Sequence[Hours]:
        span = self.config.span_ns
        if span is not None and part == (TRAIN if self.config.part == FOLD else self.config.part):
            self._check_within_days(span)
            return [
                Hours(index, *span, volume_lots_per_s(recorded_trades(day)[:-1], *span), lot_multiple(day.commands))
                for index, day in enumerate(self.days)
            ]
        found = [
            dataclasses.replace(hours, day=index)
            for index, data in enumerate(self._split)
            for hours in _part(data.parts, part, data.name).hours
        ]
        if span is not None and any(hours.start_ns < span[1] and span[0] < hours.end_ns for hours in found):
            raise ConfigError(
                f"market.hours: expected hours without those of the part {part}, which are used too, got {self.config.hours}; choose others"
            )
        return found

    def _check_within_days(self, span: tuple[int, int]) -> None:
        """Raises ConfigError unless all days cover the hours of the settings, because windows outside a day are refused only when they are drawn."""
        for day in self.days:
            symbol, first_ns, last_ns = (
                day.reference.symbols[0].name,
                day.reference.first_time_ns,
                day.reference.last_time_ns,
            )
            covered = -(-first_ns // SECOND_NS) * SECOND_NS, last_ns // SECOND_NS * SECOND_NS
            if span[0] < covered[0] or span[1] > covered[1]:
                raise ConfigError(
                    f"market.hours: expected hours within those of the day of {symbol}, {window_text(covered)}, got {self.config.hours}; choose others"
                )

    def dates(self, days: Any) -> Any:
        """See Source."""
        return np.unique([day.reference.date for day in self.days], return_inverse=True)[1][days]

    def volume_curve(self) -> None:
        """See Source. None, because one part of a day says nothing about the volume in the others."""

    def describe(self) -> dict[str, Any]:
        """See Source."""
        files = self.config.data
        fingerprints = (
            [file_sha256(path)[:16] for path in files]
            if self.config.hours
            else [dataset.fingerprint for dataset in self._split]
        )
        return {"data": ", ".join(path.name for path in files), "fingerprint": ", ".join(fingerprints)}

    def learnt_in(self, trained: dict[str, Any]) -> Sequence[Stretch]:
        """See Source. For a fold, returns all hours that were divided into folds if the files are not the same."""
        if "market" not in trained:
            return []
        there, known = _as_trained(self.config, trained), trained.get("fingerprint", "").split(", ")
        prints = self._file_fingerprints if there.hours else self._split_fingerprints
        days = [day for day, one in enumerate(prints) if one in known]
        if not days:
            return []
        start_ns, end_ns = there.span_ns or map(time_of_day_ns, BOOK_HOURS[TRAIN if there.part == FOLD else there.part])
        found: Sequence[Hours] = [Hours(day, start_ns, end_ns, 0.0) for day in days]
        if len(found) == len(known) == len(self.days):
            found = fold_of_hours(found, [int(self.dates(hours.day)) for hours in found], there.part, there)
        return [(hours.day, hours.start_ns, hours.end_ns) for hours in found]

    @cached_property
    def _file_fingerprints(self) -> list[str]:
        return [file_sha256(path)[:16] for path in self.config.data]

    @cached_property
    def _split_fingerprints(self) -> list[str]:
        """Fingerprints of the split; empty for a day that does not cover its hours, because nothing was trained on a part of it."""
        found = []
        for path, day in zip(self.config.data, self.days, strict=bool(self.config.data)):
            try:
                found.append(book_dataset(path, day).fingerprint)
            except DataError:
                found.append("")
        return found


def _seeds(config: MarketConfig) -> Sequence[int]:
    """Seeds of the simulated days of the settings' part."""
    named = TRAIN if config.part == FOLD else config.part
    first = int(_part(FIRST_SEEDS, named, f"population {config.population}")) + config.first_day
    return [first + seed for seed in fold_seeds(config.part, config)]


_volumes: dict[tuple[Any, ...], float] = {}
"""What `_mean_volume` has found in this process, which may make many environments of one market."""


def _mean_volume(population: Any, spans: Sequence[tuple[int, int]], latency_ns: int) -> float:
    """Mean volume of the first training days in these spans, in lots per second."""
    market = DynamicMarket(population, SIZING_DAYS, latency_ns=latency_ns, cache_mb=0)
    episodes = np.zeros(SIZING_DAYS, EPISODE)
    episodes["day"], episodes["sign"] = range(SIZING_DAYS), 1
    episodes["qty_lots"] = population.market.lot_multiple
    begin_ns = spans[0][0]
    episodes["start_ns"], episodes["interval_ns"], episodes["steps"] = begin_ns, spans[-1][1] - begin_ns, 1
    market.reset(np.arange(SIZING_DAYS), episodes)
    traded, length_ns = 0.0, 0
    for start_ns, end_ns in spans:  # excludes auctions, which trade between the spans
        market.step(np.zeros(SIZING_DAYS, CHILD), np.full(SIZING_DAYS, start_ns))
        market.step(np.zeros(SIZING_DAYS, CHILD), np.full(SIZING_DAYS, end_ns))
        traded += float(market.frames["traded_lots"].mean())
        length_ns += end_ns - start_ns
    market.close()
    return traded / length_ns * SECOND_NS


@dataclasses.dataclass(frozen=True)
class Simulated:
    """Days simulated by a population of traders; no seed is in more than one part."""

    config: MarketConfig

    @cached_property
    def _population(self) -> Any:
        config = self.config
        population = load_changed(config.population, config.population_changes)
        if config.forecaster is None:
            return population
        return with_observed_forecaster(population, read_forecaster(config.forecaster))

    def market(self) -> DynamicMarket:
        """See Source; caches enough states for all days of a part."""
        config = self.config
        return DynamicMarket(
            self._population, config.environments, latency_ns=round(config.latency_us * 1000),
            cache_mb=config.simulated_days * MB_PER_DAY,
        )  # fmt: skip

    @cached_property
    def _spans_ns(self) -> list[tuple[int, int]]:
        """The spans that windows must be within: the hours of the settings, or continuous trading, which forced completion needs. Raises ConfigError
        if windows in the hours of the settings could end outside continuous trading, or a window does not fit."""
        population, latency_ns = self._population, round(self.config.latency_us * 1000)
        phases, duration_ns = Phases(population), round(self.config.duration_s * SECOND_NS)
        if self.config.span_ns is not None:
            start_ns, end_ns = self.config.span_ns
            phases.check_stretch(start_ns + duration_ns + latency_ns, end_ns + latency_ns)
            return [(start_ns, end_ns)]
        first_ns, spans = population.open_ns + WARM_UP_S * SECOND_NS, phases.continuous()
        if population.market.day:
            spans = [(start_ns, end_ns - latency_ns - 1) for start_ns, end_ns in spans]
        spans = [(max(start_ns, first_ns), end_ns) for start_ns, end_ns in spans]
        if found := [span for span in spans if span[1] - span[0] >= duration_ns]:
            return found
        raise ConfigError(
            f"{population.name}: expected at least {self.config.duration_s:g} s of continuous trading, the duration of an order, from "
            f"{time_of_day_text(first_ns)} on, got none; choose shorter orders or another population"
        )

    @cached_property
    def _volume_lots_per_s(self) -> float:
        """Mean volume of the first training days, without our orders."""
        population, latency_ns = self._population, round(self.config.latency_us * 1000)
        kinds = tuple(load_kind(group.trader) for group in population.groups)  # a name may be registered again
        key = population.model_dump_json(), kinds, tuple(self._spans_ns), latency_ns
        if key not in _volumes:
            _volumes[key] = _mean_volume(population, self._spans_ns, latency_ns)
        return _volumes[key]

    def hours(self, part: str) -> Sequence[Hours]:
        """See Source."""
        lots = self._population.market.lot_multiple
        return [
            Hours(seed, *span, self._volume_lots_per_s, lots)
            for seed in _seeds(self.config.model_copy(update={"part": part}))
            for span in self._spans_ns
        ]

    def dates(self, days: Any) -> Any:
        """See Source. Every simulated day is its own date."""
        return days

    def volume_curve(self) -> None:
        """See Source."""

    def describe(self) -> dict[str, Any]:
        """See Source."""
        digest = hashlib.sha256(self._population.model_dump_json().encode()).hexdigest()
        return {"data": f"population {self.config.population}", "fingerprint": digest[:16]}

    def learnt_in(self, trained: dict[str, Any]) -> Sequence[Stretch]:
        """See Source."""
        if "market" not in trained or trained.get("fingerprint") != self.describe()["fingerprint"]:
            return []
        there = _as_trained(self.config, trained)
        start_ns, end_ns = there.span_ns or (0, DAY_NS)
        return [(seed, start_ns, end_ns) for seed in _seeds(there)]
